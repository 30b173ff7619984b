package engine

import (
	"context"
	"fmt"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// AddReservation makes an advance reservation and returns its ID when it is durable.
func (e *Engine) AddReservation(ctx context.Context, q queue.ReservationRequest) (id string, err error) {
	if !q.By.Admin {
		return "", refuse("User permission denied")
	}
	err = e.write(ctx, func(t *tx) error {
		r, err := t.e.book.Reserve(q, t.now.In(t.e.location()), t.e.cfg().MemoryUnit)
		if err != nil {
			return Refusal{err.Error()}
		}
		if err := t.emit(0, 0, q.By.User, &queue.ReservationAdded{Reservation: r}); err != nil {
			return err
		}
		id, t.wake = r.ID, true
		return nil
	})
	return id, err
}

// deleteReservation is brsvdel of one reservation. Its jobs stay: those that run go on, those that wait say why.
func (t *tx) deleteReservation(id string) (queue.Body, string) {
	if t.e.book.Reservations[id] == nil {
		return nil, fmt.Sprintf("%s: Bad reservation ID", id)
	}
	return &queue.ReservationDeleted{ID: id}, fmt.Sprintf("Reservation %s is being deleted", id)
}

// mayUseReservation refuses a job whose -U names what is not there, or not its owner's, or whose -m
// names hosts outside of it.
func (t *tx) mayUseReservation(s *queue.Spec, owner queue.Identity) error {
	if s.Reservation == "" {
		return nil
	}
	r := t.e.book.Reservations[s.Reservation]
	if r == nil || t.e.reservationOver(r, t.now) {
		return refuse("%s: Bad reservation ID", s.Reservation)
	}
	if !r.Admits(owner) {
		return refuse("%s: User permission denied: the reservation is for others", s.Reservation)
	}
	for _, w := range s.Hosts {
		if !w.Others && w.Name != "all" && r.Share(nodes.ID(w.Name)) == nil {
			return refuse("%s: the host is not in the reservation %s", w.Name, s.Reservation)
		}
	}
	return nil
}

func (e *Engine) reservationOver(r *queue.Reservation, now time.Time) bool {
	_, _, ok := r.Window(now, e.location())
	return !ok
}

// expiredReservations are those that nothing can be started in any more.
func (e *Engine) expiredReservations(now time.Time) []string {
	var out []string
	for id, r := range e.book.Reservations {
		if e.reservationOver(r, now) {
			out = append(out, id)
		}
	}
	return out
}

// expireReservations deletes those that are over. They are looked at again: one may have been deleted, and
// its name given anew.
func (t *tx) expireReservations(ids []string) error {
	for _, id := range ids {
		if r := t.e.book.Reservations[id]; r != nil && t.e.reservationOver(r, t.now) {
			if err := t.emit(0, 0, "", &queue.ReservationDeleted{ID: id}); err != nil {
				return err
			}
			t.wake = true
		}
	}
	return nil
}

// reservationGone says that the reservation which j asks for is no more, so that nothing of j can ever start.
func (e *Engine) reservationGone(j *queue.Job, now time.Time) bool {
	if j.Spec.Reservation == "" {
		return false
	}
	r := e.book.Reservations[j.Spec.Reservation]
	return r == nil || e.reservationOver(r, now)
}

// reservationBlocks says why the reservation that j asks for lets nothing start now: it is gone, or its
// window is not open. opens is when it will be; zero for one that is gone.
func (e *Engine) reservationBlocks(j *queue.Job, now time.Time) (why queue.Reason, opens time.Time, blocked bool) {
	switch {
	case j.Spec.Reservation == "":
		return queue.Reason{}, time.Time{}, false
	case e.reservationGone(j, now):
		return queue.Reason{Kind: queue.ReasonReservation, Text: "Specified advance reservation has expired or been deleted"}, time.Time{}, true
	}
	opens, _, _ = e.book.Reservations[j.Spec.Reservation].Window(now, e.location())
	if !opens.After(now) {
		return queue.Reason{}, time.Time{}, false
	}
	text := "Specified advance reservation is not open before " + opens.In(e.location()).Format("Jan _2 15:04")
	return queue.Reason{Kind: queue.ReasonReservation, Text: text}, opens, true
}
