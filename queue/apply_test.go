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

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// history applies events one second apart, and keeps them.
type history struct {
	t      *testing.T
	book   *queue.Book
	events []queue.Event
}

func newHistory(t *testing.T) *history {
	h := &history{t: t, book: queue.NewBook()}
	h.do(0, 0, &queue.NodeJoined{Node: machine("a")})
	return h
}

func machine(id nodes.ID) nodes.Node {
	return nodes.Node{ID: id, Slots: 4, Memory: 1 << 30, Consumables: "licence=2",
		GPUs: []nodes.GPU{{UUID: "GPU-" + string(id), Memory: 8 << 30, Capacity: 200}}}
}

func (h *history) try(job queue.JobID, index int, body queue.Body) error {
	seq := h.book.LastSeq + 1
	ev := queue.Event{Seq: seq, At: epoch.Add(time.Duration(seq) * time.Second), Job: job, Index: index, By: "ada", Body: body}
	err := h.book.Apply(ev)
	if err == nil {
		h.events = append(h.events, ev)
	}
	return err
}

func (h *history) do(job queue.JobID, index int, bodies ...queue.Body) *history {
	h.t.Helper()
	for _, body := range bodies {
		if err := h.try(job, index, body); err != nil {
			h.t.Fatal(err)
		}
	}
	return h
}

func submitted(s queue.Spec) *queue.Submitted {
	s.Command = "true"
	return &queue.Submitted{Spec: &s, Owner: queue.Identity{User: "ada"}, Queue: "normal", Plan: queue.Shape{Queue: "normal", Slots: 1}}
}

func alloc(node nodes.ID, slots int) []nodes.Allocation {
	return []nodes.Allocation{{Node: node, Slots: slots, Consumables: "licence=1",
		Slices: []nodes.Slice{{UUID: "GPU-" + string(node), Amount: 50}}}}
}

func started(attempt int) *queue.Started {
	return &queue.Started{Attempt: attempt, Alloc: alloc("a", 1), RunLimit: time.Hour}
}

// ways are the events that lead job 1 into each state, always with one attempt before where it has none now.
var ways = map[queue.State][]queue.Body{
	queue.Pend:  {started(1), &queue.Requeued{Attempt: 1}},
	queue.PSusp: {started(1), &queue.Requeued{Attempt: 1}, &queue.Suspended{}},
	queue.Run:   {started(1)},
	queue.USusp: {started(1), &queue.Suspended{}},
	queue.SSusp: {started(1), &queue.Suspended{System: true}},
	queue.Unkwn: {started(1), &queue.Lost{}},
	queue.Done:  {started(1), &queue.Ended{Attempt: 1, Done: true}},
	queue.Exit:  {started(1), &queue.Ended{Attempt: 1}},
}

