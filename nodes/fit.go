package nodes

import (
	"fmt"
	"strings"
)

// Blocker says which resource of a node keeps a request out.
type Blocker string

// Blockers, in the order in which Fit looks.
const (
	BlockedByState      Blocker = "state"
	BlockedByExclusive  Blocker = "exclusive"
	BlockedBySlots      Blocker = "slots"
	BlockedByMemory     Blocker = "memory"
	BlockedByConsumable Blocker = "consumable"
	BlockedByGPU        Blocker = "gpu" // no GPU with enough left
)

// Misfit is why a request does not fit a node. Never says that the request could never fit: see CouldFit.
type Misfit struct {
	Blocker Blocker
	Need    int64  // in the blocker's own unit: slots, bytes, quantity, 1/100 fGPU or whole GPUs
	Have    int64  // what is free now, same unit
	What    string // the consumable's name; "fgpu", "gpus" for GPUs; the state's name
}

// Fit says whether r fits what is free on n now; when it does, the Misfit is nil.
func (n *Node) Fit(r Request) *Misfit {
	if s := n.State(); s != Up {
		return &Misfit{Blocker: BlockedByState, What: string(s)}
	}
	return n.fitResources(r)
}

// CouldFit is Fit on the same node with nothing on it, whatever its state: whether r can ever run there.
func (n *Node) CouldFit(r Request) *Misfit {
	return n.Empty().fitResources(r)
}

// Empty is n with nothing held.
func (n *Node) Empty() *Node {
	e := n.Clone()
	e.UsedSlots, e.UsedMemory, e.UsedConsumables, e.Holders, e.Taken = 0, 0, "", 0, false
	for i := range e.GPUs {
		e.GPUs[i].Used = 0
	}
	return e
}

func (n *Node) fitResources(r Request) *Misfit {
	if n.Taken || r.Exclusive && n.Holders > 0 {
		return &Misfit{Blocker: BlockedByExclusive, Have: int64(n.Holders)}
	}
	if free := n.Slots - n.UsedSlots; r.Slots > free {
		return &Misfit{Blocker: BlockedBySlots, Need: int64(r.Slots), Have: int64(free)}
	}
	if free := n.Memory - n.UsedMemory; r.Memory > free {
		return &Misfit{Blocker: BlockedByMemory, Need: r.Memory, Have: free}
	}
	if r.Consumables != "" {
		have, used := n.Consumables.Map(), n.UsedConsumables.Map()
		for name, q := range r.Consumables.Map() {
			if free := have[name] - used[name]; q > free {
				return &Misfit{Blocker: BlockedByConsumable, Need: q, Have: free, What: name}
			}
		}
	}
	if r.GPU.Zero() {
		return nil
	}
	if _, m := n.pickGPUs(r.GPU); m != nil {
		return m
	}
	return nil
}

// Carve takes r from n and returns what was taken. It is refused, with the Misfit, exactly when Fit refuses.
func (n *Node) Carve(r Request) (Allocation, *Misfit) {
	if m := n.Fit(r); m != nil {
		return Allocation{}, m
	}
	a := Allocation{Node: n.ID, Slots: r.Slots, Memory: r.Memory, Consumables: r.Consumables, Exclusive: r.Exclusive}
	if !r.GPU.Zero() {
		a.Slices, _ = n.pickGPUs(r.GPU)
	}
	if err := n.Take(a); err != nil {
		panic("internal error: impossible: what fits cannot be taken: " + err.Error())
	}
	return a, nil
}

// Take holds exactly a on n, whatever n's state: it is how a plan's allocation is committed and how
// live attempts are counted again after a restart. It is refused when it would break invariant 1.
func (n *Node) Take(a Allocation) error {
	if n.UsedSlots+a.Slots > n.Slots || n.UsedMemory+a.Memory > n.Memory || n.Taken || a.Exclusive && n.Holders > 0 {
		return fmt.Errorf("node %s: %d slots and %d bytes are not free", n.ID, a.Slots, a.Memory)
	}
	for i, s := range a.Slices {
		g := n.gpu(s.UUID)
		if g == nil || g.Used+s.Amount > g.Capacity || s.Amount <= 0 {
			return fmt.Errorf("node %s: %s fGPU are not free on GPU %s", n.ID, s.Amount, s.UUID)
		}
		for _, other := range a.Slices[:i] {
			if other.UUID == s.UUID {
				return fmt.Errorf("node %s: two slices of one attempt on GPU %s", n.ID, s.UUID)
			}
		}
	}
	used, err := addConsumables(n.UsedConsumables, a.Consumables, n.Consumables)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.ID, err)
	}
	n.UsedConsumables = used
	n.UsedSlots += a.Slots
	n.UsedMemory += a.Memory
	n.Holders++
	n.Taken = a.Exclusive
	for _, s := range a.Slices {
		n.gpu(s.UUID).Used += s.Amount
	}
	return nil
}

