package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/nodes"
	"fairslice/queue"
)

// Ledger sums up what was charged.
type Ledger interface {
	// Spending is all that was charged by the events up to seq, told apart at cuts.
	Spending(ctx context.Context, cuts []time.Time) (s *accounting.Spending, seq int64, err error)
}

// budgets is what the budgets of the policy are reckoned from: what has ended. What runs is looked up when it is asked for, so
// nothing of a budget is kept that could be wrong after a crash. It is guarded by Engine.mu.
type budgets struct {
	ledger Ledger // nil: nothing was charged before this engine was made
	spent  *accounting.Spending
	cut    time.Time // until when the cuts of spent reach far enough

	// While the ledger is read, what is charged meanwhile is kept here: it may be in the answer, or not.
	readers int
	recent  []charged
}

type charged struct {
	seq    int64
	charge *queue.Charge
}

func newBudgets(policy *accounting.Policy, now time.Time, place *time.Location) budgets {
	return budgets{spent: accounting.NewSpending(policy.Cuts(now, place)), cut: now.Add(cutAgain)}
}

// cutAgain is how often the calendar is looked at for periods to come; they are known for a year ahead.
const cutAgain = 24 * time.Hour

// LoadBudgets takes over what was charged before. Call it once, before Run.
func (e *Engine) LoadBudgets(ctx context.Context, l Ledger) error {
	e.budgets.ledger = l
	s, _, err := l.Spending(ctx, e.held.policy.Cuts(e.cfg().Now(), e.location()))
	if err != nil {
		return err
	}
	e.budgets.spent = s
	return nil
}

// reading is an answer of the ledger that is not in force yet.
type reading struct {
	spent *accounting.Spending
	seq   int64
}

// read reads the ledger again if what is known is not told apart as a policy's budgets ask for; nil if it is. done must be called,
// after the reading was taken over or not.
func (e *Engine) read(ctx context.Context, policy *accounting.Policy) (r *reading, done func(), err error) {
	cuts := policy.Cuts(e.cfg().Now(), e.location())
	e.mu.Lock()
	b := &e.budgets
	if b.ledger == nil {
		b.spent.Cut(cuts)
	}
	if b.spent.Knows(cuts) {
		e.mu.Unlock()
		return nil, func() {}, nil
	}
	b.readers++
	e.mu.Unlock()
	done = func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if b.readers--; b.readers == 0 {
			b.recent = nil
		}
	}
	s, seq, err := b.ledger.Spending(ctx, cuts)
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("what the budgets have spent: %w", err)
	}
	return &reading{s, seq}, done, nil
}

// take puts a reading in force, with what was charged since. The caller holds Engine.mu for writing.
func (b *budgets) take(r *reading) {
	if r == nil {
		return
	}
	for _, c := range b.recent {
		if c.seq > r.seq {
			add(r.spent, c.charge)
		}
	}
	b.spent = r.spent
}

// RereadBudgets reads again what was charged if the site's time zone has changed: its months begin at other times. Until then, or
// when that fails, a budget may count up to a month too much, never too little.
func (e *Engine) RereadBudgets(ctx context.Context) error {
	e.mu.RLock()
	policy := e.held.policy
	e.mu.RUnlock()
	r, done, err := e.read(ctx, policy)
	if err != nil {
		return err
	}
	defer done()
	e.mu.Lock()
	e.budgets.take(r)
	e.mu.Unlock()
	e.Wake()
	return nil
}

// add adds a charge. One of an older version has only products, and none is made any more.
func add(s *accounting.Spending, c *queue.Charge) {
	s.Add(accounting.Leaf{Account: cmp.Or(c.Account, queue.DefaultAccount), User: c.User}, c.Queue, c.FGPU, c.GPUs, c.Began, c.Ended)
}

