package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseWhen reads the time of -b and -t, in the time zone of now (the site's):
//
//	[[[year:]month:]day:]hour:minute   the next such moment that is not past
//	+[hour:]minute                     that long from now, at most a year
//
// What is left out is taken from now and then rolled forward: "9:00" after nine is tomorrow,
// "31:9:00" in February is in March, "2:29:9:00" waits for a leap year. With a year nothing can
// roll, so a moment in the past is an error, as is a day that does not exist.
//
// A local time that a clock change skips means the moment of the change; one that occurs twice means
// the first of the two that is not past.
func ParseWhen(s string, now time.Time) (time.Time, error) {
	text := strings.TrimSpace(s)
	var t time.Time
	var err error
	if rest, ok := strings.CutPrefix(text, "+"); ok {
		t, err = parseFromNow(rest, now)
	} else {
		t, err = parseMoment(text, now)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: Bad time specification: %w", quoteInput(s), err)
	}
	return t, nil
}

const wantWhen = "want [[[year:]month:]day:]hour:minute or +[hour:]minute"

func parseFromNow(s string, now time.Time) (time.Time, error) {
	if strings.Contains(s, "/") {
		return time.Time{}, errors.New(wantWhen)
	}
	minutes, err := parseMinutes(s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", wantWhen, err)
	}
	return now.Add(time.Duration(minutes) * time.Minute), nil
}

// moment is a parsed local time; year, month and day are 0 where they were left out.
type moment struct{ year, month, day, hour, minute int }

func parseMoment(s string, now time.Time) (time.Time, error) {
	fields := strings.Split(s, ":")
	if len(fields) < 2 || len(fields) > 5 {
		return time.Time{}, errors.New(wantWhen)
	}
	var m moment
	into := []struct {
		name     string
		value    *int
		min, max int
	}{
		{"year", &m.year, 1970, 9999}, {"month", &m.month, 1, 12}, {"day", &m.day, 1, 31},
		{"hour", &m.hour, 0, 23}, {"minute", &m.minute, 0, 59},
	}[5-len(fields):]
	for i, f := range fields {
		n, err := strconv.Atoi(f)
		if !allDigits(f) || err != nil {
			return time.Time{}, fmt.Errorf("%s: got %s for the %s", wantWhen, quoteInput(f), into[i].name)
		}
		if n < into[i].min || n > into[i].max {
			return time.Time{}, fmt.Errorf("%s is no %s: want %d to %d", quoteInput(f), into[i].name, into[i].min, into[i].max)
		}
		*into[i].value = n
	}
	return m.next(now)
}

// next is the first moment like m that is not before now.
func (m moment) next(now time.Time) (time.Time, error) {
	year, month, day := now.Date()
	switch {
	case m.year != 0:
		if !dayExists(m.year, m.month, m.day) {
			return time.Time{}, fmt.Errorf("%s %d has no day %d", time.Month(m.month), m.year, m.day)
		}
		t, ok := m.on(m.year, m.month, m.day, now)
		if !ok {
			return time.Time{}, fmt.Errorf("%s is in the past", t.Format("2006-01-02 15:04"))
		}
		return t, nil
	case m.month != 0:
		for y := year; y <= year+8; y++ { // there are never more than eight years between two leap years
			if t, ok := m.on(y, m.month, m.day, now); ok {
				return t, nil
			}
		}
		return time.Time{}, fmt.Errorf("%s has no day %d", time.Month(m.month), m.day)
	case m.day != 0:
		for i := range 4 { // of two months in a row at least one has 31 days, except around the present one
			first := time.Date(year, month+time.Month(i), 1, 0, 0, 0, 0, time.UTC)
			if t, ok := m.on(first.Year(), int(first.Month()), m.day, now); ok {
				return t, nil
			}
		}
	default:
		for i := range 3 { // today, tomorrow, and a day that a change of time zone skips altogether
			d := time.Date(year, month, day+i, 0, 0, 0, 0, time.UTC)
			if t, ok := m.on(d.Year(), int(d.Month()), d.Day(), now); ok {
				return t, nil
			}
		}
	}
	return time.Time{}, errors.New(wantWhen)
}

func dayExists(year, month, day int) bool {
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() == day
}

// on is m on one day, and whether that day exists and the moment is not before now.
func (m moment) on(year, month, day int, now time.Time) (time.Time, bool) {
	if !dayExists(year, month, day) {
		return time.Time{}, false
	}
	// time.Date leaves open what it does around a change of offset, so both offsets are tried here.
	civil := time.Date(year, time.Month(month), day, m.hour, m.minute, 0, 0, time.UTC)
	loc := now.Location()
	_, before := civil.Add(-24 * time.Hour).In(loc).Zone()
	_, after := civil.Add(24 * time.Hour).In(loc).Zone()
	var found time.Time
	for _, offset := range []int{max(before, after), min(before, after)} { // the larger offset is the earlier moment
		t := civil.Add(-time.Duration(offset) * time.Second).In(loc)
		if _, o := t.Zone(); o != offset {
			continue
		}
		if !t.Before(now) {
			return t, true
		}
		found = t
	}
	if found.IsZero() { // skipped by the change: the old offset leads past it, into the zone that starts with it
		found, _ = civil.Add(-time.Duration(before) * time.Second).In(loc).ZoneBounds()
	}
	return found, !found.Before(now)
}