func TestTransitions(t *testing.T) {
	const table = `
event          PEND  PSUSP RUN   USUSP SSUSP UNKWN DONE  EXIT
start          RUN   -     -     -     -     -     -     -
start-again    -     -     -     -     -     -     -     -
begin          -     -     RUN   USUSP SSUSP UNKWN -     -
begin-old      -     -     -     -     -     -     -     -
note           -     -     RUN   USUSP SSUSP UNKWN -     -
extend         -     -     RUN   USUSP SSUSP UNKWN -     -
extend-old     -     -     -     -     -     -     -     -
extend-less    -     -     -     -     -     -     -     -
note-old       -     -     -     -     -     -     -     -
done           -     -     DONE  DONE  DONE  DONE  -     -
exit           -     -     EXIT  EXIT  EXIT  EXIT  -     -
exit-old       -     -     -     -     -     -     -     -
exit-pending   EXIT  EXIT  -     -     -     -     -     -
requeue        -     -     PEND  PEND  PEND  PEND  -     -
requeue-hold   -     -     PSUSP PSUSP PSUSP PSUSP -     -
requeue-ended  -     -     -     -     -     -     PEND  PEND
requeue-old    -     -     -     -     -     -     -     -
kill           -     -     RUN   USUSP SSUSP UNKWN -     -
signal         -     -     RUN   USUSP SSUSP UNKWN -     -
suspend        PSUSP -     USUSP -     -     -     -     -
suspend-system PSUSP -     SSUSP -     -     -     -     -
resume         -     PEND  -     RUN   RUN   -     -     -
lost           -     -     UNKWN UNKWN UNKWN -     -     -
found          -     -     -     -     -     RUN   -     -
found-stopped  -     -     -     -     -     USUSP -     -
found-pending  -     -     -     -     -     -     -     -
forget         -     -     -     -     -     -     gone  gone
switch         PEND  PSUSP RUN   USUSP SSUSP UNKWN DONE  EXIT
modify         PEND  PSUSP RUN   USUSP SSUSP UNKWN DONE  EXIT
modify-badly   -     -     -     -     -     -     -     -
move           PEND  PSUSP RUN   USUSP SSUSP UNKWN DONE  EXIT
limit          -     -     -     -     -     -     -     -
submit-again   -     -     -     -     -     -     -     -
`
	bodies := map[string]queue.Body{
		"start": started(2), "start-again": started(1),
		"begin": &queue.Began{Attempt: 1}, "begin-old": &queue.Began{Attempt: 7},
		"note": &queue.Noted{Attempt: 1, Text: "x"}, "note-old": &queue.Noted{Attempt: 7},
		"extend": &queue.Extended{Attempt: 1, RunLimit: 2 * time.Hour}, "extend-old": &queue.Extended{Attempt: 7, RunLimit: 2 * time.Hour},
		"extend-less": &queue.Extended{Attempt: 1, RunLimit: time.Hour},
		"done":        &queue.Ended{Attempt: 1, Done: true}, "exit": &queue.Ended{Attempt: 1}, "exit-old": &queue.Ended{Attempt: 7},
		"exit-pending": &queue.Ended{}, "requeue": &queue.Requeued{Attempt: 1}, "requeue-hold": &queue.Requeued{Attempt: 1, Hold: true},
		"requeue-ended": &queue.Requeued{}, "requeue-old": &queue.Requeued{Attempt: 7},
		"kill": &queue.KillRequested{Verdict: queue.TermOwner}, "signal": &queue.Signalled{Signal: "INT"},
		"suspend": &queue.Suspended{}, "suspend-system": &queue.Suspended{System: true}, "resume": &queue.Resumed{},
		"lost": &queue.Lost{}, "found": &queue.Found{State: queue.Run}, "found-stopped": &queue.Found{State: queue.USusp},
		"found-pending": &queue.Found{State: queue.Pend}, "forget": &queue.Forgotten{},
		"switch":       &queue.Switched{Queue: "long", Plan: queue.Shape{Queue: "long"}},
		"modify":       &queue.Modified{Spec: &queue.Spec{Command: "false"}},
		"modify-badly": &queue.Modified{Spec: &queue.Spec{Depend: "done("}},
		"move":         &queue.Moved{Position: 7}, "limit": &queue.ArrayLimited{Limit: 1}, "submit-again": submitted(queue.Spec{}),
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	states := strings.Fields(lines[0])[1:]
	for _, line := range lines[1:] {
		words := strings.Fields(line)
		for i, want := range words[1:] {
			h := newHistory(t).do(1, 0, submitted(queue.Spec{})).do(1, 0, ways[queue.State(states[i])]...)
			before := queuetest.Describe(h.book)
			err := h.try(1, 0, bodies[words[0]])
			got := "gone"
			if j, e := h.book.Find(queue.ElementID{Job: 1}); j != nil {
				got = string(e.State)
			}
			if err != nil {
				if got = "-"; queuetest.Describe(h.book) != before {
					t.Errorf("%s of a job that is %s is refused and changes it: %s", words[0], states[i], queuetest.Diff(before, queuetest.Describe(h.book)))
				}
			}
			if got != want {
				t.Errorf("%s of a job that is %s gives %s, want %s (%v)", words[0], states[i], got, want, err)
			}
			if err := h.agrees(); err != nil {
				t.Errorf("%s of a job that is %s: %v", words[0], states[i], err)
			}
		}
	}
}

// agrees says where the book, its events and its rows do not.
func (h *history) agrees() error {
	want := queuetest.Describe(h.book)
	for what, make := range map[string]func() (*queue.Book, error){
		"replayed": func() (*queue.Book, error) { return queuetest.Replay(h.events) },
		"restored": func() (*queue.Book, error) { return queuetest.Reload(h.book) },
	} {
		b, err := make()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if d := queuetest.Diff(want, queuetest.Describe(b)); d != "" {
			return fmt.Errorf("%s it differs in %s", what, d)
		}
	}
	return nil
}

func TestEventsThatDoNotFollowAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		job   queue.JobID
		index int
		body  queue.Body
		err   string
	}{
		{"a job that is not there", 9, 0, started(1), "no such job"},
		{"an element that is not there", 1, 3, started(1), "no such element"},
		{"a number below the last", 1, 0, submitted(queue.Spec{}), "the number is taken"},
		{"a dependency that is none", 2, 0, submitted(queue.Spec{Depend: "done("}), "syntax error"},
		{"a node that is not there", 1, 0, &queue.Started{Attempt: 1, Alloc: alloc("z", 1)}, "node z is not known"},
		{"more than a node has", 1, 0, &queue.Started{Attempt: 1, Alloc: alloc("a", 5)}, "not free"},
		{"one node that has it and one that has not", 1, 0, &queue.Started{Attempt: 1, Alloc: append(alloc("a", 1), alloc("z", 1)...)}, "node z is not known"},
		{"closing a node that is not there", 0, 0, &queue.NodeClosed{Node: "z"}, "node z is not known"},
		{"losing a node that is not there", 0, 0, &queue.NodeLost{Node: "z"}, "node z is not known"},
	} {
		h := newHistory(t).do(1, 0, submitted(queue.Spec{}))
		before := queuetest.Describe(h.book)
		err := h.try(c.job, c.index, c.body)
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.err)
		}
		if d := queuetest.Diff(before, queuetest.Describe(h.book)); d != "" {
			t.Errorf("%s changed the book: %s", c.name, d)
		}
	}
	h := newHistory(t)
	for _, seq := range []int64{0, 1, 3} {
		if err := h.book.Apply(queue.Event{Seq: seq, Job: 1, Body: submitted(queue.Spec{})}); err == nil || !strings.Contains(err.Error(), "does not follow") {
			t.Errorf("event %d after event 1: %v", seq, err)
		}
	}
}

