package backfill

import (
	"cmp"
	"slices"

	"fairslice/nodes"
)

// place finds where the head element of g can start now and break no promise; nil if nowhere. It takes nothing.
func (p *Planner) place(c *class, g *group) []nodes.Allocation {
	if g.promise == nil && !p.mayFit(c) {
		return nil
	}
	if most := p.most(c, g); most > c.shape.Slots {
		if alloc := p.placeSlots(c, most); alloc != nil {
			return alloc
		}
	}
	alloc, room := p.placeWhole(c)
	short, bare := 1, 1
	if room {
		bare = 0
	}
	if alloc == nil && c.spread && len(p.hosts) > 1 {
		alloc, short, bare = p.placeSpread(c)
	}
	if alloc == nil && g.promise == nil {
		c.looked, c.freed, c.laid, c.short, c.shortBare = true, p.before+len(p.freed), p.laid, short, bare
	}
	return alloc
}

// mayFit says whether it is worth looking where c fits; what it finds out it remembers. Time alone never makes room: what
// was refused for a promise would only end later.
func (p *Planner) mayFit(c *class) bool {
	if c.refused == p.room {
		return false
	}
	if !c.looked || c.freed < p.before {
		return true
	}
	short := c.short
	if c.laid != p.laid {
		short = c.shortBare
	}
	if p.gained(c, short) {
		return true
	}
	c.refused = p.room
	return false
}

// gained says whether the hosts freed since c was last looked at can have made up for what was short then. Hosts on which
// nothing was freed have at most the room they had.
func (p *Planner) gained(c *class, short int) bool {
	if short <= 0 {
		return true
	}
	cands := p.candidatesOf(c)
	one, tile := c.slotOf()
	gain := 0
	for _, h := range p.freed[c.freed-p.before:] {
		if !cands.has(h) || h.node.State() != nodes.Up {
			continue
		}
		if !c.spread || len(p.hosts) == 1 {
			if h.node.Fits(&c.host) {
				return true
			}
		} else if gain += roomOn(h.node, &one, tile); gain >= short { // some of it may have been free before
			return true
		}
	}
	c.freed, c.short, c.shortBare = p.before+len(p.freed), c.short-gain, c.shortBare-gain
	return false
}

// placeWhole finds the host for all of an element: the one where it costs least, the first of equals. room says that
// there would be one without the promises.
func (p *Planner) placeWhole(c *class) (alloc []nodes.Allocation, room bool) {
	if !c.whole() {
		return nil, true
	}
	r, cands := &c.host, p.candidatesOf(c)
	var best choice
	for _, k := range p.kinds.list {
		if !k.fits(r) {
			continue
		}
		h := cands.first(k)
		if h == nil {
			continue
		}
		room = true
		best.offer(h, p.cost(c, k))
	}
	for _, h := range p.claimed {
		if !cands.has(h) || !h.present(r) {
			continue
		}
		room = true
		n := h.over(p.now, p.now.plus(c.length), p.now)
		if !n.Fits(r) {
			continue
		}
		cost := 0.0
		if len(p.hosts) > 1 {
			cost, _ = p.placement.Cost(n, *r)
		}
		best.offer(h, cost)
	}
	if best.host == nil {
		return nil, room
	}
	return []nodes.Allocation{p.carve(best.host, r, p.now, c.length)}, true
}

// choice is the host that costs least so far.
type choice struct {
	host *host
	cost float64
}

func (b *choice) offer(h *host, cost float64) {
	if b.host == nil || cost < b.cost || cost == b.cost && h.index < b.host.index {
		b.host, b.cost = h, cost
	}
}

// cost is what an element of c costs on the hosts of k.
func (p *Planner) cost(c *class, k *kind) float64 {
	if len(p.hosts) == 1 {
		return 0
	}
	if cost, ok := c.costs[k]; ok && c.epoch == p.placement.Epoch() {
		return cost
	}
	if c.costs == nil || len(c.costs) >= maxCosts || c.epoch != p.placement.Epoch() {
		c.costs, c.epoch = map[*kind]float64{}, p.placement.Epoch()
	}
	cost, _ := p.placement.Cost(k.node, c.host)
	c.costs[k] = cost
	return cost
}

// maxCosts bounds what one class remembers: kinds come and go.
const maxCosts = 4096

// carve is the allocation of r on h from t on, which has been seen to fit.
func (p *Planner) carve(h *host, r *nodes.Request, t, length instant) nodes.Allocation {
	if r.GPU.Zero() {
		return nodes.Allocation{Node: h.id, Slots: r.Slots, Memory: r.Memory, Consumables: r.Consumables, Exclusive: r.Exclusive}
	}
	n := h.node
	if h.claims > 0 || t > p.now {
		n = h.over(t, t.plus(length), p.now)
	}
	a, _, ok := p.placement.Place(n, *r)
	if !ok {
		panic("internal error: impossible: what fits cannot be placed on " + string(h.id))
	}
	return a
}

// part is a host with room for some slots of an element.
type part struct {
	host  *host
	slots int
}

// slotOf is what c needs of a host to have one slot there, and tile the most slots it puts on one.
func (c *class) slotOf() (one nodes.Request, tile int) {
	one, tile = c.shape.Host, c.shape.Slots
	one.Slots = 1
	if c.shape.PerHost > 0 {
		tile = min(c.shape.PerHost, tile)
	}
	return one, tile
}

func roomOn(n *nodes.Node, one *nodes.Request, tile int) int {
	if !n.Fits(one) {
		return 0
	}
	return min(n.Slots-n.UsedSlots, tile)
}

