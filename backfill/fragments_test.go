package backfill

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// halves is a node of so many GPUs of 2 fGPU, 16 slots and 64 GiB, of which some is held.
func halves(id string, gpus int) *nodes.Node {
	n := &nodes.Node{ID: nodes.ID(id), Alive: true, Slots: 16, Memory: 64 * gib}
	for i := range gpus {
		n.GPUs = append(n.GPUs, nodes.GPU{Index: i, UUID: fmt.Sprint(id, i), Model: "A100", Memory: 80 * gib, Capacity: 200})
	}
	return n
}

// holding is an attempt on a node that holds slots and so much of each of its GPUs.
func holding(id queue.JobID, n *nodes.Node, slots int, amounts ...nodes.Amount) Running {
	a := nodes.Allocation{Node: n.ID, Slots: slots}
	for i, x := range amounts {
		if x > 0 {
			a.Slices = append(a.Slices, nodes.Slice{UUID: n.GPUs[i].UUID, Index: i, Amount: x})
		}
	}
	return Running{ID: queue.ElementID{Job: id}, Alloc: []nodes.Allocation{a}, Ends: noon.Add(time.Hour)}
}

func wanting(id queue.JobID, elements int, slots int, g nodes.GPURequest) Pending {
	sh := &queue.Shape{Slots: slots, MaxSlots: slots, OneHost: true, RunLimit: 2 * time.Hour, Host: nodes.Request{GPU: g}}
	p := Pending{Job: id, Shape: sh, User: "ada", Submitted: noon}
	for i := range elements {
		p.Indices = append(p.Indices, i)
	}
	return p
}

// Two nodes of two GPUs of 2 fGPU. On a, 0.5 and 1.5 are held, and on b 1.5 and 1.5: free are a 1.5 + 0.5, b 0.5 + 0.5, that is 3.
func pieces() ([]*nodes.Node, []Running) {
	a, b := halves("a", 2), halves("b", 2)
	return []*nodes.Node{a, b}, []Running{holding(1, a, 2, 50, 150), holding(2, b, 2, 150, 150)}
}

