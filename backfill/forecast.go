package backfill

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"fairslice/queue"
)

// Forecast is when elements that wait are expected to start.
type Forecast struct {
	Made   time.Time
	Starts map[queue.ElementID]time.Time
	// Bounded says that it was ended early: for elements that are not in Starts nothing is known. Otherwise they
	// can have no expected start: what is in their way has no run limit, or no host could run them.
	Bounded bool
}

// Expect works out when the elements of s that wait will start if everything runs as long as it is estimated to (until its
// limit, without a Predictor), nothing is submitted and no node changes: it plans, ends what ends next, and plans again,
// with the policy itself. It gives up after so many starts. What ends within a part `coarse` of the time looked ahead ends
// together, and what ends within that part of ten minutes in any case: 0.01 makes a forecast of a start in an hour up to
// 36 s late, and that of a large cluster many times faster.
func Expect(s *Snapshot, starts int, coarse float64) *Forecast {
	f := &Forecast{Made: s.Now, Starts: map[queue.ElementID]time.Time{}}
	p := Load(s)
	p.policy.MaxStarts, p.policy.MaxLooks = 0, 0
	var ends endHeap
	for id, r := range p.running {
		if r.ends < never {
			ends = append(ends, end{max(r.ends, p.now), id})
		}
	}
	heap.Init(&ends)
	turns := p.turns()
	for {
		plan := p.Plan(p.now.time(time.UTC))
		for _, st := range plan.Starts {
			f.Starts[st.ID] = p.now.time(p.location)
			at := p.running[st.ID].ends
			if p.Predictor != nil {
				if d := p.Predictor.Estimate(p.running[st.ID].user, st.Shape); d > 0 {
					at = min(at, p.now.plus(instant(d)))
				}
			}
			if at < never {
				heap.Push(&ends, end{at, st.ID})
			}
		}
		if f.Bounded = len(f.Starts) >= starts; f.Bounded || len(p.items) == 0 && len(p.promises) == 0 {
			f.Bounded = f.Bounded && len(p.items) > 0
			return f
		}
		next := never
		if len(ends) > 0 {
			next = ends[0].at
		}
		for len(turns) > 0 && turns[0] <= p.now {
			turns = turns[1:]
		}
		if len(turns) > 0 {
			next = min(next, turns[0])
		}
		if next-instantOf(s.Now) >= foreseeable {
			return f // it waits for what has no run limit
		}
		limit := next
		if coarse > 0 {
			limit += instant(coarse * float64(max(next-instantOf(s.Now), instant(10*time.Minute))))
		}
		for len(turns) == 0 || limit < turns[0] {
			if len(ends) == 0 || ends[0].at > limit {
				break
			}
			next = ends[0].at
			p.now = next
			p.end(heap.Pop(&ends).(end).id, next)
		}
		p.now = next
		for len(ends) > 0 && ends[0].at <= next {
			p.end(heap.Pop(&ends).(end).id, next)
		}
	}
}

// turns are when windows begin and end, in order.
func (p *Planner) turns() []instant {
	var out []instant
	for _, w := range p.windows {
		for _, s := range w.Spans {
			out = append(out, instantOf(s.Begin), instantOf(s.End))
		}
	}
	slices.Sort(out)
	return out
}

type end struct {
	at instant
	id queue.ElementID
}

type endHeap []end

func (h endHeap) Len() int      { return len(h) }
func (h endHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h endHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), compareIDs(h[i].id, h[j].id)) < 0
}
func (h *endHeap) Push(x any) { *h = append(*h, x.(end)) }
func (h *endHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// Snapshot copies all that the planner knows, so that it can be planned from elsewhere.
func (p *Planner) Snapshot() *Snapshot {
	s := &Snapshot{Now: p.now.time(p.location), Policy: p.policy, Select: p.Select, Share: p.Share}
	s.Policy.Placement = p.placement.Clone() // they are not for use in two places at once
	if p.Predictor != nil {
		s.Predictor = p.Predictor.Clone()
	}
	limits := map[*Limit]*Limit{}
	copied := func(list []*Limit) []*Limit {
		out := make([]*Limit, len(list))
		for i, l := range list {
			if limits[l] == nil {
				limits[l] = l.clone()
			}
			out[i] = limits[l]
		}
		return out
	}
	for _, h := range p.hosts {
		if h.window == "" {
			s.Nodes = append(s.Nodes, h.node.Clone())
		}
	}
	for id, r := range p.running {
		s.Running = append(s.Running, Running{ID: id, Alloc: r.alloc, Ends: r.ends.time(p.location), Window: r.window, User: r.user, Limits: copied(r.limits)})
	}
	slices.SortFunc(s.Running, func(a, b Running) int { return compareIDs(a.ID, b.ID) })
	waiting := map[queue.JobID]*Pending{}
	add := func(j Pending, indices []int) {
		if w := waiting[j.Job]; w != nil {
			w.Indices = append(w.Indices, indices...)
			slices.Sort(w.Indices)
			return
		}
		j.Indices, j.Limits = slices.Clone(indices), copied(j.Limits)
		waiting[j.Job] = &j
	}
	for _, i := range p.items {
		add(i.pending, i.pending.Indices[i.first:])
	}
	for _, pr := range p.allPromises() {
		add(pr.group.head().pending, []int{pr.id.Index})
	}
	for _, j := range waiting {
		s.Pending = append(s.Pending, *j)
	}
	slices.SortFunc(s.Pending, func(a, b Pending) int { return cmp.Compare(a.Job, b.Job) })
	s.Promised = p.promisesAs(true)
	for _, w := range p.windows {
		s.Windows = append(s.Windows, w.Window)
	}
	slices.SortFunc(s.Windows, func(a, b Window) int { return cmp.Compare(a.ID, b.ID) })
	return s
}
