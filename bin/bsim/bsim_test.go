package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"fairslice/nodes"
	"fairslice/queue"
)

const small = "../../backfill/replay/testdata/small.swf"

// bsim runs the program.
func bsim(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(context.Background(), append([]string{"bsim"}, args...), &out, &err)
	return code, out.String(), err.String()
}

func TestReplay(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	code, stdout, stderr := bsim("replay", "-trace", small, "--procs", "32", "-policy", "easy", "--order", "sjf", "--starts", starts, "-json")
	if code != ok || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"n": 396.0, "procs": 32.0, "policy": "easy", "order": "sjf", "perfect": false, "dropped": 4.0, "bad_lines": 0.0} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	for _, name := range []string{"mean_wait", "p50_wait", "p95_wait", "max_wait", "mean_bounded_slowdown", "max_bounded_slowdown", "utilisation", "makespan", "seconds"} {
		if _, there := got[name].(float64); !there {
			t.Errorf("there is no %s in %s", name, stdout)
		}
	}
	text, err := os.ReadFile(starts)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(string(text), "\n"); len(lines) != 397 || lines[0] != "1 3934" {
		t.Errorf("%d lines of starts, the first %q", len(lines), lines[0])
	}
}

// The same result for people, with the trace's own machine; every policy and order is served.
func TestReplayPolicies(t *testing.T) {
	for _, args := range [][]string{
		{"--policy", "fcfs"}, {"--policy", "easy"}, {"--policy", "conservative"}, {"--protected", "4"}, {"--protected", "0"},
		{"--order", "sjf"}, {"--order", "fairshare"}, {"--order", "xfactor"}, {"--protected", "2", "--order", "sjf"}, {"--perfect"}, {"--compress", "0.5"},
	} {
		code, stdout, stderr := bsim(append([]string{"replay", "--trace", small}, args...)...)
		if code != ok || stderr != "" || !strings.Contains(stdout, "32 processors") || !strings.Contains(stdout, "396 (4 left out: 1 without processors, 1 larger than the machine, 1 without a run time, 1 without a requested time)") {
			t.Errorf("%v: exit %d, %s%s", args, code, stdout, stderr)
		}
	}
}

func TestBadTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.swf")
	text := "1 0 -1 5 1 -1 -1 1 5 -1 1 1 1 1 1 -1 -1 -1\nwhat is this\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := bsim("replay", "--trace", file, "--procs", "4")
	if want := "bsim: " + file + ": line 2: field 1 (job number) is \"what\"; "; code != failed || stdout != "" || !strings.HasPrefix(stderr, want) || !strings.Contains(stderr, "--skip-bad") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, _ := bsim("replay", "--trace", file, "--procs", "4", "--skip-bad", "--json"); code != ok || !strings.Contains(stdout, `"bad_lines": 1`) {
		t.Errorf("skipped: exit %d: %s", code, stdout)
	}
	if code, _, stderr := bsim("replay", "--trace", file, "--procs", "4", "--skip-bad"); code != ok || !strings.Contains(stderr, "1 bad lines left out; the first: line 2") {
		t.Errorf("skipped: exit %d: %s", code, stderr)
	}
	if code, _, stderr := bsim("replay", "--trace", file, "--skip-bad"); code != usage || !strings.Contains(stderr, "--procs is missing, and "+file+" does not say MaxProcs") {
		t.Errorf("without processors: exit %d: %s", code, stderr)
	}
	if code, _, stderr := bsim("replay", "--trace", file+".none"); code != failed || !strings.Contains(stderr, "no such file") {
		t.Errorf("no file: exit %d: %s", code, stderr)
	}
}

