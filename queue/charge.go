package queue

import (
	"cmp"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"fairslice/nodes"
)

// Charge is what an attempt cost and what it used of that; exactly one is recorded for each attempt, in the transaction that
// ends it. What an attempt holds does not change while it lives, so its cost is a whole amount times whole milliseconds, and
// sums of charges are exact. ChargeOf makes one, and says by which rules.
type Charge struct {
	User    string `json:"user"`
	Account string `json:"account,omitempty"` // resolved; empty only in what older versions wrote
	Queue   string `json:"queue"`
	Project string `json:"project,omitempty"`
	Image   string `json:"image,omitempty"`  // the SIF file; as asked for, if the command never ran; empty on the bare node
	Nodes   Parts  `json:"nodes,omitempty"`  // slots by node; the first runs the command
	Slices  Parts  `json:"slices,omitempty"` // 1/100 fGPU by the GPU's UUID

	Outcome Ending  `json:"outcome,omitempty"`
	Verdict Verdict `json:"verdict,omitempty"`

	// Held from Began, the dispatch, to Ended, both cut to milliseconds. Began is never after Ended; an attempt that the
	// clock makes end before its dispatch has Began = Ended, and costs nothing.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`

	Slots       int               `json:"slots,omitempty"`
	Memory      int64             `json:"memory,omitempty"` // bytes
	FGPU        nodes.Amount      `json:"fgpu,omitempty"`
	GPUs        int               `json:"gpus,omitempty"` // those of which it has all; they count in FGPU, too
	Consumables nodes.Consumables `json:"consumables,omitempty"`

	Suspended time.Duration `json:"suspended,omitempty"` // of the time that it was held; whole milliseconds
	Waited    time.Duration `json:"waited,omitempty"`    // before the dispatch, see Attempt.Waited; whole milliseconds
	RunLimit  time.Duration `json:"run_limit,omitempty"`

	// What was used, as the node measured it.
	CPU         time.Duration `json:"cpu"`
	MaxMemory   int64         `json:"max_memory"`            // bytes
	AvgMemory   int64         `json:"avg_memory,omitempty"`  // bytes
	GPUMemory   int64         `json:"gpu_memory,omitempty"`  // bytes; of that slice that held the most, see Usage.GPUTotal
	SMTime      time.Duration `json:"sm_time,omitempty"`     // GPU time: all of a GPU for a second is a second
	SMMeasured  time.Duration `json:"sm_measured,omitempty"` // how long SMTime was summed up, over all slices
	OldSlotTime float64       `json:"slot_seconds,omitempty"`
	OldFGPUTime float64       `json:"fgpu_seconds,omitempty"` // these two were all that older versions wrote, in seconds
}

// Ending is what became of an attempt.
type Ending string

// Endings. Older versions wrote none.
const (
	EndingDone     Ending = "done"     // the element ended as DONE
	EndingExit     Ending = "exit"     // the element ended as EXIT; Charge.Verdict says by what, if not by itself
	EndingRequeued Ending = "requeued" // brequeue, or a queue's rule: the element waits again
	EndingFailed   Ending = "failed"   // the command never ran, for no fault of the job; the element waits again
	EndingLost     Ending = "lost"     // with its node, shepherd or GPU; the element waits again
)

// ChargeOf is what the live attempt of el costs when it ends now: also what a running one has cost so far.
//
// All that the attempt holds is charged from dispatch to end, so that nobody holds resources for free:
//
//   - Suspended time is charged, as the slices stay held; it is also kept apart, in Suspended.
//   - Each attempt is charged by itself: one that is requeued, killed by an administrator or lost costs what it held until
//     that moment, and the next one begins at 0.
//   - On a lost node an attempt holds its resources until the loss is settled (it ends, waits again, or is found), and is
//     charged until then.
//   - What never started is not charged.
//   - A clock that was set back gives no negative time: see Charge.Began.
func ChargeOf(j *Job, el *Element, u Usage, now time.Time) *Charge {
	a := el.Attempt
	c := &Charge{
		User: j.Owner.User, Account: a.Account, Queue: j.Queue, Project: j.Spec.Project, Image: cmp.Or(a.Image, j.Spec.Image),
		Ended: now.Truncate(time.Millisecond), Began: a.Dispatched.Truncate(time.Millisecond),
		Waited: a.Waited.Truncate(time.Millisecond), RunLimit: a.RunLimit,
		CPU: u.CPU, MaxMemory: u.MaxMemory, AvgMemory: u.AvgMemory,
	}
	if c.Account == "" {
		c.Account = AccountOf(j)
	}
	if c.Began.After(c.Ended) {
		c.Began = c.Ended
	}
	stopped := a.Stopped
	if el.State == USusp || el.State == SSusp {
		stopped += max(now.Sub(el.Since), 0)
	}
	c.Suspended = min(stopped.Truncate(time.Millisecond), c.Ended.Sub(c.Began))
	for i := range a.Alloc {
		c.hold(&a.Alloc[i])
	}
	gpu := u.GPUTotal()
	c.GPUMemory, c.SMTime, c.SMMeasured = gpu.MaxMemory, gpu.SMTime, gpu.Measured
	return c
}

