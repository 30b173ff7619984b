package backfill

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// large is a full cluster of the size that the design names: nodes of 64 slots and 8 GPUs, one in two of
// them busy with one attempt a GPU, and jobs of so many shapes waiting.
func large(nodeCount, jobs, shapes int) *Snapshot {
	r := rand.New(rand.NewPCG(1, 2))
	s := &Snapshot{Now: noon, MaxStarts: 2000, MaxForecasts: 64}
	for i := range nodeCount {
		n := &nodes.Node{ID: nodes.ID(fmt.Sprintf("n%05d", i)), Alive: true, Slots: 64, Memory: 512 * gib}
		for g := range 8 {
			n.GPUs = append(n.GPUs, nodes.GPU{Index: g, UUID: fmt.Sprintf("%s-%d", n.ID, g), Model: "A100", Memory: 80 * gib, Capacity: 200})
		}
		s.Nodes = append(s.Nodes, n)
		for g := range 8 {
			a := nodes.Allocation{Node: n.ID, Slots: 8, Memory: 32 * gib, Slices: []nodes.Slice{{UUID: n.GPUs[g].UUID, Index: g, Amount: nodes.Amount(100 + 50*r.IntN(3))}}}
			if n.Take(a) == nil {
				s.Running = append(s.Running, Running{ID: queue.ElementID{Job: queue.JobID(i*8 + g + 1)}, Alloc: []nodes.Allocation{a},
					Ends: noon.Add(time.Duration(r.IntN(86400)) * time.Second)})
			}
		}
	}
	var kinds []*queue.Shape
	for i := range shapes {
		sh := &queue.Shape{Slots: 1 + i%16, OneHost: true, RunLimit: time.Duration(1+i) * time.Minute}
		switch i % 4 {
		case 0:
			sh.Host.GPU.Amount = nodes.Amount(25 * (1 + i%8))
		case 1:
			sh.Host.GPU.Whole = 1 + i%8
		case 2:
			sh.Host.Memory = int64(i%64) * gib
		}
		kinds = append(kinds, sh)
	}
	for i := range jobs {
		s.Pending = append(s.Pending, Pending{Job: queue.JobID(1_000_000 + i), Shape: kinds[r.IntN(shapes)], Indices: []int{0}})
	}
	return s
}

// BenchmarkPlan is a whole plan where nothing is free; the copy of the nodes is made outside of the clock.
func BenchmarkPlan(b *testing.B) {
	for _, size := range []struct{ nodes, jobs, shapes int }{{100, 1000, 50}, {1000, 10_000, 100}, {10_000, 100_000, 1000}} {
		b.Run(fmt.Sprintf("%d-nodes-%d-jobs-%d-shapes", size.nodes, size.jobs, size.shapes), func(b *testing.B) {
			s := large(size.nodes, size.jobs, size.shapes)
			for b.Loop() {
				b.StopTimer()
				c := *s
				c.Nodes = nil
				for _, n := range s.Nodes {
					c.Nodes = append(c.Nodes, n.Clone())
				}
				b.StartTimer()
				p := Make(&c)
				b.ReportMetric(float64(p.Looks), "looks")
			}
		})
	}
}
