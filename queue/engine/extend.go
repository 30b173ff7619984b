package engine

import (
	"context"
	"fmt"
	"sort"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/queue"
)

// Extend lets a running element run longer, if no promised start and no advance reservation is in the way and neither its
// queue, the limits of the policy nor hard budgets forbid it. Who may not, or what cannot be extended at all, is an error; that there is
// no room for so much is an answer. Its owner may ask, and administrators, who are held to the same.
func (e *Engine) Extend(ctx context.Context, q queue.Extend) (x queue.Extension, err error) {
	done := e.write(ctx, func(t *tx) error {
		x, err = t.extend(q)
		return nil
	})
	if done != nil {
		return queue.Extension{}, done
	}
	return x, err
}

func (t *tx) extend(q queue.Extend) (queue.Extension, error) {
	j, el, err := t.extendable(q)
	if err != nil {
		return queue.Extension{}, err
	}
	a, ends := el.Attempt, endOf(el, t.now)
	x := queue.Extension{ID: j.ElementID(el.Index), RunLimit: a.RunLimit, Ends: ends}
	limit := q.RunLimit
	if q.Add > 0 {
		limit = a.RunLimit + min(q.Add, queue.MaxRunLimit)
	}
	if limit <= a.RunLimit {
		return x, refuse("Job <%s>: its run limit is %s already", x.ID, clock(a.RunLimit))
	}
	last := t.reach(j, el)
	if x.Longest, x.Why = last.limit, last.why; limit > last.limit {
		return x, nil
	}
	if err := t.emit(j.ID, el.Index, q.By.User, &queue.Extended{Attempt: a.Number, RunLimit: limit}); err != nil {
		return x, err
	}
	t.e.sched.extended(j.ElementID(el.Index), endOf(el, t.now))
	t.orderLimit(j, el)
	x.Granted, x.RunLimit, x.Ends = true, limit, endOf(el, t.now)
	return x, nil
}

// extendable finds the one running element that q is about.
func (t *tx) extendable(q queue.Extend) (*queue.Job, *queue.Element, error) {
	found, missing, err := find(t.e.book, queue.Selection{IDs: []string{q.ID}}, q.By)
	switch {
	case err != nil:
		return nil, nil, err
	case len(missing) > 0:
		return nil, nil, refuse("%s", missing[0])
	case len(found) == 0:
		return nil, nil, refuse("Job <%s> is not found", q.ID)
	case found[0].Job.Owner.User != q.By.User && !q.By.Admin: // before anything else is told of it
		return nil, nil, refuse("Job <%s>: User permission denied", q.ID)
	case len(found) > 1:
		return nil, nil, refuse("Job <%s>: names %d jobs; name one, as in %s", q.ID, len(found), found[0].Job.ElementID(found[0].Element.Index))
	}
	j, el := found[0].Job, found[0].Element
	id := j.ElementID(el.Index)
	switch {
	case el.State.Final():
		return nil, nil, refuse("Job <%s>: Job has already finished", id)
	case !el.State.Live():
		return nil, nil, refuse("Job <%s>: Job has not started yet: bmod -W changes its run limit", id)
	case el.KillAs != "":
		return nil, nil, refuse("Job <%s>: Job is being terminated", id)
	case el.Attempt.RunLimit <= 0:
		return nil, nil, refuse("Job <%s>: it has no run limit: it may run as long as it likes", id)
	case !endOf(el, t.now).After(t.now):
		return nil, nil, refuse("Job <%s>: it has reached its run limit", id)
	}
	return j, el, nil
}

// reach is how far an attempt may be let run, and what ends it there.
type reach struct {
	limit time.Duration
	why   string
}

// within is the nearer one of r and another bound.
func (r reach) within(limit time.Duration, format string, args ...any) reach {
	if r.limit <= limit {
		return r
	}
	return reach{limit, fmt.Sprintf(format, args...)}
}

// reach looks at all that bounds the run limit of a live attempt which has one. It is never less than that.
func (t *tx) reach(j *queue.Job, el *queue.Element) reach {
	now := el.Attempt.RunLimit
	r := reach{limit: queue.MaxRunLimit, why: "no job may run longer than a year"}
	if q := t.e.cfg().queue(j.Queue); q != nil && q.MaxRunLimit > 0 {
		r = r.within(q.MaxRunLimit, "queue %s: Cannot exceed queue's hard limit(s)", q.Name)
	}
	for _, b := range t.e.held.bounds(j) {
		if wall := b.limit.Wall; wall != accounting.NoLimit {
			r = r.within(wall, "%s", nameOf(b.limit, "wall"))
		}
	}
	r = t.withinBudgets(j, el, r)
	ends := endOf(el, t.now)
	x, known := t.e.sched.mayExtend(j.ElementID(el.Index), el.Attempt.Number, time.Time{}, true)
	if !known {
		r = r.within(now, "%s", notPlanned)
	} else if !x.Until.IsZero() {
		r = r.within(now+x.Until.Sub(ends), "%s", t.e.obstacle(x))
	}
	r.limit = max(r.limit.Truncate(time.Minute), now) // as run limits are asked for
	return r
}

