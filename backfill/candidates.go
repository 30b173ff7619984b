package backfill

import (
	"slices"

	"fairslice/nodes"
)

// selection is all of a shape that Snapshot.Select looks at.
type selection struct{ queue, hosts, sel, window string }

// candidates are the hosts that a selection lets in.
type candidates struct {
	all   bool
	in    []bool // by host.index, unless all
	count int
}

func (p *Planner) candidatesOf(c *class) *candidates {
	if c.cands != nil {
		return c.cands
	}
	key := selection{c.shape.Queue, c.shape.Hosts, c.shape.Select, c.shape.Reservation}
	if c.cands = p.selections[key]; c.cands != nil {
		return c.cands
	}
	x := &candidates{in: make([]bool, len(p.hosts))}
	for i, h := range p.hosts {
		if h.window == c.shape.Reservation && (p.Select == nil || p.Select(h.node, c.shape)) {
			x.in[i] = true
			x.count++
		}
	}
	x.all = x.count == len(p.hosts)
	p.selections[key], c.cands = x, x
	return x
}

func (x *candidates) has(h *host) bool { return x.all || x.in[h.index] }

// first is the first host of k that is let in, nil if there is none.
func (x *candidates) first(k *kind) *host {
	if x.all {
		return k.hosts[len(k.hosts)-1]
	}
	for _, h := range slices.Backward(k.hosts) {
		if x.in[h.index] {
			return h
		}
	}
	return nil
}

// possible says whether a class could run on the hosts that are up, if nothing else ran.
func (p *Planner) possible(c *class) bool {
	if c.inventory == p.inventory+1 {
		return c.possible
	}
	c.inventory, c.possible = p.inventory+1, false
	cands := p.candidatesOf(c)
	var up []*nodes.Node
	for _, h := range p.hosts {
		if !cands.has(h) || h.node.State() != nodes.Up {
			continue
		}
		n := h.emptied()
		if c.whole() && n.Fits(&c.host) {
			c.possible = true
			return true
		}
		if c.spread {
			up = append(up, n)
		}
	}
	if c.spread {
		c.possible = c.fitsOver(up)
	}
	return c.possible
}