// budgeted counts what an event has changed. It is called with each, in the transaction that stores it.
func (t *tx) budgeted(ev *queue.Event) {
	b := &t.e.budgets
	var c *queue.Charge
	switch body := ev.Body.(type) {
	case *queue.Submitted:
		return
	case *queue.Started:
		if t.budget != nil {
			j, el := t.e.book.Find(queue.ElementID{Job: ev.Job, Index: ev.Index})
			w := workOf(j, el, t.now)
			t.budget.Run(&w)
		}
		return
	case *queue.Ended:
		c = body.Charge
	case *queue.Requeued:
		c = body.Charge
	}
	t.budget = nil
	if c == nil {
		return
	}
	if !t.now.Before(b.cut) {
		b.spent.Cut(t.e.held.policy.Cuts(t.now, t.e.location()))
		b.cut = t.now.Add(cutAgain)
	}
	add(b.spent, c)
	if b.readers > 0 {
		b.recent = append(b.recent, charged{ev.Seq, c})
	}
}

// budgetsAt are the states of all budgets. The caller holds Engine.mu.
func (e *Engine) budgetsAt(now time.Time) *accounting.Budgets {
	p := e.held.policy
	if len(p.Budgets) == 0 {
		return p.BudgetsAt(now, e.location(), nil, nil)
	}
	return p.BudgetsAt(now, e.location(), e.budgets.spent, e.works(now))
}

// works is all that runs.
func (e *Engine) works(now time.Time) []accounting.Work {
	var out []accounting.Work
	for _, held := range e.liveElements() {
		if w := workOf(held.job, held.element, now); w.FGPU > 0 || w.GPUs > 0 {
			out = append(out, w)
		}
	}
	return out
}

// workOf is what a live attempt has cost so far, as queue.ChargeOf would charge it now, and may cost yet.
func workOf(j *queue.Job, el *queue.Element, now time.Time) accounting.Work {
	a := el.Attempt
	w := accounting.Work{At: accounting.Leaf{Account: cmp.Or(a.Account, queue.AccountOf(j)), User: j.Owner.User}, FGPU: fgpuOf(a.Alloc), GPUs: gpusOf(a.Alloc),
		Began: a.Dispatched.Truncate(time.Millisecond), Now: now.Truncate(time.Millisecond), Ends: endOf(el, now)}
	if w.Began.After(w.Now) {
		w.Began = w.Now
	}
	return w
}

func fgpuOf(alloc []nodes.Allocation) nodes.Amount { return nodes.Amount(backfill.OfFGPU.Sum(alloc)) }

func gpusOf(alloc []nodes.Allocation) int { return backfill.OfGPUs.Sum(alloc) / 100 }

// budgetAccount is the account in which j counts for budgets.
func (e *Engine) budgetAccount(j *queue.Job) string {
	return e.held.policy.PlaceOf(accounting.Leaf{Account: e.accountOf(j), User: j.Owner.User})
}

// states are the budgets as this transaction has left them.
func (t *tx) states() *accounting.Budgets {
	if t.budget == nil {
		t.budget = t.e.budgetsAt(t.now)
	}
	return t.budget
}

// affords says whether all hard budgets have left what an element of j would take that starts now on this allocation. What is
// reserved for it is what it may spend until its run limit; so without one it may not start.
func (t *tx) affords(j *queue.Job, alloc []nodes.Allocation) bool {
	account, fgpu, gpus := t.e.budgetAccount(j), fgpuOf(alloc), gpusOf(alloc)
	if fgpu == 0 && gpus == 0 || t.e.held.policy.HardOver(account) == nil {
		return true
	}
	limit := t.e.runLimit(j, t.now)
	return limit > 0 && t.states().Refuses(account, fgpu, gpus, t.now.Add(limit)) == nil
}

// needsLimit is the hard budget for which j would need a run limit and has none; nil if there is none, or j uses no GPU.
func (e *Engine) needsLimit(j *queue.Job) *accounting.Budget {
	if j.Plan.RunLimit > 0 || j.Plan.Reservation != "" || j.Plan.Host.GPU.Zero() {
		return nil
	}
	return e.held.policy.HardOver(e.budgetAccount(j))
}

