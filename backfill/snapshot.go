package backfill

import (
	"slices"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// Snapshot is all that a plan depends on, for those who want one plan and keep no Planner.
type Snapshot struct {
	Now     time.Time
	Policy  Policy
	Nodes   []*nodes.Node // as they are, with what runs taken; Make changes them
	Running []Running
	// Pending is what may start. What may not start whatever is free (held, dependency, begin time) is not in it.
	Pending []Pending
	// Promised are the starts that earlier plans promised.
	Promised []Promise
	Windows  []Window
	// Select says whether a node is one of those a shape may use: select[], -m and the queue's hosts.
	// Of the shape it may look at Queue, Hosts and Select only. It must answer the same for the same
	// arguments during one plan.
	Select func(*nodes.Node, *queue.Shape) bool
	Share  func(Claimant) float64 // see Planner.Share
	// Predictor is Planner.Predictor.
	Predictor *Predictor
}

// Running is a live attempt.
type Running struct {
	ID    queue.ElementID
	Alloc []nodes.Allocation
	// Ends is when it ends at the latest by its run limit; the zero time means never.
	Ends time.Time
	// Window is the advance reservation that it runs in, "" for none.
	Window string
	User   string
	Limits []*Limit // see Pending
}

// Pending is one job's elements that wait, of one shape.
type Pending struct {
	Job       queue.JobID
	Shape     *queue.Shape
	User      string
	Account   string // see Claimant
	Submitted time.Time
	Position  int64 // among the jobs of its priority; the job's number decides between equals
	// Moved is -1 for a job that was moved to before, 1 to behind the user's others; for orders that change with time.
	Moved int
	// Met is how long the cluster would have taken for what waited when the job was submitted; 0 lets the planner
	// work it out when the job is added.
	Met     time.Duration
	Indices []int // the elements that may start, in order

	// Limits are what the job counts against: of its queue, of its user, of its array. An element kept out by a limit
	// holds no promise: it could not use it (openpbs#2518).
	Limits []*Limit
}

// Promise is a promised start.
type Promise struct {
	ID    queue.ElementID
	At    time.Time
	Alloc []nodes.Allocation
}

// Plan is the decision.
type Plan struct {
	Starts []Start
	// Bounded says that a bound of the policy ended the plan early: what was not looked at may be able to start.
	Bounded bool
	Looks   int // how many times a class was tried
}

// Start is an element to start now on this allocation.
type Start struct {
	ID    queue.ElementID
	Shape *queue.Shape
	Alloc []nodes.Allocation
	Ends  time.Time // by its run limit; zero for never
}

// Wait is why the elements of a class do not start.
type Wait struct {
	Reasons  []queue.Reason
	Expected time.Time // when the first of them is promised to start; zero when there is no promise
	// After is the attempt whose end the promise waits for, if Known.
	After queue.ElementID
	Known bool
}

// Load makes a planner that knows what s says: a plan of it is one from nothing.
func Load(s *Snapshot) *Planner {
	p := New(s.Policy)
	p.Select, p.Share, p.Predictor = s.Select, s.Share, s.Predictor
	p.now = instantOf(s.Now)
	for _, n := range s.Nodes {
		p.PutNode(n)
	}
	for _, w := range s.Windows {
		p.PutWindow(w)
	}
	for _, r := range s.Running {
		p.Begin(r, s.Now)
	}
	for _, j := range s.Pending {
		p.Add(j)
	}
	p.Promise(s.Promised)
	return p
}

// Promise takes over the promises of an earlier planner, as far as their elements wait.
func (p *Planner) Promise(list []Promise) {
	p.settle()
	for _, pr := range list {
		p.promised(pr)
	}
}

// promised takes over a promise of an earlier plan.
func (p *Planner) promised(was Promise) {
	i := p.items[was.ID.Job]
	if i == nil {
		return
	}
	at := slices.Index(i.pending.Indices, was.ID.Index)
	if at < i.first || slices.ContainsFunc(was.Alloc, func(a nodes.Allocation) bool { return p.hostOf(i.group.class, a.Node) == nil }) {
		return
	}
	one, rest, c := i.pending, i.pending, i.group.class
	one.Indices, rest.Indices = []int{was.ID.Index}, slices.Delete(slices.Clone(i.pending.Indices), at, at+1)
	c.groups++ // its last group may be gone for a moment
	p.drop(i)
	if len(rest.Indices) > 0 {
		p.put(&item{pending: rest})
	}
	c.groups--
	p.engage(c, one, instantOf(was.At), was.Alloc)
}

// SetLocation is the time zone of the times in plans; UTC until it is called.
func (p *Planner) SetLocation(l *time.Location) { p.location = l }
