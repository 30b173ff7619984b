package engine

import (
	"fmt"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// blockers says why an element may not start whatever is free, first blocker first; nothing when it
// may. Limits are counted on the present book, so a plan checks them again as it starts elements.
func (e *Engine) blockers(j *queue.Job, el *queue.Element, now time.Time) []queue.Reason {
	var out []queue.Reason
	add := func(k queue.ReasonKind, format string, args ...any) {
		out = append(out, queue.Reason{Kind: k, Text: fmt.Sprintf(format, args...)})
	}
	if el.State == queue.PSusp {
		add(queue.ReasonHeld, "The job is held: it was submitted with -H or stopped by bstop")
	}
	if e.book.Queues[j.Queue].Inact || e.cfg().queue(j.Queue) == nil {
		add(queue.ReasonQueueInactive, "The queue is inactivated by its administrators")
	}
	if j.Spec.Begin.After(now) {
		add(queue.ReasonBegin, "The job has a specified start time")
	}
	if el.Retry.After(now) {
		add(queue.ReasonBackoff, "The last start failed, the next is tried at %s: %s",
			el.Retry.In(e.location()).Format("Jan _2 15:04:05"), el.Note)
	}
	if c := j.Condition(); c != nil {
		switch c.Eval(el.Index, lookup{e.book}) {
		case queue.False:
			add(queue.ReasonDependency, "Job dependency condition not satisfied")
		case queue.Never:
			add(queue.ReasonNever, "Dependency condition invalid or never satisfied")
		}
	}
	return out
}

// limits are the places left under the limits that a job counts against.
type limits struct {
	e      *Engine
	queues map[string]*int // slots left of a queue
	users  map[string]*int // slots left of a user in a queue
}

func (e *Engine) newLimits() *limits {
	l := &limits{e: e, queues: map[string]*int{}, users: map[string]*int{}}
	for i := range e.cfg().Queues {
		if q := &e.cfg().Queues[i]; q.MaxSlots > 0 {
			left := q.MaxSlots
			l.queues[q.Name] = &left
		}
	}
	for _, held := range e.liveElements() {
		slots := attemptSlots(held.element.Attempt)
		if left := l.queues[held.job.Queue]; left != nil {
			*left -= slots
		}
		if left := l.user(held.job); left != nil {
			*left -= slots
		}
	}
	return l
}

// user is the counter of a job's owner in its queue, nil without a limit.
func (l *limits) user(j *queue.Job) *int {
	q := l.e.cfg().queue(j.Queue)
	if q == nil || q.UserSlots == 0 {
		return nil
	}
	key := j.Queue + "\x00" + j.Owner.User
	if l.users[key] == nil {
		left := q.UserSlots
		l.users[key] = &left
	}
	return l.users[key]
}

// reasons says which limits keep one element of j out now.
func (l *limits) reasons(j *queue.Job) []queue.Reason {
	var out []queue.Reason
	if a := j.Spec.Array; a != nil && a.Limit > 0 && j.Live() >= a.Limit {
		out = append(out, queue.Reason{Kind: queue.ReasonArrayLimit,
			Text: fmt.Sprintf("The job array has reached its running element limit: %d", a.Limit)})
	}
	q := l.e.cfg().queue(j.Queue)
	if left := l.user(j); left != nil && *left < j.Plan.Slots {
		out = append(out, queue.Reason{Kind: queue.ReasonUserLimit,
			Text: fmt.Sprintf("User has reached the per-user job slot limit of the queue: %d", q.UserSlots)})
	}
	if left := l.queues[j.Queue]; left != nil && *left < j.Plan.Slots {
		out = append(out, queue.Reason{Kind: queue.ReasonQueueLimit,
			Text: fmt.Sprintf("The queue has reached its job slot limit: %d", q.MaxSlots)})
	}
	return append(out, l.e.held.reasons(j)...)
}

type liveElement struct {
	job     *queue.Job
	element *queue.Element
}

func (e *Engine) liveElements() []liveElement {
	var out []liveElement
	seen := map[queue.ElementID]bool{}
	for id := range e.book.Nodes {
		for _, el := range e.book.On(id) {
			if !seen[el] { // an element on several nodes counts once
				seen[el] = true
				j, x := e.book.Find(el)
				out = append(out, liveElement{j, x})
			}
		}
	}
	return out
}

func attemptSlots(a *queue.Attempt) int { return slotsOf(a.Alloc) }

func slotsOf(alloc []nodes.Allocation) int {
	n := 0
	for i := range alloc {
		n += alloc[i].Slots
	}
	return n
}

// lookup lets dependency conditions see the book.
type lookup struct{ book *queue.Book }

func (l lookup) Job(id queue.JobID) *queue.Job { return l.book.Jobs[id] }
