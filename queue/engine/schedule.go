package engine

import (
	"sync"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/backfill/placement"
	"fairslice/nodes"
	"fairslice/queue"
)

// Scheduling is how the site decides who starts, when and where. Without an Order it is EASY backfill, first come,
// first served.
type Scheduling struct {
	Policy backfill.Policy // Placement is made from PlaceBy
	// PlaceBy is fragmentation, best-fit or packing.
	PlaceBy string
	// Predict estimates run times from what users have run lately, for orders that use them and for forecasts.
	Predict bool
	// HalfLife is that of usage in fair share; 0 means a week. GPUWeight is how many slots a fGPU counts as; 0
	// means what the nodes have. MemoryWeight is how many slots a GiB of a host's memory counts as.
	HalfLife                time.Duration
	GPUWeight, MemoryWeight float64
	// MaxForecasts bounds the starts that are worked out ahead; 0 means 10,000.
	MaxForecasts int
}

const (
	defaultHalfLife     = 7 * 24 * time.Hour
	defaultMaxForecasts = 10_000
)

// Past is what the schedule learns from when the daemon starts: charges of the time that still counts, and what
// has ended lately.
type Past struct {
	Usage *accounting.Usage // nil: nobody has used anything
	Runs  []PastRun         // oldest first
}

// PastRun is an element that has ended.
type PastRun struct {
	User  string
	Shape queue.Shape
	Ran   time.Duration
	Ended time.Time
}

// changes are what the writer has done since the planner last looked.
type changes struct {
	jobs     map[queue.JobID]struct{}
	elements map[queue.ElementID]struct{}
	nodes    map[nodes.ID]struct{}
	all      bool // too much to say: start from nothing
	charges  []*queue.Charge
	runs     []PastRun
	asked    []asked
}

// asked is what somebody has submitted: so many elements of a shape.
type asked struct {
	shape    queue.Shape
	elements int
	at       time.Time
}

func newChanges() changes {
	return changes{jobs: map[queue.JobID]struct{}{}, elements: map[queue.ElementID]struct{}{}, nodes: map[nodes.ID]struct{}{}}
}

// empty says that the planner's view of jobs and nodes stays as it is.
func (c *changes) empty() bool {
	return len(c.jobs) == 0 && len(c.elements) == 0 && len(c.nodes) == 0 && !c.all
}

// schedule is the planner and what feeds it. mu is taken after Engine.mu, never before.
type schedule struct {
	e  *Engine
	mu sync.Mutex

	// feed is written with Engine.mu held for writing, and taken with it held for reading and mu held.
	feed changes

	planner  *backfill.Planner
	made     *Config // the configuration that the planner was made for
	plan     *backfill.Plan
	planAt   time.Time
	running  map[queue.ElementID]begun
	stopped  map[queue.ElementID]struct{} // of running, those that are suspended
	limits   map[string]*backfill.Limit
	begins   map[queue.JobID]time.Time // when something of a job may start that now may not, by the clock alone
	awaited  map[queue.JobID][]queue.JobID
	windowed time.Time // until when the windows of reservations are known
	byUser   bool      // some node has a GPU that only one user's slices share: the planner is told whose a slice would be

	budgets *accounting.Budgets // as of the last plan
	over    []string            // accounts whose soft budgets are spent

	usage     *accounting.Usage
	tree      *accounting.Tree // nil until the order asks who deserves to be served
	predictor *backfill.Predictor
	mix       *placement.Mix
	supplied  uint64 // the planner's inventory that the mix knows

	fragments fragmentation

	forecast forecasts
}

// begun is an attempt as the planner knows it.
type begun struct {
	attempt int
	ends    time.Time
}

func newSchedule(e *Engine) *schedule {
	s := &schedule{e: e, feed: newChanges(), predictor: backfill.NewPredictor(), mix: newMix()}
	s.feed.all = true
	s.forecast.first = map[queue.ElementID]time.Time{}
	return s
}

func newMix() *placement.Mix { return placement.NewMix(mixHalfLife) }

// mixHalfLife is how fast the shapes that a site submits are forgotten.
const mixHalfLife = 7 * 24 * time.Hour

// Learn takes over the past. Call it before Run.
func (e *Engine) Learn(p Past) {
	s := e.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage = p.Usage
	for i := range p.Runs {
		r := &p.Runs[i]
		s.predictor.Observe(r.User, &r.Shape, r.Ran)
		s.ask(&asked{r.Shape, 1, r.Ended})
	}
}

// ask counts what was submitted in the mix that placement leaves room for.
func (s *schedule) ask(a *asked) {
	host := a.shape.Host
	if host.Slots = a.shape.Slots; a.shape.PerHost > 0 {
		host.Slots = min(a.shape.PerHost, host.Slots)
	}
	s.mix.Observe(host, float64(a.elements), a.at)
}

