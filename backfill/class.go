package backfill

import (
	"cmp"

	"fairslice/nodes"
	"fairslice/queue"
)

// class is all that waits of one shape: if one cannot start, none can.
type class struct {
	shape  *queue.Shape
	host   nodes.Request // of one host: all slots, or a full tile
	spread bool          // may, or must, take several hosts
	length instant       // how long one may hold what it takes: its run limit, or a year without one
	cands  *candidates
	groups int // that refer to it

	// refused says that when the planner's room was last as it is, none could start. The rest is what was found then:
	// when so many hosts had been freed and the promises were as laid says, so many slots were missing on all hosts
	// together (1 for a class that takes one host: it fitted none), and shortBare even without the promises.
	refused          uint64
	looked           bool
	freed            int
	laid             uint64
	short, shortBare int
	narrowed         uint64 // when a sequence was last narrowed, may said that it was worth looking
	may              bool

	possible  bool // could ever run, when the inventory was as inventory says
	inventory uint64

	smallest   nodes.Amount // see smallestGPU
	smallestAt uint64       // the inventory

	costs map[*kind]float64 // as of the placement's epoch
	epoch uint64
}

func (p *Planner) classOf(s *queue.Shape) *class {
	if c := p.classes[*s]; c != nil {
		return c
	}
	c := newClass(s)
	p.classes[*s] = c
	return c
}

func newClass(s *queue.Shape) *class {
	c := &class{shape: s, host: oneHost(s), spread: spreads(s), length: year}
	switch {
	case s.RunLimit > 0:
		c.length = instant(s.RunLimit)
	case s.Reservation != "":
		c.length = 1 // it may start as long as the window is open, and ends with it
	}
	return c
}

// oneHost is what shape asks of one host: all its slots, or as many as span[ptile=] puts there.
func oneHost(s *queue.Shape) nodes.Request {
	r := s.Host
	r.Slots = s.Slots
	if s.PerHost > 0 {
		r.Slots = min(s.PerHost, s.Slots)
	}
	return r
}

// spreads says that shape may, or must, take several hosts.
func spreads(s *queue.Shape) bool {
	if s.PerHost > 0 {
		return s.PerHost < s.Slots
	}
	return !s.OneHost && s.Slots > 1
}

// whole says that all of a shape can go to one host.
func (c *class) whole() bool { return c.host.Slots == c.shape.Slots }

// group is what waits of one class, claimant and set of limits, in its order; or one element that holds a promise.
type group struct {
	class   *class
	user    string
	account string // see Claimant
	name    groupKey
	limits  []*Limit
	items   []*item
	promise *promise
	over    uint64   // the plan in which its head was found a place that its limits do not admit
	slot    [2]int32 // in the sequences of Order and of Candidates, for orders that change with time
}

// item is one job's waiting elements in a group.
type item struct {
	pending Pending
	group   *group
	first   int // the elements before it have started or hold promises of their own
}

func (i *item) id() queue.ElementID {
	return queue.ElementID{Job: i.pending.Job, Index: i.pending.Indices[i.first]}
}

func (g *group) head() *item { return g.items[0] }

// groupKey tells groups apart.
type groupKey struct {
	class  *class
	who    Claimant
	limits [12]*Limit
	job    queue.JobID // of its own, with more limits than these
}

func keyOf(c *class, j *Pending) groupKey {
	k := groupKey{class: c, who: j.claimant()}
	if copy(k.limits[:], j.Limits) < len(j.Limits) {
		k.job = j.Job
	}
	return k
}

// compareItems is the order within a group, and between equals of every order: the next elements of two items.
func compareItems(a, b *item) int {
	return cmp.Or(cmp.Compare(a.pending.Position, b.pending.Position), cmp.Compare(a.pending.Job, b.pending.Job),
		cmp.Compare(a.pending.Indices[a.first], b.pending.Indices[b.first]))
}
