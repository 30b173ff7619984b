package backfill

// Limit bounds what several jobs, or the elements of one, hold together. The planner counts what runs.
type Limit struct {
	Max      int  // slots, or elements
	Elements bool // counts elements, not slots

	used     int
	promised []*promise // promised starts under this limit
}

func (l *Limit) amount(slots int) int {
	if l.Elements {
		return 1
	}
	return slots
}

// left is what may still be held until ends: whoever ends after a promised start leaves it what it needs.
func (l *Limit) left(except *promise, ends instant) int {
	left := l.Max - l.used
	for _, pr := range l.promised {
		if pr != except && pr.at < ends {
			left -= l.amount(pr.group.class.shape.Slots)
		}
	}
	return left
}

// withinLimits says whether one more element of g may run until ends.
func (g *group) withinLimits(ends instant) bool {
	for _, l := range g.limits {
		if l.left(g.promise, ends) < l.amount(g.class.shape.Slots) {
			return false
		}
	}
	return true
}

func count(limits []*Limit, slots, sign int) {
	for _, l := range limits {
		l.used += sign * l.amount(slots)
	}
}
