package backfill

import (
	"cmp"
	"math"
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

// facts are what a key depends on.
type facts struct {
	submitted instant
	limit     float64 // seconds; the run limit
	length    float64 // seconds; how long it is expected to run
	version   uint64  // of the user's history when length was worked out
	slots     float64
	user      *user
}

// user is what the planner knows of one.
type user struct {
	share   float64
	version uint64 // of what the predictor knows of him
}

// estimate works out how long elements of g will run.
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
	if d := p.Estimate(g.user, g.class.shape); d > 0 {
		f.length = d.Seconds()
	}
}

// longest stands for the run time of what has no limit: a year.
const longest = 365 * 24 * 3600

// wait is in seconds.
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

// Weighted adds factors from 0 to 1, each times its weight: additive, so that one factor of 0 hides no other.
type Weighted struct {
	changing
	FairShare float64 // of Planner.Share, which must then be from 0 to 1
	Age       float64 // of the wait in shares of Guard, at most 1
	Size      float64 // of the slots: n/(n+1), so that large ones come first
	// Response is the weight of x/(1+x), where x = wait/length * (1 + (wait/Guard)²): the expansion factor by the time
	// that the element is expected to run, which grows without bound for whoever waits longer than Guard.
	Response float64
	Guard    time.Duration
}

// Responsive is the default order: see doc.go.
var Responsive Order = Weighted{Response: 1, Guard: 24 * time.Hour}

func (w Weighted) key(f *facts, now instant) float64 {
	wait, guard := f.wait(now), w.Guard.Seconds()
	if guard <= 0 {
		guard = math.Inf(1)
	}
	aged := wait / guard
	key := w.FairShare*f.user.share + w.Age*min(aged, 1) + w.Size*f.slots/(f.slots+1)
	if w.Response > 0 {
		x := wait / max(f.length, 1) * (1 + aged*aged)
		key += w.Response * x / (1 + x)
	}
	return key
}
