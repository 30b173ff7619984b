package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/engine"
)

// away is an error that passes.
type away string

func (a away) Error() string   { return string(a) }
func (a away) Temporary() bool { return true }

// memory is a Store that keeps the texts of rows, as a database does. Next says what becomes of the next commits.
type memory struct {
	mu       sync.Mutex
	next     []string // "fail", "ambiguous" (stored, and an error), "stale", "broken"; then all succeed
	commits  int
	waiting  bool // the last commit failed and will be repeated
	events   []queue.Event
	jobs     map[queue.JobID][]byte
	elements map[queue.ElementID][]byte
	nodes    map[nodes.ID][]byte
	queues   map[string]queue.QueueState
	blobs    map[string][]byte
	reserved map[string][]byte
	policy   queue.PolicyState
	images   map[images.ID]*images.Image // nil: forgotten
	requests map[images.CommitID]*images.Commit
	term     int // of the engine, for hours
	hours    map[termHour]engine.GPUHour
}

// termHour is what a store knows an engine.GPUHour by.
type termHour struct {
	term int
	hour time.Time
}

func newMemory() *memory {
	return &memory{jobs: map[queue.JobID][]byte{}, elements: map[queue.ElementID][]byte{}, nodes: map[nodes.ID][]byte{},
		queues: map[string]queue.QueueState{}, blobs: map[string][]byte{}, reserved: map[string][]byte{},
		images: map[images.ID]*images.Image{}, requests: map[images.CommitID]*images.Commit{}, hours: map[termHour]engine.GPUHour{}}
}

func (m *memory) restoreImages(b *queue.Book) error {
	var list []*images.Image
	var requests []*images.Commit
	last, lastRequest := images.ID(0), images.CommitID(0)
	for id, i := range m.images {
		if last = max(last, id); i != nil {
			list = append(list, i)
		}
	}
	for id, c := range m.requests {
		lastRequest, requests = max(lastRequest, id), append(requests, c)
	}
	return b.Images.Restore(list, requests, last, lastRequest)
}

// committed is how often Commit was called.
func (m *memory) committed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.commits
}

func (m *memory) Commit(_ context.Context, b *engine.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits++
	m.waiting = len(b.Events) > 0 || len(b.GPUHours) == 0 // the last sums of an engine that stops are not written again
	how := ""
	if len(m.next) > 0 {
		how, m.next = m.next[0], m.next[1:]
	}
	switch how {
	case "fail":
		return away("the database is away")
	case "broken":
		return errors.New("a constraint is violated")
	case "stale":
		return fmt.Errorf("commit: %w", engine.ErrStale)
	}
	for _, ev := range b.Events {
		switch n := int64(len(m.events)); {
		case ev.Seq == n+1:
			m.events = append(m.events, ev)
		case ev.Seq > n+1:
			return fmt.Errorf("event %d after %d", ev.Seq, n)
		}
	}
	for _, j := range b.Jobs {
		m.jobs[j.ID] = text(j)
	}
	for _, r := range b.Elements {
		m.elements[queue.ElementID{Job: r.Job, Index: r.Element.Index}] = text(r.Element)
	}
	for _, n := range b.Nodes {
		m.nodes[n.ID] = text(n)
	}
	maps.Copy(m.queues, b.Queues)
	maps.Copy(m.blobs, b.Blobs)
	if b.Policy != nil {
		m.policy = *b.Policy
	}
	maps.Copy(m.images, b.Images)
	for _, c := range b.Commits {
		m.requests[c.ID] = c
	}
	for id, r := range b.Reservations {
		if m.reserved[id] = text(r); r == nil {
			delete(m.reserved, id)
		}
	}
	for _, h := range b.GPUHours {
		m.hours[termHour{m.term, h.Hour}] = h
	}
	for _, id := range b.Forgotten {
		delete(m.jobs, id)
		maps.DeleteFunc(m.elements, func(e queue.ElementID, _ []byte) bool { return e.Job == id })
	}
	if how == "ambiguous" {
		return away("the connection was lost")
	}
	m.waiting = false
	return nil
}

