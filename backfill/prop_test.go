package backfill

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairslice/nodes"
	"fairslice/queue"
)

// cluster is a simulated one beside its planner: it knows what is held, and checks all that the planner says.
// Elements end at or before their limits.
type cluster struct {
	t        *rapid.T
	p        *Planner
	now      time.Time
	nodes    map[nodes.ID]*nodes.Node
	ids      []nodes.ID
	ends     map[queue.ElementID]time.Time // when they really do
	alloc    map[queue.ElementID][]nodes.Allocation
	shapes   map[queue.JobID]*queue.Shape
	waits    map[queue.ElementID]bool
	limits   []*Limit
	windowed bool        // there is an advance reservation "w"
	turns    []time.Time // when it opens and closes
	limited  bool        // some jobs count against limits; who is let in by one may come before who holds a promise
	mps      bool        // some GPUs are in nodes.ModeMPS
	nextJob  queue.JobID
	share    map[string]float64
	// promises are the latest of each element; a promise is void when a node or an order has changed since.
	promises map[queue.ElementID]time.Time
}

func drawPolicy(t *rapid.T) Policy {
	p := Policy{Protected: rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3, All}).Draw(t, "protected")}
	p.Eager = rapid.Bool().Draw(t, "eager")
	p.Order = rapid.SampledFrom([]Order{FCFS, FCFS, XFactor, FairShare}).Draw(t, "order")
	p.Candidates = rapid.SampledFrom([]Order{nil, nil, SJF, XFactor}).Draw(t, "candidates")
	return p
}

func drawCluster(t *rapid.T, policy Policy) *cluster {
	c := &cluster{t: t, now: noon, nodes: map[nodes.ID]*nodes.Node{}, ends: map[queue.ElementID]time.Time{},
		alloc: map[queue.ElementID][]nodes.Allocation{}, shapes: map[queue.JobID]*queue.Shape{}, waits: map[queue.ElementID]bool{},
		share: map[string]float64{}, promises: map[queue.ElementID]time.Time{}}
	c.p = New(policy)
	c.p.Select = onHosts
	c.p.Share = func(who Claimant) float64 { return c.share[who.User] }
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		n := &nodes.Node{ID: nodes.ID(fmt.Sprint("n", i)), Alive: true, Slots: rapid.IntRange(1, 8).Draw(t, "slots"),
			Memory: rapid.Int64Range(1, 16).Draw(t, "gib") * gib, Consumables: "lic=2"}
		capacity := nodes.Amount(rapid.SampledFrom([]int{100, 200}).Draw(t, "capacity"))
		for g := range rapid.IntRange(0, 3).Draw(t, "gpus") {
			x := nodes.GPU{Index: g, UUID: fmt.Sprintf("%s-%d", n.ID, g), Memory: 8 * gib, Capacity: capacity, Mode: nodes.ModeShim}
			switch rapid.IntRange(0, 5).Draw(t, "mode") {
			case 0:
				x.Mode, x.Memory, x.Fraction = nodes.ModeMIG, 4*gib, rapid.SampledFrom([]int{1428, 4285}).Draw(t, "fraction")
				x.Capacity = x.Worth(capacity)
			case 1, 2:
				x.Mode, c.mps = nodes.ModeMPS, true
			}
			n.GPUs = append(n.GPUs, x)
		}
		n.Closed = rapid.IntRange(0, 9).Draw(t, "closed") == 0
		c.ids = append(c.ids, n.ID)
		c.nodes[n.ID] = n
		c.p.PutNode(n.Clone())
	}
	// Beside a window, several promises can still get in each other's way when they are laid again: not held here yet.
	if c.windowed = policy.Protected <= 1 && rapid.IntRange(0, 2).Draw(t, "windowed") == 0; c.windowed {
		n := c.nodes[rapid.SampledFrom(c.ids).Draw(t, "window")]
		begin := noon.Add(time.Duration(rapid.IntRange(-5, 40).Draw(t, "begin")) * time.Minute)
		end := begin.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "long")) * time.Minute)
		c.turns = []time.Time{begin, end}
		share := nodes.Allocation{Node: n.ID, Slots: rapid.IntRange(1, n.Slots).Draw(t, "reserved")}
		for _, g := range n.GPUs { // as a reservation has them: all of what is not shared by anybody
			if picky(&g) && rapid.Bool().Draw(t, "reserved too") {
				share.Slices = append(share.Slices, nodes.Slice{UUID: g.UUID, Index: g.Index, Amount: g.Capacity, Memory: g.Memory, SMShare: 10_000, Mode: g.Mode})
			}
		}
		c.p.PutWindow(Window{ID: "w", Shares: []nodes.Allocation{share}, Spans: []Span{{begin, end}}})
	}
	c.limited = rapid.Bool().Draw(t, "limited")
	c.limits = []*Limit{{Max: rapid.IntRange(1, 12).Draw(t, "limit")}, {Max: rapid.IntRange(1, 3).Draw(t, "elements"), Of: OfElements}}
	return c
}

