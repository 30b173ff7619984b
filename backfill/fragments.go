package backfill

import (
	"cmp"
	"maps"
	"slices"

	"fairslice/nodes"
	"fairslice/queue"
)

// Fragments is what is free of GPUs at a moment, and what of it is lost to fragmentation. All three are of GPUs of nodes
// that are up, and Lost <= Free <= Capacity.
//
// Lost is the fragmentation measure of Weng et al. (Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
// Fragmentation Gradient Descent, USENIX ATC'23), taken over the jobs that wait now. A request m that waits loses
//
//	F(m) = the sum, over the GPUs that would serve m if nothing ran on their node, of what is free of those that cannot
//	       serve it as they are: the GPU has too little left, or its node (slots, memory, other GPUs) has
//
// where that, together with what can serve m, would have been enough for it, and otherwise 0: then there is no room
// for m, and not one in pieces. Lost is the mean of F(m) over the waiting elements that ask for GPUs, rounded to the nearest
// 1/100 fGPU; 0 when none waits. Not among them are elements that a limit holds back, those that wait in an advance
// reservation, and those that no node could ever serve.
type Fragments struct{ Capacity, Free, Lost nodes.Amount }

// maxDemands bounds the requests of which Lost is the mean, the most frequent ones.
const maxDemands = 64

// demand is what waiting elements ask of each of so many hosts.
type demand struct {
	request  nodes.Request
	hosts    nodes.Amount
	cands    *candidates
	elements int64
	shape    *queue.Shape // of one of them: all have its Queue, Hosts and Select
}

// Fragments looks at all nodes, as the last plan has left them. What is held by what runs counts, not what is promised or
// reserved for later. Its time grows with the sorts of waiting requests (at most maxDemands) times the sorts of nodes.
func (p *Planner) Fragments() Fragments {
	p.settle()
	var f Fragments
	states := p.gpuStates()
	for i := range states {
		for k := range states[i].now.GPUs {
			g, n := &states[i].now.GPUs[k], nodes.Amount(len(states[i].hosts))
			f.Capacity += n * (g.Used + max(g.Free(), 0)) // of a lost GPU, what is held still
			f.Free += n * max(g.Free(), 0)
		}
	}
	if f.Free == 0 {
		return f
	}
	var lost, elements int64
	for _, d := range p.demands() {
		l, possible := d.lost(states)
		if possible {
			lost += int64(l) * d.elements
			elements += d.elements
		}
	}
	if elements > 0 {
		f.Lost = nodes.Amount((lost + elements/2) / elements)
	}
	return f
}

// gpuState is all hosts with GPUs that are in one state.
type gpuState struct {
	now, empty *nodes.Node
	hosts      []*host
}

// gpuStates are those of the nodes that are up. A node with an advance reservation is one, whatever is held where on it.
func (p *Planner) gpuStates() []gpuState {
	var out []gpuState
	for _, k := range p.kinds.list {
		if len(k.node.GPUs) > 0 { // no part of a reservation is here: those have claims
			out = append(out, gpuState{k.node, k.hosts[0].emptied(), k.hosts})
		}
	}
	for i, h := range p.claimed {
		if len(h.node.GPUs) > 0 && h.window == "" && h.node.State() == nodes.Up {
			out = append(out, gpuState{h.together(), h.emptied(), p.claimed[i : i+1]})
		}
	}
	return out
}

// demands are what waits for GPUs, the most frequent first.
func (p *Planner) demands() []*demand {
	type key struct {
		request nodes.Request
		hosts   nodes.Amount
		cands   *candidates
	}
	byKey := map[key]*demand{}
	for c, n := range p.waitingByClass() {
		d := demand{request: c.host, hosts: 1, cands: p.candidatesOf(c), shape: c.shape}
		if c.spread && c.shape.PerHost == 0 {
			d.request, _ = c.slotOf()
		} else if c.spread {
			d.hosts = nodes.Amount((c.shape.Slots + c.host.Slots - 1) / c.host.Slots)
		}
		k := key{d.request, d.hosts, d.cands}
		if byKey[k] == nil {
			byKey[k] = &d
		}
		byKey[k].elements += n
	}
	out := slices.SortedFunc(maps.Values(byKey), compareDemands)
	return out[:min(len(out), maxDemands)]
}

