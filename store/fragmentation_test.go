package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairslice/queue"
	"fairslice/reports"
	"fairslice/store"
	"fairslice/store/storetest"
)

// Sums are written again as they grow, by two leaders one after the other; the report has each once. By hand: an hour of 4
// fGPU of which 1 is free and 0.5 lost, and on the next day a half of one, half of it by each leader.
func TestUtilisationAddsUpWhatLeadersHaveSeen(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	w := newWriter(t, s)
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	hour := func(at time.Time, minutes int64) store.GPUHour {
		ms := minutes * 60_000
		return store.GPUHour{Hour: at, Millis: ms, Capacity: 400 * ms, Free: 100 * ms, Lost: 50 * ms}
	}
	write := func(list ...store.GPUHour) error {
		return s.Commit(t.Context(), &store.Batch{Term: w.term, GPUHours: list})
	}
	first, second := day.Add(13*time.Hour), day.Add(37*time.Hour)
	for _, list := range [][]store.GPUHour{{hour(first, 59)}, {hour(first, 60), hour(second, 15)}, {hour(first, 60), hour(second, 15)}, {hour(second, 14)}} {
		if err := write(list...); err != nil {
			t.Fatal(err)
		}
	}
	old := w.term
	lease, err := s.Campaign(t.Context(), "test", time.Minute) // the same holder: its next term
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(t.Context())
	if err := s.Commit(t.Context(), &store.Batch{Term: old, GPUHours: []store.GPUHour{hour(second, 45)}}); !errors.Is(err, store.ErrStaleTerm) {
		t.Errorf("the old leader wrote: %v", err)
	}
	w.term = lease.Term()
	if err := write(hour(second, 15)); err != nil {
		t.Fatal(err)
	}
	if err := write(store.GPUHour{Hour: second, Millis: 3_600_001}); err == nil {
		t.Error("an hour of more than an hour was stored")
	}
	if err := write(store.GPUHour{Hour: second.Add(time.Hour), Millis: 1, Capacity: 5, Free: 4, Lost: 5}); err == nil {
		t.Error("more was lost than was free")
	}
	for _, row := range []struct {
		by       reports.By
		from, to time.Time
		want     []string
	}{
		{reports.ByDay, day, day.AddDate(0, 0, 2), []string{
			"2026-03-01 4.2 4.000 3.000 75.0 1.000 0.500 12.5", "2026-03-02 2.1 2.000 1.500 75.0 0.500 0.250 12.5", "TOTAL 3.1 6.000 4.500 75.0 1.500 0.750 12.5"}},
		{reports.ByMonth, day, day.AddDate(0, 1, 0), []string{"2026-03 0.2 6.000 4.500 75.0 1.500 0.750 12.5", "TOTAL 0.2 6.000 4.500 75.0 1.500 0.750 12.5"}},
		{reports.ByDay, first.Add(time.Hour), day.AddDate(0, 0, 1), []string{"2026-03-01 0.0      ", "TOTAL 0.0      "}},
		// Until now: what of the day is still to come is not missing.
		{reports.ByDay, second, day.AddDate(0, 0, 30), []string{"2026-03-02 100.0 2.000 1.500 75.0 0.500 0.250 12.5", "TOTAL 100.0 2.000 1.500 75.0 0.500 0.250 12.5"}},
	} {
		q := reports.Query{Kind: reports.Utilisation, By: row.by, Period: reports.Period{From: row.from, To: row.to}}
		if err := q.Check(); err != nil {
			t.Fatal(err)
		}
		now := day.AddDate(0, 2, 0)
		if row.from.Equal(second) {
			now = second.Add(30 * time.Minute)
		}
		table, err := s.Report(t.Context(), q, now)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range table.Rows {
			got = append(got, strings.Join(r, " "))
		}
		if fmt.Sprint(got) != fmt.Sprint(row.want) {
			t.Errorf("by %s:\n got %s\nwant %s", row.by, strings.Join(got, "\n     "), strings.Join(row.want, "\n     "))
		}
	}
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}))
	for _, kind := range []reports.Kind{reports.GPUs, reports.Nodes} {
		q := reports.Query{Kind: kind, Period: reports.Period{From: day, To: day.AddDate(0, 0, 2)}}
		if err := q.Check(); err != nil {
			t.Fatal(err)
		}
		table, err := s.Report(t.Context(), q, day.AddDate(0, 2, 0))
		if err != nil {
			t.Fatal(err)
		}
		if want := "1.500 of 6.000 fGPU-hours were free, and 0.750 of these (12.5 % of all) lost to fragmentation"; !strings.Contains(strings.Join(table.Notes, "\n"), want) {
			t.Errorf("%s: %q", kind, table.Notes)
		}
	}
}
