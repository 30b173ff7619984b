package queue

import (
	"testing"
	"time"
	_ "time/tzdata" // the tests must know the zones on any machine
)

func zone(t testing.TB, name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestParseWhen(t *testing.T) {
	for _, c := range []struct {
		name, zone, now, in, want, err string
	}{
		{"later today", "UTC", "2026-03-10 12:00:00", "18:30", "2026-03-10T18:30:00Z", ""},
		{"this very minute", "UTC", "2026-03-10 12:00:00", "12:00", "2026-03-10T12:00:00Z", ""},
		{"already past, so tomorrow", "UTC", "2026-03-10 12:00:01", "12:00", "2026-03-11T12:00:00Z", ""},
		{"tomorrow is next year", "UTC", "2026-12-31 12:00:00", "9:05", "2027-01-01T09:05:00Z", ""},
		{"a day of this month", "UTC", "2026-03-10 12:00:00", "11:9:00", "2026-03-11T09:00:00Z", ""},
		{"a day that is past, so next month", "UTC", "2026-03-10 12:00:00", "9:9:00", "2026-04-09T09:00:00Z", ""},
		{"the 31st where this month has none", "UTC", "2026-02-10 12:00:00", "31:0:00", "2026-03-31T00:00:00Z", ""},
		{"the 30th after January's", "UTC", "2026-01-30 12:00:00", "30:0:00", "2026-03-30T00:00:00Z", ""},
		{"a month and day", "UTC", "2026-03-10 12:00:00", "12:24:18:00", "2026-12-24T18:00:00Z", ""},
		{"a date that is past, so next year", "UTC", "2026-03-10 12:00:00", "1:2:3:04", "2027-01-02T03:04:00Z", ""},
		{"a leap day waits", "UTC", "2026-03-10 12:00:00", "2:29:0:00", "2028-02-29T00:00:00Z", ""},
		{"eight years around 2100", "UTC", "2096-03-10 12:00:00", "2:29:0:00", "2104-02-29T00:00:00Z", ""},
		{"with a year", "UTC", "2026-03-10 12:00:00", "2027:1:1:0:00", "2027-01-01T00:00:00Z", ""},
		{"minutes from now", "UTC", "2026-03-10 12:00:30", "+5", "2026-03-10T12:05:30Z", ""},
		{"hours from now", "UTC", "2026-03-10 12:00:00", "+1:30", "2026-03-10T13:30:00Z", ""},
		{"the site's zone counts", "Europe/Berlin", "2026-07-01 12:00:00", "18:00", "2026-07-01T18:00:00+02:00", ""},
		{"skipped by summer time: the moment of the change", "Europe/Berlin", "2026-03-29 00:00:00", "2:30", "2026-03-29T03:00:00+02:00", ""},
		{"skipped and past: tomorrow", "Europe/Berlin", "2026-03-29 12:00:00", "2:30", "2026-03-30T02:30:00+02:00", ""},
		{"twice in autumn: the first", "Europe/Berlin", "2026-10-25 00:00:00", "2:30", "2026-10-25T02:30:00+02:00", ""},
		{"half an hour of change", "Australia/Lord_Howe", "2026-10-04 00:00:00", "2:10", "2026-10-04T02:30:00+11:00", ""},
		{"a whole day skipped", "Pacific/Apia", "2011-12-29 12:00:00", "30:8:00", "2011-12-31T00:00:00+14:00", ""},
		{"from now crosses the change", "Europe/Berlin", "2026-03-29 01:30:00", "+60", "2026-03-29T03:30:00+02:00", ""},

		{"a year that is past", "UTC", "2026-03-10 12:00:00", "2025:1:1:0:00", "", "in the past"},
		{"no such day ever", "UTC", "2026-03-10 12:00:00", "2:30:0:00", "", "February has no day 30"},
		{"no such day that year", "UTC", "2026-03-10 12:00:00", "2027:2:29:0:00", "", "February 2027 has no day 29"},
		{"hour 24", "UTC", "2026-03-10 12:00:00", "24:00", "", "no hour: want 0 to 23"},
		{"minute 60", "UTC", "2026-03-10 12:00:00", "1:60", "", "no minute"},
		{"month 13", "UTC", "2026-03-10 12:00:00", "13:1:0:00", "", "no month"},
		{"day 0", "UTC", "2026-03-10 12:00:00", "0:0:00", "", "no day"},
		{"two digits of a year", "UTC", "2026-03-10 12:00:00", "27:1:1:0:00", "", "no year"},
		{"one number", "UTC", "2026-03-10 12:00:00", "12", "", "want [[[year:]"},
		{"six numbers", "UTC", "2026-03-10 12:00:00", "1:2:3:4:5:6", "", "want [[[year:]"},
		{"empty", "UTC", "2026-03-10 12:00:00", "", "", "want [[[year:]"},
		{"a word", "UTC", "2026-03-10 12:00:00", "now", "", "want [[[year:]"},
		{"a sign inside", "UTC", "2026-03-10 12:00:00", "1:+5", "", "for the minute"},
		{"overflow", "UTC", "2026-03-10 12:00:00", "1:99999999999999999999", "", "for the minute"},
		{"no time from now", "UTC", "2026-03-10 12:00:00", "+", "", "+[hour:]minute"},
		{"two years from now", "UTC", "2026-03-10 12:00:00", "+17520:00", "", "one year"},
	} {
		now, err := time.ParseInLocation("2006-01-02 15:04:05", c.now, zone(t, c.zone))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseWhen(c.in, now)
		text := got.Format(time.RFC3339)
		check(t, c.name, text, c.want, err, c.err)
	}
	t.Run("twice in autumn, and the first is past: the second", func(t *testing.T) {
		now := time.Date(2026, 10, 25, 0, 45, 0, 0, time.UTC).In(zone(t, "Europe/Berlin")) // 2:45 summer time
		got, err := ParseWhen("2:30", now)
		check(t, "second", got.Format(time.RFC3339), "2026-10-25T02:30:00+01:00", err, "")
	})
}

func FuzzParseWhen(f *testing.F) {
	for _, s := range []string{"18:30", "31:9:00", "2:29:0:00", "2027:1:1:0:00", "+5", "+1:30", "2:30", ":", "+"} {
		f.Add(s, int64(1_774_742_400))
	}
	loc := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, s string, unix int64) {
		now := time.Unix(unix&0xffffffff, 0).In(loc)
		got, err := ParseWhen(s, now)
		if err != nil {
			return
		}
		if got.Before(now) || got.Location() != loc {
			t.Fatalf("%q at %s gives %s", s, now, got)
		}
		if text := got.Format("2006:1:2:15:04"); got.Second() == 0 {
			if again, err := ParseWhen(text, now); err != nil || again.Format("2006:1:2:15:04") != text {
				t.Fatalf("%q gives %s, whose text %s gives %s (%v)", s, got, text, again, err)
			}
		}
	})
}
