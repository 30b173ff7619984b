package reports

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

var berlin = func() *time.Location {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return loc
}()

// now is a Wednesday.
var now = time.Date(2026, 3, 18, 2, 10, 30, 0, berlin)

func TestParsePeriod(t *testing.T) {
	const layout = "2006-01-02 15:04:05"
	for text, want := range map[string]string{
		"2026/03/01/08:30,2026/03/02/17:00": "2026-03-01 08:30:00 to 2026-03-02 17:00:00",
		"2026/3/1,2026/3/2":                 "2026-03-01 00:00:00 to 2026-03-03 00:00:00", // the day of the end is in it
		"2026-03-01,2026-03-02":             "2026-03-01 00:00:00 to 2026-03-03 00:00:00",
		"2026/02":                           "2026-02-01 00:00:00 to 2026-03-01 00:00:00",
		"2025/12":                           "2025-12-01 00:00:00 to 2026-01-01 00:00:00",
		"2024/02/29":                        "2024-02-29 00:00:00 to 2024-03-01 00:00:00",
		"03/29":                             "2026-03-29 00:00:00 to 2026-03-30 00:00:00", // 23 hours long
		"02/28/24:00,":                      "2026-03-01 00:00:00 to ",
		"01:00,.":                           "2026-03-18 01:00:00 to 2026-03-18 02:10:30",
		",17:":                              " to 2026-03-18 17:00:00",
		",2026/03/01":                       " to 2026-03-02 00:00:00",
		".-3d,.":                            "2026-03-15 02:10:30 to 2026-03-18 02:10:30",
		".-9/,.-3/":                         "2026-03-09 02:10:30 to 2026-03-15 02:10:30",
		".-2w,":                             "2026-03-04 02:10:30 to ",
		".-4:,.-30":                         "2026-03-17 22:10:30 to 2026-03-18 01:40:30",
		".-1h,.-10m":                        "2026-03-18 01:10:30 to 2026-03-18 02:00:30",
	} {
		p, err := ParsePeriod(text, now, berlin)
		name := func(t time.Time) string {
			if t.IsZero() {
				return ""
			}
			return t.Format(layout)
		}
		if got := name(p.From) + " to " + name(p.To); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                          "is no period",
		",":                         "is no period",
		"yesterday":                 "is not understood; a period is",
		"2026/02/30,":               "this day does not exist: February 2026 has 28 days",
		"2025/02/29,":               "February 2025 has 28 days",
		"2026/13/01,":               "months are 1 to 12",
		"2026/00,":                  "months are 1 to 12",
		"2026/03/00,":               "this day does not exist",
		"03/32,":                    "this day does not exist",
		"1969/01/01,":               "years are 1970 to 9999",
		"2026/03/01/25:00,":         "hours are 0 to 23",
		"2026/03/01/24:01,":         "hours are 0 to 23",
		"2026/03/01/8:60,":          "minutes 0 to 59",
		"2026/03/29/02:30,":         "clocks were set forward",
		"2026/03/08:00,":            "a day is missing",
		"2026/03/01/08:00:00,":      "minutes 0 to 59",
		"2026/03/01/08:00":          "is a moment, not a period",
		"17:00":                     "is a moment, not a period",
		"2026/03/02,2026/03/01":     "ends before it begins",
		"2026/1/1,2026/1/2,":        "is not understood",
		".+3d,":                     "is not understood",
		".-,":                       "is not understood",
		".-3y,":                     "is not understood",
		".-999999999999999999999d,": "is not understood",
		"2026//01,":                 "is not understood",
		"2026/03/01/08:30/1,":       "minutes 0 to 59",
		"1/2/3/4,":                  "is not understood",
		"²,":                        "is not understood",
	} {
		if p, err := ParsePeriod(text, now, berlin); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %q", text, p, err, want)
		}
	}
}

// Whatever is read is a period that can be written again and means the same.
func FuzzParsePeriod(f *testing.F) {
	for _, s := range []string{"2026/03/01/08:30,2026/03/02/17:00", ".-3d,.", ",17:", "2026-02", "03/29", ".-4:,.-30", "24:00,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePeriod(text, now, berlin)
		if err != nil {
			return
		}
		if p.From.IsZero() && p.To.IsZero() || !p.From.IsZero() && !p.To.IsZero() && !p.From.Before(p.To) {
			t.Fatalf("%q: %v", text, p)
		}
		for _, at := range []time.Time{p.From, p.To} {
			if at.IsZero() || at.Nanosecond() != 0 || at.Second() != 0 || at.Hour() == 2 || at.Year() > 9998 { // at 2 an hour may come twice
				continue
			}
			again, err := ParsePeriod(at.Format("2006/01/02/15:04")+",", now, berlin)
			if err != nil || !again.From.Equal(at) {
				t.Fatalf("%q: %v is read as %v, %v", text, at, again.From, err)
			}
		}
	})
}

