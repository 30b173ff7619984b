package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/backfill/placement"
	"fairslice/nodes"
	"fairslice/queue"
)

// sync tells the planner what has changed. The caller holds Engine.mu for reading and mu.
func (s *schedule) sync(now time.Time) {
	cfg := s.e.cfg()
	s.settle(now)
	for i := range s.feed.runs {
		r := &s.feed.runs[i]
		s.predictor.Observe(r.User, &r.Shape, r.Ran)
	}
	for i := range s.feed.asked {
		s.ask(&s.feed.asked[i])
	}
	if s.planner == nil || s.made != cfg || s.feed.all || !now.Before(s.windowed) || !s.byUser && s.usersMatter() {
		s.renew(cfg, now)
	} else {
		s.update(now)
	}
	if s.supplied != s.planner.Inventory() {
		s.supplied = s.planner.Inventory()
		s.mix.Supply(slices.Collect(maps.Values(s.e.book.Nodes)))
	}
	s.share(now)
	s.allow()
	s.fragments.changed = s.fragments.changed || !s.feed.empty()
	s.feed = newChanges()
}

// renew makes the planner from nothing. Promises that were given stay.
func (s *schedule) renew(cfg *Config, now time.Time) {
	var promised []backfill.Promise
	if s.planner != nil {
		promised = s.planner.Promises()
	}
	s.made = cfg
	policy := cfg.Scheduling.Policy
	if policy.Order == nil {
		policy.Order, policy.Protected = backfill.FCFS, 1
	}
	policy.Eager = true
	policy.MaxStarts = cfg.MaxStarts
	switch cfg.Scheduling.PlaceBy {
	case "packing":
		policy.Placement = placement.Packing()
	case "best-fit":
		policy.Placement = placement.BestFit()
	default:
		policy.Placement = placement.Fragmentation(s.mix)
	}
	s.byUser = false
	for _, n := range s.e.book.Nodes {
		s.byUser = s.byUser || oneUsers(n)
	}
	p := backfill.New(policy)
	p.SetLocation(s.e.location())
	p.Select = s.e.names.selects
	if cfg.Scheduling.Predict {
		p.Predictor = s.predictor
	}
	p.Share = s.factor
	p.Started = func(who backfill.Claimant, sh *queue.Shape, alloc []nodes.Allocation) {
		if s.tree != nil {
			s.tree.Commit(leafOf(who), accounting.HoldingOf(alloc), sh.RunLimit)
		}
	}
	s.planner = p
	s.running, s.limits = map[queue.ElementID]begun{}, map[string]*backfill.Limit{}
	s.stopped = map[queue.ElementID]struct{}{}
	s.begins, s.awaited = map[queue.JobID]time.Time{}, map[queue.JobID][]queue.JobID{}
	for _, n := range s.e.book.Nodes {
		p.PutNode(n.Clone())
	}
	s.windowed = now.Add(windowsAgain)
	for id, r := range s.e.book.Reservations {
		p.PutWindow(s.window(id, r, now))
	}
	for _, held := range s.e.liveElements() {
		s.begin(held.job, held.element, now)
	}
	s.e.book.Each(func(j *queue.Job) bool {
		if j.Live()+j.Ended() < len(j.Elements) {
			s.await(j)
			s.put(j, now)
		}
		return true
	})
	p.Promise(promised)
}

// usersMatter says that a node has come with a GPU that only one user's slices share.
func (s *schedule) usersMatter() bool {
	for id := range s.feed.nodes {
		if n := s.e.book.Nodes[id]; n != nil && oneUsers(n) {
			return true
		}
	}
	return false
}

func oneUsers(n *nodes.Node) bool {
	for i := range n.GPUs {
		if n.GPUs[i].Mode == nodes.ModeMPS {
			return true
		}
	}
	return false
}

// A reservation's windows are known windowsAhead, and worked out anew after windowsAgain.
const (
	windowsAhead = 90 * 24 * time.Hour
	windowsAgain = 24 * time.Hour
)

func (s *schedule) window(id string, r *queue.Reservation, now time.Time) backfill.Window {
	w := backfill.Window{ID: id, Shares: r.Shares}
	for _, p := range r.Windows(now, now.Add(windowsAhead), s.e.location()) {
		w.Spans = append(w.Spans, backfill.Span{Begin: p.Begin, End: p.End})
	}
	return w
}

