package queue

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"fairslice/nodes"
)

// Reservation keeps resources of nodes for some users, once or again and again (LSF's advance
// reservation). While its window is open, jobs submitted with its ID (bsub -U) may use its shares and
// no others may; outside of it, it holds nothing.
//
// When it is made, no share takes more than its node has beside the shares of the reservations that are
// open at the same time. A node that comes back smaller later can break this; whoever plans with shares
// must not trust them blindly.
type Reservation struct {
	ID          string   `json:"id"`
	Users       []string `json:"users,omitempty"`  // who may use it
	Groups      []Group  `json:"groups,omitempty"` // and whose members; no users and no groups: nobody (maintenance)
	Creator     string   `json:"creator"`
	Description string   `json:"description,omitempty"`

	// Begin and End are the one window [Begin, End) of a reservation that happens once; zero with Recurring.
	Begin time.Time `json:"begin,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// Recurring is the window of a recurring one, in the wall-clock time of the site; nil without.
	Recurring *TimeWindow `json:"recurring,omitempty"`

	// Shares are what it holds, one for each node. With Exclusive it is the whole node.
	Shares []nodes.Allocation `json:"shares"`
}

// Group is a Unix group, by the number it had when it was named: numbers are what a job's owner has.
type Group struct {
	Name string `json:"name"`
	GID  int    `json:"gid"`
}

// Period is the time [Begin, End).
type Period struct{ Begin, End time.Time }

// Contains says that t is in the period: the beginning is, the end is not.
func (p Period) Contains(t time.Time) bool { return !t.Before(p.Begin) && t.Before(p.End) }

// Admits says whether jobs of this user may use the reservation.
func (r *Reservation) Admits(id Identity) bool {
	if slices.Contains(r.Users, id.User) {
		return true
	}
	return slices.ContainsFunc(r.Groups, func(g Group) bool { return g.GID == id.GID || slices.Contains(id.Groups, g.GID) })
}

// Share is what the reservation holds on a node; nil when nothing.
func (r *Reservation) Share(node nodes.ID) *nodes.Allocation {
	for i := range r.Shares {
		if r.Shares[i].Node == node {
			return &r.Shares[i]
		}
	}
	return nil
}

// Slots is the sum of the shares' slots.
func (r *Reservation) Slots() int {
	n := 0
	for _, a := range r.Shares {
		n += a.Slots
	}
	return n
}

// Window is the window that is open at now, or else the next one; ok is false when there is none any
// more. loc is the site's time zone, which recurring windows are in.
func (r *Reservation) Window(now time.Time, loc *time.Location) (begin, end time.Time, ok bool) {
	if r.Recurring != nil {
		p := r.Recurring.Next(now, loc)
		return p.Begin, p.End, true
	}
	return r.Begin, r.End, now.Before(r.End)
}

// Open says that a window of the reservation contains now.
func (r *Reservation) Open(now time.Time, loc *time.Location) bool {
	begin, end, ok := r.Window(now, loc)
	return ok && Period{begin, end}.Contains(now)
}

// Windows are those that have a moment in common with [from, to), whole and in order.
func (r *Reservation) Windows(from, to time.Time, loc *time.Location) []Period {
	var out []Period
	for from.Before(to) {
		begin, end, ok := r.Window(from, loc)
		if !ok || !begin.Before(to) {
			break
		}
		out = append(out, Period{begin, end})
		from = end
	}
	return out
}

// valid says what is wrong with a reservation that comes as an event or a row.
func (r *Reservation) valid() error {
	switch {
	case r.ID == "":
		return errors.New("a reservation has no name")
	case r.Recurring == nil && !r.Begin.Before(r.End):
		return fmt.Errorf("reservation %s ends at %s and begins at %s", r.ID, r.End, r.Begin)
	case r.Recurring != nil && (!r.Begin.IsZero() || !r.End.IsZero()):
		return fmt.Errorf("reservation %s is recurring and happens once", r.ID)
	case r.Recurring != nil && r.Recurring.valid() != nil:
		return fmt.Errorf("reservation %s: %w", r.ID, r.Recurring.valid())
	case len(r.Shares) == 0:
		return fmt.Errorf("reservation %s holds nothing", r.ID)
	}
	return nil
}
