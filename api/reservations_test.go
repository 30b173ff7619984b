package api_test

import (
	"fmt"
	"os/user"
	"reflect"
	"strconv"
	"testing"
	"time"

	"fairslice/api"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// The tests' user is the daemon's, and so an administrator.
func TestAReservationIsForThoseWhomTheMachineKnows(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u := s.users(s.unix())
	group, err := user.LookupGroup("tty") // every system has it, and no user of this name
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(group.Gid)
	if err != nil {
		t.Fatal(err)
	}
	tty := []queue.Group{{Name: "tty", GID: gid}}
	ctx := deadline(t)
	id, err := u.AddReservation(ctx, queue.ReservationRequest{Users: []string{me(t)}, Groups: []queue.Group{{Name: "tty", GID: 77}}, Slots: 3, Hosts: "n1"})
	got := s.engine.reserved
	if err != nil || id != "alice#0" || got.By.User != me(t) || !got.By.Admin || got.Slots != 3 || !reflect.DeepEqual(got.Users, []string{me(t)}) {
		t.Errorf("%q, %v, asked %+v", id, err, got)
	}
	if !reflect.DeepEqual(got.Groups, tty) {
		t.Errorf("the group is %+v", got.Groups)
	}
	_, err = u.AddReservation(ctx, queue.ReservationRequest{Users: []string{"tty", me(t)}})
	if got = s.engine.reserved; err != nil || !reflect.DeepEqual(got.Users, []string{me(t)}) || !reflect.DeepEqual(got.Groups, tty) {
		t.Errorf("a group in place of a user: %v, %+v", err, got)
	}
	for _, q := range []queue.ReservationRequest{{Users: []string{"no-such-user"}}, {Groups: []queue.Group{{Name: "no-such-group"}}}, {Users: []string{""}}} {
		if _, err := u.AddReservation(ctx, q); code(err) != wire.Invalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestAnOrdinaryUserReservesNothing(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u := s.users(s.tls(api.UserToken, "daemon"))
	if _, err := u.AddReservation(deadline(t), queue.ReservationRequest{Users: []string{"daemon"}}); code(err) != wire.Denied || s.engine.reserved.Users != nil {
		t.Errorf("%v, asked %+v", err, s.engine.reserved)
	}
	if _, err := u.Reservations(deadline(t)); err != nil {
		t.Errorf("but everybody sees them: %v", err)
	}
}

func TestReservationsAreListedWithWhatTheirJobsHold(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	s.engine.book.Reservations = map[string]*queue.Reservation{
		"a#0": {ID: "a#0", Users: []string{"a"}, Begin: time.Unix(300, 0), End: time.Unix(400, 0), Shares: []nodes.Allocation{{Node: "n1", Slots: 4}, {Node: "n2", Slots: 4}}},
		"b#0": {ID: "b#0", Begin: time.Unix(300, 0), End: time.Unix(400, 0), Shares: []nodes.Allocation{{Node: "n1", Slots: 4}}},
	}
	for id, state := range map[queue.JobID]queue.State{1: queue.Run, 2: queue.Pend, 3: queue.USusp, 4: queue.Done} {
		s.engine.change(id, func(j *queue.Job) {
			j.Spec.Reservation = "a#0"
			j.Elements[0] = queue.Element{State: state, Attempt: &queue.Attempt{Alloc: []nodes.Allocation{{Node: "n2", Slots: 2}}}}
		})
	}
	u := s.users(s.unix())
	res, err := u.Reservations(deadline(t))
	if err != nil || len(res.Reservations) != 2 {
		t.Fatalf("%v, %v", res, err)
	}
	a := res.Reservations[0]
	if a.Reservation.Id != "a#0" || !a.Open || a.Begin == 0 || a.End <= a.Begin ||
		!reflect.DeepEqual(a.UsedSlots, []int32{0, 4}) || fmt.Sprint(a.Pending, a.Running, a.Suspended) != "[2] [1] [3]" {
		t.Errorf("got %v", a)
	}
	res, err = u.Reservations(deadline(t), "b#0", "x", "b#0")
	if err != nil || len(res.Reservations) != 1 || !reflect.DeepEqual(res.NotFound, []string{"x: Bad reservation ID"}) {
		t.Errorf("%v, %v", res, err)
	}
}
