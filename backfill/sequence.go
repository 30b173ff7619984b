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
	// narrow leaves out, for the rest of the plan, those of classes for which may says no. It may do nothing.
	narrow(may func(*class) bool)
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

func (s *sorted) narrow(func(*class) bool) {}

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
	order   Order
	which   int // index into group.slot
	p       *Planner
	entries []entry
	free    []int32 // entries without a group
	queue   queueHeap
	ordered ordering
	sized   uint64 // the inventory for which sizes were worked out
}

// ordering is how far a queue is a heap. Most plans take one or two groups before they narrow it.
type ordering byte

const (
	inNoOrder ordering = iota
	firstOnly          // the first comes before all others, which are in no order
	heapOrdered
)

// entry is a group of the sequence.
type entry struct {
	facts    facts
	moved    int
	group    *group // nil for one that is free
	class    *class
	version  uint32 // counts the groups and heads that were here
	priority int64
	position int64
	id       queue.ElementID
}

// place is that of an entry in the queue of a plan.
type place struct {
	key      float64
	position int64
	id       queue.ElementID
	priority int64
	version  uint32
	at       int32 // in entries
	class    *class
}

func (s *heaped) begin(p *Planner) {
	s.queue = s.queue[:0]
	moved := false
	for i := range s.entries {
		e := &s.entries[i]
		if e.group == nil {
			continue
		}
		if s.sized != p.inventory {
			e.facts.size, e.facts.share = p.size(e.group.class.shape)
		}
		if f := &e.facts; s.p.Predictor != nil && f.version != f.user.version {
			f.estimate(s.p.Predictor, e.group)
		}
		key := s.order.key(&e.facts, p.now)
		s.queue = append(s.queue, place{key, e.position, e.id, e.priority, e.version, int32(i), e.class})
		moved = moved || e.moved != 0
	}
	s.sized = p.inventory
	if moved {
		s.applyMoves()
	}
	s.findFirst()
}

// findFirst puts the first in order to the front.
func (s *heaped) findFirst() {
	s.ordered = firstOnly
	h, first := s.queue, 0
	for i := range h {
		if h[i].before(&h[first]) {
			first = i
		}
	}
	if len(h) > 0 {
		h[0], h[first] = h[first], h[0]
	}
}

// applyMoves gives who was moved among the user's jobs (btop, bbot) the key of the user's first, or last, of the same
// priority; between equal keys the position then decides.
func (s *heaped) applyMoves() {
	type whose struct {
		user     *user
		priority int64
	}
	type bounds struct{ least, most float64 }
	all := map[whose]bounds{}
	for _, x := range s.queue {
		w := whose{s.entries[x.at].facts.user, x.priority}
		b, ok := all[w]
		if !ok {
			b = bounds{x.key, x.key}
		}
		all[w] = bounds{min(b.least, x.key), max(b.most, x.key)}
	}
	for i := range s.queue {
		x := &s.queue[i]
		e := &s.entries[x.at]
		switch b := all[whose{e.facts.user, x.priority}]; {
		case e.moved < 0:
			x.key = b.most
		case e.moved > 0:
			x.key = b.least
		}
	}
}

func (s *heaped) next() *group {
	for len(s.queue) > 0 {
		if s.ordered == inNoOrder {
			s.init()
		}
		x := &s.queue[0]
		e := &s.entries[x.at]
		if e.group == nil || e.version != x.version {
			s.pop() // from before it was moved
			continue
		}
		if key := s.order.key(&e.facts, s.p.now); key < x.key && e.moved == 0 {
			x.key = key
			s.sink()
			continue
		}
		s.pop()
		return e.group
	}
	return nil
}

func (s *heaped) narrow(may func(*class) bool) {
	s.queue = slices.DeleteFunc(s.queue, func(x place) bool { return !may(x.class) })
	s.init()
}

func (s *heaped) insert(g *group) {
	var at int32
	if n := len(s.free); n > 0 {
		at, s.free = s.free[n-1], s.free[:n-1]
	} else {
		at = int32(len(s.entries))
		s.entries = append(s.entries, entry{})
	}
	g.slot[s.which] = at
	head := g.items[0]
	e := &s.entries[at]
	*e = entry{group: g, class: g.class, moved: head.pending.Moved, version: e.version + 1, priority: int64(head.pending.Shape.Priority), position: head.pending.Position, id: head.id()}
	e.facts = s.p.factsOf(head)
	if s.p.planning {
		s.push(place{s.order.key(&e.facts, s.p.now), e.position, e.id, e.priority, e.version, at, e.class})
	}
}

func (s *heaped) remove(g *group) {
	at := g.slot[s.which]
	s.entries[at].group = nil
	s.free = append(s.free, at)
}

// queueHeap is a heap, the first in order on top.
type queueHeap []place

func (a *place) before(b *place) bool {
	switch {
	case a.priority != b.priority:
		return a.priority > b.priority
	case a.key != b.key:
		return a.key > b.key
	}
	if a.position != b.position {
		return a.position < b.position
	}
	return compareIDs(a.id, b.id) < 0
}

// sink puts the first to where it belongs now.
func (s *heaped) sink() {
	if s.ordered == heapOrdered {
		s.down(0)
	} else {
		s.ordered = inNoOrder
	}
}

func (s *heaped) init() {
	s.ordered = heapOrdered
	for i := len(s.queue)/2 - 1; i >= 0; i-- {
		s.down(i)
	}
}

func (s *heaped) down(i int) {
	h := s.queue
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

func (s *heaped) push(x place) {
	s.queue = append(s.queue, x)
	if s.ordered != heapOrdered {
		s.ordered = inNoOrder
		return
	}
	h := s.queue
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (s *heaped) pop() {
	last := len(s.queue) - 1
	s.queue[0] = s.queue[last]
	s.queue = s.queue[:last]
	s.sink()
}
