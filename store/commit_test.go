package store_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/store"
	"fairslice/store/storetest"
)

// query runs SQL beside the Store and returns its first column as text.
func query(t testing.TB, url, sql string, args ...any) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestARestartAndAReplayGiveTheBook(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := newWriter(t, storetest.OpenURL(t, url))
	at := w.now
	array := &queue.Array{Ranges: []queue.Range{{First: 1, Last: 5, Step: 2}}, Limit: 2} // 1 3 5
	held := submitted("t-held", nil)
	held.Spec.Hold = true
	modified := *submitted("", array).Spec
	modified.Name, modified.Description = "renamed", "by bmod"
	for _, step := range [][]queue.Event{
		{ev(0, 0, &queue.NodeJoined{Node: node("n1")}), ev(0, 0, &queue.NodeJoined{Node: node("n2")})},
		{ev(1, 0, submitted("t-1", nil)), ev(2, 0, submitted("t-2", array)), ev(3, 0, held)},
		{ev(1, 0, started(1, "n1", 0, 150)), ev(2, 1, started(1, "n1", 0, 50)), ev(2, 3, started(1, "n2", 1, 200))},
		{ev(1, 0, &queue.Began{Attempt: 1, Pid: 77, Home: "/home/ada", CWD: "/tmp", Stdout: "/tmp/o", Image: "/i.sif", Note: "fallback"})},
		{ev(1, 0, &queue.Suspended{}), ev(1, 0, &queue.Resumed{}), ev(1, 0, &queue.Suspended{System: true})},
		{ev(1, 0, &queue.Signalled{Signal: "USR1"}), ev(3, 0, &queue.Resumed{}), ev(3, 0, &queue.Suspended{})},
		{ev(2, 1, &queue.Lost{}), ev(2, 1, &queue.Found{State: queue.Run}), ev(2, 3, &queue.Lost{})},
		{ev(2, 0, &queue.Modified{Spec: &modified, Plan: submitted("", nil).Plan, Words: "-J renamed"}), ev(2, 0, &queue.ArrayLimited{Limit: 1})},
		{ev(3, 0, &queue.Switched{Queue: "long", Plan: queue.Shape{Queue: "long", Slots: 2}}), ev(3, 0, &queue.Moved{Position: -5, Rank: 1})},
		{ev(0, 0, &queue.NodeLost{Node: "n2", Why: "silence"}), ev(0, 0, &queue.NodeClosed{Node: "n1", Reason: "disk"}), ev(0, 0, &queue.NodeOpened{Node: "n1"})},
		{ev(0, 0, &queue.QueueSet{Queue: "gpu", Closed: true, Reason: "holiday"})},
		{ev(2, 1, &queue.KillRequested{Verdict: queue.TermOwner, Note: "why not"})},
		// Ended and requeued, and what they held taken again, in one batch.
		{ev(2, 1, ended(1, 9, at)), ev(1, 0, &queue.Requeued{Attempt: 1, Why: "node", Failed: true, NotYet: at.Add(time.Second), Charge: charge(at)}),
			ev(1, 0, started(2, "n1", 0, 200))},
		{ev(2, 5, started(1, "n1", 1, 10)), ev(2, 5, ended(1, 0, at))}, // within one batch
		{ev(1, 0, ended(2, 0, at)), ev(3, 0, ended(0, queue.NoStatus, at))},
		{ev(1, 0, &queue.Forgotten{}), ev(3, 0, &queue.Forgotten{})},
	} {
		w.do(step...)
		w.check()
	}
	if got := query(t, url, "SELECT job || '[' || idx || '].' || attempt || ' ' || amount FROM slices"); !reflect.DeepEqual(got, []string{"2[3].1 200"}) {
		t.Errorf("slices = %q, want only those of the live attempt", got)
	}
	if got := query(t, url, "SELECT string_agg(job || '.' || idx || '.' || attempt, ' ' ORDER BY job, idx, attempt) FROM charges"); got[0] != "1.0.1 1.0.2 2.1.1 2.5.1" {
		t.Errorf("charges = %q", got)
	}
}

