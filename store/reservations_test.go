package store_test

import (
	"fmt"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/store/storetest"
)

func TestReservationsComeBack(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := newWriter(t, storetest.OpenURL(t, url))
	once := &queue.Reservation{ID: "ada#0", Users: []string{"ada"}, Creator: "root", Description: "a \"course\"", Begin: w.now.Add(time.Hour), End: w.now.Add(2 * time.Hour),
		Shares: []nodes.Allocation{{Node: "n1", Slots: 2, Memory: 1 << 30, Slices: []nodes.Slice{{UUID: "GPU-n1-0", Amount: 50, Memory: 2 << 30}}}}}
	weekly := &queue.Reservation{ID: "nights", Groups: []queue.Group{{Name: "staff", GID: 50}}, Creator: "root", Recurring: &queue.TimeWindow{Begin: 60, End: 30},
		Shares: []nodes.Allocation{{Node: "n1", Slots: 8, Exclusive: true}}}
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}), ev(0, 0, &queue.ReservationAdded{Reservation: once}))
	w.do(ev(0, 0, &queue.ReservationAdded{Reservation: weekly}))
	w.check()
	if rows := query(t, url, "SELECT id || ' ' || (begins IS NULL) FROM reservations ORDER BY id"); fmt.Sprint(rows) != "[ada#0 false nights true]" {
		t.Errorf("the rows are %v", rows)
	}
	w.do(ev(0, 0, &queue.ReservationDeleted{ID: "ada#0"}))
	w.check()
	// Deleted and made again under the same name, in one batch.
	w.do(ev(0, 0, &queue.ReservationDeleted{ID: "nights"}), ev(0, 0, &queue.ReservationAdded{Reservation: weekly}))
	w.do(ev(0, 0, &queue.ReservationAdded{Reservation: once}), ev(0, 0, &queue.ReservationDeleted{ID: "ada#0"}))
	w.check()
	if rows := query(t, url, "SELECT id FROM reservations"); fmt.Sprint(rows) != "[nights]" {
		t.Errorf("the rows are %v", rows)
	}
	b := w.batch()
	b.Events = nil
	b.Reservations = map[string]*queue.Reservation{"bad": {ID: "bad", Begin: w.now, End: w.now}}
	if err := w.s.Commit(t.Context(), b); err == nil {
		t.Error("a reservation that ends when it begins was stored")
	}
}
