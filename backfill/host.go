package backfill

import (
	"slices"

	"fairslice/nodes"
)

// host is a node as the planner knows it.
type host struct {
	id     nodes.ID
	window string      // the advance reservation whose part of the node this is, "" for the node itself
	node   *nodes.Node // what is held now
	empty  *nodes.Node // the same with nothing on it, and up; made when first asked for
	index  int         // among the planner's hosts, which are in the order of their IDs
	line   timeline

	// claims are the promises and windows that hold something here at a later time. A host with claims is looked
	// at by itself: what is free now may not be free for long enough.
	claims int
	// parts are those of it that advance reservations have; whole is the host that this is a part of, or nil.
	parts []*host
	whole *host
	kind  *kind // the hosts that are in the same state; nil with claims, or when nothing may start here
	stale bool  // the state has changed since kind was found

	worst nodes.Node // see over
	gpus  []nodes.Amount
	// picky says that some GPU here is not shared by just anybody: it is in nodes.ModeMIG or nodes.ModeMPS.
	picky bool
}

func newHost(n *nodes.Node) *host {
	h := &host{id: n.ID, node: n, line: newTimeline(n)}
	h.worst = *n.Clone()
	h.gpus = make([]nodes.Amount, len(n.GPUs))
	h.picky = slices.ContainsFunc(n.GPUs, func(g nodes.GPU) bool { return picky(&g) })
	return h
}

func picky(g *nodes.GPU) bool { return g.Mode == nodes.ModeMIG || g.Mode == nodes.ModeMPS }

// hold is what a takes here.
func (h *host) hold(a *nodes.Allocation, from, to instant) hold {
	x := hold{host: h, slots: a.Slots, from: from, to: to}
	if a.Exclusive {
		x.slots = h.node.Slots
	}
	x.load.memory, x.load.consumables = a.Memory, a.Consumables
	if len(a.Slices) > 0 && h.line.rest != nil {
		x.load.gpus = make([]nodes.Amount, len(h.node.GPUs))
		for _, s := range a.Slices {
			if i := slices.IndexFunc(h.node.GPUs, func(g nodes.GPU) bool { return g.UUID == s.UUID }); i >= 0 {
				x.load.gpus[i] += s.Amount
				if g := &h.node.GPUs[i]; g.Mode == nodes.ModeMPS && s.Mode == g.Mode && a.User != "" {
					x.load.changeUser(&userLoad{i, a.User, s.Amount}, 1)
				}
			}
		}
	}
	return x
}

// emptied is h with nothing on it and up.
func (h *host) emptied() *nodes.Node {
	if h.empty == nil {
		h.empty = h.node.Empty()
		h.empty.Alive, h.empty.Closed = true, false
	}
	return h.empty
}

// present says whether r fits what is really free now.
func (h *host) present(r *nodes.Request) bool {
	return h.node.State() == nodes.Up && h.node.Fits(r) && (h.whole == nil && len(h.parts) == 0 || h.together().Fits(r))
}

// together is the node of h with all that is held on it and on the parts of it that advance reservations have: what runs
// may have begun before the reservation was made, or be over its limit when its window opens or closes.
func (h *host) together() *nodes.Node {
	whole := h
	if h.whole != nil {
		whole = h.whole
	}
	if len(whole.parts) == 0 {
		return h.node
	}
	all := whole.node.Clone()
	for _, part := range whole.parts {
		n := part.node
		all.UsedSlots, all.UsedMemory, all.Holders = all.UsedSlots+n.UsedSlots, all.UsedMemory+n.UsedMemory, all.Holders+n.Holders
		all.UsedConsumables, all.Taken = all.UsedConsumables.Plus(n.UsedConsumables), all.Taken || n.Taken
		for i := range n.GPUs {
			for k := range all.GPUs {
				if g := &all.GPUs[k]; g.UUID == n.GPUs[i].UUID {
					g.Holder = jointHolder(g, &n.GPUs[i])
					g.Used += n.GPUs[i].Used
				}
			}
		}
	}
	return all
}

