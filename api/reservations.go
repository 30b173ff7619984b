package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

// AddReservation makes an advance reservation for users and groups that this machine knows.
func (u *users) AddReservation(ctx context.Context, req *connect.Request[pb.AddReservationRequest]) (*connect.Response[pb.AddReservationResponse], error) {
	by, err := u.user(ctx)
	if err != nil {
		return nil, err
	}
	if !by.Admin {
		return nil, wire.Errorf(Denied, "User permission denied")
	}
	q := wire.ToReservationRequest(req.Msg)
	q.By = by
	if err := u.people.resolve(&q); err != nil {
		return nil, err
	}
	id, err := u.engine.AddReservation(ctx, q)
	return answer(&pb.AddReservationResponse{Id: id}, err)
}

// resolve looks up everybody in q. As in LSF, a name in place of a user's may be a group's.
func (p *people) resolve(q *queue.ReservationRequest) error {
	var users []string
	groups := q.Groups
	for _, name := range q.Users {
		id, err := p.byName(name)
		var unknown *Error
		switch {
		case errors.As(err, &unknown) && unknown.Code == Denied:
			groups = append(groups, queue.Group{Name: name})
		case err != nil:
			return err
		default:
			users = append(users, id.User)
		}
	}
	for i := range groups {
		g, err := p.group(groups[i].Name)
		if err != nil {
			return err
		}
		groups[i] = g
	}
	q.Users, q.Groups = users, groups
	return nil
}

// Reservations lists reservations, by their begin.
func (u *users) Reservations(ctx context.Context, req *connect.Request[pb.ReservationsRequest]) (*connect.Response[pb.ReservationsResponse], error) {
	if _, err := u.user(ctx); err != nil {
		return nil, err
	}
	out := &pb.ReservationsResponse{TimeZone: u.engine.Describe().TimeZone}
	u.engine.View(func(v queue.View) {
		all := v.Book().Reservations
		ids := req.Msg.GetIds()
		if len(ids) == 0 {
			ids = slices.Sorted(maps.Keys(all))
		}
		listed := map[string]*pb.ListedReservation{}
		for _, id := range ids {
			switch r := all[id]; {
			case r == nil:
				out.NotFound = append(out.NotFound, id+": Bad reservation ID")
			case listed[id] == nil:
				listed[id] = fromReservation(v, r)
				out.Reservations = append(out.Reservations, listed[id])
			}
		}
		for _, j := range v.Book().Jobs {
			if l := listed[j.Spec.Reservation]; l != nil {
				countReservation(l, j)
			}
		}
	})
	for _, l := range out.Reservations {
		slices.Sort(l.Pending)
		slices.Sort(l.Running)
		slices.Sort(l.Suspended)
	}
	slices.SortStableFunc(out.Reservations, func(a, b *pb.ListedReservation) int { return cmp.Compare(a.Begin, b.Begin) })
	return answer(out, nil)
}

func fromReservation(v queue.View, r *queue.Reservation) *pb.ListedReservation {
	window, open := v.Window(r)
	return &pb.ListedReservation{
		Reservation: wire.FromReservation(r), Begin: wire.Nanos(window.Begin), End: wire.Nanos(window.End), Open: open,
		UsedSlots: make([]int32, len(r.Shares)),
	}
}

// countReservation adds what a job in the reservation waits for or holds.
func countReservation(l *pb.ListedReservation, j *queue.Job) {
	var pending, running, suspended bool
	for i := range j.Elements {
		e := &j.Elements[i]
		pending = pending || e.State.Pending()
		if !e.State.Live() || e.Attempt == nil {
			continue
		}
		stopped := e.State.Suspended()
		running, suspended = running || !stopped, suspended || stopped
		for _, a := range e.Attempt.Alloc {
			for k, share := range l.Reservation.Shares {
				if share.Node == string(a.Node) {
					l.UsedSlots[k] += int32(a.Slots)
				}
			}
		}
	}
	for _, list := range []struct {
		has bool
		ids *[]int64
	}{{pending, &l.Pending}, {running, &l.Running}, {suspended, &l.Suspended}} {
		if list.has {
			*list.ids = append(*list.ids, int64(j.ID))
		}
	}
}
