package backfill

import (
	"slices"
	"time"
)

// Plan decides what starts at now, which must not be before that of the plan before. The starts have begun as far as
// the planner is concerned: one that is refused must be ended and added again.
func (p *Planner) Plan(now time.Time) *Plan {
	p.now = max(p.now, instantOf(now))
	p.settle()
	p.turned()
	p.plans++
	plan := &Plan{}
	for who, u := range p.users {
		p.refresh(who, u)
	}
	laid := p.laid
	p.planning = true
	p.serve(plan)
	p.planning = false
	p.moved = p.policy.Protected > 1 && p.laid != laid
	p.open = plan.Bounded || p.policy.Eager && p.moved
	p.lost = false
	return plan
}

// Promises are the promised starts, in the order of their elements' jobs.
func (p *Planner) Promises() []Promise { return p.promisesAs(false) }

// promisesAs lists the promises; unplaced ones, that are to be laid again, only if they are asked for.
func (p *Planner) promisesAs(unplaced bool) []Promise {
	out := make([]Promise, 0, len(p.promises))
	for _, pr := range p.allPromises() {
		if pr.placed || unplaced {
			out = append(out, Promise{ID: pr.id, At: pr.at.time(p.location), Alloc: pr.alloc})
		}
	}
	slices.SortFunc(out, func(a, b Promise) int { return compareIDs(a.ID, b.ID) })
	return out
}

// NextPromise is when the next promised start after the last plan is due: a plan is needed then even if nothing
// ends or comes, since what held its place may have been moved since. The zero time when there is none.
func (p *Planner) NextPromise() time.Time {
	next := instant(never)
	for _, list := range p.promises {
		for _, pr := range list {
			if pr.placed && pr.at > p.now {
				next = min(next, pr.at)
			}
		}
	}
	return next.time(p.location)
}

// serve serves the elements in order: who does not fit is promised a start, until the policy's number of them
// is protected; those behind them start if they break no promise.
func (p *Planner) serve(plan *Plan) {
	if p.lost {
		for _, pr := range p.allPromises() {
			p.lift(pr)
		}
		p.room++
	}
	ahead := 0 // promises not yet met, that hold places
	for _, list := range p.promises {
		ahead += len(list)
	}
	p.blocker = nil
	p.sequence.begin(p)
	most := max(p.policy.Protected, 1)
	mostFar := min(most, 64) + 3
	for protected, far := 0, 0; protected < most && (far < mostFar || most == All); {
		g := p.sequence.next()
		if g == nil {
			break
		}
		if p.exhausted(plan) {
			return
		}
		if g.promise != nil {
			if g.promise.seen == p.plans {
				continue // it was given in this plan
			}
			ahead--
			if p.keep(plan, g) {
				p.protect(g.promise, &protected, &far)
				p.served(g, g.promise.alloc)
			}
			continue
		}
		if !p.mayStart(g) || !p.possible(g.class) || !p.windowFits(g.class) {
			continue
		}
		if ahead > 0 && p.policy.Protected > 0 {
			p.liftUnseen() // it comes before them in order
		}
		if p.start(plan, g) || g.over == p.plans {
			continue
		}
		if p.policy.Protected == 0 {
			p.blocker = g // nothing passes it
			return
		}
		if pr := p.promiseTo(g, far < mostFar); pr != nil {
			p.protect(pr, &protected, &far)
		}
	}
	p.withdrawUnseen()
	if p.policy.Protected == All {
		return
	}
	behind := p.sequence
	if p.second != nil {
		behind = p.second
		behind.begin(p)
	}
	narrow := func() {
		p.narrowed++
		behind.narrow(func(c *class) bool {
			if c.narrowed != p.narrowed {
				c.narrowed, c.may = p.narrowed, p.mayFit(c)
			}
			return c.may
		})
	}
	narrow()
	started, refused := false, 0
	for g := behind.next(); g != nil; g = behind.next() {
		if g.promise != nil || g.class.refused == p.room || !p.mayStart(g) {
			continue
		}
		if p.exhausted(plan) {
			return
		}
		switch {
		case p.start(plan, g):
			started, refused = true, 0
		case started:
			if refused++; refused == many { // what was free has been taken: most of those left need not be asked
				narrow()
				started, refused = false, 0
			}
		}
	}
}

