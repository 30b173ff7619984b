package store_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"fairslice/accounting"
	"fairslice/store"
	"fairslice/store/storetest"
)

// What a restart reads of what was spent is what the events say, to the millisecond: wherever the roll-up is, wherever the cuts
// are, and for the queues as well.
func TestSpendingIsThatOfTheCharges(t *testing.T) {
	for seed := range uint64(3) {
		s := storetest.Open(t)
		m := newMonth(newWriter(t, s), seed)
		begins := m.now
		for range 200 {
			m.step()
			if m.rnd.IntN(20) == 0 {
				if err := s.RollUp(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		span := m.now.Sub(begins)
		at := func(part float64) time.Time { return begins.Add(time.Duration(part * float64(span))) }
		for name, cuts := range map[string][]time.Time{
			"none":            nil,
			"hours":           {time.Unix(0, 0), at(.3).Truncate(time.Hour), at(.6).Truncate(time.Hour), at(2).Truncate(time.Hour)},
			"half hours":      {at(.25).Truncate(time.Hour).Add(30 * time.Minute), at(.5).Truncate(time.Hour).Add(15 * time.Minute), at(.5).Truncate(time.Hour).Add(45 * time.Minute)},
			"any millisecond": {at(.1), at(.33).Add(time.Millisecond), at(.34), at(.9), at(1)},
		} {
			got, seq, err := s.Spending(t.Context(), cuts)
			if err != nil {
				t.Fatal(err)
			}
			if seq != m.book.LastSeq {
				t.Errorf("up to event %d, want %d", seq, m.book.LastSeq)
			}
			want := accounting.NewSpending(cuts)
			n := 0
			if err := s.Charges(t.Context(), time.Time{}, time.Time{}, func(c store.Charged) error {
				n++
				want.Add(accounting.Leaf{Account: c.Account, User: c.User}, c.Queue, c.FGPU, c.GPUs, c.Began, c.Ended)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if n < 20 || !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d, cuts at %s, %d charges:\ngot  %v\nwant %v", seed, name, n, got, want)
			}
		}
	}
}

func TestSpendingOfAnEmptyLedger(t *testing.T) {
	s := storetest.Open(t)
	got, seq, err := s.Spending(t.Context(), []time.Time{time.Unix(7200, 0), time.Unix(1, 0)})
	if err != nil || seq != 0 || !slices.Equal(got.Cuts(), []int64{1000, 7_200_000}) || len(got.ByQueue()) != 0 {
		t.Errorf("%v, %d, %v", got, seq, err)
	}
}
