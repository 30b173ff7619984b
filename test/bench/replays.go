package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fairslice/backfill"
	"fairslice/backfill/replay"
)

// smallTrace is the one that is kept with the sources, as seen from the root of the repository.
var smallTrace = filepath.Join("backfill", "replay", "testdata", "small.swf")

// replayed are the policies whose rates are printed.
var replayed = []struct {
	name    string
	policy  backfill.Policy
	predict bool
}{
	{"fcfs", backfill.Policy{Order: backfill.FCFS}, false},
	{"easy", backfill.Policy{Order: backfill.FCFS, Protected: 1}, false},
	{"conservative", backfill.Policy{Order: backfill.FCFS, Protected: backfill.All}, false},
	{"default", backfill.Policy{Order: backfill.Responsive, Protected: 1}, true},
}

// atLeast is for how long a trace is replayed again and again: the small one takes milliseconds.
const atLeast = 300 * time.Millisecond

// benchReplays prints how fast traces are replayed: the small one, and the real ones where they are.
func benchReplays(ctx context.Context, to io.Writer) error {
	files := []string{smallTrace}
	real, err := realTraces()
	if err != nil {
		return err
	}
	if len(real) == 0 {
		fmt.Fprintln(to, "no real traces: FAIRSLICE_TRACES names the folder that has them in swf/")
	}
	w := newTable(to)
	fmt.Fprintln(w, "replay of\tjobs\tpolicy\tseconds\tprocessor\tjobs/s\t")
	for _, file := range append(files, real...) {
		tasks, procs, err := readTrace(file)
		if errors.Is(err, fs.ErrNotExist) && file == smallTrace {
			fmt.Fprintf(to, "no %s here: run it from the root of the repository\n", file)
			continue
		}
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(filepath.Base(file), ".swf")
		for _, p := range replayed {
			o := replay.Options{Nodes: replay.Machine(procs), Policy: p.policy, Predict: p.predict, Stop: ctx.Err}
			n, m := 0, startMeter()
			for n == 0 || time.Since(m.began) < atLeast {
				if _, err := replay.Replay(tasks, o); err != nil {
					return fmt.Errorf("replay %s: %w", file, err)
				}
				n++
			}
			wall, cpu, _, _ := m.stop()
			fmt.Fprintf(w, "%s\t%d\t%s\t%.4f\t%.4f\t%.0f\t\n", name, len(tasks), p.name, wall.Seconds()/float64(n), cpu.Seconds()/float64(n),
				float64(n*len(tasks))/wall.Seconds())
		}
	}
	return flush(w, to)
}

// realTraces are those of the folder that FAIRSLICE_TRACES names, or of the one that lies beside this repository, if any.
func realTraces() ([]string, error) {
	folder := os.Getenv("FAIRSLICE_TRACES")
	named := folder != ""
	if !named {
		folder = filepath.Join("..", "shared", "traces")
	}
	list, err := filepath.Glob(filepath.Join(folder, "swf", "*.swf.gz"))
	if err == nil && named && len(list) == 0 {
		err = fmt.Errorf("FAIRSLICE_TRACES: there is no swf/*.swf.gz in %s", folder)
	}
	return list, err
}

// readTrace reads a trace for the machine that its header names.
func readTrace(file string) ([]replay.Task, int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	trace, err := replay.ReadSWF(f, false)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", file, err)
	}
	procs, ok := trace.Number("MaxProcs")
	if !ok {
		return nil, 0, fmt.Errorf("%s: its header does not say MaxProcs", file)
	}
	tasks, _, err := replay.Workload(trace.Jobs, procs, replay.Change{})
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", file, err)
	}
	return tasks, procs, nil
}