// roomNow is how many slots an element of c can have on h now, for as long as it may run.
func (p *Planner) roomNow(h *host, c *class, one *nodes.Request, tile int) int {
	if h.claims == 0 {
		return roomOn(h.node, one, tile)
	}
	return min(roomOn(h.over(p.now, p.now.plus(c.length), p.now), one, tile), roomOn(h.together(), one, tile))
}

// share divides the slots of an element of c over parts: on as few hosts as possible, or a full tile on each but the
// last where span[ptile=] asks for it. Parts come with most room first; nil when they are not enough.
func (c *class) share(parts []part) []part {
	rest := c.shape.Slots
	for i := range parts {
		take := min(parts[i].slots, rest)
		if c.shape.PerHost > 0 && take < min(c.shape.PerHost, rest) {
			return nil // nor have those after it room for a full tile; only the last may be smaller
		}
		parts[i].slots = take
		if rest -= take; rest == 0 {
			return parts[:i+1]
		}
	}
	return nil
}

func byRoom(a, b part) int {
	return cmp.Or(b.slots-a.slots, a.host.index-b.host.index)
}

// lot is hosts that have room for the same number of slots each.
type lot struct {
	slots int
	hosts []*host // the first in the order of their IDs last
}

// placeSpread puts an element on several hosts now. short is how many slots are missing on all of them together, bare
// how many would be without the promises.
func (p *Planner) placeSpread(c *class) (alloc []nodes.Allocation, short, bare int) {
	one, tile := c.slotOf()
	cands := p.candidatesOf(c)
	total := 0
	p.lots = p.lots[:0]
	for _, k := range p.kinds.list {
		if k.slots == 0 {
			continue
		}
		if n := roomOn(k.node, &one, tile); n > 0 {
			p.lots = append(p.lots, lot{n, k.hosts})
			total += n * len(k.hosts)
		}
	}
	free := total
	for i, h := range p.claimed {
		if !cands.has(h) || !h.present(&one) {
			continue
		}
		free += roomOn(h.node, &one, tile)
		if n := p.roomNow(h, c, &one, tile); n > 0 {
			p.lots = append(p.lots, lot{n, p.claimed[i : i+1]})
			total += n
		}
	}
	short, bare = c.shape.Slots-total, c.shape.Slots-free
	if short > 0 {
		return nil, short, bare
	}
	slices.SortFunc(p.lots, func(a, b lot) int { return b.slots - a.slots })
	return p.carveParts(c, c.share(p.partsOf(p.lots, cands, c.shape.Slots)), p.now), short, bare
}

// partsOf are the hosts of lots, which come with most room first, as far as they are needed for so many slots: of hosts with
// the same room the first ones.
func (p *Planner) partsOf(lots []lot, cands *candidates, slots int) []part {
	var parts []part
	for i := 0; i < len(lots) && slots > 0; {
		room := lots[i].slots
		need, from := (slots+room-1)/room, len(parts)
		for ; i < len(lots) && lots[i].slots == room; i++ {
			taken := 0
			for _, h := range slices.Backward(lots[i].hosts) {
				if taken == need {
					break
				}
				if cands.has(h) {
					parts = append(parts, part{host: h, slots: room})
					taken++
				}
			}
		}
		same := parts[from:]
		slices.SortFunc(same, byRoom)
		same = same[:min(len(same), need)]
		parts = parts[:from+len(same)]
		slots -= room * len(same)
	}
	return parts
}

func (p *Planner) carveParts(c *class, parts []part, t instant) []nodes.Allocation {
	var out []nodes.Allocation
	for _, x := range parts {
		r := c.shape.Host
		r.Slots = x.slots
		out = append(out, p.carve(x.host, &r, t, c.length))
	}
	return out
}

// fitsOver says whether an element of c fits on these, as several hosts.
func (c *class) fitsOver(list []*nodes.Node) bool {
	one, tile := c.slotOf()
	var parts []part
	for _, n := range list {
		if s := roomOn(n, &one, tile); s > 0 {
			parts = append(parts, part{slots: s})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return b.slots - a.slots })
	return c.share(parts) != nil
}

// most is how many slots the head element of g may have at most: -n min,max, as far as limits let it.
func (p *Planner) most(c *class, g *group) int {
	most := c.shape.MaxSlots
	for _, l := range g.limits {
		if l.Of == OfSlots {
			most = min(most, p.left(l, g.promise, p.now, p.now.plus(c.length)))
		}
	}
	return most
}

// placeSlots places an element with more slots than it needs at least: as many as there are, up to most.
func (p *Planner) placeSlots(c *class, most int) []nodes.Allocation {
	for slots := most; slots > c.shape.Slots; slots = min(slots-1, p.roomFor(c, slots)) {
		s := *c.shape
		s.Slots, s.MaxSlots = slots, slots
		x := &class{shape: &s, host: oneHost(&s), spread: spreads(&s), length: c.length, cands: p.candidatesOf(c)}
		alloc, _ := p.placeWhole(x)
		if alloc == nil && x.spread && len(p.hosts) > 1 {
			alloc, _, _ = p.placeSpread(x)
		}
		if alloc != nil {
			return alloc
		}
	}
	return nil
}

// roomFor is how many slots an element of c could have now, if it asked for so many; at least what it needs.
func (p *Planner) roomFor(c *class, slots int) int {
	one, _ := c.slotOf()
	tile := slots
	if c.shape.PerHost > 0 {
		tile = min(c.shape.PerHost, slots)
	}
	cands := p.candidatesOf(c)
	total, best := 0, 0
	for _, h := range p.hosts {
		if !cands.has(h) || h.node.State() != nodes.Up || h.node.Slots == h.node.UsedSlots {
			continue
		}
		room := p.roomNow(h, c, &one, tile)
		total, best = total+room, max(best, room)
	}
	if c.shape.OneHost || c.shape.PerHost >= slots {
		total = best
	}
	return max(min(total, slots), c.shape.Slots)
}