// Every kind comes back as it went in, also those that the Book would not take now.
func TestEventsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	w := newWriter(t, s)
	at := w.now
	bodies := []queue.Body{submitted("x", nil), started(1, "n1", 0, 50), &queue.Began{Attempt: 1, Pid: 3}, ended(1, 256, at),
		&queue.Requeued{Attempt: 2, Why: "a\x00b", Hold: true}, &queue.KillRequested{Verdict: queue.TermOwner, Force: true}, &queue.Signalled{Signal: "HUP"},
		&queue.Suspended{System: true}, &queue.Resumed{}, &queue.Lost{}, &queue.Found{State: queue.USusp},
		&queue.Modified{Spec: &queue.Spec{Command: "x"}, Words: "-n 2"}, &queue.Switched{Queue: "q"}, &queue.Moved{Position: 1, Bottom: true},
		&queue.ArrayLimited{Limit: 3}, &queue.Forgotten{}, &queue.NodeJoined{Node: node("n9")}, &queue.NodeLost{Node: "n9"},
		&queue.NodeClosed{Node: "n9", Reason: "r"}, &queue.NodeOpened{Node: "n9"}, &queue.QueueSet{Queue: "q", Inact: true}, &queue.PolicySet{Version: 1, Text: "account lab\n"}}
	n := node("n1")
	b := &store.Batch{Term: w.term, Nodes: []*nodes.Node{&n}}
	for i, body := range bodies {
		b.Events = append(b.Events, queue.Event{Seq: int64(i + 1), At: at, Job: queue.JobID(i % 3), Index: i, By: "ada", Body: body})
	}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var got []queue.Event
	if err := s.Events(t.Context(), 0, func(e queue.Event) error { got = append(got, e); return nil }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, b.Events) {
		for i := range got {
			if !reflect.DeepEqual(got[i], b.Events[i]) {
				t.Errorf("event %d:\n got %+v %+v\nwant %+v %+v", i+1, got[i], got[i].Body, b.Events[i], b.Events[i].Body)
			}
		}
		t.Fatalf("%d events came back, want %d", len(got), len(b.Events))
	}
	of, err := s.EventsOf(t.Context(), []queue.JobID{2})
	if err != nil || len(of) != 7 || of[0].Seq != 3 {
		t.Errorf("EventsOf(2) = %d events, %v; want 7", len(of), err)
	}
	stop := errors.New("enough")
	if err := s.Events(t.Context(), 5, func(queue.Event) error { return stop }); err != stop {
		t.Errorf("Events with a failing fn: %v", err)
	}
}

