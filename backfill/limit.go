package backfill

// Limit bounds what several jobs, or the elements of one, hold together. The planner counts what runs.
type Limit struct {
	Max      int  // slots, or elements
	Elements bool // counts elements, not slots

	used     int
	running  map[*running]struct{}
	promised []*promise // promised starts under this limit
}

func (l *Limit) amount(slots int) int {
	if l.Elements {
		return 1
	}
	return slots
}

// left is what may still be held from..to, but for one promise: what runs counts until its end, and whoever ends after a
// promised start leaves it what it needs. At a time to come only what still runs then counts. In a plan, promises that
// have not been met yet are of those who come later in order, and do not count.
func (p *Planner) left(l *Limit, except *promise, from, to instant) int {
	left := l.Max - l.used
	if from > p.now {
		for r := range l.running {
			if r.ends <= from {
				left += l.amount(r.slots)
			}
		}
	}
	for _, pr := range l.promised {
		if pr != except && pr.seen == p.plans && pr.at < to && pr.at.plus(pr.group.class.length) > from {
			left -= l.amount(pr.group.class.shape.Slots)
		}
	}
	return left
}

// withinLimits says whether one more element of g may run from..to.
func (p *Planner) withinLimits(g *group, from, to instant) bool {
	for _, l := range g.limits {
		if p.left(l, g.promise, from, to) < l.amount(g.class.shape.Slots) {
			return false
		}
	}
	return true
}

// mayStart says whether its limits let one more element of g run from now on.
func (p *Planner) mayStart(g *group) bool {
	return p.withinLimits(g, p.now, p.now.plus(g.class.length))
}

// count counts r under its limits, or no more.
func (r *running) count(sign int) {
	for _, l := range r.limits {
		l.used += sign * l.amount(r.slots)
		if sign < 0 {
			delete(l.running, r)
			continue
		}
		if l.running == nil {
			l.running = map[*running]struct{}{}
		}
		l.running[r] = struct{}{}
	}
}