// endOf is when an element of c that starts now ends at the latest: at its run limit, or with the window it runs in.
func (p *Planner) endOf(c *class) instant {
	if c.shape.RunLimit <= 0 && c.shape.Reservation != "" {
		if w := p.windows[c.shape.Reservation]; w != nil {
			for _, s := range w.Spans {
				if instantOf(s.Begin) <= p.now && p.now < instantOf(s.End) {
					return instantOf(s.End)
				}
			}
		}
	}
	return p.now.plus(c.length)
}

// told is endOf as others are told it: never, for what has no end.
func (p *Planner) told(c *class) time.Time {
	if c.shape.RunLimit <= 0 && c.shape.Reservation == "" {
		return time.Time{}
	}
	return p.endOf(c).time(p.location)
}

// many classes refused one after the other after a start say that it is worth leaving out all that cannot start.
const many = 8

// protect counts a promise. One that waits for the end of what has no run limit keeps others from passing it where it
// waits, but does not take the place of one whose start can be told. Of those there are a few more at most: where nobody
// has a run limit, everyone who waits has such a one.
func (p *Planner) protect(pr *promise, protected, far *int) {
	if pr.at-p.now < foreseeable {
		*protected++
	} else {
		*far++
	}
}

func (p *Planner) exhausted(plan *Plan) bool {
	if p.policy.MaxLooks > 0 && plan.Looks >= p.policy.MaxLooks || p.policy.MaxStarts > 0 && len(plan.Starts) >= p.policy.MaxStarts {
		plan.Bounded = true
	}
	return plan.Bounded
}

// keep serves an element that holds a promise: it starts, or keeps its promise, perhaps for an earlier time.
// False means that it no longer needs to be protected.
func (p *Planner) keep(plan *Plan, g *group) bool {
	pr := g.promise
	pr.seen = p.plans
	if at := max(pr.at, p.now); !p.withinLimits(g, at, at.plus(g.class.length)) {
		p.withdraw(pr)
		return false
	}
	if pr.placed && pr.at > p.now && (!p.open || !p.sooner(pr)) {
		return true
	}
	at, alloc, laid, placed := pr.at, pr.alloc, p.laid, pr.placed
	p.lift(pr)
	p.room++
	if p.start(plan, g) {
		return false
	}
	if g.over == p.plans {
		p.withdraw(pr)
		return false
	}
	limit, stays := never, at > p.now && p.stillFree(g.class, at, alloc)
	if stays {
		limit = at
	}
	sooner, there := p.earliest(g.class, limit)
	switch {
	case stays && there == nil: // it stays where it was
		p.lay(pr, at, alloc)
		if placed {
			p.laid = laid
		}
		p.lookedFor(pr)
	case there == nil:
		p.withdraw(pr)
		return false
	default:
		p.lay(pr, sooner, there)
		p.lookedFor(pr)
	}
	return true
}

// liftUnseen takes out the promises that have not been met in this plan.
func (p *Planner) liftUnseen() {
	for _, pr := range p.allPromises() {
		if pr.seen != p.plans && pr.placed {
			p.lift(pr)
			p.room++
		}
	}
}

// withdrawUnseen ends the promises of those who are no longer among the protected.
func (p *Planner) withdrawUnseen() {
	if p.policy.Protected == All {
		return
	}
	for _, pr := range p.allPromises() {
		if pr.seen != p.plans {
			p.withdraw(pr)
		}
	}
}

// start starts the head element of g, if it can.
func (p *Planner) start(plan *Plan, g *group) bool {
	c := g.class
	if g.promise == nil && c.refused == p.room {
		return false
	}
	plan.Looks++
	p.settle()
	alloc := p.place(c, g)
	if alloc == nil {
		if g.promise == nil {
			c.refused = p.room
		}
		return false
	}
	if !p.admits(g, alloc) {
		return false
	}
	i := g.head()
	id := i.id()
	p.waiting -= work(c.shape, 1)
	r := Running{ID: id, Alloc: alloc, Window: c.shape.Reservation, User: g.user, Limits: g.limits}
	p.begin(r, p.endOf(c))
	p.spend(g, &r, p.endOf(c))
	p.served(g, alloc)
	plan.Starts = append(plan.Starts, Start{ID: id, Shape: c.shape, Alloc: alloc, Ends: p.told(c)})
	if pr := g.promise; pr != nil {
		p.unpromise(pr)
		return true
	}
	p.unlist(g)
	p.pop(g)
	p.relist(g)
	return true
}
