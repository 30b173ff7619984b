package engine

import (
	"fmt"
	"slices"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/queue"
)

// maySubmit refuses what the limits of the policy could never let run, or do not let wait; and gives a job without a run
// limit of its own the longest that they allow. A job in an advance reservation ends with its window, which an administrator
// made: without a run limit it keeps none. A submission counts once in a rate, however many elements it has.
func (t *tx) maySubmit(j *queue.Job, elements int) error {
	h := t.e.held
	bounds := h.bounds(j)
	if len(bounds) == 0 {
		return nil
	}
	if err := h.mayEverRun(j, bounds); err != nil {
		return err
	}
	for _, b := range bounds {
		if err := b.mayWait(elements); err != nil {
			return err
		}
		if most := b.limit.Rate; most != accounting.NoLimit {
			since := t.now.Add(-time.Minute)
			b.has.recent = slices.DeleteFunc(b.has.recent, func(at time.Time) bool {
				return !at.After(since) || at.After(t.now) // a clock that was set back must not lock anybody out
			})
			if n := len(b.has.recent); int64(n) >= most {
				text := ""
				if n > 0 {
					text = fmt.Sprintf("; the next may come in %s", (b.has.recent[0].Sub(since) + time.Second - 1).Truncate(time.Second))
				}
				return refuse("%s: %d in the last minute%s", nameOf(b.limit, "rate"), n, text)
			}
		}
	}
	return nil
}

func (b *bound) mayWait(elements int) error {
	waits := b.has.pending + b.has.returning
	if most := b.limit.Pending; most != accounting.NoLimit && int64(elements) > most-waits {
		return refuse("%s: %d wait, and this would be %d more", nameOf(b.limit, "pending"), waits, elements)
	}
	return nil
}

// mayEverRun refuses a job of which one element alone is more than a limit, and caps its run limit.
func (h *holdings) mayEverRun(j *queue.Job, bounds []bound) error {
	need := h.least(j)
	for i := range bounds {
		b := &bounds[i]
		if wall := b.limit.Wall; wall != accounting.NoLimit {
			switch {
			case j.Spec.RunLimit > wall:
				return refuse("%s: the job asks for a run limit of %s", nameOf(b.limit, "wall"), clock(j.Spec.RunLimit))
			case j.Spec.RunLimit == 0 && j.Plan.Reservation == "" && (j.Plan.RunLimit == 0 || j.Plan.RunLimit > wall):
				j.Plan.RunLimit = wall
			}
		}
		for _, r := range b.rules(&need) {
			if r.need > r.most {
				return refuse("%s: one job alone needs %s", nameOf(b.limit, r.word), r.of.Words(int(r.need)))
			}
		}
	}
	return nil
}

// clock prints a run limit as -W reads it: hours and minutes.
func clock(d time.Duration) string {
	minutes := int64((d + time.Minute - 1) / time.Minute)
	return fmt.Sprintf("%d:%02d", minutes/60, minutes%60)
}

// mayBecome is maySubmit for what bmod or bswitch would make of a job: what already waits counts only under limits that it
// was not under before.
func (t *tx) mayBecome(j *queue.Job, spec *queue.Spec, to string, plan queue.Shape) (queue.Shape, error) {
	h := t.e.held
	if !h.limited {
		return plan, nil
	}
	next := *j
	next.Spec, next.Queue, next.Plan = spec, to, plan
	bounds := h.bounds(&next)
	if err := h.mayEverRun(&next, bounds); err != nil {
		return plan, err
	}
	under := map[accounting.Scope]bool{}
	for _, b := range h.bounds(j) {
		under[b.scope] = true
	}
	if waits := len(j.Elements) - j.Live() - j.Ended(); waits > 0 {
		for _, b := range bounds {
			if !under[b.scope] {
				if err := b.mayWait(waits); err != nil {
					return plan, err
				}
			}
		}
	}
	return next.Plan, nil
}

// planned are the limits of the policy as the planner knows them. The writer checks them again as it starts: see
// holdings.admits.
func (s *schedule) policyLimits(j *queue.Job) []*backfill.Limit {
	bounds := s.e.held.bounds(j)
	if len(bounds) == 0 {
		return nil
	}
	need := amounts{running: 1, slots: 1}
	if j.Plan.Host.Memory > 0 {
		need.memory = 1
	}
	if !j.Plan.Host.GPU.Zero() {
		need.fgpu = 1
	}
	if j.Spec.Interactive.Session() {
		need.sessions = 1
	}
	var out []*backfill.Limit
	for i := range bounds {
		for _, r := range bounds[i].rules(&need) {
			key := bounds[i].scope.String() + " " + r.word
			if s.limits[key] == nil {
				s.limits[key] = &backfill.Limit{Max: int(r.most), Of: r.of, Name: nameOf(bounds[i].limit, r.word)}
			}
			out = append(out, s.limits[key])
		}
	}
	return out
}
