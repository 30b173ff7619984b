package placement

import "fairslice/nodes"

// Policy says what it costs to put a request on a node, and where on the node it goes. Costs of one
// policy compare between nodes: the node with the least is the best. The same state of a node costs the
// same: the name of the node and of its GPUs never matter. Not for concurrent use.
type Policy interface {
	// Cost is Place without the allocation, and allocates nothing for whole GPUs and fractions of one. ok is
	// false exactly when n.Fit(r) is not nil. n is not changed.
	Cost(n *nodes.Node, r nodes.Request) (cost float64, ok bool)
	// Place is the best allocation of r on n. n is not changed: n.Take takes it.
	Place(n *nodes.Node, r nodes.Request) (a nodes.Allocation, cost float64, ok bool)
	// Epoch changes when costs may: what was worked out in another epoch does not compare.
	Epoch() uint64
	// Clone is the policy as it is now, for use beside this one: it does not see what its Mix observes later.
	Clone() Policy
}

// scorer is the part in which policies differ: the cost of one way to put r on n.
type scorer interface {
	// begin comes before the scores of the ways to put one request on one node.
	begin(n *nodes.Node)
	// score is the cost when r takes the GPUs of p. Lower is better.
	score(n *nodes.Node, r *nodes.Request, p *pick) float64
	epoch() uint64
	clone() scorer
}

// policy makes a Policy of a scorer: it lists the ways to put r on n and takes the cheapest.
type policy struct {
	scorer
	r nodes.Request // the one asked about; here, and not on the stack, so that asking allocates nothing
	p pick
}

func (o *policy) Epoch() uint64 { return o.epoch() }

func (o *policy) Clone() Policy { return &policy{scorer: o.clone()} }

func (o *policy) Cost(n *nodes.Node, r nodes.Request) (float64, bool) {
	cost, _, ok := o.best(n, r)
	return cost, ok
}

func (o *policy) Place(n *nodes.Node, r nodes.Request) (nodes.Allocation, float64, bool) {
	cost, gpu, ok := o.best(n, r)
	if !ok {
		return nodes.Allocation{}, 0, false
	}
	a, _ := carve(n, r, gpu)
	return a, cost, true
}

// best is the least cost, and the GPU for a fraction of one (anyGPU otherwise).
func (o *policy) best(n *nodes.Node, asked nodes.Request) (cost float64, gpu int, ok bool) {
	o.r = asked
	r := &o.r
	if n.State() != nodes.Up || !n.Fits(r) {
		return 0, anyGPU, false
	}
	o.begin(n)
	switch {
	case r.GPU.Zero():
		o.p.none()
	case r.GPU.Whole > 0:
		o.p.whole(n, r.GPU)
	case r.GPU.Memory == 0 && onOneGPU(n, r.GPU):
		best, least := anyGPU, nodes.Amount(0)
		for i := range n.GPUs {
			g := &n.GPUs[i]
			a := g.Grant(&r.GPU, r.GPU.Amount)
			if a == 0 || best != anyGPU && a > least || twin(n, i) {
				continue
			}
			o.p.one(i, a)
			c := o.score(n, r, &o.p)
			if best == anyGPU || a < least || c < cost || c == cost && fuller(g, &n.GPUs[best]) {
				best, cost, least = i, c, a
			}
		}
		return cost, best, true
	default:
		a, _ := carve(n, *r, anyGPU)
		o.p.slices(n, a.Slices)
	}
	return o.score(n, r, &o.p), anyGPU, true
}

// onOneGPU says that a fraction that fits n fits one GPU of it.
func onOneGPU(n *nodes.Node, r nodes.GPURequest) bool {
	for i := range n.GPUs {
		if n.GPUs[i].Grant(&r, r.Amount) > 0 {
			return true
		}
	}
	return false
}

// fuller says that of two GPUs that cost the same g has less left, or is an instance with less memory.
func fuller(g, h *nodes.GPU) bool {
	if g.Free() != h.Free() {
		return g.Free() < h.Free()
	}
	return g.Mode == nodes.ModeMIG && h.Mode == nodes.ModeMIG && g.Memory < h.Memory
}

// twin says that a GPU before i is in the same state, so that taking either is the same.
func twin(n *nodes.Node, i int) bool {
	g := &n.GPUs[i]
	for j := range i {
		h := &n.GPUs[j]
		if h.Used == g.Used && h.Capacity == g.Capacity && h.Memory == g.Memory && h.Free() == g.Free() && h.Whole() == g.Whole() && h.Model == g.Model &&
			h.Mode == g.Mode && h.Fraction == g.Fraction && h.Holder == g.Holder {
			return true
		}
	}
	return false
}

// anyGPU leaves the choice of GPUs to nodes.Carve.
const anyGPU = -1

// carve is the allocation of r on n that has its fraction on this GPU, or on those that nodes.Carve takes.
func carve(n *nodes.Node, r nodes.Request, gpu int) (nodes.Allocation, bool) {
	c := n.Clone()
	if gpu != anyGPU {
		for i := range c.GPUs {
			c.GPUs[i].Lost = c.GPUs[i].Lost || i != gpu // Carve then has no choice
		}
	}
	a, m := c.Carve(r)
	return a, m == nil
}

// pick is what a request takes of each GPU of a node.
type pick struct {
	gpus    []int // indices into Node.GPUs
	amounts []nodes.Amount
}

func (p *pick) none() { p.gpus, p.amounts = p.gpus[:0], p.amounts[:0] }

func (p *pick) one(gpu int, a nodes.Amount) {
	p.none()
	p.add(gpu, a)
}

func (p *pick) add(gpu int, a nodes.Amount) {
	p.gpus, p.amounts = append(p.gpus, gpu), append(p.amounts, a)
}

// whole picks the GPUs that nodes.Carve takes for whole ones.
func (p *pick) whole(n *nodes.Node, r nodes.GPURequest) {
	p.none()
	for i := range n.GPUs {
		if g := &n.GPUs[i]; len(p.gpus) < r.Whole && g.Whole() && g.Matches(&r) {
			p.add(i, g.Capacity)
		}
	}
}

func (p *pick) slices(n *nodes.Node, slices []nodes.Slice) {
	p.none()
	for _, s := range slices {
		for i := range n.GPUs {
			if n.GPUs[i].UUID == s.UUID {
				p.add(i, s.Amount)
			}
		}
	}
}

func (p *pick) total() (sum nodes.Amount) {
	for _, a := range p.amounts {
		sum += a
	}
	return sum
}
