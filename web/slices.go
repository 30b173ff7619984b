package web

import (
	"fmt"
	"strings"
	"time"

	"fairslice/queue"
)

// sliceUse is what an attempt uses of one slice.
type sliceUse struct {
	Name     string
	Measured bool
	Memory   useOf
	SM       useOf
}

// useOf is the use of one of the two things that a slice has, with its last minutes as a plot where the attempt runs.
type useOf struct {
	Now, Limit string
	Peak, Mean string // the one for memory, the other for the SMs; "" for not known
	Plot       *usePlot
}

// sliceUses are the slices of an attempt, with what is known of their last minutes by GPU; nil for none. Only the node that runs the
// command measures. The plots have the times of now's zone.
func sliceUses(a *queue.Attempt, known map[string][]sample, now time.Time) []sliceUse {
	var out []sliceUse
	for i, alloc := range a.Alloc {
		for _, s := range alloc.Slices {
			u := sliceUse{Name: fmt.Sprintf("%s, GPU %d: %s fGPU, %s", alloc.Node, s.Index, s.Amount, s.Mode)}
			if g := a.Usage.GPU(s.UUID); i == 0 && g != nil {
				u.Measured = true
				u.Memory = useOf{Now: mib(g.Memory), Limit: mib(s.Memory), Peak: mib(g.MaxMemory)}
				u.SM = useOf{Now: percent(g.Util), Limit: percent(s.SMShare)}
				if g.Measured > 0 {
					u.SM.Mean = percent(g.MeanShare())
				}
				list := known[s.UUID]
				u.Memory.Plot = plotUse(list, float64(s.Memory), now, func(p sample) float64 { return float64(p.memory) })
				u.SM.Plot = plotUse(list, float64(s.SMShare), now, func(p sample) float64 { return float64(p.sm) })
			}
			out = append(out, u)
		}
	}
	return out
}

// percent writes 1/100 percent.
func percent(v int) string { return fmt.Sprintf("%.1f %%", float64(v)/100) }

// The plot, in SVG's units: time goes to the right, use up.
const (
	plotWidth, plotHeight = 600, 120
	plotRoom              = 1.15            // how far above the limit and above all samples it reaches
	leastSpan             = time.Minute     // of time that it shows
	gapAfter              = 4 * sampleEvery // from one sample to the next: what was in between is not known
)

// usePlot is a line against a limit.
type usePlot struct {
	Line, Area string // of SVG paths
	Limit      string // how far down the limit is
	From, To   string // the clock at the edges
}

// plotUse draws what value says of samples up to now, the oldest first; nil where there are none.
func plotUse(list []sample, limit float64, now time.Time, value func(sample) float64) *usePlot {
	if len(list) == 0 {
		return nil
	}
	span := max(now.Sub(list[0].at), leastSpan)
	high := limit
	for _, p := range list {
		high = max(high, value(p))
	}
	high = max(high*plotRoom, 1)
	x := func(p sample) float64 { return plotWidth * (1 - float64(now.Sub(p.at))/float64(span)) }
	y := func(v float64) float64 { return plotHeight * (1 - v/high) }

	var line, area strings.Builder
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].at.Sub(list[to-1].at) <= gapAfter {
			to++
		}
		fmt.Fprintf(&area, "M%.1f %d", x(list[from]), plotHeight)
		for i, p := range list[from:to] {
			letter := 'L'
			if i == 0 {
				letter = 'M'
			}
			fmt.Fprintf(&line, "%c%.1f %.1f", letter, x(p), y(value(p)))
			fmt.Fprintf(&area, "L%.1f %.1f", x(p), y(value(p)))
		}
		line.WriteString("h.1") // one sample alone is a dot
		fmt.Fprintf(&area, "V%dZ", plotHeight)
		from = to
	}
	return &usePlot{Line: line.String(), Area: area.String(), Limit: fmt.Sprintf("%.1f", y(limit)),
		From: now.Add(-span).Format(time.TimeOnly), To: now.Format(time.TimeOnly)}
}