// fails says what becomes of the next commits.
func (m *memory) fails(how []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = how
}

// log is what is stored of events.
func (m *memory) log() []queue.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.events
}

// rest waits until nothing goes on. While a commit waits to be repeated, the book is locked: readers must not be asked.
func (m *memory) rest() {
	for again := true; again; {
		synctest.Wait()
		m.mu.Lock()
		again = m.waiting
		m.mu.Unlock()
		if again {
			time.Sleep(time.Second)
		}
	}
}

func (m *memory) Blob(_ context.Context, hash string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := m.blobs[hash]; ok {
		return d, nil
	}
	return nil, errors.New("no such blob")
}

func (m *memory) EventsOf(_ context.Context, jobs []queue.JobID) (out []queue.Event, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ev := range m.events {
		if slices.Contains(jobs, ev.Job) {
			out = append(out, ev)
		}
	}
	return out, nil
}

func (m *memory) PolicyEvents(_ context.Context, limit int) (out []queue.Event, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ev := range slices.Backward(m.events) {
		if _, ok := ev.Body.(*queue.PolicySet); ok && len(out) < limit {
			out = append(out, ev)
		}
	}
	return out, nil
}

func (m *memory) FindHistory(context.Context, queue.Selection, string) ([]queue.JobID, error) {
	return nil, nil
}

// restore is the book of a restart: elements without a row are in their first state.
func (m *memory) restore() (*queue.Book, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var jobs []*queue.Job
	var last queue.JobID
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		j := read[queue.Job](m.jobs[id])
		j.Elements = queue.InitialElements(j.Spec, j.Submitted)
		for i := range j.Elements {
			if row, ok := m.elements[j.ElementID(j.Elements[i].Index)]; ok {
				j.Elements[i] = *read[queue.Element](row)
			}
		}
		jobs = append(jobs, j)
	}
	var ns []*nodes.Node
	for _, row := range m.nodes {
		ns = append(ns, read[nodes.Node](row))
	}
	for _, ev := range m.events {
		last = max(last, ev.Job)
	}
	b := queue.NewBook()
	for _, row := range m.reserved {
		if err := b.RestoreReservations([]*queue.Reservation{read[queue.Reservation](row)}); err != nil {
			return nil, err
		}
	}
	b.RestorePolicy(m.policy)
	if err := m.restoreImages(b); err != nil {
		return nil, err
	}
	return b, b.Restore(jobs, ns, maps.Clone(m.queues), int64(len(m.events)), last)
}

func text(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func read[T any](data []byte) *T {
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		panic(err)
	}
	return v
}

// hub records what the nodes are told. Away nodes are told nothing.
type hub struct {
	mu    sync.Mutex
	said  []string
	sent  []queue.Assignment
	away  map[nodes.ID]bool
	check func() // called before each word
}

func (h *hub) say(node nodes.ID, format string, args ...any) error {
	if h.check != nil {
		h.check()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away[node] {
		return errors.New("not connected")
	}
	h.said = append(h.said, string(node)+" "+fmt.Sprintf(format, args...))
	return nil
}

func (h *hub) Assign(node nodes.ID, a queue.Assignment) error {
	err := h.say(node, "assign %s#%d", a.ID, a.Attempt)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.sent = append(h.sent, a)
	}
	return err
}

func (h *hub) Order(node nodes.ID, o queue.Order) error {
	word := string(o.Op)
	for _, more := range []string{string(o.Verdict), o.Signal} {
		if more != "" {
			word += " " + more
		}
	}
	if o.AtOnce {
		word += " at-once"
	}
	if o.Op == queue.OrderLimit {
		word += " " + o.RunLimit.String()
	}
	return h.say(node, "%s#%d %s", o.ID, o.Attempt, word)
}

// take is what was said since the last call.
func (h *hub) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.said
	h.said = nil
	return out
}
