package engine

import (
	"fmt"

	"fairslice/nodes"
	"fairslice/queue"
)

// queueSlots are the slots that run in each queue, and of each user in it: what the configuration's max_slots and user_slots
// bound. The writer keeps them with each event, so that a start is checked and counted in the transaction that makes it.
// They are guarded by Engine.mu, and derived: counted from the book when the engine is made.
type queueSlots map[queueUser]int

// queueUser is a user in a queue; "" is all of them together.
type queueUser struct{ queue, user string }

func newQueueSlots(b *queue.Book) queueSlots {
	q := queueSlots{}
	b.Each(func(j *queue.Job) bool {
		q.shift(j.Queue, j.Owner.User, liveSlots(j.Elements))
		return true
	})
	return q
}

func (q queueSlots) shift(name, user string, slots int) {
	if slots == 0 {
		return
	}
	for _, key := range []queueUser{{name, ""}, {name, user}} {
		if q[key] += slots; q[key] == 0 {
			delete(q, key)
		}
	}
}

func liveSlots(elements []queue.Element) int {
	n := 0
	for i := range elements {
		if el := &elements[i]; el.State.Live() && el.Attempt != nil {
			n += attemptSlots(el.Attempt)
		}
	}
	return n
}

// count adds what the element or the job of an event holds, sign times: -1 before the event, 1 after it.
func (q queueSlots) count(b *queue.Book, ev *queue.Event, sign int) {
	j := b.Jobs[ev.Job]
	if j == nil {
		return
	}
	switch ev.Body.(type) {
	case *queue.Started, *queue.Ended, *queue.Requeued:
		if el := j.Element(ev.Index); el != nil {
			q.shift(j.Queue, j.Owner.User, sign*liveSlots([]queue.Element{*el}))
		}
	case *queue.Switched:
		q.shift(j.Queue, j.Owner.User, sign*liveSlots(j.Elements))
	}
}

// queueAdmits says whether j's queue and array let another of its elements start on this allocation.
func (e *Engine) queueAdmits(j *queue.Job, alloc []nodes.Allocation) bool {
	return len(e.queueReasons(j, slotsOf(alloc))) == 0
}

// queueReasons says what of j's queue and array keeps out one more of its elements, with so many slots.
func (e *Engine) queueReasons(j *queue.Job, slots int) []queue.Reason {
	var out []queue.Reason
	add := func(k queue.ReasonKind, format string, most int) {
		out = append(out, queue.Reason{Kind: k, Text: fmt.Sprintf(format, most)})
	}
	if a := j.Spec.Array; a != nil && a.Limit > 0 && j.Live() >= a.Limit {
		add(queue.ReasonArrayLimit, "The job array has reached its running element limit: %d", a.Limit)
	}
	q := e.cfg().queue(j.Queue)
	if q == nil {
		return out
	}
	if most := q.UserSlots; most > 0 && slots > most-e.slots[queueUser{q.Name, j.Owner.User}] {
		add(queue.ReasonUserLimit, "User has reached the per-user job slot limit of the queue: %d", most)
	}
	if most := q.MaxSlots; most > 0 && slots > most-e.slots[queueUser{q.Name, ""}] {
		add(queue.ReasonQueueLimit, "The queue has reached its job slot limit: %d", most)
	}
	return out
}
