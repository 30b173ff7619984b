package queue

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseTimeWindow(t *testing.T) {
	for _, c := range []struct{ name, in, want, err string }{
		{"every day", "12:0-14:0", "12:0-14:0", ""},
		{"every day, hours alone", "8-22", "8:0-22:0", ""},
		{"every day over midnight", "22:30-6:15", "22:30-6:15", ""},
		{"once a week", "5:18:0-5:20:0", "5:18:0-5:20:0", ""},
		{"over the end of the week", "6:20:00-0:6:00", "6:20:0-0:6:0", ""},
		{"from midnight", "1:0:0-1:8:0", "1:0:0-1:8:0", ""},
		{"with blanks around", " 8:00-9:30 ", "8:0-9:30", ""},

		{"nothing", "", "", "want day:hour:minute"},
		{"one time", "12:00", "", "want day:hour:minute"},
		{"three times", "1-2-3", "", "3 for the hour"},
		{"times of two kinds", "8-22:00", "", "written alike"},
		{"too many numbers", "1:2:3:4-1:2:3:5", "", "want day:hour:minute"},
		{"hour 24", "8:00-24:00", "", "24 is no hour: want 0 to 23"},
		{"minute 60", "8:60-9:00", "", "60 is no minute: want 0 to 59"},
		{"day 7", "7:8:00-7:9:00", "", "7 is no day: want 0 to 6"},
		{"a name of a day", "fri:8:00-fri:9:00", "", "got fri for the day"},
		{"a sign", "+8:00-9:00", "", "got +8 for the hour"},
		{"a number missing", "8:-9:00", "", `got "" for the minute`},
		{"more than any number", "99999999999999999999:00-9:00", "", "is no hour"},
		{"no time at all", "8:00-8:00", "", "ends when it begins"},
	} {
		w, err := ParseTimeWindow(c.in)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.err)
		case c.err == "" && (err != nil || w.String() != c.want):
			t.Errorf("%s: got %s, %v, want %s", c.name, w, err, c.want)
		}
	}
}

func FuzzParseTimeWindow(f *testing.F) {
	for _, s := range []string{"12:0-14:0", "5:18:0-5:20:0", "8-22", "6:23:59-0:0:0", "-", "::-::", "24:00-0:60", "é-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := ParseTimeWindow(s)
		if err != nil {
			return
		}
		if again, err := ParseTimeWindow(w.String()); err != nil || again != w {
			t.Errorf("%q gives %s, which gives %+v, %v", s, w, again, err)
		}
		if p := w.Next(time.Unix(0, 0), time.UTC); !p.Begin.Before(p.End) {
			t.Errorf("%q has a window %v", s, p)
		}
	})
}

