// Package history computes what bhist prints from the events of jobs: how long a job was in each state,
// and a line for each thing that happened to it. It owns no state and asks nobody: events in, numbers and
// texts out.
package history

import (
	"time"

	"fairslice/api/pb"
	"fairslice/queue"
)

// Times is how long a job was in each state.
type Times struct {
	Pend, PSusp, Run, USusp, SSusp, Unkwn time.Duration
	Until                                 time.Time // the end of the job, or now
}

// Total is the time since the submission.
func (t *Times) Total() time.Duration {
	return t.Pend + t.PSusp + t.Run + t.USusp + t.SSusp + t.Unkwn
}

// entry is an event with its body; body is nil when this version does not know the kind.
type entry struct {
	*pb.Event
	at   time.Time
	body queue.Body
}

// entries are the events of one element and of the whole job, in their order.
func entries(h *pb.HistoryJob) []entry {
	out := make([]entry, 0, len(h.Events))
	for _, e := range h.Events {
		if e.Index != 0 && e.Index != h.GetJob().GetIndex() {
			continue
		}
		body, err := queue.DecodeBody(queue.Kind(e.Kind), e.Body)
		if err != nil {
			body = nil // told as a line with its kind; it changes no time that we know of
		}
		out = append(out, entry{e, time.Unix(0, e.At), body})
	}
	return out
}

// Fold adds up the times. A job that has not ended is counted until now.
func Fold(h *pb.HistoryJob, now time.Time) Times {
	t := Times{Until: now}
	var state queue.State
	var since time.Time
	pass := func(to time.Time) {
		d := max(to.Sub(since), 0) // clocks that were set back give no negative times
		switch state {
		case queue.Pend:
			t.Pend += d
		case queue.PSusp:
			t.PSusp += d
		case queue.Run:
			t.Run += d
		case queue.USusp:
			t.USusp += d
		case queue.SSusp:
			t.SSusp += d
		case queue.Unkwn, queue.Zombi:
			t.Unkwn += d
		}
		since = to
	}
	for _, e := range entries(h) {
		next := after(state, e.body)
		if next == state {
			continue
		}
		pass(e.at)
		state = next
		if state.Final() {
			t.Until = e.at
			return t
		}
	}
	pass(now)
	return t
}

// after is the state that an event leaves.
func after(s queue.State, body queue.Body) queue.State {
	switch b := body.(type) {
	case *queue.Submitted:
		if b.Spec != nil && b.Spec.Hold {
			return queue.PSusp
		}
		return queue.Pend
	case *queue.Started:
		return queue.Run
	case *queue.Ended:
		if b.Done {
			return queue.Done
		}
		return queue.Exit
	case *queue.Requeued:
		if b.Hold {
			return queue.PSusp
		}
		return queue.Pend
	case *queue.Suspended:
		switch {
		case s.Pending():
			return queue.PSusp
		case b.System:
			return queue.SSusp
		}
		return queue.USusp
	case *queue.Resumed:
		if s.Pending() {
			return queue.Pend
		}
		return queue.Run
	case *queue.Lost:
		return queue.Unkwn
	case *queue.Found:
		return b.State
	}
	return s
}