func TestWhatEventsLeaveBehind(t *testing.T) {
	h := newHistory(t).do(1, 0, submitted(queue.Spec{}))
	_, e := h.book.Find(queue.ElementID{Job: 1})
	at := func() time.Time { return h.events[len(h.events)-1].At }

	h.do(1, 0, &queue.Started{Attempt: 1, Alloc: alloc("a", 3), RunLimit: time.Hour}, &queue.Began{Attempt: 1, Pid: 77, CWD: "/w"})
	if n := h.book.Nodes["a"]; n.UsedSlots != 3 || n.GPUs[0].Used != 50 || n.UsedConsumables != "licence=1" {
		t.Errorf("the node holds %+v", n)
	}
	if e.Attempt.Pid != 77 || e.Attempt.RunLimit != time.Hour {
		t.Errorf("the attempt is %+v", e.Attempt)
	}
	h.do(1, 0, &queue.Suspended{}, &queue.Signalled{Signal: "USR1"}, &queue.Resumed{})
	if e.Attempt.Stopped != 2*time.Second {
		t.Errorf("two seconds stopped count as %s", e.Attempt.Stopped)
	}
	h.do(1, 0, &queue.Modified{Spec: &queue.Spec{Command: "x"}, Plan: queue.Shape{RunLimit: 2 * time.Hour}})
	if e.Attempt.RunLimit != 2*time.Hour {
		t.Errorf("bmod -W of a running job leaves its limit at %s", e.Attempt.RunLimit)
	}
	h.do(1, 0, &queue.KillRequested{Verdict: queue.TermOwner, AsDone: true, Requeue: true, Note: "why"})
	if e.KillAs != queue.TermOwner || !e.AsDone || !e.Requeue || e.Note != "why" || !e.KillAt.Equal(at()) {
		t.Errorf("a kill under way is %+v", e)
	}
	h.do(1, 0, &queue.Requeued{Attempt: 1, Why: "no fence", Failed: true, NotYet: at().Add(time.Minute)})
	if e.KillAs != "" || e.AsDone || e.Requeue || e.Failed != 1 || e.Note != "no fence" || e.Retry.IsZero() || e.Attempt != nil || e.Attempts != 1 {
		t.Errorf("requeued it is %+v", e)
	}
	if n := h.book.Nodes["a"]; n.UsedSlots != 0 || n.GPUs[0].Used != 0 || n.Holders != 0 || len(h.book.On("a")) != 0 {
		t.Errorf("the node still holds %+v", n)
	}
	h.do(1, 0, started(2))
	if !e.Retry.IsZero() || e.Failed != 1 {
		t.Errorf("started again it is %+v", e)
	}
	h.do(1, 0, &queue.Began{Attempt: 2})
	if e.Failed != 0 {
		t.Errorf("a start that succeeded leaves %d failed ones in a row", e.Failed)
	}
	h.do(1, 0, &queue.Ended{Attempt: 2, Result: queue.Result{Status: 2 << 8, Verdict: queue.TermRunLimit}, Usage: queue.Usage{CPU: time.Second}})
	if e.Result.ExitCode() != 2 || e.Attempt.Usage.CPU != time.Second || !e.Since.Equal(at()) {
		t.Errorf("ended it is %+v", e)
	}
	if err := h.agrees(); err != nil {
		t.Error(err)
	}
}