func drawShape(t *rapid.T) *queue.Shape {
	s := &queue.Shape{Slots: rapid.IntRange(1, 12).Draw(t, "slots"), RunLimit: time.Duration(rapid.IntRange(1, 20).Draw(t, "limit")) * time.Minute}
	s.MaxSlots = s.Slots + max(rapid.IntRange(-6, 3).Draw(t, "more"), 0)
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
	if rapid.IntRange(0, 2).Draw(t, "small") > 0 {
		s.Slots, s.MaxSlots = 1+s.Slots/4, max(1+s.Slots/4, s.MaxSlots/4)
	}
	s.Host.Memory = gib * rapid.Int64Range(0, 4).Draw(t, "mem")
	s.Host.Exclusive = rapid.IntRange(0, 9).Draw(t, "exclusive") == 0
	if rapid.IntRange(0, 5).Draw(t, "licence") == 0 {
		s.Host.Consumables = "lic=1"
	}
	if rapid.IntRange(0, 9).Draw(t, "hosts") == 0 {
		s.Hosts = rapid.SampledFrom([]string{"n0", "n1", "n0,n2"}).Draw(t, "on")
	}
	return s
}

func (c *cluster) submit() {
	for range rapid.IntRange(0, 4).Draw(c.t, "jobs") {
		c.nextJob++
		j := Pending{Job: c.nextJob, Shape: drawShape(c.t), Submitted: c.now, User: rapid.SampledFrom([]string{"ann", "bob"}).Draw(c.t, "user")}
		for i := range rapid.IntRange(1, 3).Draw(c.t, "elements") {
			j.Indices = append(j.Indices, i+1)
			c.waits[queue.ElementID{Job: j.Job, Index: i + 1}] = true
		}
		for _, l := range c.limits {
			if c.limited && rapid.IntRange(0, 4).Draw(c.t, "limited") == 0 {
				j.Limits = append(j.Limits, l)
			}
		}
		if c.p.policy.Order != FCFS {
			j.Shape.Priority = rapid.SampledFrom([]int{0, 0, 0, 5}).Draw(c.t, "priority")
		}
		if c.windowed { // who is alone on a node, but not on the part that is reserved of it, is beside others after all
			j.Shape.Host.Exclusive = false
		}
		if c.windowed && rapid.IntRange(0, 4).Draw(c.t, "inside") == 0 {
			j.Shape.Reservation = "w"
		}
		if c.mps && j.Shape.Host.GPU.Part() {
			j.Shape.Host.GPU.User = j.User
		}
		c.shapes[j.Job] = j.Shape
		c.p.Add(j)
	}
}

// plan plans, checks every start against what is really free, and compares with a plan from nothing.
func (c *cluster) plan() *Plan {
	if c.p.policy.Protected > 1 {
		c.p.open = true // a promise may have become able to move when another moved: from nothing that is not known
	}
	scratch := Load(c.p.Snapshot())
	scratch.lost = c.p.lost // that nodes have changed is not in a snapshot
	plan, again := c.p.Plan(c.now), scratch.Plan(c.now)
	if got, want := text1(plan), text1(again); got != want {
		c.t.Fatalf("at %s: planned from what changed\n%s\nfrom nothing\n%s", c.now.Sub(noon), got, want)
	}
	if got, want := fmt.Sprint(c.p.Promises()), fmt.Sprint(scratch.Promises()); got != want {
		c.t.Fatalf("at %s: promised from what changed\n%s\nfrom nothing\n%s", c.now.Sub(noon), got, want)
	}
	for _, s := range plan.Starts {
		c.begin(s)
	}
	return plan
}

func text1(p *Plan) string {
	out := ""
	for _, s := range p.Starts {
		out += fmt.Sprintf("%s on %v\n", s.ID, s.Alloc)
	}
	return out
}

