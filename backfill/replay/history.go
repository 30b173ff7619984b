package replay

import (
	"cmp"
	"slices"
	"time"

	"fairslice/accounting"
	"fairslice/queue"
)

// Past is what a site's own accounting says: the tasks, and when each was really started.
type Past struct {
	Tasks  []Task
	Starts []int64
	// Left out: elements that ended without ever having run, and those submitted outside of the time asked for.
	NeverRan, Outside int
}

// History makes tasks of finished jobs, with all that they asked for, of those submitted in [from, to). An element
// that was tried several times counts once, with its last attempt. Times are whole seconds since 1970.
//
// What it does not know is left as it was: a job that waited for another one, or was held, is submitted when it
// was submitted; a job that a user bound to some hosts may run on any.
func History(jobs []*queue.Job, from, to time.Time) *Past {
	p := &Past{}
	users := map[string]int64{}
	type one struct {
		task  Task
		start int64
	}
	var all []one
	for _, j := range jobs {
		if j == nil || j.Spec == nil {
			continue
		}
		if _, known := users[j.Owner.User]; !known {
			users[j.Owner.User] = int64(len(users)) + 1
		}
		for i := range j.Elements {
			el := &j.Elements[i]
			if !el.State.Final() {
				continue
			}
			if j.Submitted.Before(from) || !j.Submitted.Before(to) {
				p.Outside++
				continue
			}
			t, start, ran := pastTask(j, el)
			if !ran {
				p.NeverRan++
				continue
			}
			t.User = users[j.Owner.User]
			all = append(all, one{t, start})
		}
	}
	slices.SortStableFunc(all, func(a, b one) int {
		return cmp.Or(cmp.Compare(a.task.Submit, b.task.Submit), cmp.Compare(a.task.ID, b.task.ID))
	})
	for _, x := range all {
		p.Tasks, p.Starts = append(p.Tasks, x.task), append(p.Starts, x.start)
	}
	return p
}

// unlimited is the requested time of a task without a run limit: longer than any.
const unlimited = int64(largestNumber)

func pastTask(j *queue.Job, el *queue.Element) (t Task, start int64, ran bool) {
	a := el.Attempt
	if a == nil || el.Result == nil || a.Dispatched.IsZero() {
		return Task{}, 0, false
	}
	began := a.Began
	if began.IsZero() {
		began = a.Dispatched
	}
	shape := j.Plan
	shape.Reservation = "" // the reservations of then are not known; who ran in one competes with all

	if shape.Host.GPU.Part() { // the nodes of now may have GPUs that only one user's slices share
		shape.Host.GPU.User = j.Owner.User
	}
	// Who has asked for "-n 2,8" runs as long as it did because of what it was given.
	h := accounting.HoldingOf(a.Alloc)
	if h.Slots > 0 {
		shape.Slots, shape.MaxSlots = h.Slots, h.Slots
	}
	t = Task{ID: int64(j.ID), Submit: j.Submitted.Unix(), Procs: int64(shape.Slots), FGPU: h.FGPU, Memory: h.Memory, Shape: &shape, Limit: unlimited}
	t.Run = min(max(el.Result.At.Unix()-began.Unix(), 1), unlimited)
	if shape.RunLimit > 0 {
		// The clock of the limit may be kinder than ours: what was killed at it ran a little longer.
		t.Limit = max(int64(shape.RunLimit/time.Second), t.Run)
	}
	return t, max(began.Unix(), t.Submit), true
}

// Without drops what did not start in a schedule, from both: no node that is there now has room for it.
func (p *Past) Without(s *Schedule) (kept *Past, starts []int64, dropped int) {
	kept = &Past{NeverRan: p.NeverRan, Outside: p.Outside}
	for i, start := range s.Starts {
		if start == NotStarted {
			dropped++
			continue
		}
		kept.Tasks, kept.Starts, starts = append(kept.Tasks, p.Tasks[i]), append(kept.Starts, p.Starts[i]), append(starts, start)
	}
	return kept, starts, dropped
}

// Span is something that was there over [Begin, End).
type Span struct {
	Begin, End int64
	Weight     float64
}

// Level is how much there was on average in each of n equal parts of [from, to).
func Level(spans []Span, from, to int64, n int) []float64 {
	out := make([]float64, n)
	width := float64(to-from) / float64(n)
	if n == 0 || width <= 0 {
		return out
	}
	for _, s := range spans {
		a, b := max(float64(s.Begin-from)/width, 0), min(float64(s.End-from)/width, float64(n))
		for k := int(a); float64(k) < b; k++ {
			out[k] += s.Weight * (min(b, float64(k+1)) - max(a, float64(k)))
		}
	}
	return out
}
