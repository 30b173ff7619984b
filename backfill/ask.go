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
