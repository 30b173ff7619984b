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
