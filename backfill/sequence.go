package backfill

import (
	"slices"

	"fairslice/queue"
)

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
// that has fallen since (its user has been served) is noticed when its group comes up. What a key depends on is kept
// beside each other for all groups: with many of them, most of the time goes to reading it.
type heaped struct {
	order  Order
	which  int // index into group.place
	p      *Planner
	groups []entry
	queue  entries
}

// entry is a group in the queue of a plan, as it was when it was put there.
type entry struct {
	facts    facts
	key      float64
	priority int
	position int64
	id       queue.ElementID
	group    *group
}

func (s *heaped) entry(g *group) entry {
	head := g.items[0]
	j := &head.pending
	e := entry{group: g, priority: j.Shape.Priority, position: j.Position, id: head.id()}
	e.facts = facts{submitted: instantOf(j.Submitted), slots: float64(j.Shape.Slots), user: s.p.user(g.user)}
	e.facts.estimate(s.p.Predictor, g)
	return e
}

func (s *heaped) begin(p *Planner) {
	s.queue = s.queue[:0]
	for i := range s.groups {
		e := &s.groups[i]
		if f := &e.facts; s.p.Predictor != nil && f.version != f.user.version {
			f.estimate(s.p.Predictor, e.group)
		}
		e.key = s.order.key(&e.facts, p.now)
		e.group.served = false
		s.queue = append(s.queue, *e)
	}
	s.queue.init()
}

func (s *heaped) next() *group {
	for len(s.queue) > 0 {
		e := &s.queue[0]
		g := e.group
		if g.served || len(g.items) == 0 || g.items[0].id() != e.id {
			s.queue.pop() // from before it was moved
			continue
		}
		if key := s.order.key(&e.facts, s.p.now); key < e.key {
			e.key = key
			s.queue.down(0)
			continue
		}
		s.queue.pop()
		g.served = true
		return g
	}
	return nil
}

func (s *heaped) narrow(may func(*group) bool) {
	s.queue = slices.DeleteFunc(s.queue, func(e entry) bool { return !may(e.group) })
	s.queue.init()
}

func (s *heaped) insert(g *group) {
	e := s.entry(g)
	g.place[s.which], g.served = len(s.groups), false
	s.groups = append(s.groups, e)
	if s.p.planning {
		e.key = s.order.key(&e.facts, s.p.now)
		s.queue.push(e)
	}
}

func (s *heaped) remove(g *group) {
	last := len(s.groups) - 1
	s.groups[g.place[s.which]] = s.groups[last]
	s.groups[g.place[s.which]].group.place[s.which] = g.place[s.which]
	s.groups[last] = entry{}
	s.groups = s.groups[:last]
}

// entries is a heap, the first in order on top.
type entries []entry

func (e *entry) before(o *entry) bool {
	switch {
	case e.priority != o.priority:
		return e.priority > o.priority
	case e.key != o.key:
		return e.key > o.key
	case e.position != o.position:
		return e.position < o.position
	}
	return compareIDs(e.id, o.id) < 0
}

func (h entries) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h entries) down(i int) {
	for {
		first := 2*i + 1
		if first >= len(h) {
			return
		}
		if right := first + 1; right < len(h) && h[right].before(&h[first]) {
			first = right
		}
		if !h[first].before(&h[i]) {
			return
		}
		h[i], h[first] = h[first], h[i]
		i = first
	}
}

func (h *entries) push(e entry) {
	*h = append(*h, e)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(&q[up]) {
			return
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (h *entries) pop() {
	q := *h
	last := len(q) - 1
	q[0] = q[last]
	q[last] = entry{}
	*h = q[:last]
	h.down(0)
}
