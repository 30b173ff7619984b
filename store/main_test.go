package store_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/store"
	"fairslice/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Wrap(m)) }

// writer does what the engine does: events into the Book, then the batch into the store.
type writer struct {
	t    testing.TB
	s    *store.Store
	term int64
	book *queue.Book
	now  time.Time
}

func newWriter(t testing.TB, s *store.Store) *writer {
	t.Helper()
	l, err := s.Campaign(t.Context(), "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(t.Context()) }) // stops its goroutine; the context is over by then
	return &writer{t: t, s: s, term: l.Term(), book: queue.NewBook(), now: time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)}
}

func ev(job queue.JobID, index int, body queue.Body) queue.Event {
	return queue.Event{Job: job, Index: index, By: "ada", Body: body}
}

// batch applies events and gathers the rows they changed.
func (w *writer) batch(events ...queue.Event) *store.Batch {
	w.t.Helper()
	b := &store.Batch{Term: w.term}
	for _, e := range events {
		w.now = w.now.Add(1001 * time.Microsecond)
		e.Seq, e.At = w.book.LastSeq+1, w.now
		if err := w.book.Apply(e); err != nil {
			w.t.Fatal(err)
		}
		b.Events = append(b.Events, e)
	}
	d := w.book.TakeDirty()
	for id := range d.Jobs {
		if j := w.book.Jobs[id]; j != nil {
			b.Jobs = append(b.Jobs, j)
		}
	}
	for id := range d.Elements {
		if j, e := w.book.Find(id); j != nil {
			b.Elements = append(b.Elements, store.ElementRow{Job: j.ID, Element: e})
		}
	}
	for id := range d.Nodes {
		b.Nodes = append(b.Nodes, w.book.Nodes[id])
	}
	b.Queues = map[string]queue.QueueState{}
	for name := range d.Queues {
		b.Queues[name] = w.book.Queues[name]
	}
	b.Reservations = map[string]*queue.Reservation{}
	for id := range d.Reservations {
		b.Reservations[id] = w.book.Reservations[id]
	}
	if d.Policy {
		p := w.book.Policy
		b.Policy = &p
	}
	b.Images = map[images.ID]*images.Image{}
	for id := range d.Images {
		b.Images[id] = w.book.Images.Get(id)
	}
	for _, c := range d.Commits {
		b.Commits = append(b.Commits, c)
	}
	b.Forgotten = d.Forgotten
	return b
}

func (w *writer) do(events ...queue.Event) {
	w.t.Helper()
	if err := w.s.Commit(w.t.Context(), w.batch(events...)); err != nil {
		w.t.Fatal(err)
	}
}

// restored is the Book that a restart would have.
func restored(t testing.TB, s *store.Store) *queue.Book {
	t.Helper()
	st, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := queue.NewBook()
	if err := b.RestoreReservations(st.Reservations); err != nil {
		t.Fatal(err)
	}
	b.RestorePolicy(st.Policy)
	if err := st.Images.Restore(b.Images); err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(st.Jobs, st.Nodes, st.Queues, st.LastSeq, st.LastJob); err != nil {
		t.Fatal(err)
	}
	return b
}

// replayed is the fold of the events table.
func replayed(t testing.TB, s *store.Store) *queue.Book {
	t.Helper()
	b := queue.NewBook()
	if err := s.Events(t.Context(), 0, b.Apply); err != nil {
		t.Fatal(err)
	}
	return b
}

// dump is all that two Books must agree on.
func dump(t testing.TB, b *queue.Book) string {
	t.Helper()
	var out strings.Builder
	put := func(name string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s\n", name, text)
	}
	put("last", []int64{b.LastSeq, int64(b.LastJob)})
	b.Each(func(j *queue.Job) bool {
		put("job", j)
		for i := range j.Elements {
			put("  element", &j.Elements[i])
		}
		return true
	})
	var ids []nodes.ID
	for id := range b.Nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		put("node", b.Nodes[id])
	}
	put("queues", b.Queues)
	put("reservations", b.Reservations)
	put("policy", b.Policy)
	put("images", []any{b.Images.All(), b.Images.NextID(), b.Images.Commits(""), b.Images.NextCommit()})
	return out.String()
}

