package backfill

import (
	"fmt"
	"math"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// under is a planner of one node with GPUs of 2 fGPU each, and jobs of one fGPU for an hour under a budget.
func under(t *testing.T, gpus int, policy Policy, jobs int, left ...Allowance) (*Planner, *Limit) {
	t.Helper()
	n := &nodes.Node{ID: "a", Slots: 64, Memory: 64 * gib, Alive: true}
	for i := range gpus {
		n.GPUs = append(n.GPUs, nodes.GPU{UUID: fmt.Sprint("g", i), Capacity: 200, Memory: 8 * gib, Mode: nodes.ModeCount})
	}
	p := New(policy)
	p.PutNode(n)
	l := &Limit{Of: OfFGPU, Name: "budget account=lab"}
	for id := range jobs {
		p.Add(Pending{Job: queue.JobID(id + 1), User: "ada", Submitted: noon, Position: int64(id), Indices: []int{0}, Limits: []*Limit{l},
			Shape: &queue.Shape{Slots: 1, MaxSlots: 1, RunLimit: time.Hour, Host: nodes.Request{Slots: 1, GPU: nodes.GPURequest{Amount: 100}}}})
	}
	p.Allow(l, left)
	return p, l
}

const fgpuHour = 100 * 3_600_000

func allowed(from, to time.Duration, hours float64) Allowance {
	return Allowance{From: noon.Add(from), To: noon.Add(to), Left: int(hours * fgpuHour)}
}

func started(plan *Plan) (ids []queue.JobID) {
	for _, s := range plan.Starts {
		ids = append(ids, s.ID.Job)
	}
	return ids
}

func TestABudgetBoundsWhatStarts(t *testing.T) {
	month := 30 * 24 * time.Hour
	for _, c := range []struct {
		left []Allowance
		want int
	}{
		{nil, 6}, // a budget that is not in force
		{[]Allowance{allowed(-month, month, 2.5)}, 2},
		{[]Allowance{allowed(-month, month, 2)}, 2},
		{[]Allowance{allowed(-month, month, 0)}, 0},
		{[]Allowance{allowed(-month, 15*time.Minute, 1), allowed(15*time.Minute, month, 9)}, 4}, // a quarter of an hour of each in the first
		{[]Allowance{allowed(-month, 15*time.Minute, 9), allowed(15*time.Minute, month, 2)}, 2}, // three quarters in the second
		{[]Allowance{allowed(30*time.Minute, month, 1)}, 2},                                     // it begins in the midst
		{[]Allowance{{From: noon, To: noon.Add(month), Left: math.MaxInt}}, 6},
	} {
		p, _ := under(t, 3, Policy{Protected: 1}, 9, c.left...)
		if got := started(p.Plan(noon)); len(got) != c.want {
			t.Errorf("with %v left %v start, want %d", c.left, got, c.want)
		}
	}
}

// What ends gives nothing back, unlike a place under a limit: only who keeps the budget does.
func TestABudgetIsNotFreedByAnEnd(t *testing.T) {
	p, l := under(t, 3, Policy{Protected: 1}, 4, allowed(-time.Hour, 99*time.Hour, 2))
	if got := started(p.Plan(noon)); len(got) != 2 {
		t.Fatalf("start %v", got)
	}
	p.End(queue.ElementID{Job: 1}, noon.Add(time.Minute))
	if got := started(p.Plan(noon.Add(time.Minute))); len(got) != 0 {
		t.Errorf("after an end start %v", got)
	}
	if why := p.WhyJob(3); len(why) != 1 || why[0].Kind != queue.ReasonBudget {
		t.Errorf("waits for %v", why)
	}
	p.Allow(l, []Allowance{allowed(-time.Hour, 99*time.Hour, 1)})
	if got := started(p.Plan(noon.Add(2 * time.Minute))); len(got) != 1 {
		t.Errorf("with more allowed start %v", got)
	}
}

// A promise counts on what it will take: those behind it do not spend that. One that the budget does not let in holds no place.
func TestPromisesUnderABudget(t *testing.T) {
	p, l := under(t, 1, Policy{Protected: All}, 5, allowed(-time.Hour, 99*time.Hour, 3))
	if got := started(p.Plan(noon)); len(got) != 2 { // the GPU is full
		t.Fatalf("start %v", got)
	}
	if got := p.Promises(); len(got) != 1 || got[0].ID.Job != 3 {
		t.Errorf("promised %v, want job 3 alone", got)
	}
	p.Allow(l, []Allowance{allowed(-time.Hour, 99*time.Hour, 0)})
	p.Plan(noon.Add(time.Minute))
	if got := p.Promises(); len(got) != 0 {
		t.Errorf("with nothing left promised %v", got)
	}
}

// A forecast starts no more than the budget has, until the next period.
func TestAForecastUnderABudget(t *testing.T) {
	p, _ := under(t, 1, Policy{Protected: 1, Eager: true}, 5, allowed(-time.Hour, 4*time.Hour, 3), allowed(4*time.Hour, 99*time.Hour, 9))
	p.Plan(noon)
	f := Expect(p.Snapshot(), 100, 0)
	if at, ok := f.Starts[queue.ElementID{Job: 3}]; !ok || !at.Equal(noon.Add(time.Hour)) {
		t.Errorf("job 3 is expected %v %s", ok, at)
	}
	if at, ok := f.Starts[queue.ElementID{Job: 4}]; ok && at.Before(noon.Add(4*time.Hour)) {
		t.Errorf("job 4 is expected %s, when nothing is left", at)
	}
}

func TestAllowanceTakesNoMoreThanThereIs(t *testing.T) {
	a := allowance{from: instantOf(noon), to: instantOf(noon.Add(10 * 365 * 24 * time.Hour)), left: math.MaxInt}
	if got := a.takes(100_000_000_000, a.from, a.to); got != math.MaxInt {
		t.Errorf("%d", got)
	}
	if got := a.takes(1, a.from, a.from+1); got != 1 {
		t.Errorf("a nanosecond takes %d, want a millisecond", got)
	}
	if got := a.takes(1, a.from-instant(time.Hour), a.from); got != 0 {
		t.Errorf("time before it takes %d", got)
	}
}