// A batch that breaks an invariant is refused as a whole, and what is there stays. The writer here skips the Book on purpose.
func TestTheDatabaseRefusesWhatMustNotBe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change     func(w *writer, b *store.Batch)
		constraint string
	}{
		"more slots than the node has": {func(w *writer, b *store.Batch) { b.Nodes[0].UsedSlots = 9 }, "slots_fit"},
		"fewer than no slots":          {func(w *writer, b *store.Batch) { b.Nodes[0].UsedSlots = -1 }, "slots_fit"},
		"more memory than it has":      {func(w *writer, b *store.Batch) { b.Nodes[0].UsedMemory = 65 << 30 }, "memory_fits"},
		"a GPU used above capacity":    {func(w *writer, b *store.Batch) { b.Nodes[0].GPUs[0].Used = 201 }, "fgpu_fits"},
		"slices above capacity, though the Book says less": {func(w *writer, b *store.Batch) {
			b.Events[0].Body = started(1, "n1", 0, 151)
		}, "slices_fit"},
		"a slice of an unknown GPU": {func(w *writer, b *store.Batch) { b.Events[0].Body = started(1, "n7", 0, 1) }, "slices_fit"},
		"a live element without attempt": {func(w *writer, b *store.Batch) {
			b.Elements[0].Element.Attempt = nil
		}, "live_has_attempt"},
		"an attempt that is not the last": {func(w *writer, b *store.Batch) { b.Elements[0].Element.Attempts = 2 }, "live_has_attempt"},
		"a final element without result": {func(w *writer, b *store.Batch) {
			b.Elements[0].Element.State = queue.Done
		}, "final_has_result"},
		"a result without an end":  {func(w *writer, b *store.Batch) { b.Elements[0].Element.Result = &queue.Result{} }, "final_has_result"},
		"a state that is not ours": {func(w *writer, b *store.Batch) { b.Elements[0].Element.State = "WAIT" }, "known_state"},
		"a second charge": {func(w *writer, b *store.Batch) {
			b.Events[0].Job, b.Events[0].Body = 1, ended(1, 0, w.now)
			again := b.Events[0]
			again.Seq++
			b.Events = append(b.Events, again)
		}, "charges_pkey"},
		"a charge for less than no time": {func(w *writer, b *store.Batch) {
			end := ended(1, 0, w.now)
			end.Charge.Began = end.Charge.Ended.Add(time.Millisecond)
			b.Events[0].Job, b.Events[0].Body = 1, end
		}, "began_before_it_ended"},
		"a charge of less than nothing": {func(w *writer, b *store.Batch) {
			end := ended(1, 0, w.now)
			end.Charge.Suspended = -time.Second
			b.Events[0].Job, b.Events[0].Body = 1, end
		}, "amounts_are_positive"},
		"a blob under another's name": {func(w *writer, b *store.Batch) {
			b.Blobs = map[string][]byte{strings.Repeat("0", 64): []byte("x")}
		}, "hash_is_of_data"},
		"a token for two jobs": {func(w *writer, b *store.Batch) {
			j := *w.book.Jobs[1]
			j.ID = 99
			b.Jobs = append(b.Jobs, &j)
		}, "jobs_token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWriter(t, storetest.Open(t))
			w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}), ev(1, 0, submitted("a", nil)), ev(2, 0, submitted("b", nil)), ev(1, 0, started(1, "n1", 0, 50)))
			before := dump(t, restored(t, w.s))
			b := w.batch(ev(2, 0, started(1, "n1", 1, 50)))
			tt.change(w, b)
			err := w.s.Commit(t.Context(), b)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.ConstraintName != tt.constraint {
				t.Fatalf("Commit = %v, want a refusal by %s", err, tt.constraint)
			}
			if _, ok := errors.AsType[*store.Unavailable](err); ok {
				t.Error("the refusal looks as if it might pass")
			}
			if after := dump(t, restored(t, w.s)); after != before {
				t.Errorf("something was written:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

func TestBatchesThatAreNoSequence(t *testing.T) {
	t.Parallel()
	w := newWriter(t, storetest.Open(t))
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}))
	e := func(seq int64) queue.Event {
		return queue.Event{Seq: seq, At: w.now, Body: &queue.NodeLost{Node: "n1"}}
	}
	commit := func(events ...queue.Event) error {
		return w.s.Commit(t.Context(), &store.Batch{Term: w.term, Events: events})
	}
	if err := commit(e(3)); !errors.Is(err, store.ErrGap) {
		t.Errorf("a gap: %v", err)
	}
	if err := commit(e(2), e(4)); err == nil {
		t.Error("a gap within the batch was taken")
	}
	if err := commit(e(1)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("other events under taken numbers: %v", err)
	}
	late := e(2)
	late.At = late.At.Add(time.Nanosecond)
	if err := commit(late); err == nil {
		t.Error("a time that the database would cut was taken")
	}
	free := ended(1, 0, w.now)
	free.Charge = nil
	if err := commit(queue.Event{Seq: 2, At: w.now, Job: 1, Body: free}); err == nil {
		t.Error("an attempt ended without a charge")
	}
	if err := commit(e(2)); err != nil {
		t.Errorf("the next event: %v", err)
	}
}

func TestTextThatPostgreSQLDoesNotTake(t *testing.T) {
	t.Parallel()
	w := newWriter(t, storetest.Open(t))
	odd := submitted("tok\x00en", nil)
	odd.Spec.Name, odd.Spec.Command = "a\x00b\xff", "echo \x00"
	w.do(ev(1, 0, odd))
	if got := restored(t, w.s).Jobs[1].Spec.Command; got != "echo \x00" {
		t.Errorf("command = %q", got)
	}
	if id, found, err := w.s.JobByToken(t.Context(), "ada", "tok\x00en"); id != 1 || !found || err != nil {
		t.Errorf("JobByToken = %d, %v, %v", id, found, err)
	}
}
