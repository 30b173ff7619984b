package backfill

import (
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// Node is a node as the planner has it; it must not be changed. Nil for one that it does not know.
func (p *Planner) Node(id nodes.ID) *nodes.Node {
	if h := p.byID[hostKey{id, ""}]; h != nil {
		return h.node
	}
	return nil
}

// Inventory changes whenever the nodes have, but for what is held on them.
func (p *Planner) Inventory() uint64 { return p.inventory }

// Shape is the planner's own copy of a shape of which something waits, else nil. It never changes.
func (p *Planner) Shape(s *queue.Shape) *queue.Shape {
	if c := p.classes[*s]; c != nil {
		return c.shape
	}
	return nil
}

// Waiting is how many jobs have something that waits.
func (p *Planner) Waiting() int {
	n := len(p.items)
	for id := range p.promises {
		if p.items[id] == nil {
			n++
		}
	}
	return n
}

// Has says whether something of a job is known to wait.
func (p *Planner) Has(id queue.JobID) bool { return p.items[id] != nil || len(p.promises[id]) > 0 }

// Promised is the start that an element is promised, if it is.
func (p *Planner) Promised(id queue.ElementID) (time.Time, bool) {
	for _, pr := range p.promises[id.Job] {
		if pr.id == id && pr.placed && pr.at-p.now < foreseeable {
			return pr.at.time(p.location), true
		}
	}
	return time.Time{}, false
}

// Fair says whether an order asks who deserves to be served.
func Fair(o Order) bool {
	w, weighted := o.(Weighted)
	return o == FairShare || weighted && w.FairShare > 0
}

// Ahead counts the elements that wait and come before those of a job, as the order is now; what was moved among its
// user's jobs counts where it was submitted.
func (p *Planner) Ahead(id queue.JobID) int {
	mine := p.waitingOf(id)
	if mine == nil {
		return 0
	}
	before := func(i *item) bool { return p.policy.Order.compare(i, mine) < 0 }
	if !p.policy.Order.static() {
		me := p.standing(mine)
		before = func(i *item) bool {
			x := p.standing(i)
			return x.before(&me)
		}
	}
	n := 0
	for _, i := range p.items {
		if i != mine && before(i) {
			n += len(i.pending.Indices) - i.first
		}
	}
	for _, list := range p.promises {
		for _, pr := range list {
			if i := pr.group.head(); i != mine && before(i) {
				n++
			}
		}
	}
	return n
}

// waitingOf is the first element of a job that waits.
func (p *Planner) waitingOf(id queue.JobID) *item {
	first := p.items[id]
	for _, pr := range p.promises[id] {
		if i := pr.group.head(); first == nil || i.id().Index < first.id().Index {
			first = i
		}
	}
	return first
}

// standing is the place of an item in an order that changes with time.
func (p *Planner) standing(i *item) place {
	f := p.asked(i)
	return place{key: p.policy.Order.key(&f, p.now), position: i.pending.Position, id: i.id(), priority: int64(i.pending.Shape.Priority)}
}
