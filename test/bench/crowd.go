package main

import (
	"container/heap"
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

// attempt is what runs, and will have run for so long when it ends by itself, before its limit.
type attempt struct {
	id    queue.ElementID
	user  string
	shape *queue.Shape
	runs  time.Duration
	ends  time.Time
}

// attempts is what runs, by when it ends: a heap.
type attempts []attempt

func (h attempts) Len() int           { return len(h) }
func (h attempts) Less(i, j int) bool { return h[i].ends.Before(h[j].ends) }
func (h attempts) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *attempts) Push(x any)        { *h = append(*h, x.(attempt)) }
func (h *attempts) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// site is a planner, set up as the daemon does it, and what runs under it.
type site struct {
	planner *backfill.Planner
	running attempts
	owners  []string // of what waited at first, by its number
	chance  *rand.Rand
}

const firstWaiting = 1_000_000 // the number of the first job that waits

// site makes a site whose planner knows all of c and has planned nothing yet.
func (c crowd) site(order backfill.Order) *site {
	r := rand.New(rand.NewPCG(1, 2))
	e := &site{chance: r}
	forms, users := c.forms(), make([]string, c.users)
	for i := range users {
		users[i] = fmt.Sprintf("user%03d", i)
	}
	s := &backfill.Snapshot{Now: crowdTime, Predictor: backfill.NewPredictor()}
	s.Nodes, s.Running = c.cluster(r)
	for i := range s.Running {
		x := &s.Running[i]
		x.User = users[r.IntN(len(users))]
		left := x.Ends.Sub(crowdTime)
		e.running = append(e.running, attempt{id: x.ID, user: x.User, shape: forms[r.IntN(len(forms))], runs: left, ends: crowdTime.Add(some(r, left))})
	}
	heap.Init(&e.running)
	mix := placement.NewMix(7 * 24 * time.Hour)
	mix.Supply(s.Nodes)
	for i := range c.jobs {
		form := forms[r.IntN(len(forms))]
		e.owners = append(e.owners, users[r.IntN(len(users))])
		s.Pending = append(s.Pending, backfill.Pending{Job: queue.JobID(firstWaiting + i), Shape: form, Indices: []int{0}, Position: int64(i),
			User: e.owners[i], Submitted: crowdTime.Add(-time.Duration(c.jobs-i) * 100_000 * time.Second / time.Duration(c.jobs))})
		if i < 10_000 { // more do not change it
			host := form.Host
			host.Slots = form.Slots
			mix.Observe(host, 1, crowdTime)
		}
	}
	for range 20 * c.users {
		form := forms[r.IntN(len(forms))]
		s.Predictor.Observe(users[r.IntN(len(users))], form, some(r, form.RunLimit))
	}
	s.Policy = backfill.Policy{Protected: 1, Order: order, Eager: true, Placement: placement.Fragmentation(mix)}
	e.planner = backfill.Load(s)
	return e
}

// began notes what a plan has started.
func (e *site) began(list []backfill.Start, now time.Time) {
	for _, s := range list {
		runs := some(e.chance, s.Shape.RunLimit)
		heap.Push(&e.running, attempt{id: s.ID, user: e.owners[s.ID.Job-firstWaiting], shape: s.Shape, runs: runs, ends: now.Add(runs)})
	}
}

// nextEnd takes out what ends next; something always runs.
func (e *site) nextEnd() attempt { return heap.Pop(&e.running).(attempt) }

// some is for how long something of this limit runs: most for a small part of it.
func some(r *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(r.Float64() * r.Float64() * float64(limit))
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
