package nodes

import (
	"fmt"
	"slices"
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
	Need    int64 // in the blocker's own unit: slots, bytes, quantity, 1/100 fGPU or whole GPUs
	Have    int64 // what is free now, same unit
	// What is the consumable's name, or the state's; for GPUs "fgpu", "gpus", "slices", or "mps" when enough is left, but
	// of GPUs in ModeMPS that another user has.
	What string
}

// Fit says whether r fits what is free on n now; when it does, the Misfit is nil.
func (n *Node) Fit(r Request) *Misfit {
	if s := n.State(); s != Up {
		return &Misfit{Blocker: BlockedByState, What: string(s)}
	}
	if m, bad := n.misfit(&r); bad {
		return m.copy()
	}
	return nil
}

// copy moves m to the heap only when there is one to tell.
func (m Misfit) copy() *Misfit { return &m }

// Fits says whether r fits what is free on n, whatever n's state. It is Fit for those who ask it millions of
// times: it does not say why not, and allocates nothing.
func (n *Node) Fits(r *Request) bool {
	_, bad := n.misfit(r)
	return !bad
}

// CouldFit is Fit on the same node with nothing on it, whatever its state: whether r can ever run there.
func (n *Node) CouldFit(r Request) *Misfit {
	if m, bad := n.Empty().misfit(&r); bad {
		return m.copy()
	}
	return nil
}

// Empty is n with nothing held.
func (n *Node) Empty() *Node {
	e := n.Clone()
	e.UsedSlots, e.UsedMemory, e.UsedConsumables, e.Holders, e.Taken = 0, 0, "", 0, false
	for i := range e.GPUs {
		e.GPUs[i].empty()
	}
	return e
}

// misfit is why r does not fit what is free on n; false says that it does.
func (n *Node) misfit(r *Request) (Misfit, bool) {
	if n.Taken || r.Exclusive && n.Holders > 0 {
		return Misfit{Blocker: BlockedByExclusive, Have: int64(n.Holders)}, true
	}
	if free := n.Slots - n.UsedSlots; r.Slots > free {
		return Misfit{Blocker: BlockedBySlots, Need: int64(r.Slots), Have: int64(free)}, true
	}
	if free := n.Memory - n.UsedMemory; r.Memory > free {
		return Misfit{Blocker: BlockedByMemory, Need: r.Memory, Have: free}, true
	}
	if r.Consumables != "" {
		have, used := n.Consumables.Map(), n.UsedConsumables.Map()
		for name, q := range r.Consumables.Map() {
			if free := have[name] - used[name]; q > free {
				return Misfit{Blocker: BlockedByConsumable, Need: q, Have: free, What: name}, true
			}
		}
	}
	if r.GPU.Zero() {
		return Misfit{}, false
	}
	return n.gpuMisfit(&r.GPU)
}

// Carve takes r from n and returns what was taken. It is refused, with the Misfit, exactly when Fit refuses.
func (n *Node) Carve(r Request) (Allocation, *Misfit) {
	if m := n.Fit(r); m != nil {
		return Allocation{}, m
	}
	a := Allocation{Node: n.ID, Slots: r.Slots, Memory: r.Memory, Consumables: r.Consumables, Exclusive: r.Exclusive}
	if !r.GPU.Zero() {
		a.Slices, _ = n.pickGPUs(&r.GPU)
		if slices.ContainsFunc(a.Slices, func(s Slice) bool { return s.Mode == ModeMPS }) {
			a.User = r.GPU.User
		}
	}
	if err := n.Take(a); err != nil {
		panic("internal error: impossible: what fits cannot be taken: " + err.Error())
	}
	return a, nil
}

// CarveAll takes all that n has, its instances too, alone. It is refused, with a Misfit, where anything of n is held or n is not up.
// What of it is lost or unfenced is left out.
func (n *Node) CarveAll() (Allocation, *Misfit) {
	a := Allocation{Node: n.ID, Slots: n.Slots, Memory: n.Memory, Consumables: n.Consumables, Exclusive: true}
	if m := n.Fit(Request{Slots: a.Slots, Memory: a.Memory, Consumables: a.Consumables, Exclusive: true}); m != nil {
		return Allocation{}, m
	}
	for i := range n.GPUs {
		switch g := &n.GPUs[i]; {
		case g.Lost || g.Unfenced != "" || g.Capacity == 0:
		case g.Used > 0:
			return Allocation{}, &Misfit{Blocker: BlockedByGPU, Need: int64(g.Capacity), Have: int64(g.Free()), What: "fgpu"}
		default:
			a.Slices = append(a.Slices, g.slice(g.Capacity))
		}
	}
	if err := n.Take(a); err != nil {
		panic("internal error: impossible: what fits cannot be taken: " + err.Error())
	}
	return a, nil
}

// Admits says why an allocation that was planned on an older state of n must not begin now, though Take may have room for
// it: a GPU has been lost, is no longer fenced, or is in another mode since, or it is one that a may not share.
func (n *Node) Admits(a Allocation) error {
	for _, s := range a.Slices {
		switch g := n.gpu(s.UUID); {
		case g == nil:
			return fmt.Errorf("node %s: there is no GPU %s", n.ID, s.UUID)
		case g.Lost:
			return fmt.Errorf("node %s: GPU %s is lost", n.ID, s.UUID)
		case g.Unfenced != "":
			return fmt.Errorf("node %s: GPU %s is not fenced: %s", n.ID, s.UUID, g.Unfenced)
		case g.Mode != s.Mode:
			return fmt.Errorf("node %s: GPU %s is in mode %q, the slice is for %q", n.ID, s.UUID, g.Mode, s.Mode)
		case s.Amount > g.Free() || !g.admits(a.User):
			return fmt.Errorf("node %s: GPU %s is in use", n.ID, s.UUID)
		}
	}
	return nil
}

// Take holds exactly a on n, whatever n's state: it is how a plan's allocation is committed and how
// live attempts are counted again after a restart. It is refused when it would break invariant 1. What was given
// before the mode of its GPU changed counts too: it goes on. Whether a new attempt may begin, Admits says.
func (n *Node) Take(a Allocation) error {
	if n.UsedSlots+a.Slots > n.Slots || n.UsedMemory+a.Memory > n.Memory || n.Taken || a.Exclusive && n.Holders > 0 {
		return fmt.Errorf("node %s: %d slots and %d bytes are not free", n.ID, a.Slots, a.Memory)
	}
	for i, s := range a.Slices {
		g := n.gpu(s.UUID)
		if g == nil || g.Used+s.Amount > g.Capacity || s.Amount <= 0 {
			return fmt.Errorf("node %s: %s fGPU are not free on GPU %s", n.ID, s.Amount, s.UUID)
		}
		if g.Mode == ModeMPS && s.Mode == ModeMPS && g.Holder != "" && g.Holder != a.User {
			return fmt.Errorf("node %s: GPU %s is in use by %s (MPS), and not for %q", n.ID, s.UUID, g.Holder, a.User)
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
		n.gpu(s.UUID).hold(s, a.User)
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
			g.release(s)
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
