package backfill

import (
	"cmp"
	"slices"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// Make works out the plan for s.
func Make(s *Snapshot) *Plan {
	p := &planner{s: s, plan: &Plan{Waits: map[queue.Shape]Wait{}}, candidates: map[selection]*candidates{}}
	slices.SortFunc(s.Nodes, func(a, b *nodes.Node) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Running, func(a, b Running) int { return compareEnds(a.Ends, b.Ends, a.ID, b.ID) })
	for _, pend := range s.Pending {
		if !p.serve(pend) {
			p.plan.Bounded = true
			break
		}
	}
	p.forecast()
	return p.plan
}

type planner struct {
	s    *Snapshot
	plan *Plan
	// started are this plan's own starts as running ones, so that forecasts see them.
	started []Running
	// future is how the nodes will be at the promised start, with the promise taken out.
	future map[nodes.ID]*nodes.Node
	// promised is when: set together with future.
	promised time.Time
	// candidates caches the nodes that Select lets a class use.
	candidates map[selection]*candidates
	blocked    []blocked // classes in the order in which they were found not to fit
	// ends are Running and started together, by their ends; made anew when started has grown.
	ends []Running
	// last is where the last start went, if it was one host: see again.
	last struct {
		shape queue.Shape
		node  *nodes.Node
	}
}

type blocked struct {
	id    queue.ElementID
	shape *queue.Shape
}

// serve starts what it can of one job; false means that a bound is reached.
func (p *planner) serve(pend Pending) bool {
	if _, done := p.plan.Waits[*pend.Shape]; done {
		return true // an element of this class did not fit, so none does
	}
	for _, index := range pend.Indices {
		if p.s.MaxLooks > 0 && p.plan.Looks >= p.s.MaxLooks || p.s.MaxStarts > 0 && len(p.plan.Starts) >= p.s.MaxStarts {
			return false
		}
		p.plan.Looks++
		if !pend.withinLimits() {
			return true
		}
		id := queue.ElementID{Job: pend.Job, Index: index}
		if !p.start(id, pend.Shape) {
			return true
		}
		pend.count()
	}
	return true
}

func (p *Pending) withinLimits() bool {
	for _, left := range p.SlotLimits {
		if *left < p.Shape.Slots {
			return false
		}
	}
	return p.ElementLimit == nil || *p.ElementLimit > 0
}

func (p *Pending) count() {
	for _, left := range p.SlotLimits {
		*left -= p.Shape.Slots
	}
	if p.ElementLimit != nil {
		*p.ElementLimit--
	}
}

// start tries to start one element; false means that its class is blocked, and why is noted.
func (p *planner) start(id queue.ElementID, shape *queue.Shape) bool {
	cands := p.candidatesOf(shape)
	ends := p.endOf(shape)
	allowed := func(a nodes.Allocation) bool { return p.keepsPromise(a, ends) }
	alloc, reasons := p.again(shape, allowed), []queue.Reason(nil)
	if alloc == nil {
		alloc, reasons = place(cands.list, shape, allowed)
	}
	if alloc == nil {
		p.block(id, shape, cands, reasons)
		return false
	}
	if p.last.node = nil; len(alloc) == 1 {
		p.last.shape, p.last.node = *shape, p.node(alloc[0].Node)
	}
	for _, a := range alloc {
		if err := p.node(a.Node).Take(a); err != nil {
			panic("internal error: impossible: a placed allocation is not free: " + err.Error())
		}
		if p.future != nil && !endsBy(ends, p.promised) {
			if err := p.future[a.Node].Take(a); err != nil {
				panic("internal error: impossible: a start breaks the promise: " + err.Error())
			}
		}
	}
	p.plan.Starts = append(p.plan.Starts, Start{ID: id, Shape: shape, Alloc: alloc})
	p.started = append(p.started, Running{ID: id, Alloc: alloc, Ends: ends})
	return true
}

// again places an element where the one of the same class just went. Nothing else has changed since, so what
// was left with least then is left with least now, and the other nodes need not be looked at.
func (p *planner) again(shape *queue.Shape, allowed func(nodes.Allocation) bool) []nodes.Allocation {
	n := p.last.node
	if n == nil || p.last.shape != *shape {
		return nil
	}
	r := oneHost(shape)
	if n.Fit(r) != nil {
		return nil
	}
	if a := probe(n, r); a.Slots == shape.Slots && allowed(a) {
		return []nodes.Allocation{a}
	}
	return nil
}

// keepsPromise says whether an allocation that lasts until ends leaves the promised start possible.
func (p *planner) keepsPromise(a nodes.Allocation, ends time.Time) bool {
	if p.future == nil || endsBy(ends, p.promised) {
		return true
	}
	f := p.future[a.Node]
	if f == nil {
		return false
	}
	if err := f.Take(a); err != nil {
		return false
	}
	f.Release(a)
	return true
}

// block notes why a class waits, and gives the first one that could ever run the promise.
func (p *planner) block(id queue.ElementID, shape *queue.Shape, cands *candidates, reasons []queue.Reason) {
	if possible, why := everFits(shape, cands); !possible {
		p.plan.Waits[*shape] = Wait{Reasons: why}
		return
	}
	p.plan.Waits[*shape] = Wait{Reasons: reasons}
	p.blocked = append(p.blocked, blocked{id, shape})
	if p.future != nil {
		return
	}
	at, alloc := p.earliest(shape, cands)
	if alloc == nil {
		return // running elements without a limit never make room: no promise can be given
	}
	p.future, p.promised = p.nodesAt(at), at
	r := &Reservation{ID: id, At: at}
	for _, a := range alloc {
		if err := p.future[a.Node].Take(a); err != nil {
			panic("internal error: impossible: a promise is not free: " + err.Error())
		}
		r.Nodes = append(r.Nodes, a.Node)
	}
	p.plan.Reserved = r
}

// forecast works out expected starts for the blocked classes: the promised one exactly, the others
// as if nobody pending were before them, so never too late and possibly too early.
func (p *planner) forecast() {
	for i, b := range p.blocked {
		w := p.plan.Waits[*b.shape]
		switch {
		case p.plan.Reserved != nil && p.plan.Reserved.ID == b.id:
			w.Expected = p.plan.Reserved.At
		case p.s.MaxForecasts > 0 && i >= p.s.MaxForecasts:
			return
		default:
			at, _ := p.earliest(b.shape, p.candidatesOf(b.shape))
			w.Expected = at
			if !at.IsZero() && at.Before(p.promised) && slices.ContainsFunc(w.Reasons, isReserved) {
				w.Expected = p.promised
			}
		}
		p.plan.Waits[*b.shape] = w
	}
}

func isReserved(r queue.Reason) bool { return r.Kind == queue.ReasonReserved }

func (p *planner) node(id nodes.ID) *nodes.Node {
	i, _ := slices.BinarySearchFunc(p.s.Nodes, id, func(n *nodes.Node, id nodes.ID) int { return cmp.Compare(n.ID, id) })
	return p.s.Nodes[i]
}

func (p *planner) endOf(shape *queue.Shape) time.Time {
	if shape.RunLimit <= 0 {
		return time.Time{}
	}
	return p.s.Now.Add(shape.RunLimit)
}

// endsBy says whether something that ends at ends (zero: never) is over at t.
func endsBy(ends, t time.Time) bool { return !ends.IsZero() && !ends.After(t) }

// compareEnds orders by end, never-ending ones last, then by element, so that plans are deterministic.
func compareEnds(a, b time.Time, x, y queue.ElementID) int {
	switch {
	case a.IsZero() != b.IsZero():
		if a.IsZero() {
			return 1
		}
		return -1
	case !a.Equal(b):
		return a.Compare(b)
	case x.Job != y.Job:
		return int(x.Job - y.Job)
	}
	return x.Index - y.Index
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
