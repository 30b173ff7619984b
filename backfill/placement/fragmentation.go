package placement

import (
	"math"

	"fairslice/nodes"
)

// Fragmentation chooses where least GPU is expected to be lost, given what the site asks for. The cost is by how
// much a placement raises, in GPUs of the node, the sum of
//
//   - the waste expected of started GPUs (expectedWaste),
//   - GPUs stranded for lack of slots and memory beside them: free GPUs g less the usable ones, which are
//     1/(1/g + s/slots + m/memory) with s slots and m bytes asked for beside each GPU; on a node without GPUs its
//     slots stranded for lack of memory, in the same way,
//   - whole GPUs on nodes that cannot take the requests for several,
//   - the price of a scarce model,
//   - whole GPUs started for a fraction: who asks for whole ones later finds them,
//   - what rounding up to a part that is not shared (an instance of MIG) takes beyond the request,
//
// and a little that prefers to fill a node up. Before anything is observed it is a best fit. See doc.go.
func Fragmentation(mix *Mix) Policy {
	return &policy{scorer: newFragmentation(mix)}
}

type fragmentation struct {
	mix     *Mix
	at      uint64 // the epoch of demands
	demands map[gpuKind]*demand

	// Of the node that is looked at.
	d      *demand
	before room
	loss   float64
}

func newFragmentation(mix *Mix) *fragmentation {
	return &fragmentation{mix: mix, demands: map[gpuKind]*demand{}}
}

func (f *fragmentation) clone() scorer { return newFragmentation(f.mix.Clone()) }

// gpuKind is what makes two GPUs see the mix alike.
type gpuKind struct {
	capacity nodes.Amount
	memory   int64
}

func (f *fragmentation) epoch() uint64 { return f.mix.Epoch() }

// demandOn is the mix as n sees it. All GPUs of a node are taken to be like the first that has a capacity: best one
// that is whole, otherwise the one that an instance is a part of.
func (f *fragmentation) demandOn(n *nodes.Node) *demand {
	if f.at != f.mix.Epoch() {
		f.at = f.mix.Epoch()
		clear(f.demands)
	}
	kind := gpuKind{}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Capacity <= 0 || g.Mode == nodes.ModeMIG && (kind.capacity > 0 || g.Fraction <= 0) {
			continue
		}
		kind = gpuKind{g.Capacity, g.Memory}
		if g.Mode != nodes.ModeMIG {
			break
		}
		kind.capacity, kind.memory = kind.capacity*10_000/nodes.Amount(g.Fraction), int64(float64(kind.memory)/worth(g))
	}
	d := f.demands[kind]
	if d == nil {
		d = newDemand(f.mix, kind.capacity, kind.memory)
		f.demands[kind] = d
	}
	return d
}

func (f *fragmentation) begin(n *nodes.Node) {
	f.d, f.before = f.demandOn(n), roomOn(n)
	f.loss = f.d.loss(n, &f.before)
}

func (f *fragmentation) score(n *nodes.Node, r *nodes.Request, p *pick) float64 {
	d, after := f.d, f.before
	after.slots -= float64(r.Slots)
	after.memory -= float64(r.Memory)
	cost := 0.0
	for k, i := range p.gpus {
		g, a := &n.GPUs[i], p.amounts[k]
		part := float64(a) / float64(g.Capacity) * worth(g)
		after.gpus -= part
		if need := g.Need(&r.GPU); need > 0 && need < a && len(p.gpus) == 1 {
			cost += part * float64(a-need) / float64(a)
		}
		if g.Mode == nodes.ModeMIG {
			continue // nothing is ever left of it
		}
		if g.Whole() {
			after.whole--
			if a < g.Capacity {
				cost += startWeight
			}
		}
		cost += d.wasteOf(g.Free()-a, g.Capacity) - d.wasteOf(g.Free(), g.Capacity)
	}
	if r.Exclusive { // nothing of what is left can be used
		return after.gpus + after.slots/max(float64(n.Slots), 1) + after.memory/max(float64(n.Memory), 1)
	}
	cost += d.loss(n, &after) - f.loss
	if len(p.gpus) > 0 && len(d.price) > 0 {
		cost += d.price[n.GPUs[p.gpus[0]].Model] * (f.before.gpus - after.gpus)
	}
	return cost
}

// worth is how much of a GPU g is: 1, or the part of one that an instance has.
func worth(g *nodes.GPU) float64 {
	if g.Mode != nodes.ModeMIG {
		return 1
	}
	return float64(max(g.Fraction, 1)) / 10_000
}

// room is what is free on a node.
type room struct {
	gpus          float64 // in GPUs
	whole         int
	slots, memory float64
}

func roomOn(n *nodes.Node) (f room) {
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Whole() {
			f.whole++
			f.gpus++
		} else if free := g.Free(); free > 0 {
			f.gpus += float64(free) / float64(g.Capacity) * worth(g)
		}
	}
	f.slots, f.memory = float64(n.Slots-n.UsedSlots), float64(n.Memory-n.UsedMemory)
	return f
}

// loss is the part of a node's expected loss that does not come from single GPUs.
func (d *demand) loss(n *nodes.Node, f *room) float64 {
	sum := d.stranded(n, f) + packWeight*(math.Sqrt(max(f.gpus, 0))+math.Sqrt(max(f.slots, 0)/max(float64(n.Slots), 1)))
	if f.whole > 0 {
		for i := range d.groups {
			if g := &d.groups[i]; g.whole > f.whole || g.slots > f.slots || g.memory > f.memory {
				sum += groupWeight * g.share * float64(f.whole)
			}
		}
	}
	return sum
}

// stranded is how many of the free GPUs cannot be used for lack of slots and memory, or of the free slots of a node
// without GPUs for lack of memory.
func (d *demand) stranded(n *nodes.Node, f *room) float64 {
	if len(n.GPUs) == 0 {
		if f.slots <= 0 || d.memoryPerSlot == 0 {
			return 0
		}
		slots := f.slots - 1/(1/f.slots+ratio(d.memoryPerSlot, f.memory))
		if d.slots > 0 {
			return slots / d.slots // in the GPUs that they could serve
		}
		return slots
	}
	if f.gpus <= 0 {
		return 0
	}
	slots, memory := d.slots, d.memory
	if !d.known { // as the node is made
		gpus := 0.0
		for i := range n.GPUs {
			gpus += worth(&n.GPUs[i])
		}
		slots, memory = float64(n.Slots)/gpus, float64(n.Memory)/gpus
	}
	return f.gpus - 1/(1/f.gpus+ratio(slots, f.slots)+ratio(memory, f.memory))
}

// ratio is need/have; 0 when nothing is needed, infinite when something is and nothing is there.
func ratio(need, have float64) float64 {
	switch {
	case need <= 0:
		return 0
	case have <= 0:
		return math.Inf(1)
	}
	return need / have
}
