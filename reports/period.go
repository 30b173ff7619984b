package reports

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Period is from From until before To. A zero time is no bound.
type Period struct{ From, To time.Time }

// Holds says that a moment is in the period.
func (p Period) Holds(t time.Time) bool {
	return (p.From.IsZero() || !t.Before(p.From)) && (p.To.IsZero() || t.Before(p.To))
}

const periodHelp = "a period is BEGIN,END, BEGIN, or ,END or one day or month; a time is yyyy/mm/dd/HH:MM, yyyy/mm/dd, mm/dd, HH:MM, " +
	". (now), or .-3d (also w, h, m: weeks, hours, minutes)"

// ParsePeriod reads LSF's time interval: "t0,t1", "t0,", ",t1", or a single day or month, which is all of it. A day or a month as
// the end is meant with all of it; a minute is not: what ended at 17:00:20 is not in ",17:00". Beside LSF's notation dates
// may be written yyyy-mm-dd. Now is what "." stands for, and its day and year complete a time that lacks them.
func ParsePeriod(text string, now time.Time, zone *time.Location) (Period, error) {
	now = now.In(zone)
	begin, end, ranged := strings.Cut(text, ",")
	if strings.TrimSpace(text) == "" || ranged && begin == "" && end == "" {
		return Period{}, fmt.Errorf("%q is no period: %s", text, periodHelp)
	}
	var p Period
	if begin != "" {
		from, to, err := parseTime(begin, now)
		if err != nil {
			return Period{}, err
		}
		p.From = from
		if !ranged {
			if to.Equal(from) {
				return Period{}, fmt.Errorf("%q is a moment, not a period: write %q for all since then", text, text+",")
			}
			p.To = to
			return p, nil
		}
	}
	if end != "" {
		_, to, err := parseTime(end, now)
		if err != nil {
			return Period{}, err
		}
		p.To = to
	}
	if begin != "" && end != "" && !p.From.Before(p.To) {
		return Period{}, fmt.Errorf("the period %q ends before it begins", text)
	}
	return p, nil
}

// parseTime reads one time: the first moment of what is written, and the first after it. A minute has no length.
func parseTime(text string, now time.Time) (from, to time.Time, err error) {
	fail := func(why string) (time.Time, time.Time, error) {
		return time.Time{}, time.Time{}, fmt.Errorf("time %q: %s", text, why)
	}
	if rest, ok := strings.CutPrefix(text, "."); ok {
		t, ok := relative(rest, now)
		if !ok {
			return fail("what follows the point is not understood; " + periodHelp)
		}
		return t, t, nil
	}
	date, clock := strings.ReplaceAll(text, "-", "/"), ""
	if i := strings.IndexByte(date, ':'); i >= 0 {
		if i = strings.LastIndexByte(date[:i], '/'); i >= 0 {
			date, clock = date[:i], date[i+1:]
		} else {
			date, clock = "", date
		}
	}
	year, month, day, whole := now.Year(), int(now.Month()), now.Day(), false
	if date != "" {
		var n []int
		for _, part := range strings.Split(date, "/") {
			v, ok := digits(part, 4)
			if !ok || len(n) == 3 {
				return fail("it is not understood; " + periodHelp)
			}
			n = append(n, v)
		}
		switch {
		case len(n) == 3:
			year, month, day = n[0], n[1], n[2]
		case len(n) == 2 && n[0] >= 1000:
			year, month, day, whole = n[0], n[1], 1, true
		case len(n) == 2:
			month, day = n[0], n[1]
		default:
			return fail("it is not understood; " + periodHelp)
		}
	}
	if year < 1970 || year > 9999 {
		return fail("years are 1970 to 9999")
	}
	if month < 1 || month > 12 {
		return fail("months are 1 to 12")
	}
	if last := time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day(); day < 1 || day > last {
		return fail(fmt.Sprintf("this day does not exist: %s %d has %d days", time.Month(month), year, last))
	}
	if whole && clock != "" {
		return fail("a day is missing")
	}
	at := func(y, m, d, hour, minute int) time.Time {
		return time.Date(y, time.Month(m), d, hour, minute, 0, 0, now.Location())
	}
	switch {
	case whole:
		return at(year, month, 1, 0, 0), at(year, month+1, 1, 0, 0), nil
	case clock == "":
		return at(year, month, day, 0, 0), at(year, month, day+1, 0, 0), nil
	}
	h, m, _ := strings.Cut(clock, ":")
	hour, ok1 := digits(h, 2)
	minute, ok2 := digits(m, 2)
	if m == "" { // LSF allows "17:"
		minute, ok2 = 0, true
	}
	if !ok1 || !ok2 || hour > 24 || minute > 59 || hour == 24 && minute > 0 {
		return fail("hours are 0 to 23 and minutes 0 to 59")
	}
	t := at(year, month, day, hour, minute)
	if hour < 24 && (t.Hour() != hour || t.Minute() != minute) {
		return fail("clocks were set forward over this time that day; it does not exist")
	}
	return t, t, nil
}

// relative reads what follows the point: "", "-3d", or LSF's "-3/" (days), "-3:" (hours), "-3" (minutes).
func relative(s string, now time.Time) (time.Time, bool) {
	if s == "" {
		return now, true
	}
	s, back := strings.CutPrefix(s, "-")
	if !back || s == "" {
		return time.Time{}, false
	}
	unit := s[len(s)-1]
	if unit < '0' || unit > '9' {
		s = s[:len(s)-1]
	} else {
		unit = 'm'
	}
	n, ok := digits(s, 5)
	if !ok {
		return time.Time{}, false
	}
	switch unit {
	case 'w':
		return now.AddDate(0, 0, -7*n), true
	case 'd', '/':
		return now.AddDate(0, 0, -n), true
	case 'h', ':':
		return now.Add(-time.Duration(n) * time.Hour), true
	case 'm':
		return now.Add(-time.Duration(n) * time.Minute), true
	}
	return time.Time{}, false
}

// digits reads a number of 1 to most digits.
func digits(s string, most int) (int, bool) {
	if s == "" || len(s) > most || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// maxParts bounds a calendar: ten years of days.
const maxParts = 3700

// Parts cuts the period at the begins of days, weeks or months of a zone. Each part begins with the calendar, the first one before
// or with the period: it is its name. The period must be bounded.
func (p Period) Parts(by By, zone *time.Location) ([]time.Time, error) {
	from := p.From.In(zone)
	y, m, d := from.Date()
	switch by {
	case ByWeek:
		d -= (int(from.Weekday()) + 6) % 7
	case ByMonth:
		d = 1
	}
	var parts []time.Time
	for i := 0; ; i++ {
		var t time.Time
		switch by {
		case ByDay:
			t = time.Date(y, m, d+i, 0, 0, 0, 0, zone)
		case ByWeek:
			t = time.Date(y, m, d+7*i, 0, 0, 0, 0, zone)
		case ByMonth:
			t = time.Date(y, m+time.Month(i), 1, 0, 0, 0, 0, zone)
		default:
			return nil, fmt.Errorf("%q is no part of a calendar", by)
		}
		if !t.Before(p.To) {
			return parts, nil
		}
		if len(parts) == maxParts {
			return nil, fmt.Errorf("the period has more than %d %ss; choose a shorter one (-C), or longer parts (-by month)", maxParts, by)
		}
		parts = append(parts, t)
	}
}

// PartName is how a part of a calendar is called: 2026-03-18 or 2026-03.
func PartName(t time.Time, by By) string {
	if by == ByMonth {
		return t.Format("2006-01")
	}
	return t.Format("2006-01-02")
}
