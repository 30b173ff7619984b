package engine

import (
	"slices"
	"testing"
	"time"

	"fairslice/backfill"
)

// What clocks do to the sums: nothing below 0, no hour longer than one, and nothing where nobody has looked.
func TestOddClocksAddNothingUp(t *testing.T) {
	hour := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(m int) time.Time { return hour.Add(time.Duration(m) * time.Minute) }
	one := func(at time.Time, minutes int64) GPUHour {
		return GPUHour{at, minutes * 60_000, minutes * 60_000 * 8, minutes * 60_000 * 4, minutes * 60_000 * 2}
	}
	for _, row := range []struct {
		what  string
		looks []int // in minutes
		want  []GPUHour
	}{
		{"over an hour's end", []int{55, 60, 65}, []GPUHour{one(hour, 5), one(hour.Add(time.Hour), 5)}},
		{"in one step over it", []int{55, 62}, []GPUHour{one(hour, 5), one(hour.Add(time.Hour), 2)}},
		{"nobody has looked for long", []int{0, 5, 16, 18}, []GPUHour{one(hour, 7)}},
		{"the clock is set back", []int{20, 25, 10, 15}, []GPUHour{one(hour, 10)}},
		{"an hour comes twice", []int{0, 10, 20, 30, 40, 50, 0, 10, 20, 30, 40, 50, 60, 61}, []GPUHour{one(hour, 60), one(hour.Add(time.Hour), 1)}},
	} {
		f := &fragmentation{now: backfill.Fragments{Capacity: 8, Free: 4, Lost: 2}}
		for _, m := range row.looks {
			f.count(at(m))
		}
		last := at(row.looks[len(row.looks)-1])
		got := f.unwritten(last)
		if !slices.Equal(got, row.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", row.what, got, row.want)
		}
		f.written(got, last)
		if again := f.unwritten(last); len(again) != 0 || len(f.hours) != len(row.want) {
			t.Errorf("%s: written, and then still %+v", row.what, again)
		}
		f.written(nil, last.Add(26*time.Hour))
		if len(f.hours) > 0 {
			t.Errorf("%s: a day later there still is %+v", row.what, f.hours)
		}
	}
}