func TestUsage(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"", "which command? Allowed are replay, place and history"},
		{"play", `unknown command "play": allowed are replay, place and history`},
		{"replay", "replay: --trace is missing"},
		{"replay --trace x y", `replay: what is "y"?`},
		{"replay --trase x", "flag provided but not defined: -trase"},
		{"replay --trace x --policy best", "--policy best: allowed is fcfs, easy, conservative or default"},
		{"replay --trace x --order lifo", "--order lifo: allowed is fcfs, sjf, fairshare, xfactor or default"},
		{"replay --trace x --policy fcfs --order sjf", "--order sjf with --policy fcfs: allowed is sjf with easy only"},
		{"replay --trace x --policy easy --protected 2", "--policy and --protected: only one of them is allowed"},
		{"replay --trace x --protected -1", "--protected -1: allowed is a whole number from 0 to 2147483647"},
		{"replay --trace x --procs none", "--procs none: allowed is a whole number from 1 to 2147483647"},
		{"replay --trace x --procs 0", "--procs 0: allowed is a whole number from 1"},
		{"replay --trace x --compress 0", "--compress 0: allowed is a number above 0 and at most 1000"},
		{"replay --trace x --compress NaN", "--compress NaN: allowed is a number above 0"},
		{"place --nodes x", "place: --pods is missing"},
		{"place --nodes x --pods y --policy worst", "--policy worst: allowed is fragmentation, best-fit or packing"},
		{"place --nodes x --pods y --seed now", "--seed now: allowed is a whole number"},
		{"place --nodes x --pods y --load -1", "--load -1: allowed is a number above 0 and at most 100"},
		{"history", "history: --from is missing"},
		{"history --from soon", "--from soon: allowed is a time such as 2026-10-01"},
		{"history --from 2026-10-01 --to 2026-13-01", "--to 2026-13-01: allowed is a time such as"},
		{"history --from 1066-10-14", "--from 1066-10-14: allowed is a time from 1970 to 2200"},
		{"history --from 2026-10-01 --to 9999-01-01", "--to 9999-01-01: allowed is a time from 1970 to 2200"},
		{"history --from 2026-10-02 --to 2026-10-01", "--from 2026-10-02: allowed is a time before --to"},
	} {
		code, stdout, stderr := bsim(strings.Fields(row.args)...)
		if code != usage || stdout != "" || !strings.HasPrefix(stderr, "bsim: "+row.want) || !strings.Contains(stderr, "bsim: try bsim --help") {
			t.Errorf("%s: exit %d: %s%s", row.args, code, stdout, stderr)
		}
	}
	if code, stdout, _ := bsim("--help"); code != ok || !strings.Contains(stdout, "replay") {
		t.Errorf("help: exit %d: %s", code, stdout)
	}
}

// past is a site of two hosts, on which the first job of a day had everybody wait.
type past struct {
	day   time.Time
	asked *[2]time.Time // of which time the jobs were asked for
}

func (p past) Hosts(context.Context) ([]*nodes.Node, error) {
	gpu := []nodes.GPU{{UUID: "g", Capacity: 100, Used: 100}}
	return []*nodes.Node{{ID: "a", Slots: 2, UsedSlots: 2, GPUs: gpu}, {ID: "b", Alive: true, Closed: true, Slots: 2}}, nil
}

func (p past) Finished(_ context.Context, from, to time.Time, fn func(*queue.Job)) error {
	*p.asked = [2]time.Time{from, to}
	at := func(s int) time.Time { return p.day.Add(time.Duration(s) * time.Second) }
	for i, x := range []struct{ slots, submit, begin, end int }{{4, 0, 0, 100}, {4, 1, 100, 200}, {1, 2, 200, 250}, {9, 3, 3, 4}} {
		fn(&queue.Job{ID: queue.JobID(i + 1), Spec: &queue.Spec{}, Owner: queue.Identity{User: "alice"}, Submitted: at(x.submit),
			Plan: queue.Shape{Slots: x.slots, MaxSlots: x.slots, RunLimit: 100 * time.Second},
			Elements: []queue.Element{{State: queue.Done, Result: &queue.Result{At: at(x.end)}, Attempt: &queue.Attempt{Dispatched: at(x.begin), Began: at(x.begin),
				Alloc: []nodes.Allocation{{Node: "a", Slots: x.slots, Slices: []nodes.Slice{{UUID: "g", Amount: 50}}}}}}}})
	}
	return nil
}