// note remembers for the planner what a batch has changed. The caller holds Engine.mu for writing.
func (s *schedule) note(t *tx, d *queue.Dirty) {
	f := &s.feed
	for id := range d.Jobs {
		f.jobs[id] = struct{}{}
	}
	for _, id := range d.Forgotten {
		f.jobs[id] = struct{}{}
	}
	for id := range d.Elements {
		f.elements[id] = struct{}{}
	}
	for id := range d.Nodes {
		f.nodes[id] = struct{}{}
	}
	f.all = f.all || d.Policy || len(d.Queues) > 0 || len(d.Reservations) > 0
	for i := range t.events {
		ev := &t.events[i]
		switch body := ev.Body.(type) {
		case *queue.Submitted:
			if j := s.e.book.Jobs[ev.Job]; j != nil {
				f.asked = append(f.asked, asked{j.Plan, len(j.Elements), ev.At})
			}
		case *queue.Ended:
			s.noteEnd(ev, body.Charge)
		case *queue.Requeued:
			if body.Charge != nil {
				f.charges = append(f.charges, body.Charge)
			}
		}
	}
}

func (s *schedule) noteEnd(ev *queue.Event, c *queue.Charge) {
	if c == nil {
		return // it never ran
	}
	s.feed.charges = append(s.feed.charges, c)
	if j := s.e.book.Jobs[ev.Job]; j != nil {
		s.feed.runs = append(s.feed.runs, PastRun{User: c.User, Shape: j.Plan, Ran: c.Ended.Sub(c.Began), Ended: c.Ended})
	}
}

// touch asks that an element be looked at again: a start of it was refused.
func (s *schedule) touch(id queue.ElementID) { s.feed.elements[id] = struct{}{} }

// Plan brings the planner up to date and plans. Only the copying of what has changed holds up the writer.
func (s *schedule) Plan() *backfill.Plan {
	e := s.e
	e.mu.RLock()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := e.cfg().Now()
	s.sync(now)
	e.mu.RUnlock()
	plan := s.planner.Plan(now)
	s.plan, s.planAt = plan, now
	for _, st := range plan.Starts {
		s.running[st.ID] = begun{unconfirmed, st.Ends}
	}
	s.fragments.changed = s.fragments.changed || len(plan.Starts) > 0
	return plan
}

// unconfirmed is the attempt number of what the planner has started and the book does not know yet.
const unconfirmed = -1

// share counts what everybody has used and holds, for orders that ask who deserves to be served.
func (s *schedule) share(now time.Time) {
	c := &s.made.Scheduling
	s.ensureUsage()
	for _, charge := range s.feed.charges {
		s.usage.Charge(charge)
	}
	if s.tree = nil; !backfill.Fair(c.Policy.Order) {
		return
	}
	s.tree = s.treeAt(now)
	for _, who := range s.planner.Claimants() { // all before any is asked for: each counts in the factors of the others
		s.tree.Include(leafOf(who))
	}
}

// ensureUsage makes the usage of a site that has none yet.
func (s *schedule) ensureUsage() {
	if s.usage != nil {
		return
	}
	half := s.e.cfg().Scheduling.HalfLife
	if half <= 0 {
		half = defaultHalfLife
	}
	s.usage, _ = accounting.NewUsage(half) // only a half-life that is not positive is refused
}

// treeAt counts what everybody has used and holds. The caller holds Engine.mu for reading and mu.
func (s *schedule) treeAt(now time.Time) *accounting.Tree {
	tree := s.usage.Tree(s.e.held.policy, now, s.weights())
	for _, held := range s.e.liveElements() {
		j, a := held.job, held.element.Attempt
		account := a.Account
		if account == "" { // an older version started it
			account = s.e.accountOf(j)
		}
		tree.Hold(accounting.Leaf{Account: account, User: j.Owner.User}, accounting.HoldingOf(a.Alloc), a.Dispatched)
	}
	return tree
}

// weights say what counts in fair share beside slots.
func (s *schedule) weights() accounting.Weights {
	c := &s.e.cfg().Scheduling
	w := accounting.Weights{GPU: c.GPUWeight, Memory: c.MemoryWeight}
	if w.GPU != 0 {
		return w
	}
	all := make([]*nodes.Node, 0, len(s.e.book.Nodes))
	for _, n := range s.e.book.Nodes {
		all = append(all, n)
	}
	w.GPU = accounting.GPUWeight(all)
	return w
}

// claimant is whom fair share serves with j: its user, where there are accounts in the one that is charged.
func (s *schedule) claimant(j *queue.Job) backfill.Claimant {
	who := backfill.Claimant{User: j.Owner.User}
	if p := s.e.held.policy; !p.Flat() {
		who.Account = p.Leaf(s.e.accountOf(j), who.User).Account
	}
	return who
}

func leafOf(who backfill.Claimant) accounting.Leaf {
	return accounting.Leaf{Account: who.Account, User: who.User}
}

// factor is what the tree says of somebody, 1 for all while nobody asked for it.
func (s *schedule) factor(who backfill.Claimant) float64 {
	if s.tree == nil {
		return 1
	}
	return s.tree.Factor(leafOf(who))
}

// factors are those of everybody of whom something waits, for use without mu.
func (s *schedule) factors() func(backfill.Claimant) float64 {
	known := map[backfill.Claimant]float64{}
	for _, who := range s.planner.Claimants() {
		known[who] = s.factor(who)
	}
	return func(who backfill.Claimant) float64 { return known[who] }
}
