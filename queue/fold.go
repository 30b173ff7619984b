package queue

import "fairslice/nodes"

// Fold makes one job from its own events, for looking at a job that the Book has forgotten. Events
// that do not follow are skipped: history is shown as far as it can be.
func Fold(events []Event) *Job {
	b := NewBook()
	var last *Job
	for _, ev := range events {
		if s, ok := ev.Body.(*Started); ok {
			for _, a := range s.Alloc { // the nodes of that time are not known: make room
				n := &nodes.Node{ID: a.Node, Slots: a.Slots, Memory: a.Memory, Alive: true, Consumables: a.Consumables}
				for _, s := range a.Slices {
					n.GPUs = append(n.GPUs, nodes.GPU{UUID: s.UUID, Index: s.Index, Capacity: s.Amount})
				}
				grow(b, n)
			}
		}
		if _, ok := ev.Body.(*Forgotten); ok {
			break
		}
		ev.Seq = b.LastSeq + 1
		if b.Apply(ev) == nil && last == nil {
			last = b.Jobs[ev.Job]
		}
	}
	return last
}

// grow gives b a node with room for one more allocation like n.
func grow(b *Book, n *nodes.Node) {
	old := b.Nodes[n.ID]
	if old == nil {
		b.Nodes[n.ID] = n
		return
	}
	old.Slots += n.Slots
	old.Memory += n.Memory
	old.Taken = false
	sum := old.Consumables.Map()
	if sum == nil {
		sum = map[string]int64{}
	}
	for name, q := range n.Consumables.Map() {
		sum[name] += q
	}
	old.Consumables = nodes.MakeConsumables(sum)
next:
	for _, g := range n.GPUs {
		for i := range old.GPUs {
			if old.GPUs[i].UUID == g.UUID {
				old.GPUs[i].Capacity += g.Capacity
				continue next
			}
		}
		old.GPUs = append(old.GPUs, g)
	}
}
