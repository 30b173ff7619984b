package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"fairslice/nodes"
)

// ReservationRequest is brsvadd: what an administrator asks for, mostly in the words given, because
// their meaning depends on the site's clock and units. Book.Reserve reads it.
type ReservationRequest struct {
	Name        string // -N; "" for one of the first user's or group's: user#0, user#1 …
	Users       []string
	Groups      []Group
	System      bool   // -s: for nobody, so that the hosts can be maintained
	Hosts       string // -m: names separated by blanks, or "all"
	Slots       int    // -n: slots, filled host by host in the order named; with WholeHosts hosts, 0 all of those named
	WholeHosts  bool   // -unit host
	GPU         string // -gpu: of each host named
	Begin, End  string // -b and -e, as ParseWhen reads them, and "+0" for now; the end as seen from the beginning
	Window      string // -t, as ParseTimeWindow reads it
	Description string // -d
	By          Identity
}

const (
	maxReservationName   = 39 // LSF's
	maxReservationUsers  = 1024
	maxReservationLength = 366 * 24 * time.Hour
	maxReservationYear   = 2200 // later times have no number of nanoseconds to travel as
)

// who checks names: of the reservation and of those who may use it.
func (q *ReservationRequest) who() error {
	switch n := len(q.Users) + len(q.Groups); {
	case q.System && n > 0:
		return errors.New("a reservation for the system has no users: leave out -u and -g, or -s")
	case !q.System && n == 0:
		return errors.New("no users: name those who may use it with -u or -g, or reserve for maintenance with -s")
	case n > maxReservationUsers:
		return fmt.Errorf("%d users and groups, at most %d: make a group of them", n, maxReservationUsers)
	}
	names := append([]string(nil), q.Users...)
	for _, g := range q.Groups {
		names = append(names, g.Name)
	}
	seen := map[string]bool{}
	for _, name := range names {
		switch {
		case name == "" || len(name) > maxWord || strings.ContainsAny(name, " \t#") || displayError(name) != nil:
			return fmt.Errorf("%s: Bad user or user group name", quoteInput(name))
		case seen[name]:
			return fmt.Errorf("%s: Bad user or user group name: named twice", quoteInput(name))
		}
		seen[name] = true
	}
	if len(q.Description) > MaxNameLength || displayError(q.Description) != nil {
		return fmt.Errorf("-d %s: Bad description: want one line of at most %d bytes", quoteInput(q.Description), MaxNameLength)
	}
	if q.Name == "" {
		return nil
	}
	return reservationNameError(q.Name)
}

// reservationNameError holds to LSF's rule, under which a name is never user#number.
func reservationNameError(name string) error {
	ok := len(name) <= maxReservationName
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		ok = ok && (letter || i > 0 && (c >= '0' && c <= '9' || c == '_' || c == '-'))
	}
	if !ok {
		return fmt.Errorf("-N %s: Bad reservation name: want a letter and then letters, digits, _ and -, at most %d in all",
			quoteInput(name), maxReservationName)
	}
	return nil
}

// when reads the times into r. now is in the site's time zone.
func (q *ReservationRequest) when(r *Reservation, now time.Time) error {
	switch {
	case q.Window != "" && (q.Begin != "" || q.End != ""):
		return errors.New("-t is for a recurring reservation, -b and -e are for one that happens once: give either")
	case q.Window != "":
		w, err := ParseTimeWindow(q.Window)
		r.Recurring = &w
		return err
	case q.Begin == "" || q.End == "":
		return errors.New("no time: give -b and -e for a reservation that happens once, -t for a recurring one")
	}
	begin, err := now, error(nil)
	if q.Begin != "+0" { // at once; a job that is to start at once needs no word for it, so ParseWhen has none
		begin, err = ParseWhen(q.Begin, now)
	}
	if err != nil {
		return fmt.Errorf("-b %w", err)
	}
	if begin.Year() > maxReservationYear {
		return fmt.Errorf("-b %s: Bad time specification: want a year up to %d", quoteInput(q.Begin), maxReservationYear)
	}
	end, err := ParseWhen(q.End, begin)
	switch {
	case err != nil:
		return fmt.Errorf("-e %w", err)
	case !begin.Before(end):
		return fmt.Errorf("-e %s: the reservation would end when it begins", quoteInput(q.End))
	case end.Sub(begin) > maxReservationLength:
		return fmt.Errorf("-b %s -e %s: the reservation would last longer than a year", quoteInput(q.Begin), quoteInput(q.End))
	}
	r.Begin, r.End = begin.UTC(), end.UTC()
	return nil
}

// sharesWanted is what a request asks of the hosts it names.
type sharesWanted struct {
	whole bool
	count int // slots in all, or whole hosts; 0 with whole is every one
	gpu   nodes.GPURequest
}

func (q *ReservationRequest) resources(unit int64) (w sharesWanted, err error) {
	w.whole, w.count = q.WholeHosts || q.System, q.Slots
	switch {
	case q.Slots < 0 || q.Slots > MaxSlots:
		return w, fmt.Errorf("-n %d: Bad processor count: want 1 to %d", q.Slots, MaxSlots)
	case q.GPU != "" && w.whole:
		return w, errors.New("-gpu: a whole host holds all of its GPUs: leave it out, or reserve slots")
	case w.count == 0 && !w.whole:
		return w, errors.New("-n: how many slots? (-unit host reserves whole hosts)")
	case q.GPU == "":
		return w, nil
	}
	opt, notes, err := ParseGPU(q.GPU, unit)
	switch {
	case err != nil:
		return w, err
	case opt.PerTask:
		return w, fmt.Errorf("-gpu %s: a reservation has no tasks: want num=N or fgpu=X of each host", quoteInput(q.GPU))
	case len(notes) > 0: // a job loses nothing by such a word; a reservation is made by hand, and should mean what it says
		return w, errors.New(notes[0])
	}
	w.gpu = opt.Request(1)
	return w, nil
}
