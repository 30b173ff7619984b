package backfill

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"fairslice/queue"
)

// Allowance is what may still be spent under a Limit in a stretch of time: of what its Measure counts, times milliseconds.
type Allowance struct {
	From, To time.Time
	Left     int
}

// allowance is an Allowance, and what starts have taken of it since Allow.
type allowance struct {
	from, to instant
	left     int
	taken    int
}

// Allow makes l a budget: not what runs at once is bounded, but what starts and promises take, each until its run limit, of
// what is left in these stretches of time, which do not overlap. Time that is in none of them is free. What runs already is
// not counted: who calls has taken it off. Whoever keeps the budget calls it before each plan; Max then counts for nothing.
func (p *Planner) Allow(l *Limit, list []Allowance) {
	more := len(list) != len(l.allowed)
	next := make([]allowance, len(list))
	for i, a := range list {
		next[i] = allowance{from: instantOf(a.From), to: instantOf(a.To), left: a.Left}
		more = more || next[i].from != l.allowed[i].from || a.Left > l.allowed[i].left-l.allowed[i].taken
	}
	l.budget, l.allowed = true, next
	if more {
		p.changed()
	}
}

// takes is what so much of a measure, held from..to, takes of a. It is rounded up to milliseconds, and stays at the most that
// there is: whoever keeps the budget looks again, exactly.
func (a *allowance) takes(amount int, from, to instant) int {
	held := min(to, a.to) - max(from, a.from)
	if amount <= 0 || held <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(amount), uint64((held+instant(time.Millisecond)-1)/instant(time.Millisecond)))
	if high > 0 || low > math.MaxInt {
		return math.MaxInt
	}
	return int(low)
}

// affords says whether so much of l's measure may be held from..to, besides what starts have taken, and what promises that have
// been met in this plan will, but for one. Unlike a place under a limit, what has been spent does not come back.
func (p *Planner) affords(l *Limit, except *promise, amount int, from, to instant) bool {
	for i := range l.allowed {
		a := &l.allowed[i]
		need := a.takes(amount, from, to)
		if need == 0 {
			continue
		}
		left := a.left - a.taken
		for _, pr := range l.promised {
			if c := pr.group.class; pr != except && pr.seen == p.plans {
				left -= a.takes(p.least(l, c), pr.at, pr.at.plus(c.length))
			}
		}
		if need > left {
			return false
		}
	}
	return true
}

// until is when what g would hold from a moment on ends for its budgets: without a run limit, with the window that it runs in.
func (p *Planner) until(g *group, from instant) instant {
	if from == p.now {
		return p.endOf(g.class)
	}
	return from.plus(g.class.length)
}

// spend takes what a start holds off the budgets.
func (p *Planner) spend(g *group, r *Running, ends instant) {
	for _, l := range g.limits {
		for i := range l.allowed {
			a := &l.allowed[i]
			x := a.takes(l.Of.Sum(r.Alloc), p.now, ends)
			a.taken += min(x, math.MaxInt-a.taken)
		}
	}
}

// unaffordable is the reason for which a budget keeps somebody out, who would have been let in by what is spent and runs.
func (l *Limit) unaffordable() queue.Reason {
	return queue.Reason{Kind: queue.ReasonBudget, Text: fmt.Sprintf("%s: what others before it are to take leaves too little of it", l.Name)}
}

// clone is l with nobody under it yet.
func (l *Limit) clone() *Limit {
	return &Limit{Max: l.Max, Of: l.Of, Name: l.Name, budget: l.budget, allowed: slices.Clone(l.allowed)}
}
