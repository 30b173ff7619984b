package queue_test

import (
	"testing"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/queuetest"
)

// eventsOf is what the store keeps of one job.
func eventsOf(h *history, id queue.JobID) (out []queue.Event) {
	for _, ev := range h.events {
		if ev.Job == id {
			out = append(out, ev)
		}
	}
	return out
}

// TestFoldIsTheJob folds the events of one job among others, of which the nodes' are not known.
func TestFoldIsTheJob(t *testing.T) {
	h := newHistory(t).do(0, 0, &queue.NodeJoined{Node: machine("b")})
	alone := []nodes.Allocation{{Node: "b", Slots: 4, Exclusive: true}}
	h.do(1, 0, submitted(queue.Spec{})).do(1, 0, started(1))
	h.do(4, 0, submitted(queue.Spec{Array: &queue.Array{Ranges: []queue.Range{{First: 1, Last: 3, Step: 1}}}}))
	h.do(4, 1, started(1), &queue.Began{Attempt: 1}).do(4, 2, &queue.Started{Attempt: 1, Alloc: alone})
	h.do(4, 2, &queue.Requeued{Attempt: 1}, &queue.Started{Attempt: 2, Alloc: alone}, &queue.Suspended{})
	h.do(4, 1, &queue.Ended{Attempt: 1, Done: true}).do(4, 3, &queue.Ended{})
	h.do(4, 0, &queue.Moved{Position: 3})

	want := onlyJob(h.book, 4)
	got := queue.Fold(eventsOf(h, 4))
	if got == nil {
		t.Fatal("nothing came of it")
	}
	b := queue.NewBook()
	b.Jobs[4] = got
	if d := queuetest.Diff(want, onlyJob(b, 4)); d != "" {
		t.Errorf("the fold of a job's events is not the job: %s", d)
	}
	h.do(4, 2, &queue.Resumed{}, &queue.Ended{Attempt: 2}).do(4, 0, &queue.Forgotten{})
	if got = queue.Fold(eventsOf(h, 4)); got == nil || !got.Finished() || got.Elements[1].State != queue.Exit {
		t.Errorf("a forgotten job is %+v", got)
	}
}

// onlyJob describes one job of a book by itself.
func onlyJob(b *queue.Book, id queue.JobID) string {
	one := queue.NewBook()
	j := *b.Jobs[id]
	if err := one.Restore([]*queue.Job{&j}, roomFor(&j), nil, 0, 0); err != nil {
		return err.Error()
	}
	one.Nodes = nil
	return queuetest.Describe(one)
}

// roomFor are nodes large enough for what j holds.
func roomFor(j *queue.Job) (out []*nodes.Node) {
	for i := range j.Elements {
		if e := &j.Elements[i]; e.State.Live() {
			n := machine(e.Attempt.Alloc[0].Node)
			out = append(out, &n)
		}
	}
	return out
}

func TestFoldOfABrokenHistoryGoesAsFarAsItCan(t *testing.T) {
	h := newHistory(t).do(1, 0, submitted(queue.Spec{})).do(1, 0, started(1), &queue.Ended{Attempt: 1, Done: true})
	events := eventsOf(h, 1)
	if j := queue.Fold(append(events[:1:1], events[2])); j == nil || j.Elements[0].State != queue.Pend {
		t.Errorf("without its start it is %+v", j)
	}
	if j := queue.Fold(events[1:]); j != nil {
		t.Errorf("without its submission it is %+v", j)
	}
	if j := queue.Fold(nil); j != nil {
		t.Errorf("of nothing comes %+v", j)
	}
}