func (c *cluster) begin(s Start) {
	slots := 0
	for _, a := range s.Alloc {
		slots += a.Slots
		n := c.nodes[a.Node]
		if n.State() != nodes.Up {
			c.t.Fatalf("%s starts on %s, which is %s", s.ID, a.Node, n.State())
		}
		if err := n.Admits(a); err != nil {
			c.t.Fatalf("%s is not admitted: %v", s.ID, err)
		}
		if err := n.Take(a); err != nil {
			c.t.Fatalf("%s does not fit: %v", s.ID, err)
		}
	}
	if slots < s.Shape.Slots || slots > max(s.Shape.MaxSlots, s.Shape.Slots) {
		c.t.Fatalf("%s asks for %d to %d slots and gets %d", s.ID, s.Shape.Slots, s.Shape.MaxSlots, slots)
	}
	if !c.waits[s.ID] {
		c.t.Fatalf("%s starts, and does not wait", s.ID)
	}
	delete(c.waits, s.ID)
	early := time.Duration(rapid.SampledFrom([]int{0, 0, 10, 50, 99}).Draw(c.t, "early")) * s.Shape.RunLimit / 100
	c.ends[s.ID] = c.now.Add(s.Shape.RunLimit - early)
	c.alloc[s.ID] = s.Alloc
}

// advance goes to the next end, or opening or closing of a window, and ends what ends then.
func (c *cluster) advance() bool {
	var next time.Time
	for _, end := range c.ends {
		if next.IsZero() || end.Before(next) {
			next = end
		}
	}
	for _, turn := range c.turns { // the daemon plans each second
		if turn.After(c.now) && (next.IsZero() || turn.Before(next)) {
			next = turn
		}
	}
	if next.IsZero() {
		return false
	}
	c.now = next
	for _, id := range slices.SortedFunc(maps.Keys(c.ends), compareIDs) {
		if c.ends[id].Equal(next) {
			c.end(id)
		}
	}
	return true
}

func (c *cluster) end(id queue.ElementID) {
	for _, a := range c.alloc[id] {
		c.nodes[a.Node].Release(a)
	}
	delete(c.ends, id)
	delete(c.alloc, id)
	c.p.End(id, c.now)
}

// disturb does one of the other things that happen to a cluster; it says whether promises are void by it.
func (c *cluster) disturb() bool {
	switch rapid.IntRange(0, 9).Draw(c.t, "disturb") {
	case 0: // a node closes or opens
		n := c.nodes[rapid.SampledFrom(c.ids).Draw(c.t, "node")]
		n.Closed = !n.Closed
		c.p.PutNode(n.Clone())
		return true
	case 1: // a job is killed while it waits
		if waiting := slices.SortedFunc(maps.Keys(c.waits), compareIDs); len(waiting) > 0 {
			job := waiting[0].Job
			c.p.Remove(job)
			for i := range 3 {
				delete(c.waits, queue.ElementID{Job: job, Index: i + 1})
			}
		}
	case 2:
		c.share[rapid.SampledFrom([]string{"ann", "bob"}).Draw(c.t, "whose")] = rapid.Float64Range(0, 1).Draw(c.t, "share")
		return true
	case 3, 4: // something that runs is let run longer, as far as it may
		c.extend()
	}
	return false
}

// extend lets something run longer, up to where it may. No promise is void by it.
func (c *cluster) extend() {
	running := slices.SortedFunc(maps.Keys(c.ends), compareIDs)
	if len(running) == 0 {
		return
	}
	id := rapid.SampledFrom(running).Draw(c.t, "extended")
	r := c.p.running[id]
	x := c.p.MayExtend(id, time.Time{}, true)
	if x.Why == AnUnknown || !x.Until.IsZero() && !x.Until.After(r.ends.time(time.UTC)) {
		return
	}
	ends := r.ends.time(time.UTC).Add(time.Duration(rapid.IntRange(1, 300).Draw(c.t, "longer")) * time.Minute)
	if !x.Until.IsZero() && ends.After(x.Until) {
		ends = x.Until // as long as it may
	}
	if !c.p.MayExtend(id, ends, true).OK {
		c.t.Fatalf("%s may run until %s, and not until %s", id, x.Until.Sub(noon), ends.Sub(noon))
	}
	c.p.Extend(id, ends)
	c.ends[id] = ends
}

// Over many cycles: what starts fits (invariant 1); whatever a planner remembers, it plans as from nothing (5); a promised
// start never moves later and is kept, whatever passes it, as long as what runs ends by its limit (4).
func TestPromisesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := drawPolicy(t)
		c := drawCluster(t, policy)
		ordered := policy.Order == FCFS && !c.limited // otherwise who waits behind may come to be before
		for range rapid.IntRange(2, 25).Draw(t, "cycles") {
			c.submit()
			void := c.disturb()
			if void {
				clear(c.promises)
			}
			plan := c.plan()
			for _, s := range plan.Starts {
				if at, ok := c.promises[s.ID]; ok && c.now.After(at) && ordered {
					t.Fatalf("%s starts at %s, promised was %s", s.ID, c.now.Sub(noon), at.Sub(noon))
				}
				delete(c.promises, s.ID)
			}
			c.checkPromises(ordered)
			c.checkReasons()
			if !c.advance() && len(c.waits) == 0 {
				return
			}
		}
	})
}