// mayAfford refuses a job that no hard budget will ever let start.
func (t *tx) mayAfford(j *queue.Job) error {
	if b := t.e.needsLimit(j); b != nil {
		return refuse("%s is hard, and what uses GPUs needs a run limit under it: give one (-W)", b.Name())
	}
	w := t.e.leastWork(j, t.now)
	b, need := t.e.held.policy.TooMuch(t.e.budgetAccount(j), w.FGPU, w.GPUs, j.Plan.RunLimit, t.now, t.e.location())
	if b != nil {
		return refuse("%s: until its run limit of %s one job alone may take %s", b.Name(), clock(j.Plan.RunLimit), need.HoursText())
	}
	return nil
}

// leastWork is what an element of j that starts now would take at least.
func (e *Engine) leastWork(j *queue.Job, now time.Time) accounting.Work {
	w := accounting.Work{Began: now, Now: now, Ends: now.Add(e.runLimit(j, now))}
	if !j.Plan.Host.GPU.Zero() {
		w.FGPU = nodes.Amount(backfill.OfFGPU.Least(&j.Plan, e.smallestGPU()))
		w.GPUs = backfill.OfGPUs.Least(&j.Plan, 0) / 100
	}
	return w
}

func (e *Engine) smallestGPU() (least nodes.Amount) {
	for _, n := range e.book.Nodes {
		for i := range n.GPUs {
			if c := n.GPUs[i].Capacity; least == 0 || c < least {
				least = c
			}
		}
	}
	return least
}

// mayExtend is mayAfford for what bmod or bswitch would make of j, and refuses to let what runs of it go on for longer than its
// hard budgets have left.
func (t *tx) mayExtend(j *queue.Job, spec *queue.Spec, to string, plan queue.Shape) error {
	if len(t.e.held.policy.Budgets) == 0 {
		return nil
	}
	next := *j
	next.Spec, next.Queue, next.Plan = spec, to, plan
	if plan.RunLimit != j.Plan.RunLimit || plan.Host.GPU != j.Plan.Host.GPU || spec.Account != j.Spec.Account {
		if err := t.mayAfford(&next); err != nil {
			return err
		}
	}
	if plan.RunLimit <= j.Plan.RunLimit {
		return nil
	}
	for i := range j.Elements {
		el := &j.Elements[i]
		if !el.State.Live() {
			continue
		}
		was := workOf(j, el, t.now)
		if was.Ends.IsZero() {
			continue
		}
		account := t.e.held.policy.PlaceOf(was.At)
		from := latest(was.Ends, was.Now)
		ends := was.Ends.Add(plan.RunLimit - el.Attempt.RunLimit)
		if !ends.After(from) { // it was extended before
			continue
		}
		if s := t.overspends(j, el, ends); s != nil {
			t.budget = nil // others of j may have been counted in it
			more := accounting.Work{FGPU: was.FGPU, GPUs: was.GPUs, Now: from, Ends: ends}
			return refuse("%s", s.Why(s.Needs(&more), t.now, t.e.location()))
		}
		t.budget.Reserve(account, was.FGPU, was.GPUs, from, ends)
	}
	t.budget = nil // the change may be refused yet
	return nil
}

// budgetReasons says which hard budget keeps one more element of j out now.
func (e *Engine) budgetReasons(j *queue.Job, now time.Time, states func() *accounting.Budgets) []queue.Reason {
	if j.Plan.Host.GPU.Zero() || e.held.policy.HardOver(e.budgetAccount(j)) == nil {
		return nil
	}
	if b := e.needsLimit(j); b != nil {
		return []queue.Reason{{Kind: queue.ReasonBudget, Text: b.Name() + " is hard, and the job has no run limit: give it one (bmod -W)"}}
	}
	w := e.leastWork(j, now)
	if s := states().Refuses(e.budgetAccount(j), w.FGPU, w.GPUs, w.Ends); s != nil {
		return []queue.Reason{{Kind: queue.ReasonBudget, Text: s.Why(s.Needs(&w), now, e.location())}}
	}
	return nil
}
