package backfill

import (
	"cmp"
	"time"
)

// Order says which of two waiting elements is served first. The priority of its shape always comes before it, and
// between equals the one that came first.
type Order interface {
	// static says that the order of two elements never changes; compare then gives it.
	static() bool
	compare(a, b *item) int
	// key says by how much an element comes first, for orders that change with time. For two elements of one
	// user and shape the one that came first has at least the key of the other.
	key(f *facts, now instant) float64
}

// facts are what a key depends on. Times are in seconds.
type facts struct {
	submitted instant
	limit     float64 // the run limit
	length    float64 // how long elements like it run as a rule
	version   uint64  // of the user's history when length was worked out
	size      float64 // slots, or the share of all GPUs in slots if that is more
	share     float64 // of the cluster: size by all slots
	met       float64 // how long the cluster would have taken for what waited when it was submitted
	user      *user
}

// user is what the planner knows of a Claimant.
type user struct {
	share   float64
	began   float64 // share before the plan served anybody: what his turn is by, for those who ask
	version uint64  // of what the predictor knows of him
}

func (p *Planner) factsOf(i *item) facts {
	j := &i.pending
	f := facts{submitted: instantOf(j.Submitted), met: j.Met.Seconds(), user: p.user(j.claimant())}
	f.size, f.share = p.size(j.Shape)
	f.estimate(p.Predictor, i.group)
	return f
}

// estimate works out how long elements of g run.
func (f *facts) estimate(p *Predictor, g *group) {
	f.limit = longest
	if s := g.class.shape; s.RunLimit > 0 {
		f.limit = s.RunLimit.Seconds()
	}
	f.length = f.limit
	if p == nil {
		return
	}
	f.version = p.version(g.user)
	f.length = p.typical(g.user, g.class.shape)
}

// longest stands for the run limit of what has none: a year.
const longest = 365 * 24 * 3600

func (f *facts) wait(now instant) float64 {
	return max(time.Duration(now-f.submitted).Seconds(), 0)
}

// FCFS is first come, first served.
var FCFS Order = fcfs{}

// SJF is shortest job first, by run limit.
var SJF Order = sjf{}

// XFactor is largest expansion factor first: (wait + run limit) / run limit.
var XFactor Order = xfactor{}

// FairShare serves the user first whose Planner.Share is greatest.
var FairShare Order = fairShare{}

type fcfs struct{}

func (fcfs) static() bool                      { return true }
func (fcfs) key(f *facts, now instant) float64 { return 0 }
func (fcfs) compare(a, b *item) int {
	return cmp.Or(cmp.Compare(b.pending.Shape.Priority, a.pending.Shape.Priority), compareItems(a, b))
}

type sjf struct{}

func (sjf) static() bool                      { return true }
func (sjf) key(f *facts, now instant) float64 { return 0 }
func (sjf) compare(a, b *item) int {
	return cmp.Or(cmp.Compare(b.pending.Shape.Priority, a.pending.Shape.Priority),
		cmp.Compare(a.group.class.length, b.group.class.length), compareItems(a, b))
}

// changing is the part of an order that changes with time.
type changing struct{}

func (changing) static() bool           { return false }
func (changing) compare(a, b *item) int { return compareItems(a, b) }

type xfactor struct{ changing }

func (xfactor) key(f *facts, now instant) float64 { return f.wait(now) / f.limit }

type fairShare struct{ changing }

func (fairShare) key(f *facts, now instant) float64 { return f.user.share }

// Weighted adds factors from 0 to 1, each times its weight: additive, so that one factor of 0 hides no other. Whoever
// has waited too long comes before all others, in the order of submission: so nobody starves.
type Weighted struct {
	changing
	FairShare float64 // of Planner.Share, which must then be from 0 to 1
	Age       float64 // of the wait in shares of Guard, at most 1
	Size      float64 // of the size n in slots: 1/n, so that small ones come first
	// Response is the weight of x/(1+x), where x is by how much the element suffers from its wait:
	//
	//	x = (wait + 900 s) / (length √size) · (1 + (wait / 0.8 Guard)²)
	//
	// The length is how long elements like it run as a rule (Predictor), or else the run limit.
	Response float64
	// Guard says how long an element waits before it comes before all others: Guard, or half of it for one that needs
	// the whole cluster, and 1½ run limits, and a third of the time that the cluster would have taken for what waited
	// when it was submitted. 0 means that none ever does.
	Guard time.Duration
}

// Responsive is the default order. See doc.go for how it was found.
var Responsive Order = Weighted{Response: 1, Guard: 60 * time.Hour}

// longestGuarded bounds the run limit in the guard, for elements that have none or an absurd one: a week.
const longestGuarded = 7 * 24 * 3600

func (w Weighted) key(f *facts, now instant) float64 {
	wait, guard := f.wait(now), w.guard()
	if w.late(f, now) {
		return aged - 1/(1+wait)
	}
	key := w.FairShare*f.user.share + w.Age*min(wait/guard, 1) + w.Size/max(f.size, 1)
	if w.Response > 0 {
		key += w.Response * response(f, wait, guard)
	}
	return key
}

// aged is more than any sum of weights, which the configuration bounds.
const aged = 1e9
