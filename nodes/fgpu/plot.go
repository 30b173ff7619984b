package fgpu

import (
	"fmt"
	"math"
	"strings"
)

// Plot says how Render draws.
type Plot struct {
	Width  int   // columns in all, at least 30
	Height int   // rows of each of the two charts, at least 2
	ASCII  bool  // for terminals that cannot show blocks
	Limit  int64 // bytes of the slice: the top of the chart of memory
	Share  int   // in 1/100 percent: the top of the chart of GPU time, until more was used
}

// The marks of a cell by how much of it is filled, from nothing to all.
var (
	blockMarks = []rune(" ▁▂▃▄▅▆▇█")
	asciiMarks = []rune(" .:#")
)

// Render draws seconds, oldest first, as two charts: the memory held, and the GPU time used. A column stands for one or more seconds: for
// memory it shows their greatest value, which is what a limit is about, for time their mean. Lines end in "\n" and have no
// blanks before it.
func Render(samples []Sample, p Plot) string {
	p.Width, p.Height = max(p.Width, 30), max(p.Height, 2)
	if len(samples) == 0 {
		return "no history yet\n"
	}
	const axis = 11 // "  2048 MiB |"
	columns := p.Width - axis - 1
	each := (len(samples) + columns - 1) / columns // seconds in a column
	var memory, used []float64
	var peak int64
	sum, waited, most := 0, 0, 0.0
	// Columns are filled from the newest back, so that only the oldest stands for fewer seconds.
	for end := len(samples); end > 0; end -= each {
		var bytes int64
		utilization := 0
		part := samples[max(end-each, 0):end]
		for _, s := range part {
			bytes = max(bytes, s.Bytes)
			utilization += s.Utilization
			waited += s.Throttled
		}
		sum, peak = sum+utilization, max(peak, bytes)
		mean := float64(utilization) / float64(len(part))
		most = max(most, mean)
		memory, used = append(memory, float64(bytes)), append(used, mean)
	}
	last, n := samples[len(samples)-1], len(samples)
	top := float64(p.Share)
	if top <= 0 || most > top*1.05 {
		top = Whole
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Memory: %d MiB, peak %d MiB of %d MiB\n", last.Bytes>>20, peak>>20, p.Limit>>20)
	p.chart(&b, memory, float64(p.Limit), columns, topText(p.Limit), "0 MiB")
	fmt.Fprintf(&b, "GPU time: %s, mean %s of %s; launches waited %s of the time\n",
		percentText(float64(last.Utilization)), percentText(float64(sum)/float64(n)), percentText(float64(p.Share)), percentText(float64(waited)/float64(n)))
	p.chart(&b, used, top, columns, percentText(top), "0 %")

	from := "-" + ageText(n)
	left := columns - len(used)
	if left+len(from)+len(" now") > columns {
		left = max(columns-len(from)-len(" now"), 0)
	}
	fmt.Fprintf(&b, "%s%s%*s\n", strings.Repeat(" ", axis+1+left), from, columns-left-len(from), "now")
	return b.String()
}

// chart draws one chart; values are from the newest back.
func (p Plot) chart(b *strings.Builder, values []float64, top float64, columns int, topLabel, bottomLabel string) {
	marks, bar := blockMarks, "┤"
	if p.ASCII {
		marks, bar = asciiMarks, "|"
	}
	steps := len(marks) - 1 // in a cell
	height := make([]int, len(values))
	for i, v := range values {
		if top > 0 {
			height[i] = int(math.Round(min(v/top, 1) * float64(p.Height*steps)))
		}
		if v > 0 {
			height[i] = max(height[i], 1) // something is not nothing
		}
	}
	for row := p.Height - 1; row >= 0; row-- {
		label := ""
		switch row {
		case p.Height - 1:
			label = topLabel
		case 0:
			label = bottomLabel
		}
		var line strings.Builder
		line.WriteString(strings.Repeat(" ", columns-len(values)))
		for i := len(values) - 1; i >= 0; i-- {
			line.WriteRune(marks[min(max(height[i]-row*steps, 0), steps)])
		}
		fmt.Fprintf(b, "%10s %s%s\n", label, bar, strings.TrimRight(line.String(), " "))
	}
}

// topText fits the axis.
func topText(bytes int64) string {
	if bytes >= 1_000_000<<20 {
		return fmt.Sprintf("%d GiB", bytes>>30)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

func percentText(hundredths float64) string { return fmt.Sprintf("%.1f %%", hundredths/100) }

func ageText(seconds int) string {
	if seconds < 60 {
		return fmt.Sprintf("%ds", seconds)
	}
	if seconds%60 == 0 {
		return fmt.Sprintf("%dm", seconds/60)
	}
	return fmt.Sprintf("%dm%02ds", seconds/60, seconds%60)
}
