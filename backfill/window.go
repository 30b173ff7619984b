package backfill

import (
	"slices"
	"time"

	"fairslice/nodes"
)

// Window is an advance reservation: parts of nodes that during its spans only elements of shapes naming it may
// hold, and which these may hold only then. What ran there before it was made runs to its end.
type Window struct {
	ID     string
	Shares []nodes.Allocation // what is reserved of each node; no memory means the share that its slots are
	Spans  []Span             // in order, not overlapping
}

// Span is from Begin to before End.
type Span struct{ Begin, End time.Time }

// window is a Window as the planner has it: on each node of it a claim by each span, and a host of its own that has
// only the share, and nothing outside of the spans.
type window struct {
	Window
	holds []hold
}

// PutWindow adds an advance reservation or takes over its new spans and shares.
func (p *Planner) PutWindow(w Window) {
	moved := p.dropWindow(w.ID)
	x := &window{Window: w}
	p.windows[w.ID] = x
	p.settle()
	for i := range w.Shares {
		p.reserve(x, w.Shares[i])
	}
	p.arranged(moved)
}

// RemoveWindow ends an advance reservation. What runs in it runs on, on the node.
func (p *Planner) RemoveWindow(id string) { p.arranged(p.dropWindow(id)) }

// arranged begins again what ran on hosts of a window that are gone.
func (p *Planner) arranged(moved []Running) {
	p.Reselect()
	p.turn = 0
	p.lost = p.lost || len(p.promises) > 0
	for _, r := range moved {
		p.begin(r, instantOf(r.Ends))
	}
}

func (p *Planner) reserve(w *window, share nodes.Allocation) {
	h := p.byID[hostKey{share.Node, ""}]
	if h == nil {
		return
	}
	if share.Memory == 0 && h.node.Slots > 0 {
		share.Memory = h.node.Memory / int64(h.node.Slots) * int64(share.Slots)
	}
	part := newHost(h.node.Part(share))
	part.window = w.ID
	all := hold{slots: part.node.Slots + 1} // one more than any request leaves free
	free := instant(0)
	for _, s := range w.Spans {
		x := h.hold(&share, instantOf(s.Begin), instantOf(s.End))
		h.line.add(&x, p.now)
		w.holds = append(w.holds, x)
		all.from, all.to = free, instantOf(s.Begin)
		part.line.add(&all, p.now)
		free = instantOf(s.End)
	}
	all.from, all.to = free, never
	part.line.add(&all, p.now)
	p.claim(h, 1)
	part.whole = h
	h.parts = append(h.parts, part)
	p.addHost(part)
	p.settle()
	p.claim(part, 1)
}

// dropWindow takes a window out, and ends and returns what runs in it, or did before it was gone.
func (p *Planner) dropWindow(id string) (moved []Running) {
	for rid, r := range p.running {
		if r.window == id {
			moved = append(moved, Running{ID: rid, Alloc: r.alloc, Ends: r.ends.time(time.UTC), Window: id, User: r.user, Limits: r.limits})
		}
	}
	slices.SortFunc(moved, func(a, b Running) int { return compareIDs(a.ID, b.ID) })
	for _, r := range moved {
		p.end(r.ID, p.now)
	}
	w := p.windows[id]
	if w == nil {
		return moved
	}
	delete(p.windows, id)
	for _, pr := range p.allPromises() {
		p.lift(pr) // p.lost: they are laid again
	}
	for i := range w.holds {
		w.holds[i].host.line.remove(&w.holds[i], p.now)
	}
	for _, s := range w.Shares {
		if h := p.byID[hostKey{s.Node, id}]; h != nil {
			h.whole.parts = slices.DeleteFunc(h.whole.parts, func(x *host) bool { return x == h })
			p.removeHost(h)
		}
		if h := p.byID[hostKey{s.Node, ""}]; h != nil {
			p.claim(h, -1)
		}
	}
	return moved
}

func (p *Planner) windowsOn(id nodes.ID) (out []Window) {
	for _, w := range p.windows {
		if slices.ContainsFunc(w.Shares, func(a nodes.Allocation) bool { return a.Node == id }) {
			out = append(out, w.Window)
		}
	}
	return out
}

// turned notes that windows have opened or closed since the last plan.
func (p *Planner) turned() {
	if p.now < p.turn {
		return
	}
	p.changed()
	p.laid++
	for _, c := range p.classes {
		c.looked = false
	}
	p.turn = never
	for _, t := range p.turns() {
		if t > p.now {
			p.turn = t
			break
		}
	}
}

// windowFits says whether an element of c can still run in the advance reservation that it names, if it names one: its
// run limit is not longer than what is left of every span.
func (p *Planner) windowFits(c *class) bool {
	if c.shape.Reservation == "" {
		return true
	}
	w := p.windows[c.shape.Reservation]
	return w != nil && slices.ContainsFunc(w.Spans, func(s Span) bool {
		return max(instantOf(s.Begin), p.now).plus(c.length) <= instantOf(s.End)
	})
}