func TestNodeAndQueueEvents(t *testing.T) {
	h := newHistory(t)
	n := h.book.Nodes["a"]
	for _, c := range []struct {
		name string
		body queue.Body
		want nodes.State
	}{
		{"closed", &queue.NodeClosed{Node: "a", Reason: "fans"}, nodes.Drained},
		{"lost while closed", &queue.NodeLost{Node: "a"}, nodes.Down},
		{"back, and still closed", &queue.NodeJoined{Node: machine("a")}, nodes.Drained},
		{"opened", &queue.NodeOpened{Node: "a"}, nodes.Up},
		{"lost", &queue.NodeLost{Node: "a"}, nodes.Down},
		{"opened while lost", &queue.NodeOpened{Node: "a"}, nodes.Down},
		{"back", &queue.NodeJoined{Node: machine("a")}, nodes.Up},
	} {
		h.do(0, 0, c.body)
		if n.State() != c.want {
			t.Errorf("%s: %s, want %s", c.name, n.State(), c.want)
		}
		if (n.Reason != "") != n.Closed || (n.ClosedBy != "") != n.Closed {
			t.Errorf("%s: %+v", c.name, n)
		}
	}
	h.do(0, 0, &queue.QueueSet{Queue: "normal", Closed: true, Reason: "audit"})
	if q := h.book.Queues["normal"]; q != (queue.QueueState{Closed: true, Reason: "audit"}) {
		t.Errorf("got %+v", q)
	}
	if err := h.agrees(); err != nil {
		t.Error(err)
	}
}

func TestExitCodeIsTheRawStatus(t *testing.T) {
	for _, c := range []struct {
		name         string
		r            *queue.Result
		code, signal int
	}{
		{"no result", nil, 0, 0},
		{"a lost status", &queue.Result{Status: queue.NoStatus}, 0, 0},
		{"exit 0", &queue.Result{}, 0, 0},
		{"exit 3", &queue.Result{Status: 3 << 8}, 3, 0},
		{"exit 130 is no signal", &queue.Result{Status: 130 << 8}, 130, 0},
		{"SIGKILL", &queue.Result{Status: 9}, 137, 9},
		{"SIGSEGV with a core", &queue.Result{Status: 11 | 0x80}, 139, 11},
	} {
		if c.r.ExitCode() != c.code || c.r.Signal() != c.signal {
			t.Errorf("%s: code %d signal %d, want %d and %d", c.name, c.r.ExitCode(), c.r.Signal(), c.code, c.signal)
		}
	}
}
