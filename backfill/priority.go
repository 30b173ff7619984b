package backfill

import (
	"math"

	"fairslice/queue"
)

// Priority is what decides when the next element of a job is served, as of now: the parts of its key in the Order, which add
// up to it. False for a job of which nothing waits.
func (p *Planner) Priority(id queue.JobID) (queue.Priority, bool) {
	i := p.waitingOf(id)
	if i == nil {
		return queue.Priority{}, false
	}
	out := queue.PriorityOf(i.pending.Shape)
	f := p.asked(i)
	switch order := p.policy.Order.(type) {
	case fairShare:
		out.Parts = []queue.PriorityPart{term("fair share", 1, f.user.share)}
	case xfactor:
		out.Parts = []queue.PriorityPart{term("xfactor", 1, order.key(&f, p.now))}
	case Weighted:
		out.Parts, out.Late = order.parts(&f, p.now), order.late(&f, p.now)
	}
	for _, x := range out.Parts {
		out.Total += x.Points
	}
	return out, true
}

// asked are the facts of an item as they were before the plan served anybody: what it starts and promises counts, for the
// rest of that plan, as if it had been used.
func (p *Planner) asked(i *item) facts {
	f := p.factsOf(i)
	u := *f.user
	u.share, f.user = u.began, &u
	return f
}

func term(name string, weight, factor float64) queue.PriorityPart {
	return queue.PriorityPart{Name: name, Weight: weight, Factor: factor, Points: weight * factor}
}

// parts are the terms of key, without those of no weight.
func (w Weighted) parts(f *facts, now instant) []queue.PriorityPart {
	wait, guard := f.wait(now), w.guard()
	var out []queue.PriorityPart
	add := func(name string, weight, factor float64) {
		if weight != 0 {
			out = append(out, term(name, weight, factor))
		}
	}
	add("fair share", w.FairShare, f.user.share)
	add("age", w.Age, min(wait/guard, 1))
	add("size", w.Size, 1/max(f.size, 1))
	add("xfactor", w.Response, response(f, wait, guard))
	return out
}

// guard is Guard in seconds, without bound for none.
func (w Weighted) guard() float64 {
	if w.Guard <= 0 {
		return math.Inf(1)
	}
	return w.Guard.Seconds()
}

// late says that an element has waited beyond its guard.
func (w Weighted) late(f *facts, now instant) bool {
	return f.wait(now) > w.guard()*(1-f.share/2)+1.5*min(f.limit, longestGuarded)+f.met/3
}

// response is the factor of Response.
func response(f *facts, wait, guard float64) float64 {
	soft := wait / (0.8 * guard)
	x := (wait + 900) / (max(f.length, 1) * math.Sqrt(f.size)) * (1 + soft*soft)
	return x / (1 + x)
}
