package backfill

import (
	"testing"
	"time"
)

// What runs may go on up to the first promised start or reservation that needs its place, and not longer.
func TestMayExtend(t *testing.T) {
	for _, c := range []struct {
		name, story, job string
		longest          string // after 0m; "never": nothing bounds it
		why              Obstacle
		without          string // the longest if promises do not count; "" for the same
	}{
		{"nobody waits", "nodes a=2; job 1 limit=1h", "1", "never", Nothing, ""},
		{"a start is promised at its end", "nodes a=1; job 1 limit=1h; job 2 limit=1h", "1", "1h", APromise, "never"},
		{"a start is promised later", "nodes a=2; job 1 limit=1h; job 2 limit=3h; job 3 slots=2 limit=1h", "1", "3h", APromise, "never"},
		{"there is room beside it", "nodes a=3; job 1 limit=1h; job 2 slots=2 limit=2h; job 3 slots=2 limit=1h", "1", "never", Nothing, ""},
		{"the start is promised elsewhere", "nodes a=1 b=2; job 1 slots=1 limit=1h; job 2 slots=2 limit=3h; job 3 slots=2 limit=1h", "1", "never", Nothing, ""},
		{"of one that holds no promise nobody asks", "policy protected=0; nodes a=1; job 1 limit=1h; job 2 limit=1h", "1", "never", Nothing, ""},
		{"the other half of a GPU is promised", "nodes a=4,gpu=1x100; job 1 fgpu=0.5 limit=1h; job 2 fgpu=0.5 limit=2h; job 3 fgpu=0.5 limit=1h; job 4 fgpu=1 limit=1h", "1", "1h", APromise, "never"},
		{"a reservation begins", "nodes a=2; window w a:2 2h-3h; job 1 limit=1h", "1", "2h", AReservation, ""},
		{"the part of a reservation is another one", "nodes a=2; window w a:1 2h-3h; job 1 limit=1h", "1", "never", Nothing, ""},
		{"the reservation that it runs in ends", "nodes a=2; window w a:2 0m-3h; job 1 limit=1h in=w", "1", "3h", AReservation, ""},
		{"who is kept out by a limit holds no promise", "nodes a=9; limit u=1; job 1 limit=1h under=u; job 2 limit=1h under=u", "1", "never", Nothing, ""},
		{"a start is promised elsewhere under the same limit", "policy protected=all; nodes a=1 b=1 c=2; limit u=3; job 1 limit=1h under=u on=a; job 2 limit=2h on=b; job 3 slots=2 limit=2h; job 4 limit=10h under=u on=b; job 5 slots=2 limit=1h under=u", "1", "2h", APromisedLimit, "never"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := run(t, c.name, c.story)
			s.p.Plan(s.now)
			id := elementOf(t, c.job)
			for _, promises := range []bool{true, false} {
				longest := c.longest
				if !promises && c.without != "" {
					longest = c.without
				}
				want := time.Time{}
				if longest != "never" {
					want = noon.Add(s.duration(longest))
				}
				x := s.p.MayExtend(id, want, promises)
				if !x.OK || !x.Until.Equal(want) || promises && x.Why != c.why {
					t.Errorf("promises %v: %+v, want it until %s for %d", promises, x, longest, c.why)
				}
				if !want.IsZero() && s.p.MayExtend(id, want.Add(time.Nanosecond), promises).OK {
					t.Errorf("promises %v: longer than %s", promises, longest)
				}
			}
		})
	}
	p := New(Policy{Protected: 1})
	if x := p.MayExtend(elementOf(t, "7"), noon, true); x.OK || x.Why != AnUnknown {
		t.Errorf("what does not run may run longer: %+v", x)
	}
}

// An extension counts in what is planned after it, and moves no promise.
func TestExtend(t *testing.T) {
	s := run(t, "extended", "nodes a=3; job 1 limit=1h; job 2 slots=2 limit=2h; job 3 slots=3 limit=1h")
	s.p.Plan(noon)
	id := elementOf(t, "1")
	s.p.Extend(id, noon.Add(2*time.Hour))
	s.p.End(elementOf(t, "2"), noon)
	s.p.Plan(noon)
	at, ok := s.p.Promised(elementOf(t, "3"))
	if !ok || !at.Equal(noon.Add(2*time.Hour)) { // not when it would have ended before
		t.Errorf("3 is promised %s %v", at, ok)
	}
	s.p.End(id, noon.Add(90*time.Minute))
	if plan := s.p.Plan(noon.Add(90 * time.Minute)); len(plan.Starts) != 1 {
		t.Errorf("what it held is not free when it has ended: %+v", plan)
	}
}
