package placement

import (
	"math"
	"strings"

	"fairslice/nodes"
)

// The constants of the fragmentation policy: how they were found is in doc.go.
const (
	offers      = 8    // requests for a fraction that a started GPU can choose from
	groupWeight = 0.2  // of whole GPUs on a node that cannot take a request for several
	priceWeight = 0.2  // of a GPU of a model, in parts of its constrained demand over its supply
	startWeight = 0.1  // of a whole GPU that a fraction starts
	packWeight  = 1e-2 // of filling a node up: decides between nodes that are equal otherwise
)

// demand is a mix as nodes whose GPUs have one capacity and memory see it, in units of such a GPU.
type demand struct {
	// waste is what is expected to stay unused of a GPU with a part of it free, by hundredths of fGPU
	// (coarser on GPUs of many fGPU).
	waste []float64
	// slots and memory are what GPU jobs ask for beside one GPU; 0 when they ask for none.
	slots, memory float64
	known         bool // GPU jobs have been seen
	groups        []group
	price         map[string]float64 // of one GPU, by model
	// memoryPerSlot is of jobs without GPUs, 0 when they ask for none.
	memoryPerSlot float64
}

// group is a request for several whole GPUs of one node.
type group struct {
	whole         int
	slots, memory float64
	share         float64 // of the GPUs asked for
}

// gpuDemand is what one shape asks of GPUs of a kind: this many whole ones and this many parts of a size.
type gpuDemand struct {
	whole, parts int
	size         float64
}

func (d gpuDemand) total() float64 { return float64(d.whole) + float64(d.parts)*d.size }

// maxSteps bounds the tables of waste.
const maxSteps = 1000

func newDemand(m *Mix, capacity nodes.Amount, memory int64) *demand {
	d := &demand{price: map[string]float64{}}
	steps := int(min(capacity, maxSteps))
	parts := make([]float64, steps+1) // weight by size
	var gpus, cpuSlots, cpuMemory float64
	for _, s := range m.Shapes() {
		r := &s.Request
		g := demandOf(&r.GPU, capacity, memory)
		size := s.Share * g.total()
		if size == 0 {
			cpuSlots += s.Share * float64(r.Slots)
			cpuMemory += s.Share * float64(r.Memory)
			continue
		}
		gpus += size
		d.slots += s.Share * float64(r.Slots)
		d.memory += s.Share * float64(r.Memory)
		parts[int(math.Ceil(g.size*float64(steps)-1e-9))] += s.Share * float64(g.parts)
		if g.whole > 1 {
			d.groups = append(d.groups, group{g.whole, float64(r.Slots), float64(r.Memory), s.Share * float64(g.whole)})
		}
		d.addPrice(m, r.GPU.Model, size)
	}
	d.waste = expectedWaste(parts)
	if cpuSlots > 0 {
		d.memoryPerSlot = cpuMemory / cpuSlots
	}
	if gpus == 0 {
		return d
	}
	d.known = true
	d.slots, d.memory = d.slots/gpus, d.memory/gpus
	for k := range d.groups {
		d.groups[k].share /= gpus
	}
	for model := range d.price {
		d.price[model] *= priceWeight / gpus
	}
	return d
}

// demandOf is r on GPUs of this capacity and memory; nothing where it cannot run there.
func demandOf(r *nodes.GPURequest, capacity nodes.Amount, memory int64) gpuDemand {
	switch {
	case r.Whole > 0:
		return gpuDemand{whole: r.Whole}
	case r.Amount > 0 && capacity > 0:
		d := gpuDemand{whole: int(r.Amount / capacity)}
		if rest := r.Amount % capacity; rest > 0 {
			d.parts, d.size = 1, float64(rest)/float64(capacity)
		}
		return d
	case r.Memory > 0 && r.Memory < memory:
		return gpuDemand{parts: max(r.Count, 1), size: float64(r.Memory) / float64(memory)}
	case r.Memory > 0 && r.Memory == memory:
		return gpuDemand{whole: max(r.Count, 1)}
	}
	return gpuDemand{}
}

// expectedWaste is, for each free part of a GPU, what is expected to stay unused of it when `offers` requests of the
// mix come by, one after another, and each is taken when that leaves less waste than to wait for the next:
//
//	V0(h) = h,   Vk(h) = E over sizes a of min(V(k-1)(h), V(k-1)(h-a))   with a > h never taken.
//
// A GPU that is wholly free wastes nothing: a whole one can be given.
func expectedWaste(parts []float64) []float64 {
	steps := len(parts) - 1
	total := 0.0
	for _, w := range parts {
		total += w
	}
	v, next := make([]float64, steps+1), make([]float64, steps+1)
	for h := range v {
		v[h] = float64(h) / float64(max(steps, 1))
	}
	for k := 0; k < offers && total > 0; k++ {
		for h := range v {
			sum, refused := 0.0, 1.0
			for a := 1; a <= h; a++ {
				if p := parts[a] / total; p > 0 {
					sum += p * min(v[h], v[h-a])
					refused -= p
				}
			}
			next[h] = sum + refused*v[h]
		}
		v, next = next, v
	}
	v[steps] = 0
	return v
}

// addPrice adds the demand of those who need one of these models to the price of each: in parts of what there is of
// them, so that a model which all could do without has none.
func (d *demand) addPrice(m *Mix, models string, size float64) {
	if models == "" {
		return
	}
	suits := func(model string) bool {
		for one := range strings.SplitSeq(models, "|") {
			if one != "" && strings.Contains(strings.ToLower(model), strings.ToLower(one)) {
				return true
			}
		}
		return false
	}
	all, suiting := 0.0, 0.0
	for model, gpus := range m.supply {
		all += gpus
		if suits(model) {
			suiting += gpus
		}
	}
	for model := range m.supply {
		if suits(model) {
			d.price[model] += size * all / suiting
		}
	}
}

// wasteOf is the waste expected of a GPU of this capacity with this much free.
func (d *demand) wasteOf(free, capacity nodes.Amount) float64 {
	steps := nodes.Amount(len(d.waste) - 1)
	if capacity <= 0 || free <= 0 || steps <= 0 {
		return 0
	}
	return d.waste[min(free, capacity)*steps/capacity]
}
