package backfill

import (
	"math"
	"sort"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// Extension is for how long something that runs may go on.
type Extension struct {
	OK    bool
	Until time.Time // the latest end that is possible; the zero time where nothing bounds it
	Why   Obstacle  // what bounds it
	Node  nodes.ID  // where, if it is a matter of one node
}

// Obstacle is what keeps something that runs from going on.
type Obstacle uint8

// The obstacles.
const (
	Nothing        Obstacle = iota
	AnUnknown               // the planner does not know that it runs
	AReservation            // an advance reservation begins, or the one that it runs in ends
	APromise                // a start is promised there
	APromisedLimit          // a start is promised that counts against the same limit
)

// MayExtend says whether what runs as id may do so until then (the zero time: for ever), so that no promised start moves
// and no advance reservation is overlapped; without promises it asks only for the latter. Promises are those of the last
// plan. Nothing changes: Extend does that.
func (p *Planner) MayExtend(id queue.ElementID, until time.Time, promises bool) Extension {
	r := p.running[id]
	if r == nil || r.holds == nil {
		return Extension{Why: AnUnknown}
	}
	x, last := Extension{}, never
	for i := range r.holds {
		h := r.holds[i].host
		if h == nil {
			continue
		}
		if at, window := h.taken(&r.alloc[i], max(r.ends, p.now), p.promisedOn(h), promises, p.now); at < last {
			last, x.Node, x.Why = at, h.id, APromise
			if window {
				x.Why = AReservation
			}
		}
	}
	if promises {
		for _, l := range r.limits {
			if at := p.promisedUnder(l, r, last); at < last {
				last, x.Node, x.Why = at, "", APromisedLimit
			}
		}
	}
	x.Until = last.time(p.location)
	x.OK = instantOf(until) <= last
	return x
}

// Extend lets what runs as id go on until then, as MayExtend has allowed: as nothing that is promised is in its way, no
// promise is laid again, which Begin with a later end would do.
func (p *Planner) Extend(id queue.ElementID, until time.Time) {
	r := p.running[id]
	if r == nil {
		return
	}
	r.ends = p.unlimited(instantOf(until))
	for i := range r.holds {
		x := &r.holds[i]
		if x.host == nil {
			continue
		}
		x.host.line.remove(x, p.now)
		x.to = r.ends
		x.host.line.add(x, p.now)
		p.touch(x.host)
	}
}

// promisedOn are the holds of promises on h.
func (p *Planner) promisedOn(h *host) (out []*hold) {
	for _, list := range p.promises {
		for _, pr := range list {
			for i := range pr.holds {
				if pr.placed && pr.holds[i].host == h {
					out = append(out, &pr.holds[i])
				}
			}
		}
	}
	return out
}

// taken is the first time from `from` on at which a can no longer be held here as well: never where it always can. window says that an
// advance reservation is the reason, and promises whether promises count, too.
func (h *host) taken(a *nodes.Allocation, from instant, promised []*hold, promises bool, now instant) (at instant, window bool) {
	for _, x := range promised {
		h.line.remove(x, now)
	}
	bound := h.full(a, from, now)
	for _, x := range promised {
		h.line.add(x, now)
	}
	if !promises {
		return bound, true
	}
	at = h.full(a, from, now)
	return at, at == bound
}

// full is the first time from `from` on at which a does not fit beside what the timeline holds. Nothing that is really held is
// counted beyond it: it was held beside a until now.
func (h *host) full(a *nodes.Allocation, from, now instant) instant {
	h.line.trim(now)
	for i, t := h.line.find(from), from; ; i++ {
		n := h.over(t, t, -1).Clone()
		if n.Take(*a) != nil {
			return t
		}
		if t = h.line.next(i); t == never {
			return never
		}
	}
}

// promisedUnder is the first time before `last` from which r, if it went on until then, would take the place under l of a promised start;
// last where there is none.
func (p *Planner) promisedUnder(l *Limit, r *running, last instant) instant {
	from := max(r.ends, p.now)
	if l.budget {
		minutes := sort.Search(int(min((last-from)/instant(time.Minute), year/instant(time.Minute))), func(n int) bool {
			return !p.affords(l, nil, l.Of.Sum(r.alloc), from, from.plus(instant(n+1)*instant(time.Minute)))
		})
		if end := from.plus(instant(minutes) * instant(time.Minute)); end < last && end < from.plus(year) {
			return end
		}
		return last
	}
	first := last
	for _, pr := range l.promised {
		if pr.placed && pr.at >= from && pr.at < first && p.heldUnder(l, r, pr.at)+l.Of.Sum(r.alloc) > l.Max {
			first = pr.at
		}
	}
	return first
}

// heldUnder is what is held under l at a time to come, by what still runs then and by promised starts, but for r.
func (p *Planner) heldUnder(l *Limit, r *running, at instant) (held int) {
	for x := range l.running {
		if x != r && x.ends > at {
			held = plus(held, l.Of.Sum(x.alloc))
		}
	}
	for _, pr := range l.promised {
		if pr.placed && pr.at <= at && at < pr.at.plus(pr.group.class.length) {
			held = plus(held, p.least(l, pr.group.class))
		}
	}
	return held
}

// plus adds amounts of a measure, and stays at the most that there is.
func plus(a, b int) int { return a + min(b, math.MaxInt-a) }
