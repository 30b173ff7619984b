package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"fairslice/backfill/replay"
)

// table is some lines of two or more columns.
type table struct{ lines []string }

func (t *table) row(cells ...string) { t.lines = append(t.lines, strings.Join(cells, "\t")) }

func (t *table) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	for _, line := range t.lines {
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}

// result adds the lines of results, side by side.
func (t *table) result(results ...*replay.Result) {
	add := func(name string, cell func(*replay.Result) string) {
		cells := []string{name}
		for _, r := range results {
			cells = append(cells, cell(r))
		}
		t.row(cells...)
	}
	add("mean wait", func(r *replay.Result) string { return fmt.Sprintf("%.4f s", r.MeanWait) })
	add("median wait", func(r *replay.Result) string { return seconds(float64(r.P50Wait)) })
	add("95 % wait at most", func(r *replay.Result) string { return seconds(float64(r.P95Wait)) })
	add("longest wait", func(r *replay.Result) string { return seconds(float64(r.MaxWait)) })
	add("mean bounded slowdown", func(r *replay.Result) string { return fmt.Sprintf("%.6f", r.MeanSlowdown) })
	add("largest bounded slowdown", func(r *replay.Result) string { return fmt.Sprintf("%.2f", r.MaxSlowdown) })
	add("utilisation", func(r *replay.Result) string { return fmt.Sprintf("%.4f", r.Utilisation) })
	add("utilisation while jobs came", func(r *replay.Result) string { return fmt.Sprintf("%.4f", r.WindowUtilisation) })
	add("makespan", func(r *replay.Result) string { return seconds(float64(r.Makespan)) })
}

// seconds prints a time exactly, and so that one can imagine it.
func seconds(s float64) string {
	text := fmt.Sprintf("%.1f s", s)
	if s < 60 {
		return text
	}
	d := time.Duration(s) * time.Second
	switch h := int64(d / time.Hour); {
	case h >= 48:
		return fmt.Sprintf("%s (%d d %d h)", text, h/24, h%24)
	case h > 0:
		return fmt.Sprintf("%s (%d h %d min)", text, h, int64(d/time.Minute)%60)
	}
	return fmt.Sprintf("%s (%d min)", text, int64(d/time.Minute))
}

// dropNote says how many jobs were left out, and why.
func dropNote(d replay.Dropped) string {
	if d.Sum() == 0 {
		return ""
	}
	var why []string
	for _, x := range []struct {
		n    int
		text string
	}{
		{d.NoProcessors, "without processors"}, {d.TooLarge, "larger than the machine"}, {d.NoRunTime, "without a run time"},
		{d.NoRequestTime, "without a requested time"}, {d.NoSubmitTime, "without a submit time"},
	} {
		if x.n > 0 {
			why = append(why, fmt.Sprintf("%d %s", x.n, x.text))
		}
	}
	return fmt.Sprintf(" (%d left out: %s)", d.Sum(), strings.Join(why, ", "))
}

// skipHint is added to the error of a bad line.
func skipHint(err error) string {
	var bad *replay.BadLine
	if errors.As(err, &bad) {
		return "; --skip-bad leaves such lines out and counts them"
	}
	return ""
}

func writeJSON(to io.Writer, v any) error {
	e := json.NewEncoder(to)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeFile writes a file whole, or says why not.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
