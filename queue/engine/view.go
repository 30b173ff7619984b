package engine

import (
	"context"
	"time"

	"fairslice/accounting"
	"fairslice/queue"
)

// view is the book under the read lock.
type view struct {
	e   *Engine
	now time.Time

	budgets *accounting.Budgets // nil until somebody asks
}

func (v *view) states() *accounting.Budgets {
	if v.budgets == nil {
		v.budgets = v.e.budgetsAt(v.now)
	}
	return v.budgets
}

// View calls fn with the book locked for reading: nothing of it may be kept or changed, and fn must be short.
func (e *Engine) View(fn func(queue.View)) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	fn(&view{e: e, now: e.cfg().Now()})
}

func (v *view) Book() *queue.Book { return v.e.book }

// Why gives first what keeps the element out whatever is free, then limits, then what the last plan found.
func (v *view) Why(j *queue.Job, el *queue.Element) ([]queue.Reason, time.Time) {
	if !el.State.Pending() {
		return nil, time.Time{}
	}
	out := v.e.blockers(j, el, v.now)
	reserved, opens, blocked := v.e.reservationBlocks(j, v.now)
	if blocked {
		out = append(out, reserved)
	}
	out = append(out, v.e.queueReasons(j, j.Plan.Slots)...)
	out = append(out, v.e.held.reasons(j)...)
	out = append(out, v.e.budgetReasons(j, v.now, v.states)...)
	if len(out) > 0 {
		var expected time.Time
		switch {
		case len(out) == 1 && out[0].Kind == queue.ReasonBegin:
			expected = j.Spec.Begin
		case len(out) == 1 && blocked:
			expected = opens
		}
		return out, expected
	}
	return v.e.sched.why(j, el, v.now)
}

func (v *view) Window(r *queue.Reservation) (queue.Period, bool) {
	begin, end, ok := r.Window(v.now, v.e.location())
	p := queue.Period{Begin: begin, End: end}
	return p, ok && p.Contains(v.now)
}

// Priority is what decides when the next element of a job that waits is served.
func (v *view) Priority(j *queue.Job) (queue.Priority, bool) { return v.e.sched.priority(j) }

func (v *view) PlannedAt() time.Time { return v.e.sched.plannedAt() }

// Ahead counts the elements that wait and are ordered before this one.
func (v *view) Ahead(j *queue.Job, el *queue.Element) int {
	if n, known := v.e.sched.ahead(j, el); known {
		return n
	}
	n := 0
	v.e.book.Each(func(o *queue.Job) bool {
		if o == j {
			for i := range o.Elements {
				if x := &o.Elements[i]; x.Index < el.Index && x.State == queue.Pend {
					n++
				}
			}
		} else if comparePending(o, j) < 0 {
			n += len(o.Elements) - o.Live() - o.Ended()
		}
		return true
	})
	return n
}

// HistoryJob is a job with its events.
type HistoryJob struct {
	Job    *queue.Job
	Events []queue.Event
}

// History gives the events of jobs, also of those that the book has forgotten.
func (e *Engine) History(ctx context.Context, sel queue.Selection, by queue.Identity) ([]HistoryJob, []string, error) {
	ids, err := e.historyIDs(ctx, sel, by)
	if err != nil {
		return nil, nil, err
	}
	events, err := e.store.EventsOf(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	byJob := map[queue.JobID][]queue.Event{}
	for _, ev := range events {
		byJob[ev.Job] = append(byJob[ev.Job], ev)
	}
	var out []HistoryJob
	var missing []string
	for _, id := range ids {
		if evs := byJob[id]; len(evs) > 0 {
			out = append(out, HistoryJob{Job: queue.Fold(evs), Events: evs})
		}
	}
	if len(out) == 0 && len(sel.IDs) > 0 {
		missing = append(missing, "No matching job found")
	}
	return out, missing, nil
}

// historyIDs lists the jobs of a selection, the forgotten ones first: they are older.
func (e *Engine) historyIDs(ctx context.Context, sel queue.Selection, by queue.Identity) ([]queue.JobID, error) {
	var ids []queue.JobID
	seen := map[queue.JobID]bool{}
	add := func(id queue.JobID) {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	refs, all, err := parseIDs(sel.IDs)
	if err != nil {
		return nil, err
	}
	if len(refs) > 0 && !all {
		for _, ref := range refs {
			if ref.Job != 0 {
				add(ref.Job)
			}
		}
		return ids, nil
	}
	user := sel.User
	if user == "" {
		user = by.User
	}
	if sel.Scope == queue.ScopeAll || sel.Scope == queue.ScopeFinished {
		old, err := e.store.FindHistory(ctx, sel, user)
		if err != nil {
			return nil, err
		}
		for _, id := range old {
			add(id)
		}
	}
	e.View(func(v queue.View) {
		var found []Found
		if found, _, err = e.Select(v, sel, by); err == nil {
			for _, f := range found {
				add(f.Job.ID)
			}
		}
	})
	return ids, err
}