// DefaultAccount is charged where neither the job nor the site's policy names another.
const DefaultAccount = "default"

// AccountOf is the account of a job in the absence of a policy.
func AccountOf(j *Job) string {
	if j.Spec.Account != "" {
		return j.Spec.Account
	}
	return DefaultAccount
}

func (c *Charge) hold(a *nodes.Allocation) {
	c.Slots += a.Slots
	c.Memory += a.Memory
	c.FGPU += a.FGPU()
	c.GPUs += a.WholeGPUs()
	c.Consumables = c.Consumables.Plus(a.Consumables)
	c.Nodes = c.Nodes.With(string(a.Node), int64(a.Slots))
	for i := range a.Slices {
		s := &a.Slices[i]
		c.Slices = c.Slices.With(s.UUID, int64(s.Amount))
	}
}

// Millis is how long the attempt held what it did, in milliseconds; never negative.
func (c *Charge) Millis() int64 {
	if c.Began.IsZero() { // an older version's, of a command that never ran
		return 0
	}
	return max(c.Ended.UnixMilli()-c.Began.UnixMilli(), 0)
}

// old says that an older version wrote c: what it held is only known times its seconds.
func (c *Charge) old() bool { return c.Slots == 0 && (c.OldSlotTime > 0 || c.OldFGPUTime > 0) }

// SlotMillis is slots times milliseconds. Like the other products it stays at the most that an int64 holds, where the true
// one is greater: 10^6 GPUs for ten years are, in FGPUMillis. The database sums without a bound.
func (c *Charge) SlotMillis() int64 {
	if c.old() {
		return millis(c.OldSlotTime)
	}
	return product(int64(c.Slots), c.Millis())
}

// FGPUMillis is 1/100 fGPU times milliseconds.
func (c *Charge) FGPUMillis() int64 {
	if c.old() {
		return millis(c.OldFGPUTime * float64(nodes.OneFGPU))
	}
	return product(int64(c.FGPU), c.Millis())
}

// GPUMillis is whole GPUs times milliseconds; of older versions' charges it is 0.
func (c *Charge) GPUMillis() int64 { return product(int64(c.GPUs), c.Millis()) }

// MemoryMiB is the memory that was held, in MiB, rounded up.
func (c *Charge) MemoryMiB() int64 {
	n := c.Memory / mib
	if c.Memory%mib > 0 {
		n++
	}
	return n
}

// MemoryMiBMillis is MiB times milliseconds; of older versions' charges it is 0.
func (c *Charge) MemoryMiBMillis() int64 { return product(c.MemoryMiB(), c.Millis()) }

// SlotSeconds is SlotMillis in seconds.
func (c *Charge) SlotSeconds() float64 {
	if c.old() {
		return c.OldSlotTime
	}
	return float64(c.SlotMillis()) / 1000
}

// GiBSeconds is the memory of hosts that was held, in GiB times seconds; of older versions' charges it is 0. Unlike MemoryMiBMillis
// it is of what was held to the byte, as fair share counts what still runs.
func (c *Charge) GiBSeconds() float64 {
	return float64(c.Memory) / (1 << 30) * float64(c.Millis()) / 1000
}

// FGPUSeconds is fGPU times seconds.
func (c *Charge) FGPUSeconds() float64 {
	if c.old() {
		return c.OldFGPUTime
	}
	return float64(c.FGPUMillis()) / float64(nodes.OneFGPU) / 1000
}

func millis(seconds float64) int64 {
	switch ms := math.Round(seconds * 1000); {
	case !(ms > 0): // also what is not a number
		return 0
	case ms >= math.MaxInt64:
		return math.MaxInt64
	default:
		return int64(ms)
	}
}

// product of two amounts; negative ones count as 0.
func product(a, b int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	if high, low := bits.Mul64(uint64(a), uint64(b)); high == 0 && low <= math.MaxInt64 {
		return int64(low)
	}
	return math.MaxInt64
}

// Parts is how much of each of several things was held, "n1=4,n2=2". It is text, as nodes.Consumables is, so that a
// Charge can be compared and has one column for it; unlike that it keeps the order.
type Parts string

// With adds one part. A "," in a name, which would end it, becomes "_".
func (p Parts) With(name string, amount int64) Parts {
	if p != "" {
		p += ","
	}
	return p + Parts(strings.ReplaceAll(name, ",", "_")) + "=" + Parts(strconv.FormatInt(amount, 10))
}

// Each calls fn for every part, in order. What is no part is left out.
func (p Parts) Each(fn func(name string, amount int64)) {
	for _, part := range strings.Split(string(p), ",") {
		if i := strings.LastIndexByte(part, '='); i > 0 {
			if n, err := strconv.ParseInt(part[i+1:], 10, 64); err == nil {
				fn(part[:i], n)
			}
		}
	}
}

// Names of the parts, in order.
func (p Parts) Names() (names []string) {
	p.Each(func(name string, _ int64) { names = append(names, name) })
	return names
}
