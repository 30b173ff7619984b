package backfill

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// large is a cluster of the size that the design names: nodes of 64 slots and 4 GPUs of 2 fGPU, each GPU half full,
// and jobs of so many shapes and users waiting.
func large(nodeCount, jobs, shapes, users int) *Snapshot {
	r := rand.New(rand.NewPCG(1, 2))
	s := &Snapshot{Now: noon, Policy: Policy{Protected: 1}}
	for i := range nodeCount {
		n := &nodes.Node{ID: nodes.ID(fmt.Sprintf("n%05d", i)), Alive: true, Slots: 64, Memory: 512 * gib}
		for g := range 4 {
			n.GPUs = append(n.GPUs, nodes.GPU{Index: g, UUID: fmt.Sprintf("%s-%d", n.ID, g), Model: "A100", Memory: 80 * gib, Capacity: 200})
			a := nodes.Allocation{Node: n.ID, Slots: 12, Memory: 64 * gib, Slices: []nodes.Slice{{UUID: n.GPUs[g].UUID, Index: g, Amount: 100}}}
			s.Running = append(s.Running, Running{ID: queue.ElementID{Job: queue.JobID(i*4 + g + 1)}, Alloc: []nodes.Allocation{a},
				Ends: noon.Add(time.Duration(1+r.IntN(86400)) * time.Second)})
		}
		s.Nodes = append(s.Nodes, n)
	}
	var forms []*queue.Shape
	for i := range shapes {
		sh := &queue.Shape{Slots: 1 + i%16, OneHost: i%3 > 0, RunLimit: time.Duration(1+i) * time.Minute}
		sh.MaxSlots = sh.Slots
		switch i % 4 {
		case 0:
			sh.Host.GPU.Amount = nodes.Amount(25 * (1 + i%8))
		case 1:
			sh.Host.GPU.Whole = 1 + i%4
		case 2:
			sh.Host.Memory = int64(i%64) * gib
		case 3:
			sh.Host.GPU.Amount, sh.Slots = 100, 32
		}
		forms = append(forms, sh)
	}
	for i := range jobs {
		s.Pending = append(s.Pending, Pending{Job: queue.JobID(1_000_000 + i), Shape: forms[r.IntN(shapes)], Indices: []int{0},
			User: fmt.Sprint("u", r.IntN(users)), Submitted: noon.Add(-time.Duration(r.IntN(100_000)) * time.Second)})
	}
	return s
}

var sizes = []struct{ nodes, jobs, shapes int }{{100, 1000, 50}, {1000, 10_000, 100}, {10_000, 100_000, 1000}}

// BenchmarkPlan is a whole plan by a planner that knows the cluster and has planned nothing yet.
func BenchmarkPlan(b *testing.B) {
	for _, order := range []Order{FCFS, XFactor} {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("%T/%d-nodes/%d-jobs/%d-shapes", order, size.nodes, size.jobs, size.shapes), func(b *testing.B) {
				s := large(size.nodes, size.jobs, size.shapes, 200)
				s.Policy.Order = order
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					c := *s
					c.Nodes = nil
					for _, n := range s.Nodes {
						c.Nodes = append(c.Nodes, n.Clone())
					}
					p := Load(&c)
					b.StartTimer()
					plan := p.Plan(noon)
					b.ReportMetric(float64(len(plan.Starts)), "starts")
				}
			})
		}
	}
}

// BenchmarkPlanAfterEnd is a plan after one attempt ended, where nothing else was free.
func BenchmarkPlanAfterEnd(b *testing.B) {
	for _, order := range []Order{FCFS, XFactor} {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("%T/%d-nodes/%d-jobs/%d-shapes", order, size.nodes, size.jobs, size.shapes), func(b *testing.B) {
				s := large(size.nodes, size.jobs, size.shapes, 200)
				s.Policy.Order = order
				p := Load(s)
				p.Plan(noon)
				running := s.Running
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					p.End(running[i%len(running)].ID, noon)
					i++
					p.Plan(noon)
				}
			})
		}
	}
}

// BenchmarkExpect is a forecast of a thousand starts.
func BenchmarkExpect(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("%d-nodes/%d-jobs/%d-shapes", size.nodes, size.jobs, size.shapes), func(b *testing.B) {
			s := large(size.nodes, size.jobs, size.shapes, 200)
			s.Policy.Order = Responsive
			p := Load(s)
			p.Plan(noon)
			for b.Loop() {
				f := Expect(p.Snapshot(), 1000, 0.01)
				b.ReportMetric(float64(len(f.Starts)), "starts")
			}
		})
	}
}
