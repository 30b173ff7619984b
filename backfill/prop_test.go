package backfill

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairslice/nodes"
	"fairslice/queue"
)

// cluster is a simulated one: elements end at or before their limits, and a plan is made each time that something does.
type cluster struct {
	now     time.Time
	nodes   []*nodes.Node
	running []Running
	ends    map[queue.ElementID]time.Time // when they really do
	pending []Pending
	nextJob queue.JobID
}

func drawCluster(t *rapid.T) *cluster {
	c := &cluster{now: noon, ends: map[queue.ElementID]time.Time{}}
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		n := &nodes.Node{ID: nodes.ID(fmt.Sprint("n", i)), Alive: true, Slots: rapid.IntRange(1, 8).Draw(t, "slots"),
			Memory: rapid.Int64Range(1, 16).Draw(t, "gib") * gib, Consumables: "lic=2"}
		capacity := nodes.Amount(rapid.SampledFrom([]int{100, 200}).Draw(t, "capacity"))
		for g := range rapid.IntRange(0, 3).Draw(t, "gpus") {
			n.GPUs = append(n.GPUs, nodes.GPU{Index: g, UUID: fmt.Sprintf("%s-%d", n.ID, g), Memory: 8 * gib, Capacity: capacity})
		}
		n.Closed = rapid.IntRange(0, 9).Draw(t, "closed") == 0
		c.nodes = append(c.nodes, n)
	}
	return c
}

func drawShape(t *rapid.T) *queue.Shape {
	s := &queue.Shape{Slots: rapid.IntRange(1, 12).Draw(t, "slots"), RunLimit: time.Duration(rapid.IntRange(1, 20).Draw(t, "limit")) * time.Minute}
	switch rapid.IntRange(0, 5).Draw(t, "span") {
	case 0:
		s.OneHost = true
	case 1:
		s.PerHost = rapid.IntRange(1, 4).Draw(t, "ptile")
	}
	switch rapid.IntRange(0, 6).Draw(t, "gpu") {
	case 0:
		s.Host.GPU.Amount = nodes.Amount(rapid.SampledFrom([]int{25, 50, 100, 150}).Draw(t, "fgpu"))
	case 1:
		s.Host.GPU.Whole = rapid.IntRange(1, 2).Draw(t, "whole")
	case 2:
		s.Host.GPU.Memory = gib * rapid.Int64Range(1, 8).Draw(t, "gmem")
	}
	s.Host.Memory = gib * rapid.Int64Range(0, 4).Draw(t, "mem")
	s.Host.Exclusive = rapid.IntRange(0, 9).Draw(t, "exclusive") == 0
	if rapid.IntRange(0, 5).Draw(t, "licence") == 0 {
		s.Host.Consumables = "lic=1"
	}
	return s
}

func (c *cluster) submit(t *rapid.T) {
	for range rapid.IntRange(0, 4).Draw(t, "jobs") {
		c.nextJob++
		p := Pending{Job: c.nextJob, Shape: drawShape(t)}
		for i := range rapid.IntRange(1, 3).Draw(t, "elements") {
			p.Indices = append(p.Indices, i+1)
		}
		c.pending = append(c.pending, p)
	}
}

func (c *cluster) snapshot() *Snapshot {
	s := &Snapshot{Now: c.now, Running: slices.Clone(c.running), Pending: slices.Clone(c.pending), MaxForecasts: 4, Select: onHosts}
	for _, n := range c.nodes {
		s.Nodes = append(s.Nodes, n.Clone())
	}
	return s
}

// apply takes the starts, which must all fit, and forgets what was started.
func (c *cluster) apply(t *rapid.T, p *Plan) {
	for _, s := range p.Starts {
		slots := 0
		for _, a := range s.Alloc {
			slots += a.Slots
			i := slices.IndexFunc(c.nodes, func(n *nodes.Node) bool { return n.ID == a.Node })
			if c.nodes[i].State() != nodes.Up {
				t.Fatalf("%s starts on %s, which is %s", s.ID, a.Node, c.nodes[i].State())
			}
			if err := c.nodes[i].Take(a); err != nil {
				t.Fatalf("%s does not fit: %v", s.ID, err)
			}
		}
		if slots != s.Shape.Slots {
			t.Fatalf("%s asks for %d slots and gets %d", s.ID, s.Shape.Slots, slots)
		}
		limit := c.now.Add(s.Shape.RunLimit)
		c.running = append(c.running, Running{ID: s.ID, Alloc: s.Alloc, Ends: limit})
		early := time.Duration(rapid.SampledFrom([]int{0, 0, 10, 50, 99}).Draw(t, "early")) * s.Shape.RunLimit / 100
		c.ends[s.ID] = limit.Add(-early)
		i := slices.IndexFunc(c.pending, func(p Pending) bool { return p.Job == s.ID.Job })
		c.pending[i].Indices = slices.DeleteFunc(slices.Clone(c.pending[i].Indices), func(x int) bool { return x == s.ID.Index })
	}
	c.pending = slices.DeleteFunc(c.pending, func(p Pending) bool { return len(p.Indices) == 0 })
}

