package placement

import "fairslice/nodes"

// BestFit prefers the node that is left with least: half the slots and half the GPU left, in parts of what the
// largest of ns has, in whole percent. Without ns the scale is the node's own size. Of the GPUs of a node
// the fullest that fits is taken. It is BestFit of "Beware of Fragmentation" (ATC'23), a baseline.
func BestFit(ns ...*nodes.Node) Policy {
	b := bestFit{}
	for _, n := range ns {
		b.slots, b.gpu = max(b.slots, n.Slots), max(b.gpu, capacity(n))
	}
	return &policy{scorer: b}
}

// bestFit holds the scale; 0 means the node's own.
type bestFit struct {
	slots int
	gpu   nodes.Amount
}

func (bestFit) epoch() uint64     { return 0 }
func (bestFit) begin(*nodes.Node) {}
func (b bestFit) clone() scorer   { return b }

func (b bestFit) score(n *nodes.Node, r *nodes.Request, p *pick) float64 {
	if b.slots == 0 {
		b.slots = n.Slots
	}
	if b.gpu == 0 {
		b.gpu = capacity(n)
	}
	left := 0.0
	if b.slots > 0 {
		left += float64(n.Slots-n.UsedSlots-r.Slots) / float64(b.slots) * 0.5
	}
	if b.gpu > 0 {
		left += float64(free(n)-p.total()) / float64(b.gpu) * 0.5
	}
	return -float64(int((1 - left) * 100))
}

// Packing prefers shared GPUs, then free GPUs of a node in use, then the smallest free node; a request without a
// GPU goes anywhere. It is GpuPacking of the same paper, a baseline.
func Packing() Policy { return &policy{scorer: packing{}} }

type packing struct{}

func (packing) epoch() uint64     { return 0 }
func (packing) begin(*nodes.Node) {}
func (p packing) clone() scorer   { return p }

// The bands of the published score, of 100: 100 to 50 shared GPUs, 50 to 33 free GPUs, below a free node.
const (
	allShared = 100
	someFree  = 50
	freeNode  = 33
)

func (packing) score(n *nodes.Node, r *nodes.Request, p *pick) float64 {
	if len(p.gpus) == 0 {
		return 0
	}
	wholeFree := 0
	for i := range n.GPUs {
		if n.GPUs[i].Used == 0 {
			wholeFree++
		}
	}
	if wholeFree == len(n.GPUs) {
		return -float64(max(freeNode-wholeFree, wholeFree))
	}
	opened, percentLeft := 0, int64(0)
	for _, i := range p.gpus {
		g := &n.GPUs[i]
		if g.Used == 0 {
			opened++
		}
		percentLeft += int64(g.Free()) * 100 / int64(g.Capacity)
	}
	if opened > 0 {
		return -float64(max(someFree-opened, freeNode))
	}
	return -float64(max(allShared-percentLeft/10, someFree))
}

func capacity(n *nodes.Node) (sum nodes.Amount) {
	for i := range n.GPUs {
		sum += n.GPUs[i].Capacity
	}
	return sum
}

func free(n *nodes.Node) (sum nodes.Amount) {
	for i := range n.GPUs {
		sum += n.GPUs[i].Free()
	}
	return sum
}