func TestTimeWindowsFollowTheWallClock(t *testing.T) {
	for _, c := range []struct{ name, zone, window, now, begin, end string }{
		{"later today", "UTC", "12:0-14:0", "2026-03-10T09:00:00Z", "2026-03-10T12:00:00Z", "2026-03-10T14:00:00Z"},
		{"its first moment is in it", "UTC", "12:0-14:0", "2026-03-10T12:00:00Z", "2026-03-10T12:00:00Z", "2026-03-10T14:00:00Z"},
		{"its end is not", "UTC", "12:0-14:0", "2026-03-10T14:00:00Z", "2026-03-11T12:00:00Z", "2026-03-11T14:00:00Z"},
		{"B23: a window from midnight begins at midnight", "UTC", "0:0-6:0", "2026-03-10T00:00:00Z", "2026-03-10T00:00:00Z", "2026-03-10T06:00:00Z"},
		{"B23: a window to midnight is over at midnight", "UTC", "18:0-0:0", "2026-03-11T00:00:00Z", "2026-03-11T18:00:00Z", "2026-03-12T00:00:00Z"},
		{"over midnight, before it", "UTC", "22:0-6:0", "2026-03-10T23:00:00Z", "2026-03-10T22:00:00Z", "2026-03-11T06:00:00Z"},
		{"over midnight, after it", "UTC", "22:0-6:0", "2026-03-11T05:59:59Z", "2026-03-10T22:00:00Z", "2026-03-11T06:00:00Z"},
		{"once a week, this week", "UTC", "5:18:0-5:20:0", "2026-03-10T09:00:00Z", "2026-03-13T18:00:00Z", "2026-03-13T20:00:00Z"},
		{"once a week, next week", "UTC", "1:8:0-1:9:0", "2026-03-10T09:00:00Z", "2026-03-16T08:00:00Z", "2026-03-16T09:00:00Z"},
		{"over the end of the week, on its last day", "UTC", "6:20:0-0:6:0", "2026-03-14T21:00:00Z", "2026-03-14T20:00:00Z", "2026-03-15T06:00:00Z"},
		{"over the end of the week, on its first", "UTC", "6:20:0-0:6:0", "2026-03-15T05:00:00Z", "2026-03-14T20:00:00Z", "2026-03-15T06:00:00Z"},
		{"nearly all of the week", "UTC", "1:8:0-1:7:0", "2026-03-16T06:30:00Z", "2026-03-09T08:00:00Z", "2026-03-16T07:00:00Z"},
		{"the zone's day counts, not that of UTC", "Asia/Tokyo", "1:8:0-1:9:0", "2026-03-15T22:00:00Z", "2026-03-16T08:00:00+09:00", "2026-03-16T09:00:00+09:00"},

		{"Berlin, spring: the hour is an hour shorter", "Europe/Berlin", "1:0-5:0", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00+01:00", "2026-03-29T05:00:00+02:00"},
		{"Berlin, spring: a beginning that does not exist", "Europe/Berlin", "2:30-5:0", "2026-03-29T00:00:00Z", "2026-03-29T03:00:00+02:00", "2026-03-29T05:00:00+02:00"},
		{"Berlin, spring: an end that does not exist", "Europe/Berlin", "1:30-2:30", "2026-03-29T00:00:00Z", "2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"Berlin, spring: all of it does not exist, so the next day", "Europe/Berlin", "2:15-2:45", "2026-03-29T00:00:00Z", "2026-03-30T02:15:00+02:00", "2026-03-30T02:45:00+02:00"},
		{"Berlin, spring: the week's does not exist, so the next week", "Europe/Berlin", "0:2:15-0:2:45", "2026-03-28T12:00:00Z", "2026-04-05T02:15:00+02:00", "2026-04-05T02:45:00+02:00"},
		{"Berlin, autumn: from the first of two", "Europe/Berlin", "2:30-4:0", "2026-10-25T00:00:00Z", "2026-10-25T02:30:00+02:00", "2026-10-25T04:00:00+01:00"},
		{"Berlin, autumn: to the first of two", "Europe/Berlin", "1:0-2:30", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00+02:00", "2026-10-25T02:30:00+02:00"},
		{"Berlin, autumn: the second of two is not in it", "Europe/Berlin", "2:15-2:45", "2026-10-25T01:30:00Z", "2026-10-26T02:15:00+01:00", "2026-10-26T02:45:00+01:00"},
		{"Berlin: each week at the same time of day", "Europe/Berlin", "1:8:0-1:9:0", "2026-03-29T12:00:00Z", "2026-03-30T08:00:00+02:00", "2026-03-30T09:00:00+02:00"},
		{"New York, spring", "America/New_York", "0:1:0-0:3:30", "2026-03-08T00:00:00-05:00", "2026-03-08T01:00:00-05:00", "2026-03-08T03:30:00-04:00"},
		{"New York, autumn", "America/New_York", "0:1:30-0:3:0", "2026-11-01T00:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-01T03:00:00-05:00"},
		{"Cairo: midnight does not exist", "Africa/Cairo", "0:0-6:0", "2026-04-23T20:00:00Z", "2026-04-24T01:00:00+03:00", "2026-04-24T06:00:00+03:00"},
		{"Lord Howe: half an hour of change", "Australia/Lord_Howe", "2:10-3:0", "2026-10-04T00:00:00+10:30", "2026-10-04T02:30:00+11:00", "2026-10-04T03:00:00+11:00"},
		{"Troll: two hours of change", "Antarctica/Troll", "1:30-4:0", "2026-03-29T00:00:00Z", "2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"},
		{"Apia: the Friday that never was", "Pacific/Apia", "5:8:0-5:9:0", "2011-12-29T12:00:00-10:00", "2012-01-06T08:00:00+14:00", "2012-01-06T09:00:00+14:00"},
		{"Apia: over that Friday", "Pacific/Apia", "4:20:0-6:9:0", "2011-12-29T12:00:00-10:00", "2011-12-29T20:00:00-10:00", "2011-12-31T09:00:00+14:00"},
	} {
		w, err := ParseTimeWindow(c.window)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		loc := zone(t, c.zone)
		p := w.Next(now, loc)
		begin, end := p.Begin.In(loc).Format(time.RFC3339), p.End.In(loc).Format(time.RFC3339)
		if begin != c.begin || end != c.end {
			t.Errorf("%s: %s from %s\n got  %s to %s\n want %s to %s", c.name, c.window, c.now, begin, end, c.begin, c.end)
		}
	}
}

// Every instant is in one window at most; windows have a length, and an order; and their clocks show what
// was asked for, where such a time exists.
func TestAnyTimeWindowInAnyZone(t *testing.T) {
	names := []string{"UTC", "Europe/Berlin", "America/New_York", "Africa/Cairo", "Africa/Casablanca", "Asia/Tehran", "America/Sao_Paulo",
		"Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia", "Asia/Kathmandu", "Asia/Gaza"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "zone")
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		w := TimeWindow{Daily: rapid.Bool().Draw(t, "daily")}
		w.Begin = rapid.IntRange(0, w.length()-1).Draw(t, "begin")
		w.End = rapid.IntRange(0, w.length()-1).Filter(func(n int) bool { return n != w.Begin }).Draw(t, "end")
		now := time.Unix(rapid.Int64Range(0, 2_200_000_000).Draw(t, "now"), 0)
		p := w.Next(now, loc)
		for range 20 {
			next := w.Next(p.End, loc)
			inside := p.Begin.Add(time.Duration(rapid.Int64Range(0, int64(p.End.Sub(p.Begin))-1).Draw(t, "inside")))
			switch {
			case !p.Begin.Before(p.End):
				t.Fatalf("%s: %s lasts from %s to %s", name, w, p.Begin, p.End)
			case !now.Before(p.End):
				t.Fatalf("%s: %s at %s is over at %s", name, w, now, p.End)
			case next.Begin.Before(p.End):
				t.Fatalf("%s: %s from %s overlaps that to %s", name, w, next.Begin, p.End)
			case w.Next(inside, loc) != p:
				t.Fatalf("%s: %s at %s is %v, not %v", name, w, inside, w.Next(inside, loc), p)
			}
			for _, edge := range []struct {
				at     time.Time
				minute int
			}{{p.Begin, w.Begin}, {p.End, w.End}} {
				local := edge.at.In(loc)
				shown := local.Hour()*60 + local.Minute()
				if !w.Daily {
					shown += int(local.Weekday()) * minutesOfDay
				}
				// A time that was skipped became the moment of the change.
				if change, _ := local.ZoneBounds(); shown != edge.minute && !change.Equal(edge.at) {
					t.Fatalf("%s: %s has an edge at %s", name, w, local)
				}
			}
			now, p = p.End, next
		}
	})
}
