package replay

import (
	"reflect"
	"testing"
	"time"

	"fairslice/backfill"
	"fairslice/nodes"
	"fairslice/queue"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// ended is a job that was submitted, began and ended so many seconds after noon.
func ended(id queue.JobID, user string, slots int, submit, begin, end int) *queue.Job {
	return &queue.Job{ID: id, Spec: &queue.Spec{}, Owner: queue.Identity{User: user}, Submitted: after(submit),
		Plan: queue.Shape{Queue: "normal", Slots: slots, MaxSlots: slots, RunLimit: time.Minute},
		Elements: []queue.Element{{State: queue.Done, Result: &queue.Result{At: after(end)},
			Attempt: &queue.Attempt{Dispatched: after(begin - 1), Began: after(begin), Alloc: []nodes.Allocation{{Node: "a", Slots: slots}}}}}}
}

func TestHistory(t *testing.T) {
	second := ended(2, "bob", 2, 5, 40, 50)
	second.Plan.MaxSlots = 8 // it was given 4 of "-n 2,8", and half a GPU
	second.Elements[0].Attempt.Alloc = []nodes.Allocation{{Node: "a", Slots: 3, Memory: 5}, {Node: "b", Slots: 1, Memory: 2, Slices: []nodes.Slice{{UUID: "g", Amount: 50}}}}
	killed := ended(3, "alice", 1, 0, 10, 75) // 5 s after its limit
	free := ended(4, "alice", 1, 10, 10, 10)  // ended in the second in which it began, and had no limit
	free.Plan.RunLimit = 0
	never := ended(5, "alice", 1, 0, 0, 0)
	never.Elements[0].Attempt = nil
	running := ended(6, "alice", 1, 0, 0, 0)
	running.Elements[0].State = queue.Run
	before, after := ended(7, "alice", 1, -10, 0, 5), ended(8, "alice", 1, 3600, 3600, 3605)

	p := History([]*queue.Job{nil, free, second, killed, never, running, before, after}, noon, noon.Add(time.Hour))
	at := noon.Unix()
	got := p.Tasks
	for i := range got {
		shape := *got[i].Shape
		if int64(shape.Slots) != got[i].Procs || shape.MaxSlots != shape.Slots || shape.Queue != "normal" {
			t.Errorf("job %d: its shape is %+v", got[i].ID, shape)
		}
		got[i].Shape = nil
	}
	want := []Task{
		{ID: 3, Submit: at, Run: 65, Limit: 65, Procs: 1, User: 1},
		{ID: 2, Submit: at + 5, Run: 10, Limit: 60, Procs: 4, User: 2, FGPU: 50, Memory: 7},
		{ID: 4, Submit: at + 10, Run: 1, Limit: unlimited, Procs: 1, User: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(p.Starts, []int64{at + 10, at + 40, at + 10}) || p.NeverRan != 1 || p.Outside != 2 {
		t.Errorf("starts %v, %d never ran, %d outside", p.Starts, p.NeverRan, p.Outside)
	}
}

// A job that is larger than all hosts of today is left out of both sides.
func TestHistoryReplayed(t *testing.T) {
	p := History([]*queue.Job{ended(1, "a", 2, 0, 0, 30), ended(2, "a", 9, 1, 1, 30), ended(3, "b", 2, 2, 100, 130)}, noon, noon.Add(time.Hour))
	hosts := []*nodes.Node{{ID: "a", Alive: true, Slots: 2}, {ID: "b", Alive: true, Slots: 2}}
	s, err := Replay(p.Tasks, Options{Nodes: hosts, Policy: backfill.Policy{Protected: 1}})
	if err != nil {
		t.Fatal(err)
	}
	kept, starts, dropped := p.Without(s)
	at := noon.Unix()
	if dropped != 1 || len(kept.Tasks) != 2 || !reflect.DeepEqual(kept.Starts, []int64{at, at + 100}) || !reflect.DeepEqual(starts, []int64{at, at + 2}) {
		t.Errorf("%d left out; as it was %v, replayed %v", dropped, kept.Starts, starts)
	}
}

func TestLevel(t *testing.T) {
	spans := []Span{{0, 10, 1}, {5, 20, 2}, {-100, 1, 4}, {19, 100, 1}, {7, 7, 9}}
	// [0, 10): 10 of the first, 2 times 5, 4 times 1; [10, 20): 2 times 10, and 1.
	if got, want := Level(spans, 0, 20, 2), []float64{2.4, 2.1}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Level(spans, 5, 5, 3); !reflect.DeepEqual(got, []float64{0, 0, 0}) {
		t.Errorf("of no time: %v", got)
	}
}
