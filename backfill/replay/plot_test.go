package replay

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
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
