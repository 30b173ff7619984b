package main

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"fairslice/nodes"
	"fairslice/nodes/agent"
	"fairslice/nodes/fgpu"
	"fairslice/queue"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fixedJobs are jobs that run for ever.
type fixedJobs struct {
	running []agent.RunningJob
	state   agent.FenceState
}

func (f fixedJobs) Running() []agent.RunningJob { return f.running }
func (f fixedJobs) Fence() agent.FenceState     { return f.state }

// twoJobs is a node on which everything that the metrics show is there.
func twoJobs() fixedJobs {
	quarter := nodes.Slice{UUID: "GPU-1", Index: 0, Amount: 50, Memory: 2 << 30, SMShare: 2500, Mode: nodes.ModeShim}
	instance := nodes.Slice{UUID: "MIG-2", Index: 1, Amount: 60, Memory: 4 << 30, SMShare: 4285, Mode: nodes.ModeMIG}
	return fixedJobs{
		running: []agent.RunningJob{
			{ID: queue.ElementID{Job: 12, Index: 3}, User: "alice", Queue: "gpu", MemoryLimit: 4 << 30,
				Usage: queue.Usage{CPU: 90 * time.Second, Memory: 1 << 30}, Slices: []nodes.Slice{quarter, instance}},
			{ID: queue.ElementID{Job: 13}, User: "bob", Queue: "normal"},
		},
		state: agent.FenceState{
			Slices: []agent.SliceState{
				{Session: "12.3.1", Job: queue.ElementID{Job: 12, Index: 3}, User: "alice", Project: "vision", Slice: quarter, Model: "Simulated 8G",
					Instance: agent.NoInstance, Limit: 2 << 30, Used: 1536 << 20, Untracked: 64 << 20, Utilization: 2130, Throttled: 1500 * time.Millisecond,
					Denied: 2, Launches: 1_000_000, Processes: 3, Enforced: true},
				{Session: "12.3.1", Job: queue.ElementID{Job: 12, Index: 3}, User: "alice", Project: "vision", Slice: instance, Model: "Simulated MIG",
					Instance: 2, Limit: 4 << 30},
			},
			GPUs: []agent.GPUState{
				{Index: 0, UUID: "GPU-1", Share: 10_000, Allocated: 2500},
				{Index: 1, UUID: "MIG-2", Share: 4285, Allocated: 4285},
				{Index: 2, UUID: "GPU-3", Share: 0, Allocated: 0},
			},
			Actions: map[agent.ActionKey]uint64{{Kind: fgpu.Warn, Reason: fgpu.ReasonMemory}: 2, {Kind: fgpu.Terminate, Reason: fgpu.ReasonMemory}: 1},
			Unknown: map[string]int{"GPU-1": 1},
		},
	}
}

func TestMetricsPageIsGolden(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(&metrics{"node1", twoJobs()})
	const file = "testdata/metrics.txt"
	if *update {
		writePage(t, r, file)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := testutil.GatherAndCompare(r, strings.NewReader(string(page))); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		// A gauge all the same: it stands beside _allocated and _fragmented, and says of what they are parts.
		if p.Metric != "fgpu_gpu_shares_total" {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func writePage(t *testing.T, r *prometheus.Registry, file string) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Whose a slice is, is told by one metric only: a label of a user on each would multiply what a server has to keep.
func TestOnlyTheInfoNamesJobsAndUsers(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(&metrics{"node1", twoJobs()})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	slicesSeen := 0
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "fgpu_slice_") || f.GetName() == "fgpu_slice_info" {
			continue
		}
		for _, m := range f.Metric {
			slicesSeen++
			var names []string
			for _, l := range m.Label {
				if l.GetName() != "mode" {
					names = append(names, l.GetName())
				}
			}
			if !slices.Equal(names, []string{"gpu_uuid", "session"}) {
				t.Errorf("%s has the labels %q", f.GetName(), names)
			}
		}
	}
	if slicesSeen != 10*2 {
		t.Errorf("%d series of slices, want 10 metrics of 2", slicesSeen)
	}
}

func TestModeCountIsNeverCalledEnforced(t *testing.T) {
	jobs := twoJobs()
	jobs.state.Slices[0].Slice.Mode = nodes.ModeCount
	want := `
# HELP fgpu_slice_enforced 1 where the fence was proven inside the job; 0 where it was not: nothing but the watchdog holds the job to its slice.
# TYPE fgpu_slice_enforced gauge
fgpu_slice_enforced{gpu_uuid="GPU-1",mode="count",session="12.3.1"} 0
fgpu_slice_enforced{gpu_uuid="MIG-2",mode="mig",session="12.3.1"} 0
`
	if err := testutil.CollectAndCompare(&metrics{"node1", jobs}, strings.NewReader(want), "fgpu_slice_enforced"); err != nil {
		t.Error(err)
	}
}

func TestLabelsOfAnyBytesAreNoCrash(t *testing.T) {
	jobs := twoJobs()
	jobs.state.Slices[0].Project, jobs.state.Slices[0].Model, jobs.running[0].User = "\xff\xfe", "a\x00\"\n", "\xc3"
	r := prometheus.NewRegistry()
	r.MustRegister(&metrics{"node1", jobs})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "fgpu_slice_info" && !strings.Contains(f.String(), "\ufffd") {
			t.Errorf("the bad bytes are not marked: %s", f)
		}
	}
}
