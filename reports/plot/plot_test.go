package plot

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"

	"fairslice/reports"
)

func svg(t *testing.T, plots ...*Plot) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSVG(&b, plots...); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("a place that is none: %s", text)
	}
	return text
}

func TestPlot(t *testing.T) {
	text := svg(t, &Plot{Title: "a < b & c", X: "time", Y: "jobs", Series: []Series{{Name: "one", X: []float64{0, 1, 2}, Y: []float64{0, 10, 5}}}})
	// 0 is at the left and the bottom; 10 is just below the top.
	for _, want := range []string{"a &lt; b &amp; c", ">one</text>", `d="M70.0 250.0L405.0 50.0L740.0 150.0"`, ">0.5</text>", ">10</text>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}

func TestPlotOfOddValues(t *testing.T) {
	odd := []float64{math.NaN(), math.Inf(1), -1, 0, 1e300, 1e-300}
	text := svg(t,
		&Plot{Title: "nothing"},
		&Plot{Title: "one point", Series: []Series{{X: []float64{3}, Y: []float64{3}}}},
		&Plot{Title: "all the same", Series: []Series{{X: []float64{1, 2}, Y: []float64{0, 0}}}},
		&Plot{Title: "unequal", Series: []Series{{X: []float64{1, 2, 3}, Y: []float64{1}}}},
		&Plot{Title: "odd", Series: []Series{{X: odd, Y: odd}}},
		&Plot{Title: "logarithmic", Log: true, Series: []Series{{X: odd, Y: odd}, {X: []float64{10, 1000}, Y: []float64{1, 100}}}})
	if n := strings.Count(text, "<g "); n != 6 {
		t.Errorf("%d panels", n)
	}
}

func TestBars(t *testing.T) {
	text := svg(t, &Plot{Title: "hours", X: "fgpu_hours", Bars: []Bar{{"<alice>", 10}, {"bob", 5}, {"odd", math.NaN()}, {strings.Repeat("x", 50), -1}}})
	// The longest bar ends at the right, bob's half way; what has no length is named all the same.
	for _, want := range []string{`<rect x="190.0" y="41.0" width="500.0"`, `<rect x="190.0" y="61.0" width="250.0"`, "&lt;alice&gt;</text>", ">odd</text>", ">" + strings.Repeat("x", 25) + "…</text>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if n := strings.Count(text, "<rect x="); n != 2 {
		t.Errorf("%d bars", n)
	}
}

func TestReport(t *testing.T) {
	table := &reports.Table{Title: "usage by user", Columns: []reports.Column{{Name: "user", Text: true}, {Name: "jobs"}, {Name: "slot_hours"}, {Name: "fgpu_hours"}}}
	table.Add("alice", "3", "2.5", "1.000")
	table.Add("bob", "1", "1.5", "")
	plots := Report(table)
	if len(plots) != 2 || len(plots[0].Bars) != 1 || plots[0].Bars[0] != (Bar{"alice", 1}) || plots[1].Bars[1] != (Bar{"bob", 1.5}) {
		t.Errorf("%+v", plots)
	}
	for range 100 {
		table.Add("more", "1", "1", "1")
	}
	if p := Report(table)[0]; len(p.Bars) != maxBars || !strings.Contains(p.Title, "the first 40 of 101") {
		t.Errorf("%d bars, %q", len(p.Bars), p.Title)
	}
	days := &reports.Table{Title: "usage by day", Columns: []reports.Column{{Name: "day", Text: true}, {Name: "fgpu_hours"}}}
	for _, d := range []string{"2026-03-01", "2026-03-03"} { // no row for the 2nd: nothing ended then
		days.Add(d, "4")
	}
	if p := Report(days)[0]; len(p.Bars) != 2 || p.Bars[1].Name != "2026-03-03" {
		t.Errorf("%+v", p)
	}
	if Report(&reports.Table{Columns: []reports.Column{{Name: "user", Text: true}}})[0] == nil {
		t.Error("a table without figures has no drawing")
	}
	svg(t, append(append(plots, Report(days)...), Report(&reports.Table{})...)...)
}