// advance goes to the next end and releases what ends then.
func (c *cluster) advance() bool {
	var next time.Time
	for _, end := range c.ends {
		if next.IsZero() || end.Before(next) {
			next = end
		}
	}
	if next.IsZero() {
		return false
	}
	c.now = next
	c.running = slices.DeleteFunc(c.running, func(r Running) bool {
		if c.ends[r.ID].After(next) {
			return false
		}
		delete(c.ends, r.ID)
		for _, a := range r.Alloc {
			c.nodes[slices.IndexFunc(c.nodes, func(n *nodes.Node) bool { return n.ID == a.Node })].Release(a)
		}
		return true
	})
	return true
}

// Invariants 1 and 2 over many cycles: everything started fits, and an element that was promised a start starts then or
// before, whatever passes it, as long as what runs ends by its limit.
func TestPromisesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		promises := map[queue.ElementID]time.Time{}
		for range rapid.IntRange(2, 25).Draw(t, "cycles") {
			c.submit(t)
			p := Make(c.snapshot())
			c.apply(t, p)
			for _, s := range p.Starts {
				if at, ok := promises[s.ID]; ok && c.now.After(at) {
					t.Fatalf("%s starts at %s, promised was %s", s.ID, c.now.Sub(noon), at.Sub(noon))
				}
				delete(promises, s.ID)
			}
			if r := p.Reserved; r != nil {
				if at, ok := promises[r.ID]; ok && r.At.After(at) {
					t.Fatalf("at %s the start of %s moves from %s to %s", c.now.Sub(noon), r.ID, at.Sub(noon), r.At.Sub(noon))
				}
				promises[r.ID] = r.At
			}
			for id, at := range promises {
				if c.now.After(at) {
					t.Fatalf("it is %s and %s, promised at %s, has not started", c.now.Sub(noon), id, at.Sub(noon))
				}
			}
			if !c.advance() && len(c.pending) == 0 {
				return
			}
		}
	})
}

// Invariant 3: the same snapshot gives the same plan, in whatever order its nodes and running elements come.
func TestPlanIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		for range rapid.IntRange(1, 4).Draw(t, "cycles") {
			c.submit(t)
			s, again := c.snapshot(), c.snapshot()
			s.MaxStarts = rapid.IntRange(0, 5).Draw(t, "starts")
			again.MaxStarts = s.MaxStarts
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			r.Shuffle(len(again.Nodes), reflect.Swapper(again.Nodes))
			r.Shuffle(len(again.Running), reflect.Swapper(again.Running))
			p, q := Make(s), Make(again)
			if !reflect.DeepEqual(p, q) {
				t.Fatalf("two plans:\n%+v\n%+v", p, q)
			}
			if s.MaxStarts > 0 && len(p.Starts) > s.MaxStarts {
				t.Fatalf("%d starts, at most %d wanted", len(p.Starts), s.MaxStarts)
			}
			c.apply(t, p)
			c.advance()
		}
	})
}

// What a plan leaves waiting without a promise before it really does not fit: no element is forgotten.
func TestWhatWaitsDoesNotFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		c.submit(t)
		c.submit(t)
		p := Make(c.snapshot())
		c.apply(t, p)
		if len(c.pending) == 0 {
			return
		}
		for _, pend := range c.pending {
			w, ok := p.Waits[*pend.Shape]
			if !ok || len(w.Reasons) == 0 {
				t.Fatalf("job %d waits and nobody says why", pend.Job)
			}
			if slices.ContainsFunc(w.Reasons, isReserved) {
				continue
			}
			if alloc, _ := place(c.nodes, pend.Shape, nil); alloc != nil {
				t.Fatalf("job %d waits for %v and would fit: %+v", pend.Job, w.Reasons, alloc)
			}
		}
	})
}
