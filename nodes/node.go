package nodes

import "time"

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

	UsedSlots       int         `json:"used_slots"`
	UsedMemory      int64       `json:"used_memory"`
	UsedConsumables Consumables `json:"used_consumables,omitempty"`
	Holders         int         `json:"holders"`         // live allocations
	Taken           bool        `json:"taken,omitempty"` // held exclusively
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

// Resize takes over a node's inventory as it registers (again), and keeps what is held. A node that
// came back smaller than what its live attempts hold keeps the held size until they end: capacity
// never falls below use, so invariant 1 holds, and nothing new fits meanwhile.
func (n *Node) Resize(inv Node) {
	n.Slots = max(inv.Slots, n.UsedSlots)
	n.Memory = max(inv.Memory, n.UsedMemory)
	n.Type, n.Model, n.BootID, n.Consumables = inv.Type, inv.Model, inv.BootID, inv.Consumables
	used := map[string]Amount{}
	for _, g := range n.GPUs {
		used[g.UUID] = g.Used
	}
	old := n.GPUs
	n.GPUs = append([]GPU(nil), inv.GPUs...)
	for i := range n.GPUs {
		g := &n.GPUs[i]
		g.Used = used[g.UUID]
		g.Capacity = max(g.Capacity, g.Used)
		delete(used, g.UUID)
	}
	for _, g := range old { // a GPU that vanished under a slice stays, as lost, until the slice ends
		if _, gone := used[g.UUID]; gone && g.Used > 0 {
			g.Lost = true
			n.GPUs = append(n.GPUs, g)
		}
	}
}
