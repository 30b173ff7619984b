package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"fairslice/backfill"
	"fairslice/backfill/placement"
	"fairslice/nodes"
	"fairslice/queue"
)

// crowd is a cluster and what waits for it: nodes of 64 slots and 4 GPUs, each GPU held half by an attempt of its own, and
// jobs of so many shapes and users. The same numbers make the same crowd.
type crowd struct{ nodes, jobs, shapes, users int }

const gib = 1 << 30

// crowdTime is when everything has been submitted.
var crowdTime = time.Date(2026, 10, 5, 12, 0, 0, 0, time.UTC)

// attempt is what runs, as far as its end needs to be told.
type attempt struct {
	id    queue.ElementID
	user  string
	shape *queue.Shape
	ran   time.Duration
}

// planner makes a planner that knows all of c and has planned nothing yet, set up as the daemon does it; and what runs.
func (c crowd) planner(order backfill.Order) (*backfill.Planner, []attempt) {
	r := rand.New(rand.NewPCG(1, 2))
	forms, users := c.forms(), make([]string, c.users)
	for i := range users {
		users[i] = fmt.Sprintf("user%03d", i)
	}
	s := &backfill.Snapshot{Now: crowdTime, Predictor: backfill.NewPredictor()}
	s.Nodes, s.Running = c.cluster(r)
	running := make([]attempt, len(s.Running))
	for i := range running {
		x := &s.Running[i]
		x.User = users[r.IntN(len(users))]
		running[i] = someAttempt(r, x.ID, x.User, forms[r.IntN(len(forms))])
	}
	mix := placement.NewMix(7 * 24 * time.Hour)
	mix.Supply(s.Nodes)
	for i := range c.jobs {
		form := forms[r.IntN(len(forms))]
		s.Pending = append(s.Pending, backfill.Pending{Job: queue.JobID(1_000_000 + i), Shape: form, Indices: []int{0}, Position: int64(i),
			User: users[r.IntN(len(users))], Submitted: crowdTime.Add(-time.Duration(c.jobs-i) * 100_000 * time.Second / time.Duration(c.jobs))})
		if i < 10_000 { // more do not change it
			host := form.Host
			host.Slots = form.Slots
			mix.Observe(host, 1, crowdTime)
		}
	}
	for range 20 * c.users {
		x := someAttempt(r, queue.ElementID{}, users[r.IntN(len(users))], forms[r.IntN(len(forms))])
		s.Predictor.Observe(x.user, x.shape, x.ran)
	}
	s.Policy = backfill.Policy{Protected: 1, Order: order, Eager: true, Placement: placement.Fragmentation(mix)}
	return backfill.Load(s), running
}

// someAttempt runs for a part of its limit, as most do.
func someAttempt(r *rand.Rand, id queue.ElementID, user string, form *queue.Shape) attempt {
	return attempt{id: id, user: user, shape: form, ran: time.Duration(r.Float64() * r.Float64() * float64(form.RunLimit))}
}

// cluster is the nodes, and an attempt on each GPU that ends within a day.
func (c crowd) cluster(r *rand.Rand) (list []*nodes.Node, running []backfill.Running) {
	for i := range c.nodes {
		n := &nodes.Node{ID: nodes.ID(fmt.Sprintf("n%05d", i)), Alive: true, Slots: 64, Memory: 512 * gib}
		for g := range 4 {
			gpu := nodes.GPU{Index: g, UUID: fmt.Sprintf("%s-%d", n.ID, g), Model: "A100", Memory: 80 * gib, Capacity: 2 * nodes.OneFGPU}
			n.GPUs = append(n.GPUs, gpu)
			running = append(running, backfill.Running{
				ID: queue.ElementID{Job: queue.JobID(i*4 + g + 1)}, Ends: crowdTime.Add(time.Duration(600+r.IntN(86_400)) * time.Second),
				Alloc: []nodes.Allocation{{Node: n.ID, Slots: 12, Memory: 64 * gib,
					Slices: []nodes.Slice{{UUID: gpu.UUID, Index: g, Amount: gpu.Capacity / 2}}}},
			})
		}
		list = append(list, n)
	}
	return list, running
}

// forms are different shapes: parts of a GPU, one to four whole ones, slots with memory, and wide ones.
func (c crowd) forms() []*queue.Shape {
	var out []*queue.Shape
	for i := range c.shapes {
		s := &queue.Shape{Slots: 1 + i/4%16, OneHost: i%3 > 0, RunLimit: time.Duration(1+i) * time.Minute}
		switch i % 4 {
		case 0:
			s.Host.GPU.Amount = nodes.Amount(25 * (1 + i/4%8))
		case 1:
			s.Host.GPU.Whole = 1 + i/4%4
		case 2:
			s.Host.Memory = int64(1+i/4%64) * gib
		case 3:
			s.Host.GPU.Amount, s.Slots = nodes.OneFGPU, 32
		}
		s.MaxSlots = s.Slots
		out = append(out, s)
	}
	return out
}
