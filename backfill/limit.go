package backfill

import (
	"fmt"

	"fairslice/nodes"
	"fairslice/queue"
)

// Limit bounds what several jobs, or the elements of one, hold together. The planner counts what runs.
type Limit struct {
	Max int // of what Of says
	Of  Measure
	// Name is how reasons call the limit; "" for "A limit of 8".
	Name string

	budget  bool // see Allow: what follows, but for promised, is not used then
	allowed []allowance

	used     int
	running  map[*running]struct{}
	promised []*promise // promised starts under this limit
}

// Measure is what a limit counts.
type Measure uint8

// The measures. Memory (bytes), fGPU and whole GPUs (in hundredths, as fGPU) are those of allocations: before one is found, the
// least that it can be counts.
const (
	OfSlots Measure = iota
	OfElements
	OfMemory
	OfFGPU
	OfGPUs
)

// Sum is how much of it an allocation holds; an element holds one element.
func (m Measure) Sum(alloc []nodes.Allocation) int {
	if m == OfElements {
		return 1
	}
	n := 0
	for i := range alloc {
		switch a := &alloc[i]; m {
		case OfSlots:
			n += a.Slots
		case OfMemory:
			n += int(a.Memory)
		case OfFGPU:
			n += int(a.FGPU())
		case OfGPUs:
			n += 100 * a.WholeGPUs()
		}
	}
	return n
}

// Words prints an amount of it.
func (m Measure) Words(n int) string {
	switch m {
	case OfMemory:
		return queue.FormatMemory(int64(n))
	case OfFGPU, OfGPUs:
		return nodes.Amount(n).String()
	}
	return fmt.Sprint(n)
}

// Least is how much of it an element of s holds at least, without knowing where; whole is the least that a whole GPU counts.
func (m Measure) Least(s *queue.Shape, whole nodes.Amount) int {
	hosts := 1
	if s.PerHost > 0 {
		hosts = (s.Slots + s.PerHost - 1) / s.PerHost
	}
	switch m {
	case OfSlots:
		return s.Slots
	case OfMemory:
		if s.Host.Memory > queue.MaxMemory/int64(hosts) {
			return int(queue.MaxMemory) // more than there is, and no overflow
		}
		return hosts * int(s.Host.Memory)
	case OfFGPU:
		g := &s.Host.GPU
		switch {
		case g.Memory > 0:
			return hosts * max(g.Count, 1) // some part of each
		case g.Whole > 0:
			return hosts * g.Whole * int(whole)
		}
		return hosts * int(g.Amount)
	case OfGPUs:
		return hosts * s.Host.GPU.Whole * 100
	}
	return 1
}

// least is how much of l's measure an element of c holds at least.
func (p *Planner) least(l *Limit, c *class) int {
	if l.Of == OfSlots {
		return c.shape.Slots
	}
	whole := nodes.Amount(0)
	if l.Of == OfFGPU && c.shape.Host.GPU.Whole > 0 {
		whole = p.smallestGPU(c)
	}
	return l.Of.Least(c.shape, whole)
}

// smallestGPU is what the smallest GPU counts, of all hosts that could run c if they were empty.
func (p *Planner) smallestGPU(c *class) nodes.Amount {
	if c.smallestAt == p.inventory+1 {
		return c.smallest
	}
	c.smallest, c.smallestAt = 0, p.inventory+1
	need, cands := c.host, p.candidatesOf(c)
	if c.spread {
		need, _ = c.slotOf()
	}
	for _, h := range p.hosts {
		if !cands.has(h) || !h.emptied().Fits(&need) {
			continue
		}
		for i := range h.node.GPUs {
			if x := h.node.GPUs[i].Capacity; c.smallest == 0 || x < c.smallest {
				c.smallest = x
			}
		}
	}
	return c.smallest
}

// left is what may still be held from..to, but for one promise: what runs counts until its end, and whoever ends after a
// promised start leaves it what it needs. At a time to come only what still runs then counts. In a plan, promises that
// have not been met yet are of those who come later in order, and do not count.
func (p *Planner) left(l *Limit, except *promise, from, to instant) int {
	left := l.Max - l.used
	if from > p.now {
		for r := range l.running {
			if r.ends <= from {
				left += l.Of.Sum(r.alloc)
			}
		}
	}
	for _, pr := range l.promised {
		if pr != except && pr.seen == p.plans && pr.at < to && pr.at.plus(pr.group.class.length) > from {
			left -= p.least(l, pr.group.class)
		}
	}
	return left
}

// withinLimits says whether one more element of g may run from..to.
func (p *Planner) withinLimits(g *group, from, to instant) bool {
	for _, l := range g.limits {
		if l.budget {
			if !p.affords(l, g.promise, p.least(l, g.class), from, p.until(g, from)) {
				return false
			}
		} else if p.left(l, g.promise, from, to) < p.least(l, g.class) {
			return false
		}
	}
	return true
}

// mayStart says whether its limits let one more element of g run from now on.
func (p *Planner) mayStart(g *group) bool {
	return p.withinLimits(g, p.now, p.now.plus(g.class.length))
}

// admits says whether the limits of g let its head element start now on this allocation, which may hold more than the least.
// Where they do not, the element is not promised that start either: in a later plan it is, if others then hold that place.
func (p *Planner) admits(g *group, alloc []nodes.Allocation) bool {
	for _, l := range g.limits {
		if l.budget {
			if !p.affords(l, g.promise, l.Of.Sum(alloc), p.now, p.until(g, p.now)) {
				g.over = p.plans
				return false
			}
		} else if l.Of == OfMemory || l.Of == OfFGPU {
			if l.Of.Sum(alloc) > p.left(l, g.promise, p.now, p.now.plus(g.class.length)) {
				g.over = p.plans
				return false
			}
		}
	}
	return true
}

// keptOut is why a limit keeps out an element of g now; ok is false when none does.
func (p *Planner) keptOut(g *group) (why queue.Reason, ok bool) {
	for _, l := range g.limits {
		if l.budget {
			if !p.affords(l, g.promise, p.least(l, g.class), p.now, p.until(g, p.now)) {
				return l.unaffordable(), true
			}
			continue
		}
		if p.left(l, g.promise, p.now, p.now.plus(g.class.length)) >= p.least(l, g.class) {
			continue
		}
		kind, name := queue.ReasonQueueLimit, "A limit of "+l.Of.Words(l.Max)
		if l.Name != "" {
			kind, name = queue.ReasonLimit, l.Name
		}
		return queue.Reason{Kind: kind, Text: fmt.Sprintf("%s is reached: %s run, and starts are promised under it", name, l.Of.Words(l.used))}, true
	}
	if g.over != 0 && g.over == p.plans {
		for _, l := range g.limits {
			if l.budget {
				return queue.Reason{Kind: queue.ReasonBudget, Text: l.Name + ": where it fits it would take more than is left"}, true
			}
			if l.Name != "" && (l.Of == OfMemory || l.Of == OfFGPU) {
				return queue.Reason{Kind: queue.ReasonLimit, Text: fmt.Sprintf("%s: %s in use, and where it fits it would take more than is left", l.Name, l.Of.Words(l.used))}, true
			}
		}
	}
	return queue.Reason{}, false
}

// count counts r under its limits, or no more.
func (r *running) count(sign int) {
	for _, l := range r.limits {
		if l.budget {
			continue // Allow says what is left
		}
		l.used += sign * l.Of.Sum(r.alloc)
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