func TestParts(t *testing.T) {
	day := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, berlin) }
	for what, row := range map[string]struct {
		from, to time.Time
		by       By
		want     string
	}{
		"days over the change of clocks": {day(2026, 3, 28).Add(5 * time.Hour), day(2026, 3, 31), ByDay, "2026-03-28 2026-03-29 2026-03-30"},
		"weeks begin on Mondays":         {day(2026, 3, 1), day(2026, 3, 17), ByWeek, "2026-02-23 2026-03-02 2026-03-09 2026-03-16"},
		"a Monday is the first":          {day(2026, 3, 2), day(2026, 3, 9), ByWeek, "2026-03-02"},
		"months of all lengths":          {day(2026, 1, 31), day(2026, 4, 1).Add(1), ByMonth, "2026-01 2026-02 2026-03 2026-04"},
		"from midnight to midnight":      {day(2026, 3, 1), day(2026, 3, 2), ByDay, "2026-03-01"},
	} {
		parts, err := (Period{row.from, row.to}).Parts(row.by, berlin)
		var names []string
		for _, p := range parts {
			names = append(names, PartName(p, row.by))
		}
		if got := strings.Join(names, " "); err != nil || got != row.want {
			t.Errorf("%s: %s, %v; want %s", what, got, err, row.want)
		}
	}
	if _, err := (Period{day(1990, 1, 1), day(2026, 1, 1)}).Parts(ByDay, berlin); err == nil || !strings.Contains(err.Error(), "-by month") {
		t.Errorf("36 years of days: %v", err)
	}
}

func TestCheck(t *testing.T) {
	period := Period{now.AddDate(0, 0, -1), now}
	for _, row := range []struct {
		q    Query
		want string
	}{
		{Query{Kind: Usage}, "usage by user"},
		{Query{Kind: Usage, By: ByNode}, "nodes by node"},
		{Query{Kind: Usage, By: ByGPU}, "gpus by gpu"},
		{Query{Kind: Efficiency, By: ByJob}, "efficiency by job"},
		{Query{Kind: "costs"}, `there is no report "costs"; there are usage, wait, efficiency, wasters, nodes, gpus and utilisation`},
		{Query{Kind: Wait, By: ByJob}, `report wait cannot be grouped by "job"; it can be by user, account`},
		{Query{Kind: Utilisation}, "utilisation by day"},
		{Query{Kind: Utilisation, By: ByUser}, `report utilisation cannot be grouped by "user"; it can be by day, week and month`},
		{Query{Kind: Utilisation, Filter: Filter{Host: "n1"}}, "report utilisation is of the whole site"},
		{Query{Kind: Usage, Limit: -1}, "a report has 1 to 100000 rows, not -1"},
	} {
		row.q.Period = period
		err := row.q.Check()
		got := string(row.q.Kind) + " by " + string(row.q.By)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, row.want) {
			t.Errorf("%+v: %s, want %s", row.q, got, row.want)
		}
	}
	named := Query{Kind: Usage, By: ByDay, Period: period, Zone: berlin}
	if got := named.Title(); got != "usage by day, 2026/03/17/02:10 to 2026/03/18/02:10 (CET)" {
		t.Errorf("the title is %q", got)
	}
	backwards := Query{Kind: Usage, Period: Period{now, now.Add(-time.Hour)}}
	if err := backwards.Check(); err == nil || !strings.Contains(err.Error(), "before it begins") {
		t.Errorf("%v", err)
	}
}

func TestTable(t *testing.T) {
	table := &Table{Title: "usage", Columns: []Column{{Name: "user", Text: true}, {Name: "hours"}, {Name: "note", Text: true}}}
	table.Add("=HYPERLINK(\"http://x\")", "-1.5", "a, \"b\"")
	table.Add("@bob", "12.25", "")
	table.Add("-x\ty", "", "\tz")
	table.Add("eve", "3", "+1")
	var b bytes.Buffer
	if err := table.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	want := "user,hours,note\n\"'=HYPERLINK(\"\"http://x\"\")\",-1.5,\"a, \"\"b\"\"\"\n'@bob,12.25,\n'-x\ty,,'\tz\neve,3,'+1\n"
	if b.String() != want {
		t.Errorf("CSV\n%s\nwant\n%s", b.String(), want)
	}
	clean := func(s string) string { return strings.ReplaceAll(s, "\t", `\t`) }
	text := string((&Table{Title: "usage", Columns: table.Columns[:2], Rows: [][]string{{"ünal", "12.25"}, {"b", ""}}}).AppendText(nil, clean, true))
	if want := "usage\nUSER  HOURS\nünal  12.25\nb         -\n"; text != want {
		t.Errorf("text\n%s\nwant\n%s", text, want)
	}
}

func TestSummary(t *testing.T) {
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	var m Summary
	for _, f := range []Finished{
		{Submitted: at(0), Dispatched: at(2), Ended: at(36), CPU: 17 * time.Second, Done: true},
		{Submitted: at(0), Ended: at(10)},                                             // never ran: it waited all the time
		{Submitted: at(100), Dispatched: at(90), Ended: at(95), CPU: 1 * time.Second}, // clocks went back
		{Submitted: at(40), Dispatched: at(40), Ended: at(40), CPU: 0, Done: true},    // no time at all
	} {
		m.Add(&f)
	}
	want := Summary{Done: 2, Failed: 2, Started: 3, CPU: Spread{18, 17, 0}, Wait: Spread{12, 10, 0}, Turnaround: Spread{46, 36, 0},
		Hog: Spread{17.0 / 36, 17.0 / 36, 0}, Expansion: 36.0 / 34, Run: 39, First: at(10), Last: at(95)}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("%+v\nwant %+v", m, want)
	}
}
