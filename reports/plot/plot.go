// Package plot draws diagrams as SVG, with nothing but the standard library.
package plot

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
)

// Plot is a diagram of lines, or where Bars are given of bars.
type Plot struct {
	Title  string
	X, Y   string // what is along the axes, with the unit
	Log    bool   // both axes are logarithmic: powers of ten
	Series []Series
	Bars   []Bar // lie one below the other; X is along their length
}

// Series is one line. X ascends; where Log is set, all is above 0. What is not finite is left out.
type Series struct {
	Name string
	X, Y []float64
}

// The parts of a panel, in SVG's units.
const (
	plotWidth, plotHeight       = 760, 300
	left, right, top, bottom    = 70, 20, 40, 50
	innerWidth, innerHeight     = plotWidth - left - right, plotHeight - top - bottom
	legendStep, wantedDivisions = 150, 6
)

// lineColours are told apart by people who see colours differently (Okabe and Ito, 2008).
var lineColours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"}

// WriteSVG draws plots one below the other.
func WriteSVG(to io.Writer, plots ...*Plot) error {
	w := bufio.NewWriter(to)
	height := 0
	for _, p := range plots {
		height += p.height()
	}
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, height, plotWidth, height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, height)
	at := 0
	for _, p := range plots {
		fmt.Fprintf(w, `<g transform="translate(0 %d)">`+"\n", at)
		if len(p.Bars) > 0 {
			p.drawBars(w)
		} else {
			p.draw(w)
		}
		fmt.Fprintln(w, `</g>`)
		at += p.height()
	}
	fmt.Fprintln(w, `</svg>`)
	return w.Flush()
}

func (p *Plot) draw(w io.Writer) {
	x, y := p.scale(left, innerWidth, false), p.scale(top+innerHeight, -innerHeight, true)
	text := func(atX, atY float64, anchor, s string) {
		fmt.Fprintf(w, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", atX, atY, anchor, html.EscapeString(s))
	}
	line := func(x1, y1, x2, y2 float64, colour string) {
		fmt.Fprintf(w, `<path d="M%.1f %.1fL%.1f %.1f" stroke="%s" fill="none"/>`+"\n", x1, y1, x2, y2, colour)
	}
	text(left, 16, "start", p.Title)
	for _, v := range x.ticks() {
		line(x.at(v), top, x.at(v), top+innerHeight, "#ddd")
		text(x.at(v), top+innerHeight+16, "middle", tickText(v))
	}
	for _, v := range y.ticks() {
		line(left, y.at(v), left+innerWidth, y.at(v), "#ddd")
		text(left-6, y.at(v)+4, "end", tickText(v))
	}
	text(left+innerWidth/2, plotHeight-12, "middle", p.X)
	fmt.Fprintf(w, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", top+innerHeight/2, html.EscapeString(p.Y))
	for i, s := range p.Series {
		colour := lineColours[i%len(lineColours)]
		fmt.Fprintf(w, `<path fill="none" stroke="%s" stroke-width="1.5" d="`, colour)
		letter := 'M'
		for j := range min(len(s.X), len(s.Y)) {
			if p.usable(s.X[j]) && p.usable(s.Y[j]) {
				fmt.Fprintf(w, "%c%.1f %.1f", letter, x.at(s.X[j]), y.at(s.Y[j]))
				letter = 'L'
			}
		}
		fmt.Fprintln(w, `"/>`)
		at := float64(left + i*legendStep)
		line(at, 28, at+20, 28, colour)
		text(at+25, 32, "start", s.Name)
	}
}

func (p *Plot) usable(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!p.Log || v > 0)
}

// scale maps values to places along an axis.
type scale struct {
	low, high    float64 // values; their logarithms where log
	from, length float64
	log          bool
}

// scale covers all values of one axis, and 0 where it is the Y axis and not logarithmic.
func (p *Plot) scale(from, length float64, isY bool) scale {
	s := scale{low: math.Inf(1), high: math.Inf(-1), from: from, length: length, log: p.Log}
	for _, line := range p.Series {
		values := line.X
		if isY {
			values = line.Y
		}
		for _, v := range values {
			if p.usable(v) {
				s.low, s.high = min(s.low, s.place(v)), max(s.high, s.place(v))
			}
		}
	}
	if math.IsInf(s.low, 1) {
		s.low, s.high = 0, 1 // nothing is drawn
	}
	switch {
	case s.log:
		s.low, s.high = math.Floor(s.low), math.Ceil(s.high)
	case isY:
		s.low, s.high = min(s.low, 0), max(s.high*1.05, 0)
	}
	if s.high <= s.low {
		s.high = s.low + 1
	}
	return s
}

func (s scale) place(v float64) float64 {
	if s.log {
		return math.Log10(v)
	}
	return v
}

func (s scale) at(v float64) float64 {
	return s.from + s.length*(s.place(v)-s.low)/(s.high-s.low)
}

// ticks are the values to write at the axis: the powers of ten, or some round numbers.
func (s scale) ticks() (out []float64) {
	if s.log {
		for e := s.low; e <= s.high && len(out) < 30; e++ {
			out = append(out, math.Pow(10, e))
		}
		return out
	}
	raw := (s.high - s.low) / wantedDivisions
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	switch {
	case raw > 5*step:
		step *= 10
	case raw > 2*step:
		step *= 5
	case raw > step:
		step *= 2
	}
	first := math.Ceil(s.low / step)
	for i := 0.0; (first+i)*step <= s.high && i < 2*wantedDivisions; i++ {
		out = append(out, (first+i)*step)
	}
	return out
}

func tickText(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
