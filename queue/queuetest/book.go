// Package queuetest compares books and makes them again, for the tests of what keeps one.
package queuetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairslice/nodes"
	"fairslice/queue"
)

// Describe is all of a book as text: equal books have equal texts. What live attempts have consumed is
// left out: it is no part of the history. So are the rows that are dirty.
func Describe(b *queue.Book) string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("seq %d, job %d", b.LastSeq, b.LastJob)
	for _, name := range slices.Sorted(maps.Keys(b.Queues)) {
		line("queue %s %+v", name, b.Queues[name])
	}
	for _, id := range slices.Sorted(maps.Keys(b.Nodes)) {
		line("node %s, on it %v", text(b.Nodes[id]), b.On(id))
	}
	for _, id := range slices.Sorted(maps.Keys(b.Reservations)) {
		line("reservation %s", text(b.Reservations[id]))
	}
	line("policy %s", text(b.Policy))
	for _, i := range b.Images.All() {
		line("image %s", text(i))
	}
	for _, c := range b.Images.Commits("") {
		line("commit request %s", text(c))
	}
	line("next image %d, next commit request %d", b.Images.NextID(), b.Images.NextCommit())
	listed := 0
	b.Each(func(j *queue.Job) bool {
		listed++
		line("job %s, %d live, %d ended", text(j), j.Live(), j.Ended())
		if c := j.Condition(); c != nil {
			line("  waits for %s", c)
		}
		if id, ok := b.ByToken(j.Owner.User, j.Token); j.Token != "" {
			line("  token leads to %d %v", id, ok)
		}
		for i := range j.Elements {
			e := j.Elements[i]
			if e.State.Live() {
				a := *e.Attempt
				a.Usage = queue.Usage{}
				e.Attempt = &a
			}
			line("  element %s", text(e))
		}
		return true
	})
	line("%d jobs, %d in order", len(b.Jobs), listed)
	return out.String()
}

// Diff is the first line in which two descriptions differ, "" when they do not.
func Diff(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		var p, q string
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return fmt.Sprintf("line %d:\n  %s\n  %s", i+1, p, q)
		}
	}
	return ""
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Reload is the book that a restart makes of b's rows. Everything goes through its stored text.
func Reload(b *queue.Book) (*queue.Book, error) {
	var jobs []*queue.Job
	for _, id := range slices.Sorted(maps.Keys(b.Jobs)) {
		j := &queue.Job{}
		if err := copyText(b.Jobs[id], j); err != nil {
			return nil, err
		}
		if err := copyText(b.Jobs[id].Elements, &j.Elements); err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	var ns []*nodes.Node
	for _, n := range b.Nodes {
		c := &nodes.Node{}
		if err := copyText(n, c); err != nil {
			return nil, err
		}
		ns = append(ns, c)
	}
	var reservations []*queue.Reservation
	for _, r := range b.Reservations {
		c := &queue.Reservation{}
		if err := copyText(r, c); err != nil {
			return nil, err
		}
		reservations = append(reservations, c)
	}
	again := queue.NewBook()
	if err := again.RestoreReservations(reservations); err != nil {
		return nil, err
	}
	again.RestorePolicy(b.Policy)
	return again, again.Restore(jobs, ns, maps.Clone(b.Queues), b.LastSeq, b.LastJob)
}

// Replay is the book that the events make, each read back from its stored text.
func Replay(events []queue.Event) (*queue.Book, error) {
	b := queue.NewBook()
	for _, ev := range events {
		body, err := queue.DecodeBody(ev.Body.Kind(), []byte(text(ev.Body)))
		if err != nil {
			return nil, err
		}
		ev.Body = body
		if err := b.Apply(ev); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func copyText(from, to any) error { return json.Unmarshal([]byte(text(from)), to) }
