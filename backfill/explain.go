package backfill

import (
	"fmt"
	"slices"
	"strings"

	"fairslice/nodes"
	"fairslice/queue"
)

// Explain says why elements of a shape do not start, as of the last plan. It is worked out when it is asked for: of the
// many shapes that wait few are asked about.
func (p *Planner) Explain(shape *queue.Shape) Wait {
	c := p.classes[*shape]
	if c == nil {
		c = newClass(shape)
	}
	p.settle()
	pr := p.firstPromise(c)
	if pr == nil || !pr.placed {
		return Wait{Reasons: p.whyNot(c)}
	}
	w := Wait{}
	if pr.at-p.now < foreseeable {
		w.Expected = pr.at.time(p.location)
		w.After, w.Known = p.opens(pr)
	}
	p.lift(pr) // nobody is in the way of himself
	p.settle()
	w.Reasons = p.whyNot(c)
	p.lay(pr, pr.at, pr.alloc)
	if len(w.Reasons) == 0 { // others made room after it was served
		w.Reasons = []queue.Reason{{Kind: queue.ReasonReserved, Text: "It is promised a start, which may come sooner when promises are laid again"}}
	}
	return w
}

// Waits explains every shape of which something waits; what would fit, and waits for a limit or for the next plan,
// has no reasons there: see WhyJob.
func (p *Planner) Waits() map[queue.Shape]Wait {
	out := map[queue.Shape]Wait{}
	for shape := range p.classes {
		out[shape] = p.Explain(&shape)
	}
	return out
}

func (p *Planner) firstPromise(c *class) *promise {
	var first *promise
	for _, list := range p.promises {
		for _, pr := range list {
			if pr.group.class == c && (first == nil || pr.at < first.at || pr.at == first.at && compareIDs(pr.id, first.id) < 0) {
				first = pr
			}
		}
	}
	return first
}

// opens finds what the promise waits for: the attempt on its hosts that ends just then.
func (p *Planner) opens(pr *promise) (queue.ElementID, bool) {
	var found queue.ElementID
	ok := false
	for id, r := range p.running {
		if r.ends != pr.at || ok && compareIDs(id, found) > 0 {
			continue
		}
		for i := range r.holds {
			if slices.ContainsFunc(pr.holds, func(x hold) bool { return x.host == r.holds[i].host }) {
				found, ok = id, true
			}
		}
	}
	return found, ok
}

func (p *Planner) whyNot(c *class) []queue.Reason {
	cands := p.candidatesOf(c)
	if cands.count == 0 {
		return (&reasons{}).list(c.shape.Host, 0)
	}
	if !p.possible(c) {
		return p.whyNever(c, cands)
	}
	if !p.windowFits(c) {
		return []queue.Reason{{Kind: queue.ReasonReservation, Text: "The run limit is longer than what is left of the advance reservation"}}
	}
	need, why := c.host, &reasons{}
	one, tile := c.slotOf()
	if c.spread {
		need = one
	}
	free, bare, rooms := 0, 0, 0 // slots with the promises, and without
	fits := func(now, later *nodes.Node, hosts int) {
		if c.spread {
			free += hosts * roomOn(later, &one, tile)
			bare += hosts * roomOn(now, &one, tile)
			rooms += hosts
		}
	}
	for _, k := range p.kinds.list {
		hosts := slices.DeleteFunc(slices.Clone(k.hosts), func(h *host) bool { return !cands.has(h) })
		slices.Reverse(hosts) // the first of them are named
		if len(hosts) == 0 {
			continue
		}
		if m := k.node.Fit(need); m != nil {
			why.add(m, hosts...)
		} else {
			fits(k.node, k.node, len(hosts))
		}
	}
	for _, h := range p.hosts {
		if h.kind != nil || !cands.has(h) {
			continue
		}
		m := h.node.Fit(need)
		if m == nil {
			m = h.together().Fit(need)
		}
		if m != nil {
			why.add(m, h)
			continue
		}
		n := h.over(p.now, p.now.plus(c.length), p.now)
		if !n.Fits(&need) || c.spread && roomOn(n, &one, tile) < min(tile, h.node.Slots-h.node.UsedSlots) {
			why.note(atReserved, []*host{h})
		}
		fits(h.node, n, 1)
	}
	if c.spread && (bare < c.shape.Slots || why.byKind[atReserved].hosts == 0) {
		why.spread(rooms, c.shape.Slots, min(bare, c.shape.Slots-1))
	}
	out := why.list(need, cands.count)
	switch {
	case len(out) > 0 || !c.spread:
	case free < c.shape.Slots:
		return []queue.Reason{{Kind: queue.ReasonReserved, Hosts: rooms, Text: reservedText}}
	case c.shape.PerHost > 0:
		return []queue.Reason{{Kind: queue.ReasonSlots, Hosts: rooms,
			Text: fmt.Sprintf("Not enough hosts with %d free slots (span[ptile]) for %d", tile, c.shape.Slots)}}
	}
	return out
}

// whyNever is why a class could not run on the hosts that are up, even if nothing else ran.
func (p *Planner) whyNever(c *class, cands *candidates) []queue.Reason {
	var all []*nodes.Node
	away := 0
	why := &reasons{}
	one, _ := c.slotOf()
	need := c.host
	if c.spread {
		need = one
	}
	rooms, free := 0, 0
	for _, h := range p.hosts {
		if !cands.has(h) {
			continue
		}
		n := h.emptied()
		all = append(all, n)
		if h.node.State() != nodes.Up {
			away++
			continue
		}
		if m := n.Fit(need); m != nil {
			why.add(m, h)
		} else if c.spread {
			rooms, free = rooms+1, free+roomOn(n, &one, c.shape.Slots)
		}
	}
	fits := func(n *nodes.Node) bool { return c.whole() && n.Fits(&c.host) }
	if away > 0 && (slices.ContainsFunc(all, fits) || c.spread && c.fitsOver(all)) {
		return []queue.Reason{{Kind: queue.ReasonHostDown, Hosts: away,
			Text: fmt.Sprintf("Hosts that could run it are closed or unavailable: %d", away)}}
	}
	if c.spread {
		why.spread(rooms, c.shape.Slots, min(free, c.shape.Slots-1))
		need.Slots = c.shape.Slots
	}
	var texts []string
	for _, w := range why.list(need, len(all)) {
		texts = append(texts, w.Text)
	}
	return []queue.Reason{{Kind: queue.ReasonNoHost, Hosts: cands.count,
		Text: "No host could ever run it: " + strings.Join(texts, "; ")}}
}

// WhyJob says what keeps this job's next element out although it would fit, as of the last plan: a limit, or one that
// is before it in order.
func (p *Planner) WhyJob(id queue.JobID) []queue.Reason {
	var g *group
	if i := p.items[id]; i != nil {
		g = i.group
	} else if list := p.promises[id]; len(list) > 0 {
		g = list[0].group
	} else {
		return nil
	}
	if why, ok := p.keptOut(g); ok {
		return []queue.Reason{why}
	}
	if p.policy.Protected == 0 && p.blocker != nil && p.blocker != g {
		return []queue.Reason{{Kind: queue.ReasonReserved, Text: fmt.Sprintf("Job %s is before it, and nothing passes it (fcfs)", p.blocker.head().id())}}
	}
	if p.moved && len(p.whyNot(g.class)) == 0 {
		return []queue.Reason{{Kind: queue.ReasonNotLooked, Text: "Promised starts have moved since it was looked at; the next plan looks again"}}
	}
	return nil
}
