package nodes

import (
	"slices"
	"time"
)

// ID is a node's name, unique in the cluster.
type ID string

// State of a node.
type State string

// Node states. Down wins over Drained in what is shown; Drained is remembered beside it (Node.Drained).
const (
	Up      State = "up"
	Drained State = "drained" // closed by an administrator: what runs goes on, nothing starts
	Down    State = "down"    // heartbeats stopped
)

// Node is a machine running noded, and what of it is held.
type Node struct {
	ID       ID        `json:"id"`
	Alive    bool      `json:"alive"`            // connected, heartbeats arrive
	Closed   bool      `json:"closed,omitempty"` // by an administrator
	Reason   string    `json:"reason,omitempty"` // why closed
	ClosedBy string    `json:"closed_by,omitempty"`
	Since    time.Time `json:"since,omitzero"`    // of the present state
	BootID   string    `json:"boot_id,omitempty"` // of the machine; another one after a reboot

	Slots       int         `json:"slots"`
	Memory      int64       `json:"memory"` // bytes
	GPUs        []GPU       `json:"gpus,omitempty"`
	Consumables Consumables `json:"consumables,omitempty"`
	Type        string      `json:"type,omitempty"`  // select[type==…], e.g. X86_64
	Model       string      `json:"model,omitempty"` // of the CPU
	MaxMemory   int64       `json:"max_memory,omitempty"`
	Unenforced  []string    `json:"unenforced,omitempty"` // for people: what jobs are not kept from there, and why

	UsedSlots       int         `json:"used_slots"`
	UsedMemory      int64       `json:"used_memory"`
	UsedConsumables Consumables `json:"used_consumables,omitempty"`
	Holders         int         `json:"holders"`         // live allocations
	Taken           bool        `json:"taken,omitempty"` // held exclusively

	Excess Excess `json:"excess,omitzero"`
}

// Excess is by how much a node's capacity is above what it really has, because live attempts held
// more than that when it registered. It is given up first as they end. While there is any of a
// resource, none of it is free.
type Excess struct {
	Slots       int         `json:"slots,omitempty"`
	Memory      int64       `json:"memory,omitempty"`
	Consumables Consumables `json:"consumables,omitempty"`
}

// State is what the node is now.
func (n *Node) State() State {
	switch {
	case !n.Alive:
		return Down
	case n.Closed:
		return Drained
	}
	return Up
}

// Clone copies n so that a plan can carve it.
func (n *Node) Clone() *Node {
	c := *n
	c.GPUs = append([]GPU(nil), n.GPUs...)
	return &c
}

// SameInventory says whether n and o are the same but for what is held on them.
func (n *Node) SameInventory(o *Node) bool {
	if n.ID != o.ID || n.State() != o.State() || n.Slots != o.Slots || n.Memory != o.Memory || n.Consumables != o.Consumables ||
		n.Type != o.Type || n.Model != o.Model || n.MaxMemory != o.MaxMemory || n.Excess != o.Excess || len(n.GPUs) != len(o.GPUs) ||
		!slices.Equal(n.Unenforced, o.Unenforced) {
		return false
	}
	for i := range n.GPUs {
		a, b := n.GPUs[i], o.GPUs[i]
		a.empty()
		b.empty()
		if a != b {
			return false
		}
	}
	return true
}

// Part is what share is of n, as a node with nothing held: the part of it that an advance reservation has. A part of
// a GPU is never given as a whole one.
func (n *Node) Part(share Allocation) *Node {
	x := *n
	x.Slots, x.Memory, x.Consumables, x.GPUs = share.Slots, share.Memory, share.Consumables, nil
	x.UsedSlots, x.UsedMemory, x.UsedConsumables, x.Holders, x.Taken, x.Excess = 0, 0, "", 0, false, Excess{}
	for _, s := range share.Slices {
		if g := n.gpu(s.UUID); g != nil {
			part := *g
			part.empty()
			part.of, part.Capacity, part.Memory, part.Excess = g.Capacity, s.Amount, s.Memory, 0
			x.GPUs = append(x.GPUs, part)
		}
	}
	return &x
}

// Resize takes over a node's inventory as it registers (again), and keeps what is held. A node that
// came back smaller than what its live attempts hold keeps the held size, and shrinks as they end
// (Excess): capacity never falls below use, so invariant 1 holds, and nothing new fits meanwhile.
func (n *Node) Resize(inv Node) {
	n.Slots, n.Excess.Slots = atLeast(inv.Slots, n.UsedSlots)
	n.Memory, n.Excess.Memory = atLeast(inv.Memory, n.UsedMemory)
	n.Consumables, n.Excess.Consumables = atLeastConsumables(inv.Consumables, n.UsedConsumables)
	n.Type, n.Model, n.BootID, n.MaxMemory, n.Unenforced = inv.Type, inv.Model, inv.BootID, inv.MaxMemory, inv.Unenforced
	old := map[string]GPU{}
	had := n.GPUs
	for _, g := range had {
		old[g.UUID] = g
	}
	n.GPUs = append([]GPU(nil), inv.GPUs...)
	for i := range n.GPUs {
		g := &n.GPUs[i]
		was := old[g.UUID]
		g.Used, g.Holder = was.Used, ""
		if g.Mode == was.Mode { // otherwise what is held was given by other rules: nobody shares it
			g.Holder = was.Holder
		}
		g.Capacity, g.Excess = atLeast(g.Capacity, g.Used)
		delete(old, g.UUID)
	}
	for _, g := range had { // a GPU that vanished under a slice stays, as lost, until the slice ends
		if _, gone := old[g.UUID]; gone && g.Used > 0 {
			g.Lost = true
			n.GPUs = append(n.GPUs, g)
		}
	}
}

// atLeast is the capacity of what really is there and is used, and how much of it is excess.
func atLeast[T ~int | ~int64](real, used T) (capacity, excess T) {
	return max(real, used), max(used-real, 0)
}

// giveUp takes from a capacity what of freed was excess.
func giveUp[T ~int | ~int64](capacity, excess, freed T) (T, T) {
	d := min(excess, freed)
	return capacity - d, excess - d
}

func atLeastConsumables(real, used Consumables) (capacity, excess Consumables) {
	if used == "" {
		return real, ""
	}
	capOf, over := real.Map(), map[string]int64{}
	if capOf == nil {
		capOf = map[string]int64{}
	}
	for name, q := range used.Map() {
		capOf[name], over[name] = atLeast(capOf[name], q)
	}
	return MakeConsumables(capOf), MakeConsumables(over)
}

// shrink gives up the excess that a's end frees.
func (n *Node) shrink(a Allocation) {
	x := &n.Excess
	n.Slots, x.Slots = giveUp(n.Slots, x.Slots, a.Slots)
	n.Memory, x.Memory = giveUp(n.Memory, x.Memory, a.Memory)
	for _, s := range a.Slices {
		if g := n.gpu(s.UUID); g != nil {
			g.Capacity, g.Excess = giveUp(g.Capacity, g.Excess, s.Amount)
		}
	}
	if x.Consumables == "" || a.Consumables == "" {
		return
	}
	capOf, over := n.Consumables.Map(), x.Consumables.Map()
	for name, q := range a.Consumables.Map() {
		capOf[name], over[name] = giveUp(capOf[name], over[name], q)
	}
	n.Consumables, x.Consumables = MakeConsumables(capOf), MakeConsumables(over)
}