// notPlanned is why nobody can say yet whether something may run longer.
const notPlanned = "the scheduler is taking over a change: ask again in a moment"

// obstacle says in words what keeps something from running longer.
func (e *Engine) obstacle(x backfill.Extension) string {
	at := x.Until.In(e.location()).Format("Jan _2 15:04:05")
	switch x.Why {
	case backfill.AReservation:
		return fmt.Sprintf("an advance reservation on host %s bounds it at %s", x.Node, at)
	case backfill.APromise:
		return fmt.Sprintf("a start is promised to another job on host %s at %s", x.Node, at)
	case backfill.APromisedLimit:
		return fmt.Sprintf("a start under the same limit is promised to another job at %s", at)
	}
	return notPlanned
}

// withinBudgets is r, or less where hard budgets have not so much left, to the minute.
func (t *tx) withinBudgets(j *queue.Job, el *queue.Element, r reach) reach {
	if len(t.e.held.policy.Budgets) == 0 {
		return r
	}
	now, ends := el.Attempt.RunLimit, endOf(el, t.now)
	minutes := max(0, int((r.limit-now)/time.Minute))
	more := sort.Search(minutes, func(n int) bool {
		return t.overspends(j, el, ends.Add(time.Duration(n+1)*time.Minute)) != nil
	})
	if more == minutes {
		return r
	}
	s := t.overspends(j, el, ends.Add(time.Duration(more+1)*time.Minute))
	return reach{now + time.Duration(more)*time.Minute, s.Budget.Name() + ": it has no more left"}
}

// overspends is the hard budget that has not enough left for a live attempt to run until `ends`; nil if there is none.
func (t *tx) overspends(j *queue.Job, el *queue.Element, ends time.Time) *accounting.BudgetState {
	w := workOf(j, el, t.now)
	return t.states().Extends(t.e.held.policy.PlaceOf(w.At), w.FGPU, w.GPUs, latest(w.Ends, w.Now), ends)
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// mayRunLonger refuses a run limit (0: none) for what runs of j, by which an advance reservation would be overlapped or, unless an
// administrator asks, a promised start would move. What it allows a user, the planner counts at once; if the change is refused
// after all, sched.touch makes it look again.
func (t *tx) mayRunLonger(j *queue.Job, limit time.Duration, by queue.Identity) error {
	for i := range j.Elements {
		el := &j.Elements[i]
		if !el.State.Live() || el.Attempt.RunLimit <= 0 || limit > 0 && limit <= el.Attempt.RunLimit {
			continue
		}
		id, ends := j.ElementID(el.Index), time.Time{}
		if limit > 0 {
			ends = endOf(el, t.now).Add(limit - el.Attempt.RunLimit)
		}
		x, known := t.e.sched.mayExtend(id, el.Attempt.Number, ends, !by.Admin)
		switch {
		case !known && !by.Admin:
			return refuse("%s", notPlanned)
		case known && !x.OK:
			longest := el.Attempt.RunLimit + max(x.Until.Sub(endOf(el, t.now)), 0)
			return refuse("%s; the longest run limit now is %s", t.e.obstacle(x), clock(longest.Truncate(time.Minute)))
		case known && !by.Admin: // an administrator's change may move promises: they are laid again when it is made
			t.e.sched.extended(id, ends)
			t.e.sched.touch(id)
		}
	}
	return nil
}

// mayExtend asks the planner as of the last plan; known is false while it does not know this attempt, or has yet to take over a change of
// queues or reservations. The caller is the writer: it waits here for a plan that is under way.
func (s *schedule) mayExtend(id queue.ElementID, attempt int, until time.Time, promises bool) (x backfill.Extension, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.running[id]
	if s.planner == nil || s.feed.all || !ok || r.attempt != attempt && r.attempt != unconfirmed {
		return x, false
	}
	x = s.planner.MayExtend(id, until, promises)
	return x, x.Why != backfill.AnUnknown
}

// extended tells the planner at once what mayExtend has allowed, so that nothing is promised in its place.
func (s *schedule) extended(id queue.ElementID, ends time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.running[id]; ok && s.planner != nil {
		s.running[id] = begun{r.attempt, ends}
		s.planner.Extend(id, ends)
	}
}
