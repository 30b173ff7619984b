package engine

import (
	"context"
	"time"

	"fairslice/backfill"
	"fairslice/queue"
)

// forecasts is what was last worked out of the starts to come. It is guarded by schedule.mu.
type forecasts struct {
	latest *backfill.Forecast
	// first is the first expected start that was ever worked out for an element: what it is measured by.
	first map[queue.ElementID]time.Time
}

// A forecast is worked out at most every forecastEvery, and takes at most a tenth of the time.
const forecastEvery = 2 * time.Second

// coarse is by how much of the time ahead an expected start may be late.
const coarse = 0.01

// forecastLoop works out, beside everything else, when what waits is expected to start.
func (s *schedule) forecastLoop(ctx context.Context) {
	rest := forecastEvery
	var seen *backfill.Plan
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
		began := time.Now()
		if plan := s.latestPlan(); plan != seen {
			seen = plan
			s.foresee()
		}
		rest = max(forecastEvery, 10*time.Since(began))
	}
}

func (s *schedule) latestPlan() *backfill.Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plan
}

func (s *schedule) foresee() {
	s.mu.Lock()
	if s.planner == nil || s.planner.Waiting() == 0 {
		s.forecast.latest = nil
		clear(s.forecast.first)
		s.mu.Unlock()
		return
	}
	snap := s.planner.Snapshot()
	snap.Share = s.factors() // the tree changes with the next plan
	bound := s.made.Scheduling.MaxForecasts
	s.mu.Unlock()
	if bound <= 0 {
		bound = defaultMaxForecasts
	}
	snap.Select = newSelector(s.e.cfg).selects
	f := backfill.Expect(snap, bound, coarse)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forecast.latest = f
	for id, at := range f.Starts {
		if _, known := s.forecast.first[id]; !known {
			s.forecast.first[id] = at
		}
	}
	for id := range s.forecast.first { // what no longer waits was measured, or will never start
		if _, waits := f.Starts[id]; !waits && !f.Bounded {
			delete(s.forecast.first, id)
		}
	}
}

// measure tells how far the first expected start of an element was off. The caller holds Engine.mu.
func (s *schedule) measure(id queue.ElementID, now time.Time) {
	s.mu.Lock()
	at, known := s.forecast.first[id]
	delete(s.forecast.first, id)
	s.mu.Unlock()
	if known {
		s.e.stats.predicted(now.Sub(at))
	}
}

// why is what the last plan found of an element that nothing but room and others keeps from starting, and when it is
// expected to start.
func (s *schedule) why(j *queue.Job, el *queue.Element, now time.Time) ([]queue.Reason, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plan == nil || !s.planner.Has(j.ID) {
		return []queue.Reason{{Kind: queue.ReasonNew, Text: "New job is waiting for scheduling"}}, time.Time{}
	}
	shape := s.planOf(j)
	w := s.planner.Explain(&shape)
	id := j.ElementID(el.Index)
	expected, promised := s.planner.Promised(id)
	if f := s.forecast.latest; !promised && f != nil && f.Starts[id].After(now) {
		expected = f.Starts[id]
	}
	if why := s.planner.WhyJob(j.ID); len(why) > 0 {
		return append(why, w.Reasons...), expected
	}
	switch {
	case len(w.Reasons) > 0:
		return w.Reasons, expected
	case s.plan.Bounded:
		return []queue.Reason{{Kind: queue.ReasonNotLooked, Text: "The last scheduling cycle ended before it was looked at"}}, expected
	}
	return []queue.Reason{{Kind: queue.ReasonNew, Text: "New job is waiting for scheduling"}}, expected
}

func (s *schedule) plannedAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.planAt
}

func (s *schedule) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.planner.Waiting()
}

// ahead counts the elements that wait and are served before this one; false while the planner does not know it.
func (s *schedule) ahead(j *queue.Job, el *queue.Element) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planner == nil || !s.planner.Has(j.ID) {
		return 0, false
	}
	n := s.planner.Ahead(j.ID)
	for i := range j.Elements {
		if x := &j.Elements[i]; x.Index < el.Index && x.State == queue.Pend {
			n++
		}
	}
	return n, true
}
