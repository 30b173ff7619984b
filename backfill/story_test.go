package backfill

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// advance plays until a time, without making the plan of then; until nothing more happens for the zero time.
func (c *scenario) advance(until time.Time) {
	c.checkRow()
	for range 10_000 {
		c.plan()
		next := c.next()
		if next.IsZero() || !until.IsZero() && !next.Before(until) {
			if !until.IsZero() {
				c.goTo(until)
			}
			return
		}
		c.goTo(next)
	}
	c.fatal("it does not end")
}

// next is when something happens by itself: an end, a promise that is due, a window that begins or ends.
func (c *scenario) next() time.Time {
	next := c.p.NextPromise()
	sooner := func(t time.Time) {
		if t.After(c.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, t := range c.ends {
		sooner(t)
	}
	for _, t := range c.turns {
		sooner(t)
	}
	return next
}

func (c *scenario) goTo(t time.Time) {
	if t.Before(c.now) {
		c.fatal("at %s: it is %s already", short(t.Sub(noon)), short(c.now.Sub(noon)))
	}
	c.now, c.last = t, nil
	for _, id := range slices.SortedFunc(maps.Keys(c.ends), compareIDs) {
		if !c.ends[id].After(t) {
			c.end(id)
		}
	}
}

// plan plans unless nothing has happened since it last did, once by what the planner remembers and once from nothing:
// both must say the same of starts, promises and reasons (invariant 5).
func (c *scenario) plan() {
	if c.last != nil {
		return
	}
	if c.policy.Protected > 1 {
		c.p.open = true // a promise may have become able to move when another moved: from nothing that is not known
	}
	scratch := Load(c.p.Snapshot())
	scratch.Share, scratch.Started = fairShareOf(maps.Clone(c.used))
	scratch.lost = c.p.lost                                  // that nodes have changed is not in a snapshot
	c.p.Share, c.p.Started = fairShareOf(maps.Clone(c.used)) // what a plan counts is for that plan
	c.last = c.p.Plan(c.now)
	again := scratch.Plan(c.now)
	got, want := c.describe(c.p, c.last), c.describe(scratch, again)
	if !slices.Equal(got, want) {
		c.t.Errorf("%s: at %s, planned from what changed\n\t%s\nfrom nothing\n\t%s", c.name, short(c.now.Sub(noon)),
			strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	for _, s := range c.last.Starts {
		c.begin(s)
	}
	if !c.last.Bounded {
		c.planAgain(got)
	}
}

// planAgain plans as the daemon does each second: as nothing has happened, it must say the same, and start nothing.
func (c *scenario) planAgain(first []string) {
	c.p.Share, c.p.Started = fairShareOf(maps.Clone(c.used))
	plan := c.p.Plan(c.now)
	if len(plan.Starts) > 0 {
		c.t.Errorf("%s: at %s a second plan starts more: %v", c.name, short(c.now.Sub(noon)), plan.Starts)
	}
	if second := c.describe(c.p, c.last); !slices.Equal(first, second) {
		c.t.Errorf("%s: at %s a second plan says\n\t%s\nthe first\n\t%s", c.name, short(c.now.Sub(noon)),
			strings.Join(second, "\n\t"), strings.Join(first, "\n\t"))
	}
}

func (c *scenario) begin(s Start) {
	c.starts = append(c.starts, startAt{c.now, s})
	p := c.jobs[s.ID.Job]
	at := slices.Index(p.Indices, s.ID.Index)
	if at < 0 {
		c.fatal("at %s %s starts, which does not wait", short(c.now.Sub(noon)), s.ID)
	}
	p.Indices = slices.Delete(p.Indices, at, at+1)
	c.used[p.User] += float64(s.Shape.Slots) * s.Shape.RunLimit.Hours()
	for _, a := range s.Alloc {
		if n := c.real[a.Node]; n != nil && n.State() != nodes.Up {
			c.fatal("%s starts on %s, which is %s", s.ID, a.Node, n.State())
		}
	}
	c.hold(Running{ID: s.ID, Alloc: s.Alloc})
	length, given := c.runs[s.ID.Job]
	if !given {
		length = s.Shape.RunLimit
	}
	if end := c.now.Add(length); length > 0 && end.After(c.now) {
		c.ends[s.ID] = end
	}
}

// describe is what a planner says after a plan, in the words of a case, without what is expected.
func (c *scenario) describe(p *Planner, plan *Plan) (lines []string) {
	for _, s := range plan.Starts {
		lines = append(lines, fmt.Sprintf("start %s on %s", s.ID, showAlloc(&s)))
	}
	for _, r := range p.Promises() {
		if r.At.Sub(c.now) > 180*24*time.Hour {
			continue // for the end of what has no run limit
		}
		line := fmt.Sprintf("reserve %s at %s on", r.ID, short(r.At.Sub(noon)))
		for _, a := range r.Alloc {
			line += " " + string(a.Node)
		}
		lines = append(lines, line)
	}
	for _, w := range c.waits(p) {
		lines = append(lines, fmt.Sprintf("wait %d %s", w.job, showReasons(w.why)))
	}
	if plan.Bounded {
		lines = append(lines, "bounded")
	}
	return lines
}

// waiter is a job that waits, the first of its shape and reasons.
type waiter struct {
	job queue.JobID
	why []queue.Reason
}

func (c *scenario) waits(p *Planner) (out []waiter) {
	waits := p.Waits()
	seen := map[string]bool{}
	for _, id := range c.order {
		j := c.jobs[id]
		if j == nil || !p.Has(id) {
			continue
		}
		why := waits[*j.Shape].Reasons
		if more := p.WhyJob(id); len(more) > 0 {
			why = more
		}
		if key := fmt.Sprint(*j.Shape, showReasons(why)); len(why) > 0 && !seen[key] {
			seen[key] = true
			out = append(out, waiter{id, why})
		}
	}
	return out
}

func showReasons(why []queue.Reason) string {
	var kinds []string
	for _, r := range why {
		kinds = append(kinds, string(r.Kind))
	}
	return strings.Join(kinds, ",")
}

// checkRow compares a row of expectations with all that the plan of now says.
func (c *scenario) checkRow() {
	if len(c.row) == 0 {
		return
	}
	c.plan()
	got := c.describe(c.p, c.last)
	expected := Expect(c.p.Snapshot(), 1000, 0).Starts
	for i, line := range got {
		var id queue.JobID
		if n, _ := fmt.Sscanf(line, "wait %d", &id); n == 1 {
			if first := firstStart(expected, id); !first.IsZero() {
				got[i] += " ~" + short(first.Sub(noon))
			}
		}
	}
	if !slices.Equal(got, c.row) {
		c.t.Errorf("%s: at %s, got\n\t%s\nwant\n\t%s", c.name, short(c.now.Sub(noon)), strings.Join(got, "\n\t"), strings.Join(c.row, "\n\t"))
	}
	c.row, c.rows = nil, c.rows+1
}

func firstStart(starts map[queue.ElementID]time.Time, job queue.JobID) (first time.Time) {
	for id, at := range starts {
		if id.Job == job && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// checkStarts compares all starts of the story with its lines that have a time.
func (c *scenario) checkStarts() {
	var got, want []string
	rest := c.starts
	for _, line := range c.timed {
		words := strings.Fields(line)
		at := short(c.duration(words[0]))
		ids, where := words[2:], ""
		if i := slices.Index(words, "on"); i > 0 {
			ids, where = words[2:i], " on "+strings.Join(words[i+1:], " ")
		}
		for _, id := range ids {
			want = append(want, at+" start "+id+where)
			if len(rest) > 0 {
				s := fmt.Sprintf("%s start %s", short(rest[0].at.Sub(noon)), rest[0].start.ID)
				if where != "" {
					s += " on " + showAlloc(&rest[0].start)
				}
				got, rest = append(got, s), rest[1:]
			}
		}
	}
	for _, s := range rest {
		got = append(got, fmt.Sprintf("%s start %s on %s", short(s.at.Sub(noon)), s.start.ID, showAlloc(&s.start)))
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("%s: got\n\t%s\nwant\n\t%s", c.name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func short(d time.Duration) string {
	s := strings.TrimSuffix(d.String(), "0s")
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	if s == "" {
		return "0s"
	}
	return s
}

func showAlloc(start *Start) string {
	var words []string
	for _, a := range start.Alloc {
		w := string(a.Node)
		if len(start.Alloc) > 1 || start.Shape.MaxSlots > 0 {
			w += fmt.Sprintf(":%d", a.Slots)
		}
		for _, s := range a.Slices {
			w += fmt.Sprintf("/%d", s.Index)
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}