func sameBooks(t testing.TB, what string, got, want *queue.Book) {
	t.Helper()
	g, w := strings.Split(dump(t, got), "\n"), strings.Split(dump(t, want), "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			t.Fatalf("%s differs in line %d:\n got %s\nwant %s", what, i+1, a, b)
		}
	}
}

func (w *writer) check() {
	w.t.Helper()
	sameBooks(w.t, "the loaded Book", restored(w.t, w.s), w.book)
	sameBooks(w.t, "the replayed Book", replayed(w.t, w.s), w.book)
}

func node(id nodes.ID) nodes.Node {
	return nodes.Node{ID: id, Slots: 8, Memory: 64 << 30, BootID: "b1", Type: "X86_64", Consumables: "licence=3", GPUs: []nodes.GPU{
		{Index: 0, UUID: "GPU-" + string(id) + "-0", Model: "Sim", Memory: 8 << 30, Capacity: 200, Mode: nodes.ModeShim},
		{Index: 1, UUID: "GPU-" + string(id) + "-1", Model: "Sim", Memory: 8 << 30, Capacity: 200, Mode: nodes.ModeShim},
	}}
}

func submitted(token string, array *queue.Array) *queue.Submitted {
	return &queue.Submitted{
		Spec: &queue.Spec{Name: "train", Array: array, Command: "python3 train.py --lr <1e-3> & \"x\"", Queue: "gpu",
			RunLimit: time.Hour, SubHost: "login", SubCWD: "/home/ada/ü", Umask: 0o22, Term: "xterm",
			GPURequest: &queue.GPUOption{FGPU: 50}, Limits: map[string]int64{"C": 5}},
		Owner: queue.Identity{User: "ada", UID: 1000, GID: 1000, Groups: []int{1000, 27}, Home: "/home/ada", Shell: "/bin/bash"},
		Token: token, Queue: "gpu",
		Plan: queue.Shape{Queue: "gpu", Priority: 3, Slots: 1, MaxSlots: 1, RunLimit: time.Hour,
			Host: nodes.Request{Slots: 1, Memory: 1 << 30, GPU: nodes.GPURequest{Amount: 50}}},
	}
}

func started(attempt int, id nodes.ID, gpu int, amount nodes.Amount) *queue.Started {
	return &queue.Started{Attempt: attempt, RunLimit: time.Hour, Alloc: []nodes.Allocation{{Node: id, Slots: 1, Memory: 1 << 30,
		Slices: []nodes.Slice{{UUID: fmt.Sprintf("GPU-%s-%d", id, gpu), Index: gpu, Amount: amount, Memory: 2 << 30, SMShare: 2500, Mode: nodes.ModeShim}}}}}
}

func charge(at time.Time) *queue.Charge {
	return &queue.Charge{User: "ada", Account: "lab", Queue: "gpu", Project: "alloys", Image: "/images/pytorch.sif", Nodes: "n1=1", Slices: "GPU-n1-0=50",
		Outcome: queue.EndingDone, Began: at.Add(-time.Minute).Truncate(time.Millisecond), Ended: at.Truncate(time.Millisecond), Slots: 1, Memory: 1 << 30, FGPU: 50,
		Consumables: "licence=1", Suspended: 5 * time.Second, Waited: 7 * time.Second, RunLimit: time.Hour,
		CPU: 59 * time.Second, MaxMemory: 1 << 20, AvgMemory: 1 << 19, GPUMemory: 1 << 18, SMTime: time.Second, SMMeasured: time.Minute}
}

func ended(attempt int, status int, at time.Time) *queue.Ended {
	e := &queue.Ended{Attempt: attempt, Done: status == 0, Result: queue.Result{Status: status, At: at},
		Usage: queue.Usage{CPU: time.Second, MaxMemory: 7, Pids: []int{4, 5}}}
	if attempt > 0 {
		e.Charge = charge(at)
	}
	return e
}
