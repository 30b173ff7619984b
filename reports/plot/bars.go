package plot

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"

	"fairslice/reports"
)

// Bar is one bar of a Plot. What is not above 0 has its name only.
type Bar struct {
	Name  string
	Value float64
}

// The parts of a panel of bars. Names stand left of the bars, values right of them.
const (
	barStep, barThick   = 20, 14
	barLeft, barRight   = 190, 70
	barLength           = plotWidth - barLeft - barRight
	barFoot, nameLength = 30, 25
)

func (p *Plot) height() int {
	if len(p.Bars) > 0 {
		return top + barStep*len(p.Bars) + barFoot
	}
	return plotHeight
}

func (p *Plot) drawBars(w io.Writer) {
	longest := 0.0
	for _, b := range p.Bars {
		if positive(b.Value) {
			longest = max(longest, b.Value)
		}
	}
	text := func(x, y int, anchor, s string) {
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
	}
	text(barLeft, 16, "start", p.Title)
	for i, b := range p.Bars {
		y := top + i*barStep
		text(barLeft-6, y+12, "end", short(b.Name))
		if !positive(b.Value) {
			continue
		}
		length := barLength * b.Value / longest
		fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n", float64(barLeft), float64(y+1), length, barThick, lineColours[0])
		text(barLeft+int(length)+4, y+12, "start", tickText(b.Value))
	}
	text(barLeft+barLength/2, top+barStep*len(p.Bars)+18, "middle", p.X)
}

func positive(v float64) bool { return v > 0 && !math.IsInf(v, 1) }

// short cuts a name that would leave the picture.
func short(s string) string {
	if r := []rune(s); len(r) > nameLength {
		return string(r[:nameLength]) + "…"
	}
	return s
}

// maxBars are drawn at most: more cannot be read.
const maxBars = 40

// drawn are the columns of reports that are worth a drawing, the most telling first.
var drawn = []string{"fgpu_hours_unused", "slot_hours_unused", "wait_p95_s", "wait_p50_s", "sm_percent", "given_percent", "lost_percent", "fgpu_percent", "cpu_percent", "slot_percent", "fgpu_hours", "slot_hours"}

// Report draws the two most telling columns of a report, a bar for each row that has a value. There is always a drawing,
// be it empty.
func Report(t *reports.Table) []*Plot {
	var plots []*Plot
	for _, name := range drawn {
		col := slices.IndexFunc(t.Columns, func(c reports.Column) bool { return c.Name == name })
		if col < 0 || len(plots) == 2 {
			continue
		}
		p := &Plot{Title: t.Title, X: name}
		for _, row := range t.Rows {
			if v, err := strconv.ParseFloat(row[col], 64); err == nil && row[0] != reports.Total {
				p.Bars = append(p.Bars, Bar{row[0], v})
			}
		}
		if n := len(p.Bars); n > maxBars {
			p.Bars = p.Bars[:maxBars]
			p.Title += fmt.Sprintf(" (the first %d of %d)", maxBars, n)
		}
		plots = append(plots, p)
	}
	if len(plots) == 0 {
		plots = []*Plot{{Title: t.Title}}
	}
	return plots
}
