package accounting_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/nodes"
	"fairslice/queue"
)

const halfLife = 12 * time.Hour

var weights = accounting.Weights{GPU: 8, Memory: 0.25}

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// site is a simulated cluster: the real planner and the real tree on a simulated clock. Its users always have work of very
// different sizes waiting.
type site struct {
	t       *testing.T
	random  *rand.Rand
	policy  *accounting.Policy
	users   []accounting.Leaf
	now     time.Time
	planner *backfill.Planner
	usage   *accounting.Usage
	tree    *accounting.Tree

	jobs    map[queue.JobID]*job
	waiting map[accounting.Leaf]int
	running []*job // the next to end first
	charges []queue.Charge
	last    queue.JobID
}

type job struct {
	id    queue.JobID
	who   accounting.Leaf
	shape queue.Shape
	run   time.Duration
	began time.Time
	ends  time.Time
	alloc []nodes.Allocation
}

// waitingEach is how many jobs of each user wait at any time.
const waitingEach = 60

func newSite(t *testing.T, seed uint64, policy string, users ...accounting.Leaf) *site {
	p, err := accounting.ParsePolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, random: rand.New(rand.NewPCG(seed, 1)), policy: p, users: users, now: begin, jobs: map[queue.JobID]*job{}, waiting: map[accounting.Leaf]int{}}
	s.restart()
	return s
}

// restart is what a restart of the daemon leaves: usage made anew of the stored charges, and a planner made anew. What it
// makes of them must be what there was, to the last bit.
func (s *site) restart() {
	usage, err := accounting.NewUsage(halfLife)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range s.random.Perm(len(s.charges)) { // the store gives them in any order
		usage.Charge(&s.charges[i])
	}
	if s.usage != nil {
		was, is := s.usage.Tree(s.policy, s.now, weights), usage.Tree(s.policy, s.now, weights)
		if !slices.Equal(was.Standings(), is.Standings()) {
			s.t.Fatalf("after a restart at %s:\n%+v\nbefore:\n%+v", s.now, is.Standings(), was.Standings())
		}
	}
	s.usage = usage
	s.planner = backfill.New(backfill.Policy{Order: backfill.Weighted{FairShare: 1}, Protected: 1})
	s.planner.Share = func(who backfill.Claimant) float64 { return s.tree.Factor(leaf(who)) }
	s.planner.Started = func(who backfill.Claimant, sh *queue.Shape, alloc []nodes.Allocation) {
		s.tree.Commit(leaf(who), accounting.HoldingOf(alloc), sh.RunLimit)
	}
	s.look()
	for i := range 4 {
		n := &nodes.Node{ID: nodes.ID(fmt.Sprint("n", i)), Alive: true, Slots: 32, Memory: 256 << 30}
		for g := range 4 {
			n.GPUs = append(n.GPUs, nodes.GPU{Index: g, UUID: fmt.Sprintf("GPU-%d-%d", i, g), Memory: 80 << 30, Capacity: nodes.OneFGPU, Mode: nodes.ModeShim})
		}
		s.planner.PutNode(n)
	}
	for _, j := range s.running {
		s.planner.Begin(backfill.Running{ID: j.element(), Alloc: j.alloc, Ends: j.began.Add(j.shape.RunLimit), User: j.who.User}, s.now)
	}
	var ids []queue.JobID
	for id, j := range s.jobs {
		if j.began.IsZero() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		s.add(s.jobs[id])
	}
}

func leaf(who backfill.Claimant) accounting.Leaf {
	return accounting.Leaf{Account: who.Account, User: who.User}
}

func (j *job) element() queue.ElementID { return queue.ElementID{Job: j.id} }

func (s *site) add(j *job) {
	s.planner.Add(backfill.Pending{Job: j.id, Shape: &j.shape, User: j.who.User, Account: j.who.Account, Submitted: begin, Position: int64(j.id), Indices: []int{0}})
}

// submit keeps everybody's queue full: from a tenth of a GPU to four of them, from a minute to four hours, with run limits
// that are up to three times too long.
func (s *site) submit() {
	for _, who := range s.users {
		for ; s.waiting[who] < waitingEach; s.waiting[who]++ {
			s.last++
			j := &job{id: s.last, who: who, run: time.Duration(math.Exp(s.random.Float64()*math.Log(240)) * float64(time.Minute))}
			j.shape = queue.Shape{Slots: 1 + s.random.IntN(4), OneHost: true, RunLimit: time.Duration(float64(j.run) * (1 + 2*s.random.Float64()))}
			j.shape.MaxSlots = j.shape.Slots
			switch s.random.IntN(3) {
			case 0:
				j.shape.Host.GPU = nodes.GPURequest{Whole: 1 + s.random.IntN(4)}
			default:
				j.shape.Host.GPU = nodes.GPURequest{Amount: nodes.Amount(10 * (1 + s.random.IntN(10)))}
			}
			s.jobs[j.id] = j
			s.add(j)
		}
	}
}

// look counts what everybody has used and holds now.
func (s *site) look() {
	s.tree = s.usage.Tree(s.policy, s.now, weights)
	for _, j := range s.running {
		s.tree.Hold(j.who, accounting.HoldingOf(j.alloc), j.began)
	}
}

