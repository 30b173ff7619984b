package backfill

import (
	"cmp"
	"slices"

	"fairslice/nodes"
)

// earliest is when, and where, an element of c can start at the earliest, if what runs ends at its limit and the
// promises are kept. Without an allocation there is no such time: what is in the way has no run limit.
func (p *Planner) earliest(c *class, limit instant) (instant, []nodes.Allocation) {
	at, alloc := p.earliestWhole(c, limit)
	if c.spread && len(p.hosts) > 1 && at > p.now {
		if t, a := p.earliestSpread(c, min(at, limit)); a != nil {
			return t, a
		}
	}
	return at, alloc
}

// earliestWhole is earliest on one host: the first time, the least cost then, the first host of equals.
func (p *Planner) earliestWhole(c *class, limit instant) (instant, []nodes.Allocation) {
	if !c.whole() {
		return never, nil
	}
	r, cands := &c.host, p.candidatesOf(c)
	at := never
	var best choice
	for _, h := range p.hosts {
		if !cands.has(h) || h.node.State() != nodes.Up {
			continue
		}
		if len(p.hosts) == 1 {
			if at = h.earliest(r, p.now, c.length, never, p.now); at < limit {
				best.host = h
			}
			break
		}
		if !h.emptied().Fits(r) {
			continue
		}
		t := h.earliest(r, p.now, c.length, min(at.plus(1), limit), p.now)
		if t > at || t >= limit {
			continue
		}
		if t < at {
			at, best.host = t, nil
		}
		cost, _ := p.placement.Cost(h.over(t, t.plus(c.length), -1), *r)
		best.offer(h, cost)
	}
	if best.host == nil {
		return never, nil
	}
	return at, []nodes.Allocation{p.carveAt(best.host, r, at, c.length)}
}

// carveAt is carve for a promise: what is held now beyond its limit does not count.
func (p *Planner) carveAt(h *host, r *nodes.Request, t, length instant) nodes.Allocation {
	if r.GPU.Zero() {
		return p.carve(h, r, t, length)
	}
	a, _, ok := p.placement.Place(h.over(t, t.plus(length), -1), *r)
	if !ok {
		panic("internal error: impossible: a promise is not free on " + string(h.id))
	}
	return a
}

// turn is a time at which something changes on a host.
type turn struct {
	at   instant
	host *host
}

// earliestSpread is earliest on several hosts, before limit. It follows the times at which something ends and looks, each
// time, only at the hosts that change then, and at those with claims, whose room depends on what comes later.
func (p *Planner) earliestSpread(c *class, limit instant) (instant, []nodes.Allocation) {
	one, tile := c.slotOf()
	cands := p.candidatesOf(c)
	rooms := make([]int, len(p.hosts))
	total := 0
	look := func(h *host, t instant) {
		room := 0
		if l := &h.line; h.claims == 0 {
			i := l.find(t) // nothing begins later: what is free then stays free
			if l.slots[i] < h.node.Slots {
				room = roomOn(h.over(t, l.next(i), -1), &one, tile)
			}
		} else {
			room = roomOn(h.over(t, t.plus(c.length), -1), &one, tile)
		}
		total += room - rooms[h.index]
		rooms[h.index] = room
	}
	var turns []turn
	var claimed []*host
	for _, h := range p.hosts {
		if !cands.has(h) || h.node.State() != nodes.Up {
			continue
		}
		h.line.trim(p.now)
		look(h, p.now)
		if h.claims > 0 {
			claimed = append(claimed, h)
		}
		for _, t := range h.line.at {
			if t > p.now && t < limit {
				turns = append(turns, turn{t, h})
			}
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.at, b.at), a.host.index-b.host.index) })
	at := p.now
	for i := 0; ; {
		if total >= c.shape.Slots {
			var parts []part
			for j, room := range rooms {
				if room > 0 {
					parts = append(parts, part{host: p.hosts[j], slots: room})
				}
			}
			slices.SortFunc(parts, byRoom)
			if parts = c.share(parts); parts != nil {
				out := make([]nodes.Allocation, len(parts))
				for j, x := range parts {
					r := c.shape.Host
					r.Slots = x.slots
					out[j] = p.carveAt(x.host, &r, at, c.length)
				}
				return at, out
			}
		}
		if i == len(turns) {
			return never, nil
		}
		for at = turns[i].at; i < len(turns) && turns[i].at == at; i++ {
			if turns[i].host.claims == 0 {
				look(turns[i].host, at)
			}
		}
		for _, h := range claimed {
			look(h, at)
		}
	}
}