func (c *cluster) checkPromises(ordered bool) {
	now := map[queue.ElementID]time.Time{}
	for _, r := range c.p.Promises() {
		if r.At.Before(c.now) {
			c.t.Fatalf("it is %s and %s is promised %s", c.now.Sub(noon), r.ID, r.At.Sub(noon))
		}
		if at, ok := c.promises[r.ID]; ok && r.At.After(at) && ordered {
			c.t.Fatalf("at %s the start of %s moves from %s to %s", c.now.Sub(noon), r.ID, at.Sub(noon), r.At.Sub(noon))
		}
		now[r.ID] = r.At
	}
	c.promises = now
}

// checkReasons: a job that waits without a reason does not exist.
func (c *cluster) checkReasons() {
	waits := c.p.Waits()
	for _, id := range slices.SortedFunc(maps.Keys(c.waits), compareIDs) {
		w, ok := waits[*c.shapes[id.Job]]
		if !ok {
			c.t.Fatalf("nothing of the shape of %s is known to wait", id)
		}
		if len(w.Reasons) > 0 {
			continue
		}
		// It would fit: then a limit keeps it, or, without backfill, one before it does.
		if why := c.p.WhyJob(id.Job); len(why) == 0 {
			c.t.Fatalf("%s waits and nobody says why: %+v %+v %v", id, *c.shapes[id.Job], c.nodes, c.p.Promises())
		}
	}
}

// The same snapshot gives the same plan, in whatever order its nodes and running elements come.
func TestPlanIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t, drawPolicy(t))
		for range rapid.IntRange(1, 4).Draw(t, "cycles") {
			c.submit()
			s, again := c.p.Snapshot(), c.p.Snapshot()
			s.Policy.MaxStarts = rapid.IntRange(0, 5).Draw(t, "starts")
			again.Policy.MaxStarts = s.Policy.MaxStarts
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			for _, list := range []any{again.Nodes, again.Running, again.Pending} {
				r.Shuffle(reflect.ValueOf(list).Len(), reflect.Swapper(list))
			}
			p, q := Load(s).Plan(c.now), Load(again).Plan(c.now)
			if !reflect.DeepEqual(p, q) {
				t.Fatalf("two plans:\n%+v\n%+v", p, q)
			}
			if s.Policy.MaxStarts > 0 && len(p.Starts) > s.Policy.MaxStarts {
				t.Fatalf("%d starts, at most %d wanted", len(p.Starts), s.Policy.MaxStarts)
			}
			c.plan()
			c.advance()
		}
	})
}

// When nothing is submitted and everything runs until its limit, everyone starts when it was forecast, and the promised
// at their time.
func TestForecastComesTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t, Policy{Protected: rapid.SampledFrom([]int{0, 1, 2, All}).Draw(t, "protected")})
		if c.p.policy.Protected > 1 {
			c.limited = false // a forecast plans once more, and by that promises may move to an earlier time
		}
		for range 4 {
			c.submit()
		}
		c.plan()
		for id := range c.ends { // exact estimates
			c.ends[id] = c.p.running[id].ends.time(time.UTC)
		}
		f := Expect(c.p.Snapshot(), 1000, 0)
		promised := c.p.Promises()
		for c.advance() {
			if c.p.policy.Protected > 1 {
				c.p.open = true
			}
			for _, s := range c.p.Plan(c.now).Starts {
				c.begin(s)
				c.ends[s.ID] = c.now.Add(s.Shape.RunLimit)
				if at := f.Starts[s.ID]; !at.Equal(c.now) {
					t.Fatalf("%s starts at %s, expected was %s", s.ID, c.now.Sub(noon), at.Sub(noon))
				}
				if i := slices.IndexFunc(promised, func(p Promise) bool { return p.ID == s.ID }); i >= 0 && promised[i].At.Before(c.now) && !c.limited {
					t.Fatalf("%s starts at %s, promised was %s", s.ID, c.now.Sub(noon), promised[i].At.Sub(noon))
				}
				delete(f.Starts, s.ID)
			}
		}
		if len(f.Starts) > 0 {
			t.Fatalf("expected to start, and never did: %v", f.Starts)
		}
	})
}
