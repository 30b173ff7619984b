package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/queuetest"
)

func TestTokensAreOfTheirUser(t *testing.T) {
	h := newHistory(t)
	one := submitted(queue.Spec{})
	one.Token = "t"
	h.do(1, 0, one)
	for _, c := range []struct {
		user, token string
		found       bool
	}{{"ada", "t", true}, {"eve", "t", false}, {"ada", "u", false}, {"", "", false}} {
		if id, ok := h.book.ByToken(c.user, c.token); ok != c.found || ok && id != 1 {
			t.Errorf("token %q of %q leads to %d, %v", c.token, c.user, id, ok)
		}
	}
	if err := h.agrees(); err != nil {
		t.Error(err)
	}
	h.do(1, 0, &queue.Ended{}).do(1, 0, &queue.Forgotten{})
	if _, ok := h.book.ByToken("ada", "t"); ok {
		t.Error("the token of a forgotten job still leads somewhere")
	}
}

func TestOrderAndPages(t *testing.T) {
	h := newHistory(t)
	for _, id := range []queue.JobID{1, 2, 5, 9} {
		h.do(id, 0, submitted(queue.Spec{}))
	}
	h.do(2, 0, &queue.Ended{}).do(2, 0, &queue.Forgotten{})
	list := func(each func(func(*queue.Job) bool), most int) string {
		var ids []string
		each(func(j *queue.Job) bool {
			ids = append(ids, fmt.Sprint(j.ID))
			return len(ids) < most
		})
		return strings.Join(ids, " ")
	}
	if got := list(h.book.Each, 9); got != "1 5 9" {
		t.Errorf("all in order: %s", got)
	}
	for after, want := range map[queue.JobID]string{0: "1 5", 1: "5 9", 2: "5 9", 5: "9", 9: "", 99: ""} {
		if got := list(func(fn func(*queue.Job) bool) { h.book.From(after, fn) }, 2); got != want {
			t.Errorf("two after %d: %q, want %q", after, got, want)
		}
	}
}

func TestForgettingManyKeepsTheOrder(t *testing.T) {
	h := newHistory(t)
	const n = 4000
	for id := queue.JobID(1); id <= n; id++ {
		h.do(id, 0, submitted(queue.Spec{}))
		if id%4 != 0 {
			h.do(id, 0, &queue.Ended{}).do(id, 0, &queue.Forgotten{})
		}
	}
	last, count := queue.JobID(0), 0
	h.book.Each(func(j *queue.Job) bool {
		if j.ID <= last || j.ID%4 != 0 {
			t.Fatalf("%d after %d", j.ID, last)
		}
		last, count = j.ID, count+1
		return true
	})
	if count != n/4 || len(h.book.Jobs) != n/4 {
		t.Errorf("%d in order, %d jobs", count, len(h.book.Jobs))
	}
	h.book.From(n/2, func(j *queue.Job) bool {
		if j.ID != n/2+4 {
			t.Errorf("after %d comes %d", n/2, j.ID)
		}
		return false
	})
	if h.book.LastJob != n {
		t.Errorf("the last number given is %d: a forgotten job's could be given again", h.book.LastJob)
	}
}

func TestArrayElements(t *testing.T) {
	h := newHistory(t)
	h.do(1, 0, submitted(queue.Spec{Name: "a", Hold: true, Array: &queue.Array{Ranges: []queue.Range{{First: 2, Last: 8, Step: 3}}}}))
	j := h.book.Jobs[1]
	for _, index := range []int{0, 1, 3, 9} {
		if j.Element(index) != nil {
			t.Errorf("there is no element %d", index)
		}
	}
	for _, index := range []int{2, 5, 8} {
		if e := j.Element(index); e == nil || e.Index != index || e.State != queue.PSusp {
			t.Errorf("element %d is %+v", index, e)
		}
	}
	h.do(1, 5, &queue.Resumed{}, started(1), &queue.Ended{Attempt: 1, Done: true}).do(1, 2, &queue.Resumed{}, started(1))
	if j.Live() != 1 || j.Ended() != 1 || j.Finished() {
		t.Errorf("%d live, %d ended, finished %v", j.Live(), j.Ended(), j.Finished())
	}
	if err := h.try(1, 0, &queue.Forgotten{}); err == nil {
		t.Error("an array was forgotten before its last element had ended")
	}
	old := j.Spec.Array
	h.do(1, 0, &queue.ArrayLimited{Limit: 2})
	if j.Spec.Array.Limit != 2 || old.Limit != 0 {
		t.Errorf("the limit is %d, and in the submission %d", j.Spec.Array.Limit, old.Limit)
	}
	if got := j.DisplayName(5); got != "a[5]" {
		t.Errorf("shown as %q", got)
	}
	if err := h.agrees(); err != nil {
		t.Error(err)
	}
}

func TestOnIsStable(t *testing.T) {
	h := newHistory(t).do(0, 0, &queue.NodeJoined{Node: machine("b")})
	two := &queue.Started{Attempt: 1, Alloc: append(alloc("a", 1), alloc("b", 1)...)}
	h.do(3, 0, submitted(queue.Spec{})).do(3, 0, two)
	h.do(7, 0, submitted(queue.Spec{Array: &queue.Array{Ranges: []queue.Range{{First: 1, Last: 2, Step: 1}}}}))
	h.do(7, 2, &queue.Started{Attempt: 1, Alloc: alloc("b", 1)})
	if got := fmt.Sprint(h.book.On("a"), h.book.On("b"), h.book.On("z")); got != "[3] [3 7[2]] []" {
		t.Errorf("got %s", got)
	}
	if err := h.agrees(); err != nil {
		t.Error(err)
	}
}

