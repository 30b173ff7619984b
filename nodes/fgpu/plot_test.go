package fgpu

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

// training is ten minutes of a program: loads, then runs in waves, then stops.
func training(seconds int) []Sample {
	var all []Sample
	for i := range seconds {
		s := Sample{Bytes: int64(i) * 20 * mib, Utilization: 300}
		if i > 80 {
			s = Sample{Bytes: 1600 * mib, Utilization: 1500 + (i%100)*10, Throttled: 7000}
		}
		if i > 500 {
			s = Sample{Bytes: 1 * mib}
		}
		all = append(all, s)
	}
	return all
}

func TestRender(t *testing.T) {
	quarter := Plot{Width: 76, Height: 6, Limit: 2 * gib, Share: 2500}
	narrow, plain := quarter, quarter
	narrow.Width, narrow.Height = 10, 1
	plain.ASCII = true
	burst := training(300)
	for i := range burst[200:] {
		burst[200+i].Utilization = 9700
	}
	over := training(40)
	over[30].Bytes = 5 * gib
	for name, text := range map[string]string{
		"minutes":     Render(training(600), quarter),
		"ascii":       Render(training(600), plain),
		"seconds":     Render(training(45), quarter),
		"one":         Render(training(2)[1:], quarter),
		"narrow":      Render(training(600), narrow),
		"burst":       Render(burst, quarter),
		"over":        Render(over, plain),
		"none":        Render(nil, quarter),
		"no-capacity": Render(training(100), Plot{Width: 40, Height: 3}),
	} {
		path := filepath.Join("testdata", "plot", name+".txt")
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, text, want)
		}
	}
}

// Whatever was measured: no line is too long or ends in blanks, and as many lines as asked for.
func TestAPlotKeepsItsSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Sample {
			return Sample{rapid.Int64Range(0, 1<<45).Draw(t, "bytes"), rapid.IntRange(0, Whole).Draw(t, "used"), rapid.IntRange(0, Whole).Draw(t, "waited")}
		}), 1, 600).Draw(t, "samples")
		p := Plot{rapid.IntRange(30, 200).Draw(t, "width"), rapid.IntRange(2, 12).Draw(t, "height"), rapid.Bool().Draw(t, "ascii"),
			rapid.Int64Range(0, 1<<42).Draw(t, "limit"), rapid.IntRange(0, Whole).Draw(t, "share")}
		text := Render(samples, p)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) != 2*p.Height+3 {
			t.Fatalf("%d lines for %+v:\n%s", len(lines), p, text)
		}
		for i, line := range lines {
			if title := i == 0 || i == p.Height+1; !title && utf8.RuneCountInString(line) > p.Width || strings.HasSuffix(line, " ") {
				t.Fatalf("line %d %q for %+v", i, line, p)
			}
			if p.ASCII && strings.IndexFunc(line, func(r rune) bool { return r > 126 }) >= 0 {
				t.Fatalf("not ASCII: %q", line)
			}
		}
	})
}