// Release gives a back. Releasing what is not held would break the books, and is an internal error.
func (n *Node) Release(a Allocation) {
	n.UsedSlots -= a.Slots
	n.UsedMemory -= a.Memory
	n.Holders--
	if a.Exclusive {
		n.Taken = false
	}
	if a.Consumables != "" {
		n.UsedConsumables = subConsumables(n.UsedConsumables, a.Consumables)
	}
	broken := n.UsedSlots < 0 || n.UsedMemory < 0 || n.Holders < 0
	for _, s := range a.Slices {
		if g := n.gpu(s.UUID); g != nil {
			g.Used -= s.Amount
			broken = broken || g.Used < 0
		}
	}
	if broken {
		panic(fmt.Sprintf("internal error: impossible: node %s released more than was held", n.ID))
	}
	n.shrink(a)
}

func (n *Node) gpu(uuid string) *GPU {
	for i := range n.GPUs {
		if n.GPUs[i].UUID == uuid {
			return &n.GPUs[i]
		}
	}
	return nil
}

// pickGPUs chooses slices for r: for a fraction the GPU that is left with least (best fit, so that
// whole GPUs stay whole), the lowest index among equals, so that the choice is deterministic.
func (n *Node) pickGPUs(r GPURequest) ([]Slice, *Misfit) {
	switch {
	case r.Whole > 0:
		var out []Slice
		for i := range n.GPUs {
			g := &n.GPUs[i]
			if len(out) < r.Whole && g.matches(r) && g.whole() {
				out = append(out, g.slice(g.Capacity))
			}
		}
		if len(out) < r.Whole {
			return nil, &Misfit{Blocker: BlockedByGPU, Need: int64(r.Whole), Have: int64(len(out)), What: "gpus"}
		}
		return out, nil
	case r.Memory > 0:
		return n.pickEach(max(r.Count, 1), r, func(g *GPU) Amount { return g.amountFor(r.Memory) })
	}
	return n.pickAmount(r)
}

// pickAmount places a fraction, or whole GPUs and a rest where more than one GPU is asked for.
func (n *Node) pickAmount(r GPURequest) ([]Slice, *Misfit) {
	if best := n.bestFit(r, func(*GPU) Amount { return r.Amount }, nil); best != nil {
		return []Slice{best.slice(r.Amount)}, nil
	}
	var freest Amount
	var largest Amount
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.matches(r) {
			freest, largest = max(freest, g.Free()), max(largest, g.Capacity)
		}
	}
	misfit := &Misfit{Blocker: BlockedByGPU, Need: int64(r.Amount), Have: int64(freest), What: "fgpu"}
	if r.Amount <= largest || largest == 0 {
		return nil, misfit
	}
	var out []Slice
	taken := map[string]bool{}
	rest := r.Amount
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.matches(r) && g.whole() && rest >= g.Capacity {
			out, rest = append(out, g.slice(g.Capacity)), rest-g.Capacity
			taken[g.UUID] = true
		}
	}
	if rest > 0 {
		g := n.bestFit(r, func(*GPU) Amount { return rest }, taken)
		if g == nil {
			return nil, misfit
		}
		out = append(out, g.slice(rest))
	}
	return out, nil
}

func (n *Node) pickEach(count int, r GPURequest, amount func(*GPU) Amount) ([]Slice, *Misfit) {
	var out []Slice
	taken := map[string]bool{}
	for range count {
		g := n.bestFit(r, amount, taken)
		if g == nil {
			return nil, &Misfit{Blocker: BlockedByGPU, Need: int64(count), Have: int64(len(out)), What: "slices"}
		}
		taken[g.UUID] = true
		out = append(out, g.slice(amount(g)))
	}
	return out, nil
}

func (n *Node) bestFit(r GPURequest, amount func(*GPU) Amount, except map[string]bool) *GPU {
	var best *GPU
	for i := range n.GPUs {
		g := &n.GPUs[i]
		a := amount(g)
		if a <= 0 || !g.matches(r) || except[g.UUID] || g.Free() < a {
			continue
		}
		if best == nil || g.Free()-a < best.Free()-amount(best) {
			best = g
		}
	}
	return best
}

func (g *GPU) matches(r GPURequest) bool {
	return g.Memory >= r.MinMemory &&
		(r.Model == "" || strings.Contains(strings.ToLower(g.Model), strings.ToLower(r.Model)))
}

func addConsumables(used, add, have Consumables) (Consumables, error) {
	if add == "" {
		return used, nil
	}
	u, h := used.Map(), have.Map()
	if u == nil {
		u = map[string]int64{}
	}
	for name, q := range add.Map() {
		if u[name] += q; u[name] > h[name] {
			return used, fmt.Errorf("%d of %s are not free", q, name)
		}
	}
	return MakeConsumables(u), nil
}

func subConsumables(used, less Consumables) Consumables {
	u := used.Map()
	for name, q := range less.Map() {
		if u[name] < q {
			panic(fmt.Sprintf("internal error: impossible: %d of %s released, %d were held", q, name, u[name]))
		}
		u[name] -= q
	}
	return MakeConsumables(u)
}