func TestObserveIsOfThePresentAttempt(t *testing.T) {
	h := newHistory(t).do(1, 0, submitted(queue.Spec{})).do(1, 0, started(1))
	_, e := h.book.Find(queue.ElementID{Job: 1})
	seq := h.book.LastSeq
	h.book.Observe(queue.ElementID{Job: 1}, 1, queue.Usage{Memory: 5})
	h.book.Observe(queue.ElementID{Job: 1}, 2, queue.Usage{Memory: 6})
	h.book.Observe(queue.ElementID{Job: 1, Index: 4}, 1, queue.Usage{Memory: 7})
	h.book.Observe(queue.ElementID{Job: 8}, 1, queue.Usage{Memory: 8})
	if e.Attempt.Usage.Memory != 5 || h.book.LastSeq != seq {
		t.Errorf("got %+v", e.Attempt.Usage)
	}
	h.do(1, 0, &queue.Ended{Attempt: 1, Usage: queue.Usage{Memory: 9}})
	h.book.Observe(queue.ElementID{Job: 1}, 1, queue.Usage{Memory: 5})
	if e.Attempt.Usage.Memory != 9 {
		t.Error("a late heartbeat changed what an ended attempt has consumed")
	}
}

func TestDirtyNamesTheRows(t *testing.T) {
	h := newHistory(t)
	rows := func() string {
		d := h.book.TakeDirty()
		return fmt.Sprintf("jobs %d elements %d nodes %d queues %d forgotten %v", len(d.Jobs), len(d.Elements), len(d.Nodes), len(d.Queues), d.Forgotten)
	}
	h.book.TakeDirty()
	for _, c := range []struct {
		name string
		body queue.Body
		want string
	}{
		{"a submission", submitted(queue.Spec{}), "jobs 1 elements 0 nodes 0 queues 0 forgotten []"},
		{"a start", started(1), "jobs 0 elements 1 nodes 1 queues 0 forgotten []"},
		{"a new limit of what runs", &queue.Modified{Spec: &queue.Spec{}, Plan: queue.Shape{RunLimit: 1}}, "jobs 1 elements 1 nodes 0 queues 0 forgotten []"},
		{"an end", &queue.Ended{Attempt: 1}, "jobs 0 elements 1 nodes 1 queues 0 forgotten []"},
		{"a queue", &queue.QueueSet{Queue: "q"}, "jobs 0 elements 0 nodes 0 queues 1 forgotten []"},
		{"forgetting", &queue.Forgotten{}, "jobs 0 elements 0 nodes 0 queues 0 forgotten [1]"},
		{"nothing", nil, "jobs 0 elements 0 nodes 0 queues 0 forgotten []"},
	} {
		if c.body != nil {
			h.do(1, 0, c.body)
		}
		if got := rows(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRestoreDetectsRowsThatContradict(t *testing.T) {
	job := func(id queue.JobID, e queue.Element) *queue.Job {
		return &queue.Job{ID: id, Spec: &queue.Spec{}, Elements: []queue.Element{e}}
	}
	m := machine("a")
	running := queue.Element{State: queue.Run, Attempt: &queue.Attempt{Number: 1, Alloc: alloc("a", 3)}}
	for _, c := range []struct {
		name string
		jobs []*queue.Job
		err  string
	}{
		{"a run without an attempt", []*queue.Job{job(1, queue.Element{State: queue.Run})}, "without an attempt"},
		{"more held than there is", []*queue.Job{job(1, running), job(2, running)}, "not free"},
		{"a node that is not there", []*queue.Job{job(1, queue.Element{State: queue.Run, Attempt: &queue.Attempt{Alloc: alloc("z", 1)}})}, "not known"},
		{"a dependency that is none", []*queue.Job{{ID: 1, Spec: &queue.Spec{Depend: "done("}}}, "syntax error"},
	} {
		err := queue.NewBook().Restore(c.jobs, []*nodes.Node{&m}, nil, 5, 2)
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.err)
		}
	}
}

func TestRestoreTakesJobsInAnyOrder(t *testing.T) {
	var jobs []*queue.Job
	for _, id := range []queue.JobID{3, 1, 2} {
		jobs = append(jobs, &queue.Job{ID: id, Spec: &queue.Spec{}, Elements: queue.InitialElements(&queue.Spec{}, epoch)})
	}
	b := queue.NewBook()
	if err := b.Restore(jobs, nil, nil, 9, 7); err != nil {
		t.Fatal(err)
	}
	b.From(1, func(j *queue.Job) bool {
		if j.ID != 2 {
			t.Errorf("after 1 comes %d", j.ID)
		}
		return false
	})
	if b.LastSeq != 9 || b.LastJob != 7 {
		t.Errorf("event %d, job %d", b.LastSeq, b.LastJob)
	}
}

// A node registers smaller than what it holds, and batchd restarts before that has ended.
func TestRestoreOfANodeThatHasShrunk(t *testing.T) {
	h := newHistory(t).do(1, 0, submitted(queue.Spec{})).do(1, 0, &queue.Started{Attempt: 1, Alloc: alloc("a", 3)})
	small := nodes.Node{ID: "a", Slots: 1, Memory: 1}
	h.do(0, 0, &queue.NodeJoined{Node: small})
	if err := h.agrees(); err != nil {
		t.Error(err)
	}
	b, err := queuetest.Reload(h.book)
	if err != nil {
		t.Fatal(err)
	}
	ended := queue.Event{Seq: b.LastSeq + 1, At: epoch.Add(time.Hour), Job: 1, Body: &queue.Ended{Attempt: 1}}
	if err := b.Apply(ended); err != nil {
		t.Fatal(err)
	}
	if n := b.Nodes["a"]; n.Slots != 1 || n.Memory != 1 {
		t.Errorf("when all has ended it has %d slots", n.Slots)
	}
}
