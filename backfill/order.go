package backfill

import (
	"cmp"
	"container/heap"
	"slices"
)

// Order says which of two waiting elements is served first. The queue's priority always comes before it.
type Order interface {
	// static says that the order of two elements never changes; compare then gives it.
	static() bool
	compare(a, b *item) int
	// key is by how much an element comes first at a time, for orders that change with it.
	key(p *Planner, g *group, now instant) float64
}

// FCFS is first come, first served.
var FCFS Order = fcfs{}

// SJF is shortest job first, by run limit.
var SJF Order = sjf{}

// XFactor is largest expansion factor first: (wait + run limit) / run limit.
var XFactor Order = xfactor{}

// FairShare serves the user first whose Planner.Share is greatest.
var FairShare Order = fairShare{}

type fcfs struct{}

func (fcfs) static() bool                                  { return true }
func (fcfs) key(p *Planner, g *group, now instant) float64 { return 0 }
func (fcfs) compare(a, b *item) int {
	return cmp.Or(cmp.Compare(b.pending.Shape.Priority, a.pending.Shape.Priority), compareItems(a, b))
}

type sjf struct{}

func (sjf) static() bool                                  { return true }
func (sjf) key(p *Planner, g *group, now instant) float64 { return 0 }
func (sjf) compare(a, b *item) int {
	return cmp.Or(cmp.Compare(b.pending.Shape.Priority, a.pending.Shape.Priority),
		cmp.Compare(a.group.class.length, b.group.class.length), compareItems(a, b))
}

// changing is the part of an order that changes with time.
type changing struct{}

func (changing) static() bool           { return false }
func (changing) compare(a, b *item) int { return compareItems(a, b) }

type xfactor struct{ changing }

func (xfactor) key(p *Planner, g *group, now instant) float64 {
	length := float64(g.class.length)
	return (float64(now-instantOf(g.head().pending.Submitted)) + length) / length
}

type fairShare struct{ changing }

func (fairShare) key(p *Planner, g *group, now instant) float64 {
	if p.Share == nil {
		return 0
	}
	return p.Share(g.user)
}

// sequence hands out groups in an order. After next, the group's head has been served: it has started, and moved
// the group; or the group is passed over for this plan.
type sequence interface {
	begin(p *Planner)
	next() *group
	// narrow leaves out, for the rest of the plan, those for whom may says no. It may do nothing.
	narrow(may func(*group) bool)
	insert(g *group)
	remove(g *group)
}

// sorted is a sequence of a static order. It is kept sorted all the time, in runs of bounded length, so that to
// insert and to remove costs little however many wait.
type sorted struct {
	order Order
	runs  [][]*group
	// The group that next gave last is runs[run][at]; at is -1 before the first of a run.
	run, at int
}

// maxRun is the length at which a run is divided.
const maxRun = 512

func (s *sorted) begin(*Planner) { s.run, s.at = 0, -1 }

func (s *sorted) next() *group {
	for s.run < len(s.runs) {
		if s.at++; s.at < len(s.runs[s.run]) {
			return s.runs[s.run][s.at]
		}
		s.run, s.at = s.run+1, -1
	}
	return nil
}

func (s *sorted) narrow(func(*group) bool) {}

// find is where g is, or belongs.
func (s *sorted) find(g *group) (run, at int) {
	run, _ = slices.BinarySearchFunc(s.runs, g, func(r []*group, g *group) int { return s.order.compare(r[len(r)-1].items[0], g.items[0]) })
	if run = min(run, len(s.runs)-1); run < 0 {
		return 0, 0
	}
	at, _ = slices.BinarySearchFunc(s.runs[run], g, func(a, b *group) int { return s.order.compare(a.items[0], b.items[0]) })
	return run, at
}

func (s *sorted) insert(g *group) {
	if len(s.runs) == 0 {
		s.runs = append(s.runs, nil)
		s.runs[0] = append(s.runs[0], g)
		return
	}
	run, at := s.find(g)
	s.runs[run] = slices.Insert(s.runs[run], at, g)
	if run == s.run && at <= s.at {
		s.at++
	}
	if r := s.runs[run]; len(r) > maxRun {
		half := len(r) / 2
		s.runs = slices.Insert(s.runs, run+1, slices.Clone(r[half:]))
		clear(r[half:])
		s.runs[run] = r[:half]
		switch {
		case s.run > run:
			s.run++
		case s.run == run && s.at >= half:
			s.run, s.at = run+1, s.at-half
		}
	}
}

func (s *sorted) remove(g *group) {
	run, at := s.find(g)
	if s.runs[run][at] != g {
		panic("internal error: impossible: a group is not where its head says")
	}
	s.runs[run] = slices.Delete(s.runs[run], at, at+1)
	if run == s.run && at <= s.at {
		s.at--
	}
	if len(s.runs[run]) == 0 {
		s.runs = slices.Delete(s.runs, run, run+1)
		if s.run > run {
			s.run--
		} else if s.run == run {
			s.at = -1
		}
	}
}

// heaped is a sequence of an order that changes with time: the keys are worked out when a plan begins. A key
// that has fallen since (its user has been served) is noticed when its group comes up.
type heaped struct {
	order  Order
	which  int // index into group.place
	p      *Planner
	groups []*group
	queue  entries
}

// entry is a group in the queue of a plan, as it was when it was put there.
type entry struct {
	group *group
	head  *item
	first int
	key   float64
}

func (s *heaped) entry(g *group) entry {
	g.served = false
	return entry{g, g.items[0], g.items[0].first, s.order.key(s.p, g, s.p.now)}
}

func (s *heaped) begin(p *Planner) {
	s.queue = s.queue[:0]
	for _, g := range s.groups {
		s.queue = append(s.queue, s.entry(g))
	}
	heap.Init(&s.queue)
}

func (s *heaped) next() *group {
	for len(s.queue) > 0 {
		e := heap.Pop(&s.queue).(entry)
		g := e.group
		if g.served || len(g.items) == 0 || g.items[0] != e.head || e.head.first != e.first {
			continue // from before it was moved
		}
		if key := s.order.key(s.p, g, s.p.now); key < e.key {
			e.key = key
			heap.Push(&s.queue, e)
			continue
		}
		g.served = true
		return g
	}
	return nil
}

func (s *heaped) narrow(may func(*group) bool) {
	s.queue = slices.DeleteFunc(s.queue, func(e entry) bool { return !may(e.group) })
	heap.Init(&s.queue)
}

func (s *heaped) insert(g *group) {
	g.place[s.which] = len(s.groups)
	s.groups = append(s.groups, g)
	if s.p.planning {
		heap.Push(&s.queue, s.entry(g))
	}
}

func (s *heaped) remove(g *group) {
	last := s.groups[len(s.groups)-1]
	s.groups[g.place[s.which]], last.place[s.which] = last, g.place[s.which]
	s.groups = s.groups[:len(s.groups)-1]
}

type entries []entry

func (h entries) Len() int      { return len(h) }
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *entries) Push(x any)   { *h = append(*h, x.(entry)) }
func (h *entries) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
func (h entries) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	x, y := &a.head.pending, &b.head.pending
	if c := cmp.Or(cmp.Compare(y.Shape.Priority, x.Shape.Priority), cmp.Compare(b.key, a.key),
		cmp.Compare(x.Position, y.Position), cmp.Compare(x.Job, y.Job)); c != 0 {
		return c < 0
	}
	return x.Indices[a.first] < y.Indices[b.first]
}
