package accounting

import (
	"math"
	"slices"
	"time"

	"fairslice/nodes"
)

// Tally is everybody's usage at one moment in one unit, slot-seconds: of charges that have faded, of work that runs, and of
// work that a cycle has decided to start. It reads its Usage when it is asked: nothing may be added to that while a
// Tally of it is in use.
type Tally struct {
	usage   *Usage
	now     time.Time
	number  int64
	part    float64
	weights Weights
	users   map[string]standing // those who hold something, and those who were asked for
	ranked  []float64           // the usage of all who have any, ascending; nil when it must be made
	total   float64             // of ranked
}

type standing struct {
	held  sum     // by work that runs or starts
	used  float64 // the answer of Of
	known bool    // used was worked out
}

// Weights say how much usage other than of slots counts, in slots: the work of one slot counts as 1. Each is 0 to MaxWeight;
// anything else counts as the nearer of the two.
type Weights struct {
	GPU    float64 // one fGPU; see GPUWeight
	Memory float64 // one GiB of a host's memory that is held; 0 and memory does not count
}

// MaxWeight bounds each of the Weights.
const MaxWeight = 1e6

func (w Weights) bounded() Weights { return Weights{bounded(w.GPU), bounded(w.Memory)} }

func bounded(weight float64) float64 {
	if !(weight > 0) { // also what is not a number
		return 0
	}
	return min(weight, MaxWeight)
}

// Weigh is x in slot-seconds.
func (w Weights) Weigh(x Used) float64 {
	return x.SlotSeconds + w.GPU*x.FGPUSeconds + w.Memory*x.GiBSeconds
}

// At begins a tally.
func (u *Usage) At(now time.Time, w Weights) *Tally {
	t := &Tally{usage: u, now: now, weights: w.bounded(), users: map[string]standing{}}
	t.number, t.part = u.period(now)
	return t
}

// GPUWeight is the weight by which the GPUs of a node count as much as its slots: the slots of all nodes that have GPUs,
// for each fGPU that they have. Half of a node's GPUs is then worth half of the node, however few cores come with it,
// and how many fGPU a site calls one GPU makes no difference. Nodes that are down count too, so that the weight does not
// change when one goes. Without any GPU it is 1.
func GPUWeight(all []*nodes.Node) float64 {
	var slots int
	var fgpu nodes.Amount
	for _, n := range all {
		var has nodes.Amount
		for i := range n.GPUs {
			has += n.GPUs[i].Capacity
		}
		if has > 0 && n.Slots > 0 {
			slots += n.Slots
			fgpu += has
		}
	}
	if fgpu == 0 {
		return 1
	}
	return min(float64(slots)/(float64(fgpu)/float64(nodes.OneFGPU)), MaxWeight)
}

// Holding is what work has of the resources that count.
type Holding struct {
	Slots  int
	FGPU   nodes.Amount
	Memory int64 // of hosts, in bytes
}

// HoldingOf is what allocations have.
func HoldingOf(alloc []nodes.Allocation) (h Holding) {
	for i := range alloc {
		h.Slots += alloc[i].Slots
		h.FGPU += alloc[i].FGPU()
		h.Memory += alloc[i].Memory
	}
	return h
}

// Hold counts work that has run since a time and still does: as if it were charged now, so undecayed. Work of the future
// or of no time counts as 0.
func (t *Tally) Hold(user string, h Holding, since time.Time) {
	if !since.IsZero() {
		t.Commit(user, h, t.now.Sub(since))
	}
}

// Commit counts work as if it had run for a time and were charged now. A cycle that counts what it starts, by the time
// that it is expected to run, gives the next place to the next user, and not all of them to one.
func (t *Tally) Commit(user string, h Holding, run time.Duration) {
	s := h.over(run)
	if s == (sum{}) {
		return
	}
	t.users[user] = standing{held: t.users[user].held.plus(s)}
	t.ranked = nil
}

// over is what holding h for a time uses.
func (h Holding) over(run time.Duration) sum {
	if run <= 0 {
		return sum{}
	}
	seconds := run.Seconds()
	return sum{count(float64(h.Slots) * seconds), count(float64(h.FGPU) / float64(nodes.OneFGPU) * seconds), count(float64(h.Memory) / (1 << 30) * seconds)}
}

// Of is a user's usage in slot-seconds, GPUs and memory by their weights. Who has used less goes first.
func (t *Tally) Of(user string) float64 {
	s := t.users[user]
	if !s.known {
		s.used = t.weights.Weigh(t.usage.users[user].at(t.number, t.part)) + t.weights.Weigh(s.held.used())
		s.known = true
		t.users[user] = s
	}
	return s.used
}

// Factor is a user's fair-share factor, 0 to 1, more for who has used less: the Fair Tree's rank, here of a tree of one
// level with equal shares. Of n users who have used something, the one with the k-th most has k/(n+1); all who have
// used nothing have 1. Users of equal usage have the better of their ranks. That of the heaviest of many is near 0, and
// it stays that of a rank: it says who goes first, not by how much.
func (t *Tally) Factor(user string) float64 {
	mine := t.Of(user)
	if mine == 0 {
		return 1
	}
	t.rank()
	less, _ := slices.BinarySearch(t.ranked, mine)
	return float64(len(t.ranked)-less) / float64(len(t.ranked)+1)
}

// Ratio is a user's usage by the mean of all who have used something: 1 is the fair share, 0 nothing. It is U/S of
// Slurm's classic factor 2^(-U/S) when shares are equal.
func (t *Tally) Ratio(user string) float64 {
	mine := t.Of(user)
	if mine == 0 {
		return 0
	}
	t.rank()
	return mine * float64(len(t.ranked)) / t.total
}

// rank sorts what all have used. The total is summed in that order, so that it does not depend on a map's.
func (t *Tally) rank() {
	if t.ranked != nil {
		return
	}
	t.ranked = make([]float64, 0, len(t.usage.users)+len(t.users))
	for user := range t.usage.users {
		t.ranked = append(t.ranked, t.Of(user))
	}
	for user := range t.users {
		if _, twice := t.usage.users[user]; !twice {
			t.ranked = append(t.ranked, t.Of(user))
		}
	}
	slices.Sort(t.ranked)
	first, _ := slices.BinarySearch(t.ranked, math.SmallestNonzeroFloat64)
	t.ranked = t.ranked[first:]
	t.total = 0
	for _, used := range t.ranked {
		t.total += used
	}
}
