package backfill

import (
	"slices"

	"fairslice/nodes"
	"fairslice/queue"
)

// place finds an allocation for shape among cands, or says why there is none. allowed, when given,
// may refuse an allocation on a node that fits (a promise would break); the reason is then that the
// room is reserved. Nothing is taken.
//
// Among nodes that fit, the one that is left with least is chosen, so that large gaps stay large:
// first by GPU, then by slots, then by name.
func place(cands []*nodes.Node, shape *queue.Shape, allowed func(nodes.Allocation) bool) ([]nodes.Allocation, []queue.Reason) {
	per := shape.Slots
	if shape.PerHost > 0 && shape.PerHost < per {
		per = shape.PerHost
	}
	single := shape.Host
	single.Slots = per
	if per == shape.Slots {
		a, why := placeOne(cands, single, allowed)
		if a != nil || shape.OneHost || shape.PerHost > 0 || shape.Slots == 1 {
			if a == nil {
				return nil, why
			}
			return []nodes.Allocation{*a}, nil
		}
	}
	return placeSpread(cands, shape, allowed)
}

func placeOne(cands []*nodes.Node, r nodes.Request, allowed func(nodes.Allocation) bool) (*nodes.Allocation, []queue.Reason) {
	var best *nodes.Allocation
	var bestLeft [3]int64
	why := newReasons()
	for _, n := range cands {
		if m := n.Fit(r); m != nil {
			why.add(n.ID, m)
			continue
		}
		a := probe(n, r)
		if allowed != nil && !allowed(a) {
			why.reserve(n.ID)
			continue
		}
		if left := leftover(n, a); best == nil || slices.Compare(left[:], bestLeft[:]) < 0 {
			best, bestLeft = &a, left
		}
	}
	if best == nil {
		return nil, why.list(r, len(cands))
	}
	return best, nil
}

// probe is the allocation that Carve would give, without taking it. The caller has seen that r fits.
func probe(n *nodes.Node, r nodes.Request) nodes.Allocation {
	if r.GPU.Zero() {
		return nodes.Allocation{Node: n.ID, Slots: r.Slots, Memory: r.Memory, Consumables: r.Consumables, Exclusive: r.Exclusive}
	}
	a, m := n.Carve(r)
	if m != nil {
		panic("internal error: impossible: what fits cannot be carved")
	}
	n.Release(a)
	return a
}

// leftover is what a would leave free of n: GPU first, so that a job without a GPU goes where none is wasted.
func leftover(n *nodes.Node, a nodes.Allocation) [3]int64 {
	var gpu nodes.Amount
	for i := range n.GPUs {
		gpu += n.GPUs[i].Free()
	}
	return [3]int64{int64(gpu - a.FGPU()), int64(n.Slots - n.UsedSlots - a.Slots), n.Memory - n.UsedMemory - a.Memory}
}

// placeSpread puts the slots of one element on several nodes: PerHost on each where span[ptile=] asks
// for it, otherwise as many as are free, on as few nodes as possible.
func placeSpread(cands []*nodes.Node, shape *queue.Shape, allowed func(nodes.Allocation) bool) ([]nodes.Allocation, []queue.Reason) {
	type room struct {
		n     *nodes.Node
		slots int
	}
	var rooms []room
	why := newReasons()
	one := shape.Host
	one.Slots = 1
	for _, n := range cands {
		if m := n.Fit(one); m != nil {
			why.add(n.ID, m)
			continue
		}
		free := n.Slots - n.UsedSlots
		if shape.PerHost > 0 {
			free = min(free, shape.PerHost)
		}
		rooms = append(rooms, room{n, free})
	}
	slices.SortStableFunc(rooms, func(a, b room) int { return b.slots - a.slots })
	var out []nodes.Allocation
	rest := shape.Slots
	for _, r := range rooms {
		if rest == 0 {
			break
		}
		req := shape.Host
		req.Slots = min(r.slots, rest)
		if shape.PerHost > 0 && req.Slots < min(shape.PerHost, rest) {
			break // nor have those after it room for a full tile; only the last may be smaller
		}
		a := probe(r.n, req)
		if allowed != nil && !allowed(a) {
			why.reserve(r.n.ID)
			continue
		}
		out = append(out, a)
		rest -= req.Slots
	}
	if rest > 0 {
		need := shape.Host
		need.Slots = shape.Slots
		why.spread(len(rooms), shape.Slots, shape.Slots-rest)
		return nil, why.list(need, len(cands))
	}
	return out, nil
}
