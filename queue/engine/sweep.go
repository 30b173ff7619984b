package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fairslice/queue"
)

// sweepEvery is how often finished jobs are looked for that can be forgotten, and deadlines that have passed.
const sweepEvery = 5 * time.Second

// maxForgotten bounds what one sweep forgets, so that it does not hold up others.
const maxForgotten = 5000

func (e *Engine) sweepLoop(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := e.sweep(ctx); err != nil {
				return
			}
		}
	}
}

// sweep forgets what ended longer ago than the clean period, gives up rerunnable jobs on nodes that stay
// away, deletes reservations that are over, ends pending jobs whose -t has passed, and orphans (-ti) whose dependency can never be satisfied.
func (e *Engine) sweep(ctx context.Context) error {
	var forget []queue.JobID
	var end, abandon []queue.ElementID
	var expired []string
	imagesToo := false
	e.View(func(v queue.View) {
		imagesToo = v.Book().Images.Removed() || v.Book().Images.Requested()
		now := e.cfg().Now()
		expired = e.expiredReservations(now)
		awaited := e.awaited()
		v.Book().Each(func(j *queue.Job) bool {
			if j.Finished() {
				if len(forget) < maxForgotten && e.forgettable(j, now, awaited) {
					forget = append(forget, j.ID)
				}
				return true
			}
			for i := range j.Elements {
				if el := &j.Elements[i]; el.State.Pending() && e.overdue(j, el, now) != "" {
					end = append(end, j.ElementID(el.Index))
				} else if e.abandoned(j, el, now) != "" {
					abandon = append(abandon, j.ElementID(el.Index))
				}
			}
			return true
		})
	})
	if len(forget) == 0 && len(end) == 0 && len(abandon) == 0 && len(expired) == 0 && !imagesToo {
		return nil
	}
	return e.write(ctx, func(t *tx) error {
		if err := errors.Join(t.sweepImages(), t.sweepCommits()); err != nil {
			return err
		}
		if err := t.expireReservations(expired); err != nil {
			return err
		}
		for _, id := range end {
			j, el := t.e.book.Find(id)
			if j == nil || !el.State.Pending() {
				continue
			}
			if verdict := t.e.overdue(j, el, t.now); verdict != "" {
				if err := t.emit(id.Job, id.Index, "", &queue.Ended{Result: queue.Result{Status: queue.NoStatus, Verdict: verdict, At: t.now}}); err != nil {
					return err
				}
				t.wake = true
			}
		}
		for _, id := range abandon {
			j, el := t.e.book.Find(id)
			if j == nil {
				continue
			}
			if why := t.e.abandoned(j, el, t.now); why != "" {
				// Where only another of its nodes is away, the first still runs it.
				if first := el.Attempt.Alloc[0].Node; t.e.book.Nodes[first].Alive {
					t.order(first, queue.Order{ID: id, Attempt: el.Attempt.Number, Op: queue.OrderForget, AtOnce: true})
				}
				if err := t.lost(j, el, why, el.Attempt.Usage); err != nil {
					return err
				}
				t.wake = true
			}
		}
		awaited := t.e.awaited()
		for _, id := range forget { // each looked at again: it may have been requeued or named since
			if j := t.e.book.Jobs[id]; j != nil && t.e.forgettable(j, t.now, awaited) {
				if err := t.emit(id, 0, "", &queue.Forgotten{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// overdue says with which verdict a pending element is to be ended, "" if it is not.
func (e *Engine) overdue(j *queue.Job, el *queue.Element, now time.Time) queue.Verdict {
	if t := j.Spec.Terminate; !t.IsZero() && !t.After(now) {
		return queue.TermDeadline
	}
	if c := j.Condition(); j.Spec.TermOrphan && c != nil && c.Eval(el.Index, lookup{e.book}) == queue.Never {
		return queue.TermOrphan
	}
	return ""
}

// abandoned says why a rerunnable element is no longer waited for where it ran, "" if it is.
func (e *Engine) abandoned(j *queue.Job, el *queue.Element, now time.Time) string {
	if el.State != queue.Unkwn || !j.Spec.Rerunnable || now.Sub(el.Since) < e.cfg().RerunAfter {
		return ""
	}
	for _, a := range el.Attempt.Alloc {
		if n := e.book.Nodes[a.Node]; n == nil || !n.Alive {
			return fmt.Sprintf("host %s does not answer", a.Node)
		}
	}
	return ""
}

// forgettable says that j ended longer ago than the clean period and that nobody waits for it.
func (e *Engine) forgettable(j *queue.Job, now time.Time, awaited map[queue.JobID]bool) bool {
	return j.Finished() && !awaited[j.ID] && now.Sub(lastEnd(j)) > e.cfg().CleanPeriod
}

// awaited are the jobs that the dependencies of unfinished jobs name: their states must stay known
// (LSF's rule for jobs past the clean period).
func (e *Engine) awaited() map[queue.JobID]bool {
	out := map[queue.JobID]bool{}
	e.book.Each(func(j *queue.Job) bool {
		if c := j.Condition(); c != nil && !j.Finished() {
			for _, ref := range c.Refs() {
				out[ref.Job] = true
			}
		}
		return true
	})
	return out
}

func lastEnd(j *queue.Job) time.Time {
	var last time.Time
	for i := range j.Elements {
		if r := j.Elements[i].Result; r != nil && r.At.After(last) {
			last = r.At
		}
	}
	return last
}