// jointHolder is nodes.GPU.Holder of a GPU on which there is what is on both a and b.
func jointHolder(a, b *nodes.GPU) string {
	switch {
	case a.Used == 0:
		return b.Holder
	case b.Used == 0 || a.Holder == b.Holder:
		return a.Holder
	}
	return ""
}

// over is h with the most that will be held of each thing in [from, to), in a node that is only valid until
// the next call. If from is now, what is really held counts too: an attempt past its limit still holds.
func (h *host) over(from, to, now instant) *nodes.Node {
	h.line.trim(now)
	l, i := &h.line, h.line.find(from)
	slots := l.slots[i]
	var x load
	if l.rest != nil {
		x = load{memory: l.rest[i].memory, consumables: l.rest[i].consumables, gpus: h.gpus}
		copy(x.gpus, l.rest[i].gpus)
	}
	for k := i + 1; k < len(l.at) && l.at[k] < to; k++ {
		slots = max(slots, l.slots[k])
		if l.rest != nil {
			x.most(&l.rest[k])
		}
	}
	w := &h.worst
	w.UsedSlots, w.UsedMemory, w.UsedConsumables, w.Taken = slots, x.memory, x.consumables, false
	w.Holders = min(slots, 1)
	for g := range w.GPUs {
		w.GPUs[g].Used = x.gpus[g]
		if h.picky {
			w.GPUs[g].Holder = l.holder(g, i, to)
		}
	}
	if from <= now {
		h.countPresent(w)
	}
	return w
}

func (h *host) countPresent(w *nodes.Node) {
	n := h.node
	w.UsedSlots, w.UsedMemory = max(w.UsedSlots, n.UsedSlots), max(w.UsedMemory, n.UsedMemory)
	w.UsedConsumables = w.UsedConsumables.Most(n.UsedConsumables)
	w.Holders, w.Taken = max(w.Holders, n.Holders), n.Taken
	for g := range w.GPUs {
		w.GPUs[g].Holder = jointHolder(&w.GPUs[g], &n.GPUs[g])
		w.GPUs[g].Used = max(w.GPUs[g].Used, n.GPUs[g].Used)
	}
	if h.picky && (h.whole != nil || len(h.parts) > 0) {
		h.countTogether(w)
	}
}

// countTogether counts on w what is held of GPUs that are not shared by anybody, be it on h or on another part of its node.
func (h *host) countTogether(w *nodes.Node) {
	all := h.together()
	for i := range all.GPUs {
		g := &all.GPUs[i]
		for k := range w.GPUs {
			if x := &w.GPUs[k]; x.UUID == g.UUID && picky(x) {
				x.Holder = jointHolder(x, g)
				x.Used = max(x.Used, min(g.Used, x.Capacity))
			}
		}
	}
}

// plain says that r asks for slots only, and this host has nothing else to give or all of it is free for r.
func plain(r *nodes.Request) bool {
	return r.Memory == 0 && !r.Exclusive && r.Consumables == "" && r.GPU.Zero()
}

// earliest is the first time from t on, and before limit, at which r stays free here for d; limit if there is
// none. Nothing that runs is counted beyond its run limit.
func (h *host) earliest(r *nodes.Request, t, d, limit, now instant) instant {
	h.line.trim(now)
	if plain(r) {
		return min(h.line.plain(t, d, h.node.Slots-r.Slots), limit)
	}
	l := &h.line
	for i := l.find(t); ; i++ {
		if h.fitsOver(r, t, d) {
			return t
		}
		if i+1 == len(l.at) || l.at[i+1] >= limit {
			return limit
		}
		t = l.at[i+1]
	}
}

// fitsOver says whether r fits in [t, t+d) by what the timeline holds.
func (h *host) fitsOver(r *nodes.Request, t, d instant) bool {
	l, i := &h.line, h.line.find(t)
	end := t.plus(d)
	most := h.node.Slots - r.Slots
	if r.Exclusive {
		most = 0
	}
	for k := i; k < len(l.at) && (k == i || l.at[k] < end); k++ {
		if l.slots[k] > most || l.rest != nil && l.rest[k].memory > h.node.Memory-r.Memory {
			return false
		}
	}
	return h.over(t, end, -1).Fits(r)
}