// waitingByClass counts the elements that could have GPUs now if there were some. With many users a large cluster has as many
// groups as jobs: it looks at no more of each than it must.
func (p *Planner) waitingByClass() map[*class]int64 {
	out := map[*class]int64{}
	for _, g := range p.groups {
		if len(g.items) == 0 || g.class.shape.Host.GPU.Zero() || g.class.shape.Reservation != "" || !p.mayStart(g) {
			continue
		}
		n := int64(0)
		for _, i := range g.items {
			n += int64(len(i.pending.Indices) - i.first)
		}
		out[g.class] += n
	}
	for _, list := range p.promises {
		for _, pr := range list {
			if c := pr.group.class; !c.shape.Host.GPU.Zero() && c.shape.Reservation == "" && p.mayStart(pr.group) {
				out[c]++
			}
		}
	}
	return out
}

// compareDemands puts the more frequent first. Equals are told apart by what they ask for, so that the first of them are
// always the same.
func compareDemands(a, b *demand) int {
	x, y := &a.request, &b.request
	if c := cmp.Or(cmp.Compare(b.elements, a.elements), cmp.Compare(a.hosts, b.hosts), cmp.Compare(x.Slots, y.Slots), cmp.Compare(x.Memory, y.Memory)); c != 0 {
		return c
	}
	if c := cmp.Or(cmp.Compare(x.GPU.Amount, y.GPU.Amount), cmp.Compare(x.GPU.Whole, y.GPU.Whole), cmp.Compare(x.GPU.Memory, y.GPU.Memory),
		cmp.Compare(x.GPU.Count, y.GPU.Count), cmp.Compare(x.GPU.MinMemory, y.GPU.MinMemory)); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(x.GPU.Model, y.GPU.Model), cmp.Compare(x.GPU.User, y.GPU.User), cmp.Compare(x.Consumables, y.Consumables),
		cmp.Compare(bit(x.Exclusive), bit(y.Exclusive)), cmp.Compare(a.shape.Queue, b.shape.Queue), cmp.Compare(a.shape.Hosts, b.shape.Hosts),
		cmp.Compare(a.shape.Select, b.shape.Select))
}

// lost is F of a request. possible is false when no node could ever serve it.
func (d *demand) lost(states []gpuState) (lost nodes.Amount, possible bool) {
	var free, need nodes.Amount
	for i := range states {
		s := &states[i]
		n := nodes.Amount(s.in(d.cands))
		if n == 0 || !s.empty.Fits(&d.request) {
			continue
		}
		fits := s.now.Fits(&d.request)
		for k := range s.now.GPUs {
			g, e := &s.now.GPUs[k], &s.empty.GPUs[k]
			if !e.Serves(&d.request.GPU) {
				continue
			}
			if x := taken(e, &d.request.GPU); need == 0 || x < need {
				need = x
			}
			x := n * max(g.Free(), 0)
			free += x
			if !fits || !g.Serves(&d.request.GPU) {
				lost += x
			}
		}
	}
	if need == 0 {
		return 0, false
	}
	if free < need*d.hosts {
		return 0, true
	}
	return lost, true
}

// in is how many hosts in this state a selection lets in.
func (s *gpuState) in(c *candidates) (n int) {
	if c.all {
		return len(s.hosts)
	}
	for _, h := range s.hosts {
		if c.has(h) {
			n++
		}
	}
	return n
}

// taken is how much r takes in all of a host whose GPUs are like e, on which nothing is held.
func taken(e *nodes.GPU, r *nodes.GPURequest) nodes.Amount {
	switch {
	case r.Whole > 0:
		return e.Capacity * nodes.Amount(r.Whole)
	case r.Amount > e.Capacity:
		return r.Amount
	}
	return e.Grant(r, e.Need(r)) * nodes.Amount(max(r.Count, 1))
}
