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
	if single := oneHost(shape); single.Slots == shape.Slots {
		a, why := placeOne(cands, single, allowed)
		if a != nil || !spreads(shape) {
			if a == nil {
				return nil, why
			}
			return []nodes.Allocation{*a}, nil
		}
	}
	return placeSpread(cands, shape, allowed)
}

// oneHost is what shape asks of one host: all its slots, or as many as span[ptile=] puts there.
func oneHost(shape *queue.Shape) nodes.Request {
	r := shape.Host
	r.Slots = shape.Slots
	if shape.PerHost > 0 {
		r.Slots = min(shape.PerHost, shape.Slots)
	}
	return r
}

// spreads says that shape may, or must, take several hosts.
func spreads(shape *queue.Shape) bool {
	if shape.PerHost > 0 {
		return shape.PerHost < shape.Slots
	}
	return !shape.OneHost && shape.Slots > 1
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
		if best != nil && r.GPU.Whole == 0 && r.GPU.Memory == 0 { // what it takes is known before it is worked out
			if left := leftover(n, r.Slots, r.Memory, r.GPU.Amount); slices.Compare(left[:], bestLeft[:]) >= 0 {
				continue
			}
		}
		a := probe(n, r)
		if allowed != nil && !allowed(a) {
			why.reserve(n.ID)
			continue
		}
		if left := leftover(n, a.Slots, a.Memory, a.FGPU()); best == nil || slices.Compare(left[:], bestLeft[:]) < 0 {
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

// leftover is what an allocation would leave free of n: GPU first, so that a job without a GPU goes where none is wasted.
func leftover(n *nodes.Node, slots int, memory int64, fgpu nodes.Amount) [3]int64 {
	var gpu nodes.Amount
	for i := range n.GPUs {
		gpu += n.GPUs[i].Free()
	}
	return [3]int64{int64(gpu - fgpu), int64(n.Slots - n.UsedSlots - slots), n.Memory - n.UsedMemory - memory}
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
