package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"fairslice/backfill"
	"fairslice/nodes"
	"fairslice/queue"
)

// tick is how often the planner looks without having been woken: for start times and back-offs that pass.
const tick = time.Second

// planLoop makes plans and hands their starts to the writer. One plan is under way at a time, and the
// next one begins only after its starts are durable, so a plan never counts on what the last one took.
func (e *Engine) planLoop(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-ticker.C:
		}
		began := time.Now()
		if err := e.cycle(ctx); err != nil {
			return // the engine is stopping; Run says why
		}
		// A cycle holds up the writer while it copies the book. With many jobs waiting, submissions would
		// wake one after the other: it rests as long as it has worked.
		if worked := time.Since(began); worked > restFrom {
			select {
			case <-ctx.Done():
				return
			case <-time.After(min(worked, maxRest)):
			}
		}
	}
}

// A cycle shorter than restFrom needs no rest, and none rests longer than maxRest.
const (
	restFrom = 10 * time.Millisecond
	maxRest  = 500 * time.Millisecond
)

// cycle plans once and commits the starts.
func (e *Engine) cycle(ctx context.Context) error {
	began := time.Now()
	plan := e.sched.Plan()
	defer e.sched.look() // when nobody waits for it any more
	e.stats.cycle(time.Since(began), e.sched.waiting(), plan)
	if len(plan.Starts) == 0 {
		return nil
	}
	err := e.write(ctx, func(t *tx) error {
		for _, s := range plan.Starts {
			if !t.start(s) {
				e.stats.refusedStart()
				e.sched.touch(s.ID) // the next tick plans anew: at once would spin, should the planner be wrong
			}
		}
		return nil
	})
	if plan.Bounded || len(plan.Starts) >= e.cfg().MaxStarts {
		e.Wake()
	}
	return err
}

// single is the index list of every job that is no array.
var single = []int{0}

func comparePending(a, b *queue.Job) int {
	return cmp.Or(cmp.Compare(b.Plan.Priority, a.Plan.Priority), cmp.Compare(a.Position, b.Position))
}

// startable lists the elements of j that nothing but resources and limits keeps from starting.
func (e *Engine) startable(j *queue.Job, now time.Time) []int {
	if len(j.Elements) == 1 && j.Elements[0].Index == 0 {
		if el := &j.Elements[0]; el.State != queue.Pend || e.blocked(j, el, now) {
			return nil
		}
		return single
	}
	var out []int
	whole := j.Condition() == nil || !queue.PerElement(j.Condition()) // one look serves all elements
	for i := range j.Elements {
		el := &j.Elements[i]
		if el.State != queue.Pend || el.Retry.After(now) {
			continue
		}
		if len(out) == 0 || !whole {
			if e.blocked(j, el, now) {
				if whole {
					return nil
				}
				continue
			}
		}
		out = append(out, el.Index)
		if len(out) == e.cfg().MaxStarts {
			break // no cycle starts more
		}
	}
	return out
}

// nextBegin is when something of j that waits may start which now may not, by the clock alone; zero for never.
func (e *Engine) nextBegin(j *queue.Job, now time.Time) time.Time {
	next := time.Time{}
	for i := range j.Elements {
		at := j.Elements[i].Retry
		if j.Spec.Begin.After(at) {
			at = j.Spec.Begin
		}
		if j.Elements[i].State == queue.Pend && at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// blocked is blockers without the texts: it is asked for every pending job in every cycle.
func (e *Engine) blocked(j *queue.Job, el *queue.Element, now time.Time) bool {
	if j.Spec.Begin.After(now) || el.Retry.After(now) || e.book.Queues[j.Queue].Inact || e.cfg().queue(j.Queue) == nil || e.reservationGone(j, now) {
		return true
	}
	if e.needsLimit(j) != nil {
		return true
	}
	c := j.Condition()
	return c != nil && c.Eval(el.Index, lookup{e.book}) != queue.True
}

// start commits one planned start, if it is still possible.
func (t *tx) start(s backfill.Start) bool {
	j, el := t.e.book.Find(s.ID)
	if j == nil || el.State != queue.Pend || !planned(j, s.Shape) || t.e.blocked(j, el, t.now) {
		return false
	}
	if !t.e.queueAdmits(j, s.Alloc) || !t.e.held.admits(j, s.Alloc) || !t.affords(j, s.Alloc) {
		return false
	}
	for _, a := range s.Alloc {
		if n := t.e.book.Nodes[a.Node]; n == nil || n.State() != nodes.Up || n.Admits(a) != nil {
			return false
		}
	}
	body := &queue.Started{Attempt: el.Attempts + 1, Alloc: s.Alloc, RunLimit: t.e.runLimit(j, t.now), Account: t.e.accountOf(j)}
	if t.emit(j.ID, el.Index, "", body) != nil {
		return false
	}
	t.e.stats.started(j, el, t.now)
	t.e.sched.measure(s.ID, t.now)
	t.assign(j, el)
	return true
}

// planned says whether a plan for shape is one for j as it is now: see schedule.planOf.
func planned(j *queue.Job, shape *queue.Shape) bool {
	plan := *shape
	plan.Host.GPU.User, plan.Priority = "", queue.InBudget(plan.Priority)
	return plan == j.Plan
}

// runLimit is how long an attempt of j that starts now may run: a job without a limit in an advance reservation
// ends with its window, as in LSF.
func (e *Engine) runLimit(j *queue.Job, now time.Time) time.Duration {
	r := e.book.Reservations[j.Plan.Reservation]
	if j.Plan.RunLimit > 0 || r == nil {
		return j.Plan.RunLimit
	}
	if begin, end, ok := r.Window(now, e.location()); ok && !begin.After(now) {
		return end.Sub(now)
	}
	return 0
}

// selector answers which nodes a shape may use. Only the planner asks it.
type selector struct {
	cfg      func() *Config
	compiled map[string]queue.Selector // select[] texts, each parsed once
}

func newSelector(cfg func() *Config) *selector {
	return &selector{cfg, map[string]queue.Selector{}}
}

// maxSelectors bounds what is remembered: users write a few texts, programs can write many.
const maxSelectors = 10_000

func (s *selector) selects(n *nodes.Node, sh *queue.Shape) bool {
	if q := s.cfg().queue(sh.Queue); q != nil && len(q.Hosts) > 0 && !slices.Contains(q.Hosts, string(n.ID)) {
		return false
	}
	if sh.Hosts != "" {
		words := strings.Fields(sh.Hosts)
		if !slices.Contains(words, string(n.ID)) && !slices.Contains(words, "others") && !slices.Contains(words, "all") {
			return false
		}
	}
	if sh.Select == "" {
		return true
	}
	sel, ok := s.compiled[sh.Select]
	if !ok {
		var err error
		if sel, err = queue.Select(sh.Select).Compile(); err != nil {
			return false // it was checked at submission; one of an older version that is not understood selects nothing
		}
		if len(s.compiled) >= maxSelectors {
			clear(s.compiled)
		}
		s.compiled[sh.Select] = sel
	}
	return sel.Match(queue.NodeFacts(n))
}
