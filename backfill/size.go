package backfill

import (
	"slices"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// total is what the hosts that are up have.
type total struct {
	slots     int
	fgpu      nodes.Amount
	inventory uint64 // for which it was added up
}

func (p *Planner) total() *total {
	t := &p.has
	if t.inventory != p.inventory+1 {
		*t = total{inventory: p.inventory + 1}
		for _, h := range p.hosts {
			if h.window != "" || h.node.State() != nodes.Up {
				continue
			}
			t.slots += h.node.Slots
			for i := range h.node.GPUs {
				t.fgpu += h.node.GPUs[i].Capacity
			}
		}
	}
	return t
}

// size is how large an element of s is in slots: those it takes, or as many as its share of all GPUs would be, if that is
// more; and what share of all slots that is.
func (p *Planner) size(s *queue.Shape) (size, share float64) {
	t := p.total()
	size = float64(s.Slots)
	if t.fgpu > 0 && !s.Host.GPU.Zero() {
		size = max(size, float64(p.fgpuOf(s))/float64(t.fgpu)*float64(t.slots))
	}
	return size, min(size/float64(max(t.slots, 1)), 1)
}

// fgpuOf is about how much GPU an element of s takes.
func (p *Planner) fgpuOf(s *queue.Shape) nodes.Amount {
	g := &s.Host.GPU
	amount := g.Amount
	if g.Whole > 0 || g.Memory > 0 {
		amount = nodes.OneFGPU * nodes.Amount(max(g.Whole, g.Count, 1))
		for _, h := range p.hosts {
			if i := slices.IndexFunc(h.node.GPUs, whole); i >= 0 { // as on the first host that has any
				x := &h.node.GPUs[i]
				if amount = x.Capacity * nodes.Amount(max(g.Whole, g.Count, 1)); g.Memory > 0 && x.Memory > 0 {
					amount = nodes.Amount(float64(amount) * min(float64(g.Memory)/float64(x.Memory), 1))
				}
				break
			}
		}
	}
	hosts := 1
	if s.PerHost > 0 {
		hosts = (s.Slots + s.PerHost - 1) / s.PerHost
	}
	return amount * nodes.Amount(hosts)
}

func whole(g nodes.GPU) bool { return g.Mode != nodes.ModeMIG }

// work is how many slot-seconds n elements of s may take.
func work(s *queue.Shape, n int) int64 {
	limit := int64(longestGuarded)
	if s.RunLimit > 0 {
		limit = min(limit, int64(s.RunLimit/time.Second))
	}
	return limit * int64(s.Slots) * int64(n)
}

// meets is how long the cluster would take for what waits now, at least 1 ns.
func (p *Planner) meets() time.Duration {
	return max(time.Duration(float64(p.waiting)/float64(max(p.total().slots, 1))*float64(time.Second)), 1)
}

// leftOf is what still waits of a job, and what it met when it was submitted.
func (p *Planner) leftOf(id queue.JobID) (n int, s *queue.Shape, met time.Duration) {
	if i := p.items[id]; i != nil {
		n, s, met = len(i.pending.Indices)-i.first, i.pending.Shape, i.pending.Met
	}
	for _, pr := range p.promises[id] {
		j := &pr.group.head().pending
		n, s, met = n+1, j.Shape, j.Met
	}
	return n, s, met
}
