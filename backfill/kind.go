package backfill

import (
	"encoding/binary"
	"slices"

	"fairslice/nodes"
)

// kind is all hosts that are alike: the same capacity, with the same held. What fits one fits all, and costs
// the same, so a plan looks at kinds, of which even large clusters have few.
type kind struct {
	key    string
	node   *nodes.Node // a copy of one of them, without its name
	hosts  []*host     // the first in the order of their IDs last: it is taken first, and to take from the end moves nothing
	place  int         // in kinds.list
	slots  int         // free
	memory int64       // free
	gpu    nodes.Amount
}

type kinds struct {
	byKey map[string]*kind
	list  []*kind
	key   []byte // scratch
}

// settle finds the kind of h as it is now.
func (k *kinds) settle(h *host) {
	k.leave(h)
	h.stale = false
	if h.claims > 0 || h.node.State() != nodes.Up {
		return
	}
	k.encode(h.node)
	x := k.byKey[string(k.key)]
	if x == nil {
		x = k.add(h.node)
	}
	h.kind = x
	i, _ := slices.BinarySearchFunc(x.hosts, h.index, func(o *host, index int) int { return index - o.index })
	x.hosts = slices.Insert(x.hosts, i, h)
}

func (k *kinds) add(n *nodes.Node) *kind {
	x := &kind{key: string(k.key), node: n.Clone(), place: len(k.list)}
	x.slots, x.memory = n.Slots-n.UsedSlots, n.Memory-n.UsedMemory
	if n.Taken {
		x.slots = 0
	}
	for i := range n.GPUs {
		x.gpu = max(x.gpu, n.GPUs[i].Free())
	}
	k.byKey[x.key], k.list = x, append(k.list, x)
	return x
}

func (k *kinds) leave(h *host) {
	x := h.kind
	if x == nil {
		return
	}
	h.kind = nil
	i, _ := slices.BinarySearchFunc(x.hosts, h.index, func(o *host, index int) int { return index - o.index })
	if x.hosts = slices.Delete(x.hosts, i, i+1); len(x.hosts) > 0 {
		return
	}
	delete(k.byKey, x.key)
	last := k.list[len(k.list)-1]
	k.list[x.place], last.place = last, x.place
	k.list = k.list[:len(k.list)-1]
}

// encode writes the state of n to k.key: all that Fit and the costs of a placement depend on.
func (k *kinds) encode(n *nodes.Node) {
	b := k.key[:0]
	for _, v := range [...]int64{int64(n.Slots), int64(n.UsedSlots), n.Memory, n.UsedMemory, int64(min(n.Holders, 1)), int64(len(n.GPUs))} {
		b = binary.AppendVarint(b, v)
	}
	b = append(b, bit(n.Taken))
	b = text(text(b, string(n.Consumables)), string(n.UsedConsumables))
	for i := range n.GPUs {
		g := &n.GPUs[i]
		b = binary.AppendVarint(b, int64(g.Capacity))
		b = binary.AppendVarint(b, int64(g.Used))
		b = binary.AppendVarint(b, g.Memory)
		b = text(append(b, bit(g.Lost || g.Unfenced != "")), g.Model)
		switch g.Mode {
		case nodes.ModeMIG:
			b = binary.AppendVarint(append(b, 'i'), int64(g.Fraction))
		case nodes.ModeMPS:
			b = text(append(b, 'm'), g.Holder)
		default: // all others are shared alike
			b = append(b, 's')
		}
	}
	k.key = b
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func text(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }

// fits says whether one element of c fits the hosts of k, on one of them.
func (k *kind) fits(r *nodes.Request) bool {
	if r.Slots > k.slots || r.Memory > k.memory || r.GPU.Amount > 0 && k.gpu == 0 {
		return false
	}
	return plain(r) || k.node.Fits(r)
}
