package backfill

import (
	"cmp"
	"slices"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// selection is all of a shape that Snapshot.Select looks at.
type selection struct{ queue, hosts, sel string }

// candidates are the nodes that a selection lets in, in order.
type candidates struct {
	list []*nodes.Node
	// empty are the nodes of list that are up, and away those that are not, with nothing on them and up.
	empty, away []*nodes.Node
}

func (p *planner) candidatesOf(shape *queue.Shape) *candidates {
	key := selection{shape.Queue, shape.Hosts, shape.Select}
	if c := p.candidates[key]; c != nil {
		return c
	}
	c := &candidates{}
	for _, n := range p.s.Nodes {
		if p.s.Select != nil && !p.s.Select(n, shape) {
			continue
		}
		c.list = append(c.list, n)
		e := n.Empty()
		if e.Alive, e.Closed = true, false; n.State() == nodes.Up {
			c.empty = append(c.empty, e)
		} else {
			c.away = append(c.away, e)
		}
	}
	p.candidates[key] = c
	return c
}

// byEnd lists what runs, this plan's own starts included, by when it ends.
func (p *planner) byEnd() []Running {
	if len(p.ends) != len(p.s.Running)+len(p.started) {
		p.ends = slices.Concat(p.s.Running, p.started)
		slices.SortFunc(p.ends, func(a, b Running) int { return compareEnds(a.Ends, b.Ends, a.ID, b.ID) })
	}
	return p.ends
}

// nodesAt are copies of all nodes as they will be when what ends by at has ended.
func (p *planner) nodesAt(at time.Time) map[nodes.ID]*nodes.Node {
	future := make(map[nodes.ID]*nodes.Node, len(p.s.Nodes))
	for _, n := range p.s.Nodes {
		future[n.ID] = n.Clone()
	}
	for _, r := range p.byEnd() {
		if !endsBy(r.Ends, at) {
			break
		}
		for _, a := range r.Alloc {
			if n := future[a.Node]; n != nil {
				n.Release(a)
			}
		}
	}
	return future
}

// earliest finds the first time at which shape fits when the running elements end at their limits, and
// where. It follows the ends in order and looks, each time, only at the nodes that they change.
func (p *planner) earliest(shape *queue.Shape, cands *candidates) (time.Time, []nodes.Allocation) {
	w := newWatch(shape, cands.list)
	if w.maybe {
		if alloc, _ := place(w.nodes, shape, nil); alloc != nil {
			return p.s.Now, alloc // it fits now, and waits for a promise
		}
	}
	ends := p.byEnd()
	for i, r := range ends {
		if r.Ends.IsZero() {
			break
		}
		for _, a := range r.Alloc {
			w.release(a)
		}
		if !w.maybe || i+1 < len(ends) && ends[i+1].Ends.Equal(r.Ends) {
			continue
		}
		if alloc, _ := place(w.nodes, shape, nil); alloc != nil {
			return laterOf(r.Ends, p.s.Now), alloc
		}
		w.maybe = false
	}
	return time.Time{}, nil
}

// watch follows nodes as what they hold ends, and says when it is worth placing a shape on them.
type watch struct {
	nodes  []*nodes.Node
	copied []bool // nodes[i] is a copy
	single nodes.Request
	spread bool
	one    nodes.Request // one slot of a host, when spread
	tile   int           // most slots of a host, when spread
	rooms  []int         // slots that nodes[i] has for a part, when spread
	total  int
	slots  int
	maybe  bool
}

func newWatch(shape *queue.Shape, list []*nodes.Node) *watch {
	w := &watch{nodes: slices.Clone(list), copied: make([]bool, len(list)), single: oneHost(shape), slots: shape.Slots}
	if w.spread = spreads(shape); w.spread {
		w.one, w.rooms = shape.Host, make([]int, len(list))
		w.one.Slots, w.tile = 1, shape.Slots
		if shape.PerHost > 0 {
			w.tile = min(shape.PerHost, shape.Slots)
		}
	}
	for i := range w.nodes {
		w.look(i)
	}
	return w
}

// look notes what node i can do for the shape.
func (w *watch) look(i int) {
	n := w.nodes[i]
	if !w.spread {
		w.maybe = w.maybe || n.Fit(w.single) == nil
		return
	}
	room := 0
	if n.Fit(w.one) == nil {
		room = min(n.Slots-n.UsedSlots, w.tile)
	}
	w.total += room - w.rooms[i]
	w.rooms[i] = room
	w.maybe = w.maybe || w.total >= w.slots
}

func (w *watch) release(a nodes.Allocation) {
	i, ok := slices.BinarySearchFunc(w.nodes, a.Node, func(n *nodes.Node, id nodes.ID) int { return cmp.Compare(n.ID, id) })
	if !ok {
		return
	}
	if !w.copied[i] {
		w.nodes[i], w.copied[i] = w.nodes[i].Clone(), true
	}
	w.nodes[i].Release(a)
	w.look(i)
}