// until runs the site to a time.
func (s *site) until(end time.Time) {
	for {
		s.submit()
		s.look()
		for _, st := range s.planner.Plan(s.now).Starts {
			j := s.jobs[st.ID.Job]
			j.began, j.ends, j.alloc = s.now, s.now.Add(j.run), st.Alloc
			s.waiting[j.who]--
			i, _ := slices.BinarySearchFunc(s.running, j, func(a, b *job) int { return cmp.Or(a.ends.Compare(b.ends), cmp.Compare(a.id, b.id)) })
			s.running = slices.Insert(s.running, i, j)
		}
		if len(s.running) == 0 {
			s.t.Fatal("nothing runs")
		}
		if s.running[0].ends.After(end) {
			s.now = end
			return
		}
		j := s.running[0]
		s.running, s.now = s.running[1:], j.ends
		s.planner.End(j.element(), s.now)
		h := accounting.HoldingOf(j.alloc)
		c := queue.Charge{User: j.who.User, Account: j.who.Account, Began: j.began.Truncate(time.Millisecond), Ended: j.ends.Truncate(time.Millisecond), Slots: h.Slots, FGPU: h.FGPU, Memory: h.Memory}
		s.charges = append(s.charges, c)
		s.usage.Charge(&c)
		delete(s.jobs, j.id)
	}
}

// delivered is what accounts have had between two times, in fGPU-milliseconds, also of what still runs.
func (s *site) delivered(from, to time.Time, of func(accounting.Leaf) string) map[string]float64 {
	out := map[string]float64{}
	add := func(who accounting.Leaf, amount nodes.Amount, began, ended time.Time) {
		began, ended = later(began, from), earlier(ended, to)
		if ended.After(began) {
			out[of(who)] += float64(amount) * float64(ended.Sub(began).Milliseconds())
		}
	}
	for _, c := range s.charges {
		add(accounting.Leaf{Account: c.Account, User: c.User}, c.FGPU, c.Began, c.Ended)
	}
	for _, j := range s.running {
		add(j.who, accounting.HoldingOf(j.alloc).FGPU, j.began, s.now)
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func parts(all map[string]float64) map[string]float64 {
	total := 0.0
	for _, x := range all {
		total += x
	}
	out := map[string]float64{}
	for name, x := range all {
		out[name] = 100 * x / total
	}
	return out
}

// Two accounts with 3 shares and 1 that always have work get three quarters and one of the fGPU-time, though the daemon
// restarts ten times. Their users get within them what their shares say, less closely: a few jobs of hours are a percent.
func TestDeliveredTimeConvergesToTheShares(t *testing.T) {
	policy := "account physics shares=3\naccount chem shares=1\n" +
		"user ada account=physics shares=2\nuser bob account=physics shares=1\nuser cyd account=chem\nuser dan account=chem"
	users := []accounting.Leaf{{Account: "physics", User: "ada"}, {Account: "physics", User: "bob"}, {Account: "chem", User: "cyd"}, {Account: "chem", User: "dan"}}
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			s := newSite(t, seed, policy, users...)
			for i := range 10 {
				s.until(begin.Add(time.Duration(i+1) * halfLife))
				s.restart()
			}
			account := parts(s.delivered(begin, s.now, func(l accounting.Leaf) string { return l.Account }))
			t.Logf("%d jobs ended; delivered fGPU-time: physics %.2f %%, chem %.2f %%", len(s.charges), account["physics"], account["chem"])
			if math.Abs(account["physics"]-75) > 2 || math.Abs(account["chem"]-25) > 2 {
				t.Errorf("of 75 and 25 percent, delivered %v", account)
			}
			user := parts(s.delivered(begin, s.now, func(l accounting.Leaf) string { return l.User }))
			t.Logf("by user, in percent: %v", user)
			for name, want := range map[string]float64{"ada": 50, "bob": 25, "cyd": 12.5, "dan": 12.5} {
				if math.Abs(user[name]-want) > 4 {
					t.Errorf("%s: of %v percent, delivered %.2f", name, want, user[name])
				}
			}
		})
	}
}

// Whoever has no shares runs, but only on what nobody else can use at the moment.
func TestNoSharesStillRunWhereNobodyElseWaits(t *testing.T) {
	s := newSite(t, 1, "account physics\naccount guests shares=0\nuser ada account=physics\nuser eve account=guests",
		accounting.Leaf{Account: "guests", User: "eve"})
	s.until(begin.Add(halfLife))
	if n := len(s.charges); n == 0 {
		t.Fatal("eve never ran")
	}
	s.users = append(s.users, accounting.Leaf{Account: "physics", User: "ada"})
	for i := range 2 { // what eve has begun ends in the first
		s.until(begin.Add(time.Duration(i+2) * halfLife))
	}
	user := parts(s.delivered(begin.Add(2*halfLife), s.now, func(l accounting.Leaf) string { return l.User }))
	t.Logf("beside ada, who always has work, eve has %.2f %%", user["eve"])
	if user["ada"] < 90 {
		t.Errorf("delivered %v", user)
	}
}