// update tells the planner what batches have changed since it was last told, and what time has.
func (s *schedule) update(now time.Time) {
	jobs := s.feed.jobs
	changed := sortedElements(s.feed.elements)
	for _, id := range changed { // what has ended first: a node may have shrunk when it did
		jobs[id.Job] = struct{}{}
		_, el := s.e.book.Find(id)
		known, ok := s.running[id]
		if ok && (el == nil || !el.State.Live() || known.attempt != unconfirmed && known.attempt != el.Attempt.Number) {
			delete(s.running, id)
			s.planner.End(id, now)
		}
	}
	for id := range s.feed.nodes {
		if n := s.e.book.Nodes[id]; n == nil {
			s.planner.RemoveNode(id)
		} else if known := s.planner.Node(id); known == nil || !known.SameInventory(n) {
			s.planner.PutNode(n.Clone())
		}
	}
	for id := range s.stopped { // their ends move while they are
		changed = append(changed, id)
	}
	clear(s.stopped)
	for _, id := range changed {
		if j, el := s.e.book.Find(id); el != nil && el.State.Live() {
			s.begin(j, el, now)
		}
	}
	for id := range jobs { // whoever waits for one of these may wait no longer
		for _, dependent := range s.awaited[id] {
			jobs[dependent] = struct{}{}
		}
	}
	for id, at := range s.begins {
		if !at.After(now) {
			jobs[id] = struct{}{}
		}
	}
	for id := range jobs {
		delete(s.begins, id)
		j := s.e.book.Jobs[id]
		if j == nil || j.Live()+j.Ended() == len(j.Elements) {
			s.planner.Remove(id)
			if j == nil {
				delete(s.awaited, id)
			}
			continue
		}
		s.await(j)
		s.put(j, now)
	}
}

func sortedElements(set map[queue.ElementID]struct{}) []queue.ElementID {
	out := make([]queue.ElementID, 0, len(set))
	for id := range set {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b queue.ElementID) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index))
	})
	return out
}

// begin tells the planner of a live attempt that it does not know, or whose end has moved.
func (s *schedule) begin(j *queue.Job, el *queue.Element, now time.Time) {
	id, a := j.ElementID(el.Index), el.Attempt
	ends := endOf(el, now)
	if el.State.Suspended() {
		s.stopped[id] = struct{}{}
	}
	known, ok := s.running[id]
	same := ok && (known.attempt == a.Number || known.attempt == unconfirmed) && near(known.ends, ends)
	s.running[id] = begun{a.Number, ends}
	if same {
		return
	}
	r := backfill.Running{ID: id, Alloc: a.Alloc, Ends: ends, User: j.Owner.User, Limits: s.limitsOf(j)}
	if r0 := j.Plan.Reservation; r0 != "" && s.e.book.Reservations[r0] != nil {
		r.Window = r0
	}
	s.planner.Begin(r, now)
}

// near says that two ends are so close that a plan need not be told: a job begins a moment after it was dispatched.
func near(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < time.Second
}

// await notes which jobs j waits for.
func (s *schedule) await(j *queue.Job) {
	c := j.Condition()
	if c == nil {
		return
	}
	for _, ref := range c.Refs() {
		if !slices.Contains(s.awaited[ref.Job], j.ID) {
			s.awaited[ref.Job] = append(s.awaited[ref.Job], j.ID)
		}
	}
}

// put tells the planner what of j may start.
func (s *schedule) put(j *queue.Job, now time.Time) {
	s.planner.Add(backfill.Pending{Job: j.ID, Shape: s.shapeOf(j), User: j.Owner.User, Account: s.claimant(j).Account, Submitted: j.Submitted,
		Position: j.Position, Moved: cmp.Compare(j.Position, int64(j.ID)<<20), Indices: s.e.startable(j, now), Limits: s.limitsOf(j)})
	if next := s.e.nextBegin(j, now); !next.IsZero() {
		s.begins[j.ID] = next
	}
}

// shapeOf is a copy of a job's shape: the plan is made while the book changes. The planner keeps one for equal ones.
func (s *schedule) shapeOf(j *queue.Job) *queue.Shape {
	shape := s.planOf(j)
	if known := s.planner.Shape(&shape); known != nil {
		return known
	}
	one := shape
	return &one
}

// planOf is j.Plan as the planner is to see it: with the user, where it asks for parts of GPUs and the cluster has some that
// only one user's slices share. Elsewhere equal jobs of different users stay one class. What an overspent account has waiting
// comes last.
func (s *schedule) planOf(j *queue.Job) queue.Shape {
	shape := j.Plan
	shape.Priority = s.priorityOf(j)
	if s.byUser && shape.Host.GPU.Part() {
		shape.Host.GPU.User = j.Owner.User
	}
	return shape
}

// limitsOf are the limits that j counts against.
func (s *schedule) limitsOf(j *queue.Job) []*backfill.Limit {
	var out []*backfill.Limit
	add := func(name string, most int, of backfill.Measure) {
		if most <= 0 {
			return
		}
		if s.limits[name] == nil {
			s.limits[name] = &backfill.Limit{Of: of}
		}
		s.limits[name].Max = most
		out = append(out, s.limits[name])
	}
	if q := s.made.queue(j.Queue); q != nil {
		add("queue "+j.Queue, q.MaxSlots, backfill.OfSlots)
		add("user "+j.Queue+"\x00"+j.Owner.User, q.UserSlots, backfill.OfSlots)
	}
	if a := j.Spec.Array; a != nil {
		add(fmt.Sprint("array ", j.ID), a.Limit, backfill.OfElements)
	}
	return slices.Concat(out, s.policyLimits(j), s.budgetLimits(j))
}
