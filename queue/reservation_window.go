package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TimeWindow is a recurring window of wall-clock time, as LSF writes it: "hour[:minute]-hour[:minute]"
// every day, or "day:hour:minute-day:hour:minute" once a week, day 0 being Sunday. It contains its
// beginning and not its end. An end that is not after the beginning is in the next day or week.
//
// A wall-clock time that a clock change skips means the moment of the change; one that occurs twice
// means the first. So windows never overlap, and a window that lies in what is skipped does not happen.
type TimeWindow struct {
	Daily bool `json:"daily,omitempty"`
	Begin int  `json:"begin"` // minutes since Sunday 0:00, with Daily since 0:00
	End   int  `json:"end"`   // the same; never equal to Begin
}

const (
	minutesOfDay  = 24 * 60
	minutesOfWeek = 7 * minutesOfDay
)

const wantWindow = `want day:hour:minute-day:hour:minute with day 0 (Sunday) to 6, or hour[:minute]-hour[:minute] for every day`

// ParseTimeWindow reads -t of brsvadd. String is the inverse.
func ParseTimeWindow(s string) (TimeWindow, error) {
	w, err := parseTimeWindow(strings.TrimSpace(s))
	if err != nil {
		return TimeWindow{}, fmt.Errorf("%s: Bad time window: %w", quoteInput(s), err)
	}
	return w, nil
}

func parseTimeWindow(s string) (TimeWindow, error) {
	first, second, dash := strings.Cut(s, "-")
	a, b := strings.Split(first, ":"), strings.Split(second, ":")
	switch {
	case !dash:
		return TimeWindow{}, errors.New(wantWindow)
	case len(a) != len(b):
		return TimeWindow{}, errors.New("both times must be written alike: " + wantWindow)
	case len(a) > 3:
		return TimeWindow{}, errors.New(wantWindow)
	}
	begin, err := parseWallClock(a)
	if err != nil {
		return TimeWindow{}, err
	}
	end, err := parseWallClock(b)
	if err != nil {
		return TimeWindow{}, err
	}
	w := TimeWindow{Daily: len(a) < 3, Begin: begin, End: end}
	return w, w.valid()
}

// parseWallClock reads [[day:]hour][:minute], the minutes since the day's or the week's beginning.
func parseWallClock(fields []string) (int, error) {
	names := [][]string{{"hour"}, {"hour", "minute"}, {"day", "hour", "minute"}}[len(fields)-1]
	most := map[string]int{"day": 6, "hour": 23, "minute": 59}
	each := map[string]int{"day": minutesOfDay, "hour": 60, "minute": 1}
	sum := 0
	for i, name := range names {
		n, err := strconv.Atoi(fields[i])
		if !allDigits(fields[i]) {
			return 0, fmt.Errorf("%s: got %s for the %s", wantWindow, quoteInput(fields[i]), name)
		}
		if err != nil || n > most[name] {
			return 0, fmt.Errorf("%s is no %s: want 0 to %d", quoteInput(fields[i]), name, most[name])
		}
		sum += n * each[name]
	}
	return sum, nil
}

func (w TimeWindow) valid() error {
	length := w.length()
	switch {
	case w.Begin < 0 || w.Begin >= length || w.End < 0 || w.End >= length:
		return fmt.Errorf("a time window from minute %d to %d", w.Begin, w.End)
	case w.Begin == w.End:
		return errors.New("it ends when it begins")
	}
	return nil
}

// length is that of the day or week that the window recurs in, in minutes of the wall clock.
func (w TimeWindow) length() int {
	if w.Daily {
		return minutesOfDay
	}
	return minutesOfWeek
}

// String is LSF's form: "5:18:0-5:20:0", or "12:0-14:0" for every day.
func (w TimeWindow) String() string { return w.clock(w.Begin) + "-" + w.clock(w.End) }

func (w TimeWindow) clock(minute int) string {
	if w.Daily {
		return fmt.Sprintf("%d:%d", minute/60, minute%60)
	}
	return fmt.Sprintf("%d:%d:%d", minute/minutesOfDay, minute/60%24, minute%60)
}

// Next is the occurrence that contains now, or else the first one after it.
func (w TimeWindow) Next(now time.Time, loc *time.Location) Period {
	year, month, day := now.In(loc).Date()
	if !w.Daily {
		day -= int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday())
	}
	days := w.length() / minutesOfDay
	// From the one before, which may go on today or this week, to after those that a clock change swallows.
	for i := -1; i < 5; i++ {
		if p := w.on(year, month, day+i*days, loc); p.Begin.Before(p.End) && now.Before(p.End) {
			return p
		}
	}
	panic("internal error: impossible: no occurrence of " + w.String() + " after " + now.String())
}

// on is the occurrence of the day, or of the week that begins on the day. It is empty when all of it is skipped.
func (w TimeWindow) on(year int, month time.Month, day int, loc *time.Location) Period {
	end := w.End
	if end <= w.Begin {
		end += w.length()
	}
	return Period{
		Begin: wallClock(time.Date(year, month, day, 0, w.Begin, 0, 0, time.UTC), loc),
		End:   wallClock(time.Date(year, month, day, 0, end, 0, 0, time.UTC), loc),
	}
}

// wallClock is the moment at which clocks of loc show what civil, a time in UTC, shows: the first of two,
// and the moment of the change for a time that is skipped. A later civil time never gives an earlier moment.
func wallClock(civil time.Time, loc *time.Location) time.Time {
	// time.Date leaves open what it does around a change of offset, so both offsets are tried here.
	_, before := civil.Add(-24 * time.Hour).In(loc).Zone()
	_, after := civil.Add(24 * time.Hour).In(loc).Zone()
	for _, offset := range []int{max(before, after), min(before, after)} { // the larger offset is the earlier moment
		t := civil.Add(-time.Duration(offset) * time.Second).In(loc)
		if _, o := t.Zone(); o == offset {
			return t
		}
	}
	// The old offset leads past the change, into the zone that begins with it.
	begin, _ := civil.Add(-time.Duration(before) * time.Second).In(loc).ZoneBounds()
	return begin
}