func TestFragmentsByHand(t *testing.T) {
	amount := func(a nodes.Amount) nodes.GPURequest { return nodes.GPURequest{Amount: a} }
	for _, row := range []struct {
		what    string
		pending []Pending
		change  func(s *Snapshot)
		want    Fragments
	}{
		{"nobody waits", nil, nil, Fragments{800, 300, 0}},
		{"no GPU is asked for", []Pending{wanting(9, 1, 17, nodes.GPURequest{})}, nil, Fragments{800, 300, 0}},
		{"2 fGPU are nowhere, and 3 are free", []Pending{wanting(9, 1, 1, amount(200))}, nil, Fragments{800, 300, 300}},
		{"a whole GPU is no more", []Pending{wanting(9, 1, 1, nodes.GPURequest{Whole: 1})}, nil, Fragments{800, 300, 300}},
		{"4 fGPU are more than all that is free", []Pending{wanting(9, 1, 1, nodes.GPURequest{Whole: 2})}, nil, Fragments{800, 300, 0}},
		{"more than any node has", []Pending{wanting(9, 1, 1, nodes.GPURequest{Whole: 3})}, nil, Fragments{800, 300, 0}},
		{"of a model that nobody has", []Pending{wanting(9, 1, 1, nodes.GPURequest{Amount: 200, Model: "H200"})}, nil, Fragments{800, 300, 0}},
		{"too many slots on one node", []Pending{wanting(9, 1, 15, amount(50))}, nil, Fragments{800, 300, 300}},
		// Of 4 elements that wait, 1 wants 4 fGPU (0 is lost) and 3 want 2 (300 are): 900/4.
		{"the mean of what waits", []Pending{wanting(8, 1, 1, nodes.GPURequest{Whole: 2}), wanting(9, 3, 1, amount(200))}, nil, Fragments{800, 300, 225}},
		// The third that cannot run anywhere is nobody's loss.
		{"what can never run does not count", []Pending{wanting(8, 1, 1, nodes.GPURequest{Whole: 3}), wanting(9, 1, 1, amount(200))}, nil, Fragments{800, 300, 300}},
		// 60 % of 80 GiB are 1.2 fGPU: two of them for one job are not on a (1.5 + 0.5), and the sum is enough.
		{"two slices by memory", []Pending{wanting(9, 1, 1, nodes.GPURequest{Memory: 48 * gib, Count: 2})}, nil, Fragments{800, 300, 300}},
		{"a node that is closed is not there", []Pending{wanting(9, 1, 1, amount(200))}, func(s *Snapshot) { s.Nodes[1].Closed = true }, Fragments{400, 200, 200}},
		{"nor what of it is lost", []Pending{wanting(9, 1, 1, amount(100))}, func(s *Snapshot) { s.Nodes[0].GPUs[0].Lost = true }, Fragments{650, 150, 150}},
		// a fits, but must not start it: the rest of a (0.5) and all of b are too small for it.
		{"what a limit holds back loses nothing", []Pending{limited(wanting(9, 5, 1, amount(100)))}, nil, Fragments{800, 300, 0}},
		{"where the queue may not go nothing is lost", []Pending{wanting(9, 1, 1, amount(200))}, func(s *Snapshot) {
			s.Select = func(n *nodes.Node, _ *queue.Shape) bool { return n.ID == "a" }
		}, Fragments{800, 300, 200}},
		// Free now, but promised to the first of them from when a's GPUs are free on: one fGPU is free and the second must not take it.
		{"a promise holds nothing now", []Pending{wanting(8, 1, 14, nodes.GPURequest{Whole: 2}), wanting(9, 1, 15, amount(100))}, nil, Fragments{800, 300, 150}},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := &Snapshot{Now: noon, Policy: Policy{Protected: 1, Order: FCFS}, Pending: row.pending}
			s.Nodes, s.Running = pieces()
			if row.change != nil {
				row.change(s)
			}
			p := Load(s)
			if plan := p.Plan(noon); len(plan.Starts) > 0 {
				t.Fatalf("started: %+v", plan.Starts)
			}
			if got := p.Fragments(); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

func limited(p Pending) Pending {
	p.Limits = []*Limit{{Max: 0, Of: OfElements}}
	return p
}

// What is lost changes with what is free: of 2 fGPU that are asked for, in pieces of 1.5 and less 3 are lost; when the end
// of an attempt makes room the job starts, and nobody waits.
func TestFragmentsFollowWhatRuns(t *testing.T) {
	s := &Snapshot{Now: noon, Policy: Policy{Protected: 1, Order: FCFS}, Pending: []Pending{wanting(9, 1, 1, nodes.GPURequest{Amount: 200})}}
	s.Nodes, s.Running = pieces()
	p := Load(s)
	p.Plan(noon)
	if got := p.Fragments(); got != (Fragments{800, 300, 300}) {
		t.Fatalf("at first %+v", got)
	}
	p.End(queue.ElementID{Job: 2}, noon)
	if got := p.Fragments(); got != (Fragments{800, 600, 200}) { // b serves it now, a does not
		t.Errorf("with room: %+v", got)
	}
	if plan := p.Plan(noon); len(plan.Starts) != 1 {
		t.Fatalf("it does not start: %+v", plan)
	}
	if got := p.Fragments(); got != (Fragments{800, 400, 0}) {
		t.Errorf("after the start: %+v", got)
	}
}

// On random clusters: what the planner adds up over nodes in one state is what the definition gives node by node, whatever
// starts and ends, and the bounds hold.
func TestFragmentsAreThoseOfEachNode(t *testing.T) {
	lossy := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := &Snapshot{Now: noon, Policy: Policy{Protected: r.IntN(3), Order: FCFS}}
		byID := map[nodes.ID]*nodes.Node{}
		for i := range 1 + r.IntN(8) {
			n := halves(fmt.Sprint("n", i), r.IntN(4))
			n.Closed = r.IntN(10) == 0
			s.Nodes = append(s.Nodes, n)
			byID[n.ID] = n.Clone()
		}
		for i := range 1 + r.IntN(12) {
			g := nodes.GPURequest{Amount: nodes.Amount(25 * (1 + r.IntN(12)))}
			switch r.IntN(5) {
			case 0:
				g = nodes.GPURequest{Whole: 1 + r.IntN(3)}
			case 1:
				g = nodes.GPURequest{Memory: int64(1+r.IntN(90)) * gib, Count: 1 + r.IntN(2)}
			case 2:
				g = nodes.GPURequest{}
			}
			s.Pending = append(s.Pending, wanting(queue.JobID(100+i), 1+r.IntN(5), 1+r.IntN(6), g))
		}
		p := Load(s)
		waits := map[queue.JobID]int{}
		for i := range s.Pending {
			waits[s.Pending[i].Job] = len(s.Pending[i].Indices)
		}
		live := map[queue.ElementID][]nodes.Allocation{}
		var order []queue.ElementID
		for range 8 {
			for _, st := range p.Plan(noon).Starts {
				live[st.ID] = st.Alloc
				order = append(order, st.ID)
				waits[st.ID.Job]--
				if err := byID[st.Alloc[0].Node].Take(st.Alloc[0]); err != nil {
					t.Fatal(err)
				}
			}
			got, want := p.Fragments(), bruteFragments(s.Pending, waits, byID)
			if got != want || got.Lost < 0 || got.Lost > got.Free || got.Free > got.Capacity {
				t.Fatalf("seed %d: got %+v, want %+v", seed, got, want)
			}
			if got.Lost > 0 {
				lossy++
			}
			if len(order) > 0 {
				k := r.IntN(len(order))
				id := order[k]
				order = append(order[:k], order[k+1:]...)
				p.End(id, noon)
				byID[live[id][0].Node].Release(live[id][0])
			}
		}
	}
	if lossy < 200 {
		t.Errorf("something was lost in %d of 1600 states: the test says nothing", lossy)
	}
}

// bruteFragments is the definition, one node and one waiting element after the other.
func bruteFragments(pending []Pending, waits map[queue.JobID]int, cluster map[nodes.ID]*nodes.Node) (f Fragments) {
	for _, n := range cluster {
		if n.State() == nodes.Up {
			for i := range n.GPUs {
				f.Capacity += n.GPUs[i].Capacity
				f.Free += n.GPUs[i].Capacity - n.GPUs[i].Used
			}
		}
	}
	sum, elements := 0, 0
	for i := range pending {
		r := pending[i].Shape.Host
		if r.Slots = pending[i].Shape.Slots; r.GPU.Zero() {
			continue
		}
		var lost, free, need nodes.Amount
		for _, n := range cluster {
			if n.State() != nodes.Up {
				continue
			}
			a, misfit := n.Empty().Carve(r)
			if misfit != nil {
				continue
			}
			if need == 0 || a.FGPU() < need {
				need = a.FGPU()
			}
			for k := range n.GPUs {
				g := &n.GPUs[k]
				free += g.Free()
				enough := map[bool]nodes.Amount{true: 200, false: r.GPU.Amount}[r.GPU.Whole > 0]
				switch {
				case r.GPU.Memory > 0:
					enough = nodes.Amount((r.GPU.Memory*200 + 80*gib - 1) / (80 * gib))
				case r.GPU.Amount > 200:
					if enough = 200; r.GPU.Amount%200 > 0 {
						enough = r.GPU.Amount % 200
					}
				}
				if n.Fit(r) != nil || g.Free() < enough {
					lost += g.Free()
				}
			}
		}
		if need == 0 {
			continue
		}
		elements += waits[pending[i].Job]
		if free >= need {
			sum += int(lost) * waits[pending[i].Job]
		}
	}
	if elements > 0 {
		f.Lost = nodes.Amount((sum + elements/2) / elements)
	}
	return f
}

func BenchmarkFragments(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("%d-nodes/%d-jobs/%d-shapes", size.nodes, size.jobs, size.shapes), func(b *testing.B) {
			p := Load(large(size.nodes, size.jobs, size.shapes, 200))
			p.Plan(noon)
			b.ReportAllocs()
			for b.Loop() {
				f := p.Fragments()
				b.ReportMetric(float64(f.Lost)/100, "lost-fGPU")
				b.ReportMetric(float64(len(p.gpuStates())), "states")
			}
		})
	}
}