// history runs bsim history on a past.
func history(from source, now time.Time, args ...string) (stdout string, err error) {
	var out bytes.Buffer
	a := app(&out, io.Discard)
	for _, c := range a.Commands {
		if c.Name == "history" {
			c.Action = func(c *cli.Context) error { return replayHistory(c, from, now) }
		}
	}
	err = a.Run(append([]string{"bsim", "history"}, args...))
	return out.String(), err
}

func TestWeightsAreOfFairShare(t *testing.T) {
	p := past{time.Date(2026, 10, 5, 8, 0, 0, 0, time.Local), new([2]time.Time)}
	for _, row := range []struct{ args, want string }{
		{"--gpu-weight 8", "--gpu-weight: allowed with --order fairshare only"},
		{"--memory-weight 0.25 --order xfactor", "--memory-weight: allowed with --order fairshare only"},
		{"--order fairshare --memory-weight -1", "--memory-weight -1: allowed is a number above 0 and at most 1e+06"},
		{"--order fairshare --gpu-weight much", "--gpu-weight much: allowed is a number above 0"},
		{"--order fairshare --gpu-weight 8 --memory-weight 0.25", ""},
	} {
		_, err := history(p, p.day.Add(time.Hour), append([]string{"--from", "2026-10-05"}, strings.Fields(row.args)...)...)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v", row.args, err)
		}
	}
}

func TestHistory(t *testing.T) {
	p := past{time.Date(2026, 10, 5, 8, 0, 0, 0, time.Local), new([2]time.Time)}
	plot := filepath.Join(t.TempDir(), "plot.svg")
	stdout, err := history(p, p.day.Add(time.Hour), "--from", "2026-10-05", "--plot", plot)
	if err != nil {
		t.Fatal(err)
	}
	// Job 3 would have waited as long: it may not pass job 2, which needs all. Job 4 has no room any more.
	for _, want := range []string{"as it was", "easy", "longest wait", "198.0 s (3 min)", "fGPU utilisation", "left out: 1 need more than any of the 2 hosts of today has"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	svg, err := os.ReadFile(plot)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Jobs that wait", "minutes since 2026-10-05 08:00", "Slots in use", "% of 4", "GPUs in use", "% of 1 fGPU"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("%q is not in the plot", want)
		}
	}
	stdout, err = history(p, p.day.Add(time.Hour), "--from", "2026-10-05 08:00", "--to", "2026-10-06", "--policy", "fcfs", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var got compared
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Actual.N != 3 || got.Replayed.N != 3 || got.NoRoomNow != 1 || got.Slots != 4 || got.FGPU != 100 || got.Actual.MaxWait != 198 || got.Replayed.Makespan != 250 {
		t.Errorf("got %+v", got)
	}
	if want := [2]time.Time{p.day, p.day.Add(16 * time.Hour)}; *p.asked != want {
		t.Errorf("asked for the jobs of %v, want %v", *p.asked, want)
	}
	if _, err := history(p, p.day.Add(time.Hour), "--from", "2026-10-05 08:30"); err == nil || !strings.Contains(err.Error(), "no job that was submitted from") {
		t.Errorf("of an empty time: %v", err)
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	p := newProgress(&b, "replay")
	if p.show(1, 2); b.Len() > 0 {
		t.Errorf("what is no terminal got %q", b.String())
	}
	p = &progress{to: &b, what: "replay", now: func() time.Time { return now }, begun: now}
	p.show(1, 100)
	if p.end(); b.Len() > 0 {
		t.Errorf("a run of a moment drew %q", b.String())
	}
	now = now.Add(2 * time.Second)
	p.show(50, 100)
	now = now.Add(10 * time.Millisecond)
	p.show(51, 100) // too soon
	p.end()
	if want := "\rreplay [###############               ] 50 of 100, 2s left\x1b[K\r\x1b[K"; b.String() != want {
		t.Errorf("drew %q, want %q", b.String(), want)
	}
}
