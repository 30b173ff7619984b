package queue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"fairslice/nodes"
)

// horizon is how far two recurring windows are compared. One week tells whether they overlap; the
// others are for weeks in which a clock change swallows one of them.
const horizon = 5 * 7 * 24 * time.Hour

// overlap is when another reservation is open while the new one is.
type overlap struct {
	with  *Reservation
	times []Period // in order, without a moment in common
}

// overlaps finds what is open on any of the hosts while r is: over all of r where it happens once; where it recurs,
// over the horizon and over every reservation that happens once, however far ahead. In the order of their IDs.
func (b *Book) overlaps(r *Reservation, hosts []*nodes.Node, now time.Time) []overlap {
	loc := now.Location()
	look := []Period{{r.Begin, r.End}}
	if r.Recurring != nil {
		look = []Period{{now, now.Add(horizon)}}
		for _, o := range b.Reservations {
			if o.Recurring == nil {
				look = append(look, Period{o.Begin, o.End})
			}
		}
		look = union(look)
	}
	var mine []Period
	for _, p := range look {
		mine = append(mine, common(r.Windows(p.Begin, p.End, loc), []Period{p})...)
	}
	var out []overlap
	for _, id := range slices.Sorted(maps.Keys(b.Reservations)) {
		o := overlap{with: b.Reservations[id]}
		if !slices.ContainsFunc(hosts, func(n *nodes.Node) bool { return o.with.Share(n.ID) != nil }) {
			continue
		}
		for _, p := range look {
			o.times = append(o.times, common(mine, common(o.with.Windows(p.Begin, p.End, loc), []Period{p}))...)
		}
		if len(o.times) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// union is the same time without overlaps, in order.
func union(list []Period) []Period {
	slices.SortFunc(list, func(x, y Period) int { return x.Begin.Compare(y.Begin) })
	out := list[:1]
	for _, p := range list[1:] {
		if last := &out[len(out)-1]; p.Begin.After(last.End) {
			out = append(out, p)
		} else if p.End.After(last.End) {
			last.End = p.End
		}
	}
	return out
}

// common is the time that is in both lists, each of which is in order and without overlaps.
func common(x, y []Period) []Period {
	var out []Period
	for len(x) > 0 && len(y) > 0 {
		p := Period{x[0].Begin, x[0].End}
		if y[0].Begin.After(p.Begin) {
			p.Begin = y[0].Begin
		}
		if y[0].End.Before(p.End) {
			p.End = y[0].End
		}
		if p.Begin.Before(p.End) {
			out = append(out, p)
		}
		if x[0].End.Before(y[0].End) {
			x = x[1:]
		} else {
			y = y[1:]
		}
	}
	return out
}

// freeBeside is a node that holds nothing but, of each resource, the most that others hold at any one
// moment. A share is the same all the time, so it fits beside them just when it fits there.
func freeBeside(host *nodes.Node, others []overlap) *nodes.Node {
	n := host.Empty()
	n.Alive, n.Closed = true, false
	type edge struct {
		at    time.Time
		sign  int // +1 opens, -1 closes
		share *nodes.Allocation
	}
	var edges []edge
	for _, o := range others {
		if share := o.with.Share(host.ID); share != nil {
			for _, p := range o.times {
				edges = append(edges, edge{p.Begin, +1, share}, edge{p.End, -1, share})
			}
		}
	}
	// At one moment first what closes: a window does not contain its end.
	slices.SortFunc(edges, func(x, y edge) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.sign, y.sign)) })
	now := newHeld()
	most := newHeld()
	for _, e := range edges {
		now.add(e.share, e.sign)
		most.atLeast(now)
	}
	n.UsedSlots, n.UsedMemory, n.Holders, n.Taken = most.slots, most.memory, most.holders, most.exclusive > 0
	n.UsedConsumables = nodes.MakeConsumables(most.consumables)
	for i := range n.GPUs {
		n.GPUs[i].Used = most.gpus[n.GPUs[i].UUID]
	}
	return n
}

// held counts what shares hold of one node.
type held struct {
	slots, holders, exclusive int
	memory                    int64
	gpus                      map[string]nodes.Amount
	consumables               map[string]int64
}

func newHeld() *held {
	return &held{gpus: map[string]nodes.Amount{}, consumables: map[string]int64{}}
}

func (h *held) add(a *nodes.Allocation, sign int) {
	h.slots += sign * a.Slots
	h.holders += sign
	if a.Exclusive {
		h.exclusive += sign
	}
	h.memory += int64(sign) * a.Memory
	for _, s := range a.Slices {
		h.gpus[s.UUID] += nodes.Amount(sign) * s.Amount
	}
	for name, q := range a.Consumables.Map() {
		h.consumables[name] += int64(sign) * q
	}
}

func (h *held) atLeast(x *held) {
	h.slots, h.holders, h.exclusive = max(h.slots, x.slots), max(h.holders, x.holders), max(h.exclusive, x.exclusive)
	h.memory = max(h.memory, x.memory)
	for uuid, a := range x.gpus {
		h.gpus[uuid] = max(h.gpus[uuid], a)
	}
	for name, q := range x.consumables {
		h.consumables[name] = max(h.consumables[name], q)
	}
}
