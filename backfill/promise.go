package backfill

import (
	"slices"

	"fairslice/nodes"
	"fairslice/queue"
)

// promise is a promised start. Its element is alone in a group of its own.
type promise struct {
	id    queue.ElementID
	group *group
	at    instant
	alloc []nodes.Allocation
	holds []hold
	// placed says that the holds are in the timelines; seen in which plan it was last served.
	placed bool
	seen   uint64

	// When it was last found that nothing earlier can be had: for which inventory, how often promises had been laid, and how
	// many hosts had been freed.
	looked          bool
	inventory, laid uint64
	freed           int
}

// promiseTo gives the head element of g the earliest start there is; nil when there is none that can be
// told (unless far ones are wanted too), or when a limit would be in its way by then.
func (p *Planner) promiseTo(g *group, far bool) *promise {
	at, alloc := p.earliest(g.class, never)
	if alloc == nil || !far && at-p.now >= foreseeable || !p.withinLimits(g, at, at.plus(g.class.length)) {
		return nil
	}
	i := g.head()
	one := i.pending
	one.Indices = []int{i.id().Index}
	g.class.groups++ // it may be its last element that leaves the group
	p.unlist(g)
	p.pop(g)
	p.relist(g)
	g.class.groups--
	pr := p.engage(g.class, one, at, alloc)
	pr.seen = p.plans
	p.lookedFor(pr)
	p.served(pr.group, alloc)
	return pr
}

// served tells that an element starts or is promised a start, so that its user's share counts it in the rest of this
// plan (openpbs#1661).
func (p *Planner) served(g *group, alloc []nodes.Allocation) {
	if p.Started != nil {
		who := Claimant{g.user, g.account}
		p.Started(who, g.class.shape, alloc)
		if p.Share != nil {
			p.user(who).share = p.Share(who)
		}
	}
}

// engage promises this start to an element, which is in no group.
func (p *Planner) engage(c *class, one Pending, at instant, alloc []nodes.Allocation) *promise {
	pr := &promise{id: queue.ElementID{Job: one.Job, Index: one.Indices[0]}}
	c.groups++
	pr.group = &group{class: c, user: one.User, account: one.Account, limits: one.Limits, promise: pr}
	pr.group.items = []*item{{pending: one, group: pr.group}}
	p.list(pr.group)
	for _, l := range one.Limits {
		l.promised = append(l.promised, pr)
	}
	p.promises[pr.id.Job] = append(p.promises[pr.id.Job], pr)
	p.lay(pr, at, alloc)
	return pr
}

// lay puts the promise into the timelines.
func (p *Planner) lay(pr *promise, at instant, alloc []nodes.Allocation) {
	p.laid++
	pr.at, pr.alloc, pr.placed = at, alloc, true
	pr.holds = pr.holds[:0]
	for i := range alloc {
		h := p.hostOf(pr.group.class, alloc[i].Node)
		pr.holds = append(pr.holds, h.hold(&alloc[i], at, at.plus(pr.group.class.length)))
		h.line.add(&pr.holds[i], p.now)
		p.claim(h, 1)
	}
}

// lift takes the promise out of the timelines; it is to be laid again, or dropped.
func (p *Planner) lift(pr *promise) {
	if !pr.placed {
		return
	}
	p.laid++
	for i := range pr.holds {
		x := &pr.holds[i]
		x.host.line.remove(x, p.now)
		p.claim(x.host, -1)
	}
	pr.placed = false
}

// unpromise ends a promise: its element is no longer in a group of its own, nor anywhere else.
func (p *Planner) unpromise(pr *promise) {
	p.lift(pr)
	g := pr.group
	p.unlist(g)
	g.items = nil
	p.relist(g)
	for _, l := range g.limits {
		l.promised = slices.DeleteFunc(l.promised, func(x *promise) bool { return x == pr })
	}
	left := slices.DeleteFunc(p.promises[pr.id.Job], func(x *promise) bool { return x == pr })
	if p.promises[pr.id.Job] = left; len(left) == 0 {
		delete(p.promises, pr.id.Job)
	}
}

// forget ends the promise of an element that no longer waits.
func (p *Planner) forget(pr *promise) {
	p.unpromise(pr)
	p.changed()
}

// withdraw ends the promise of an element that waits on: others come before it, or it could not use it.
func (p *Planner) withdraw(pr *promise) {
	one := pr.group.head().pending
	p.unpromise(pr)
	p.room++
	if i := p.items[pr.id.Job]; i != nil {
		rest := i.pending.Indices[i.first:]
		one.Indices = slices.Concat(one.Indices, rest)
		slices.Sort(one.Indices)
		p.drop(i)
	}
	p.put(&item{pending: one})
}

func (p *Planner) allPromises() []*promise {
	var out []*promise
	for _, list := range p.promises {
		out = append(out, list...)
	}
	return out
}

// stillFree says whether a place that an element of c was promised is free of others.
func (p *Planner) stillFree(c *class, at instant, alloc []nodes.Allocation) bool {
	for i := range alloc {
		h := p.hostOf(c, alloc[i].Node)
		if h == nil || h.node.State() != nodes.Up {
			return false
		}
		n := h.over(at, at.plus(c.length), -1).Clone()
		if n.Admits(alloc[i]) != nil || n.Take(alloc[i]) != nil {
			return false
		}
	}
	return true
}

// sooner says whether a promise could be laid earlier than it is. It answers only what is cheap to know; where it
// cannot tell, it says yes.
func (p *Planner) sooner(pr *promise) bool {
	if pr.at <= p.now {
		return true
	}
	if len(p.hosts) > 1 {
		return p.soonerOnFreed(pr)
	}
	if len(pr.holds) != 1 {
		return true
	}
	c := pr.group.class
	if !plain(&c.host) {
		return true
	}
	h := pr.holds[0].host
	h.line.trim(p.now)
	return h.line.sooner(p.now, c.length, pr.at, h.node.Slots-c.host.Slots) < pr.at
}

// hostOf is the host on which an element of c holds its part of a node.
func (p *Planner) hostOf(c *class, id nodes.ID) *host {
	return p.byID[hostKey{id, c.shape.Reservation}]
}

// lookedFor notes that no earlier start can be had now than a promise has.
func (p *Planner) lookedFor(pr *promise) {
	pr.looked, pr.inventory, pr.laid, pr.freed = true, p.inventory, p.laid, p.before+len(p.freed)
}

// soonerOnFreed is sooner for many hosts: an earlier start there now is one that uses a host on which something has been freed
// since, for all of the element or, where it may take several hosts, for a slot at least.
func (p *Planner) soonerOnFreed(pr *promise) bool {
	if !pr.looked || pr.inventory != p.inventory || pr.laid != p.laid || pr.freed < p.before {
		return true
	}
	c := pr.group.class
	r := c.host
	if c.spread {
		r, _ = c.slotOf()
	}
	cands := p.candidatesOf(c)
	for _, h := range p.freed[pr.freed-p.before:] {
		if slices.ContainsFunc(pr.holds, func(x hold) bool { return x.host == h }) {
			return true // where its own hold is in the way
		}
		if cands.has(h) && h.node.State() == nodes.Up && h.emptied().Fits(&r) && h.earliest(&r, p.now, c.length, pr.at, p.now) < pr.at {
			return true
		}
	}
	pr.freed = p.before + len(p.freed)
	return false
}
