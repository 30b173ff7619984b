package backfill

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairslice/nodes"
	"fairslice/queue"
)

// The parts of a priority add up to the key by which elements are served, whatever the weights.
func TestPartsAddUpToTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := func(name string) float64 { return rapid.Float64Range(0, 100).Draw(t, name) }
		order := Weighted{FairShare: weight("fair share"), Age: weight("age"), Size: weight("size"), Response: weight("response"),
			Guard: time.Duration(rapid.Int64Range(0, int64(30*24*time.Hour)).Draw(t, "guard"))}
		p := New(Policy{Order: order, Protected: 1})
		p.PutNode(&nodes.Node{ID: "n1", Alive: true, Slots: 8, Memory: gib})
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		p.Share = func(who Claimant) float64 {
			if who != (Claimant{"ada", "physics"}) {
				t.Fatalf("asked for %+v", who)
			}
			return share
		}
		shape := queue.Shape{Slots: rapid.IntRange(1, 64).Draw(t, "slots"), Priority: 40*10_000 + 7, RunLimit: time.Duration(rapid.Int64Range(int64(time.Minute), int64(24*time.Hour)).Draw(t, "limit"))}
		p.Add(Pending{Job: 1, Shape: &shape, User: "ada", Account: "physics", Submitted: noon, Indices: []int{0}})
		p.Plan(noon.Add(time.Duration(rapid.Int64Range(0, int64(60*24*time.Hour)).Draw(t, "waits"))))
		if !p.Has(1) {
			return // it started
		}
		got, ok := p.Priority(1)
		if !ok || got.Queue != 40 || got.User != 7 {
			t.Fatalf("%+v, %v", got, ok)
		}
		sum := 0.0
		for _, x := range got.Parts {
			if x.Factor < 0 || x.Factor > 1 || math.Abs(x.Points-x.Weight*x.Factor) > 1e-12 {
				t.Fatalf("%+v", x)
			}
			sum += x.Points
		}
		f := p.factsOf(p.waitingOf(1))
		key := order.key(&f, p.now)
		if late := key > aged/2; got.Late != late || sum != got.Total || !late && math.Abs(key-got.Total) > 1e-9 {
			t.Fatalf("key %v, late %v: %+v", key, late, got)
		}
	})
}

func TestPriorityOfOtherOrders(t *testing.T) {
	for _, row := range []struct {
		order Order
		want  []queue.PriorityPart
	}{
		{FCFS, nil},
		{SJF, nil},
		{FairShare, []queue.PriorityPart{{Name: "fair share", Weight: 1, Factor: .25, Points: .25}}},
		{XFactor, []queue.PriorityPart{{Name: "xfactor", Weight: 1, Factor: .5, Points: .5}}},
	} {
		p := New(Policy{Order: row.order, Protected: 1})
		p.Share = func(Claimant) float64 { return .25 }
		p.Add(Pending{Job: 1, Shape: &queue.Shape{Slots: 1, RunLimit: time.Hour}, User: "ada", Submitted: noon, Indices: []int{0}})
		p.Plan(noon.Add(30 * time.Minute)) // there are no nodes
		got, ok := p.Priority(1)
		if !ok || len(got.Parts) != len(row.want) || len(row.want) > 0 && (got.Parts[0] != row.want[0] || got.Total != row.want[0].Points) {
			t.Errorf("%T: %+v", row.order, got)
		}
	}
	if _, ok := New(Policy{}).Priority(1); ok {
		t.Error("a job that is not there has a priority")
	}
}

// A user's jobs for two accounts have the turns of two, and are not mixed up.
func TestClaimantsOfOneUserHaveTurnsOfTheirOwn(t *testing.T) {
	p := New(Policy{Order: FairShare, Protected: 1})
	share := map[Claimant]float64{{"ada", "physics"}: .1, {"ada", "chem"}: .9}
	p.Share = func(who Claimant) float64 { return share[who] }
	var served []Claimant
	p.Started = func(who Claimant, _ *queue.Shape, _ []nodes.Allocation) { served = append(served, who) }
	p.PutNode(&nodes.Node{ID: "n1", Alive: true, Slots: 1, Memory: gib})
	for i, account := range []string{"physics", "chem"} {
		p.Add(Pending{Job: queue.JobID(i + 1), Shape: &queue.Shape{Slots: 1, RunLimit: time.Hour}, User: "ada", Account: account, Submitted: noon, Indices: []int{0}})
	}
	plan := p.Plan(noon)
	if len(plan.Starts) != 1 || plan.Starts[0].ID.Job != 2 {
		t.Errorf("started %+v", plan.Starts)
	}
	if len(served) == 0 || served[0] != (Claimant{"ada", "chem"}) {
		t.Errorf("served %v", served)
	}
	if n := len(p.Claimants()); n != 2 {
		t.Errorf("%d claimants", n)
	}
}

// What a plan starts and promises counts against its user in that plan. Whoever asks for the order is told what it was
// before: else nobody who was promised a start would seem to be first.
func TestPrioritiesAreThoseBeforeThePlanServedAnybody(t *testing.T) {
	used := map[string]float64{"ada": 2, "bob": 1}
	p := New(Policy{Order: FairShare, Protected: 1})
	p.Share, p.Started = fairShareOf(used)
	p.PutNode(&nodes.Node{ID: "n1", Alive: true, Slots: 1, Memory: gib})
	p.Begin(Running{ID: queue.ElementID{Job: 9}, Alloc: []nodes.Allocation{{Node: "n1", Slots: 1}}, Ends: noon.Add(time.Hour)}, noon)
	for i, user := range []string{"ada", "bob"} {
		p.Add(Pending{Job: queue.JobID(i + 1), Shape: &queue.Shape{Slots: 1, RunLimit: 24 * time.Hour}, User: user, Submitted: noon, Indices: []int{0}})
	}
	p.Plan(noon)
	if used["bob"] != 25 {
		t.Fatalf("bob was promised nothing: %v", used)
	}
	if n := p.Ahead(2); n != 0 {
		t.Errorf("%d before bob, who has used least", n)
	}
	if n := p.Ahead(1); n != 1 {
		t.Errorf("%d before ada", n)
	}
	if got, _ := p.Priority(2); got.Total != .5 {
		t.Errorf("bob: %+v", got)
	}
}
