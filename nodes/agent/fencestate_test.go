package agent

import (
	"strings"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// Readers of a report look for LSF's lines from above: what is ours stands below them, and changes none.
func TestJobReportTellsOfSlicesBelowLSFsLines(t *testing.T) {
	at := time.Date(2026, 3, 18, 3, 6, 7, 0, time.UTC)
	r := sampleRecord()
	r.Assignment.Alloc = []nodes.Allocation{{Node: "gpu01", Slots: 1, Slices: []nodes.Slice{
		{UUID: "GPU-a", Index: 0, Memory: 2 << 30, SMShare: 2500}, {UUID: "GPU-b", Index: 1, Memory: 2 << 30, SMShare: 2500}}}}
	rep := queue.Report{Usage: queue.Usage{CPU: time.Second}}
	plain := string(jobReport(r.Assignment, *r, rep, at))
	if strings.Contains(plain, "GPU ") {
		t.Errorf("nothing was measured, but the report tells of it:\n%s", plain)
	}
	rep.Usage.GPUs = []queue.GPUUsage{{UUID: "GPU-a", MaxMemory: 1536 << 20, SMTime: 21300 * time.Millisecond, Measured: 100 * time.Second}}
	got := string(jobReport(r.Assignment, *r, rep, at))
	const lines = "    GPU 0 (GPU-a): peak 1536 MiB of 2048 MiB, SM 21.3 % of 25.0 %\n    GPU 1 (GPU-b): not measured\n"
	if strings.Replace(got, lines, "", 1) != plain {
		t.Errorf("more than the lines of the slices is new:\n%s", got)
	}
	_, after, found := strings.Cut(got, "Turnaround time :")
	if _, rest, _ := strings.Cut(after, "\n"); !found || !strings.HasPrefix(rest, lines+"\nThe output (if any)") {
		t.Errorf("the slices do not stand below the turnaround time:\n%s", got)
	}
}

func TestFragmented(t *testing.T) {
	for _, c := range []struct {
		what string
		gpu  GPUState
		want int
	}{
		{"an idle GPU can be given as a whole", GPUState{Share: 10_000}, 0},
		{"a quarter is given away", GPUState{Share: 10_000, Allocated: 2500}, 7500},
		{"a full one has nothing free", GPUState{Share: 10_000, Allocated: 10_000}, 0},
		{"a lost one has nothing to give, though a slice is there still", GPUState{Share: 0, Allocated: 2500}, 0},
		{"a taken MIG instance", GPUState{Share: 4285, Allocated: 4285}, 0},
	} {
		if got := c.gpu.Fragmented(); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
