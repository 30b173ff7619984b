package replay

import (
	"testing"

	"fairslice/backfill"
)

// The default order against EASY in the order of submission, on the published traces: what the project promises of it, with
// the room that the noise of one replay needs. TestReplayPublished holds EASY's own figures.
func TestDefaultOrder(t *testing.T) {
	for _, c := range []struct {
		trace    string
		procs    int64
		easy     float64 // mean bounded slowdown
		longest  float64 // wait, in seconds
		compress float64
		util     float64 // EASY's, in the window, when arrivals are compressed
	}{
		{"KTH-SP2-1996-2.1-cln", 100, 92.618756, 262194, 0.70, 0.9627},
		{"SDSC-SP2-1998-4.2-cln", 128, 87.825220, 459740, 0.80, 0.9465},
		{"HPC2N-2002-2.2-cln", 240, 87.676366, 1163311, 0, 0},
	} {
		t.Run(c.trace, func(t *testing.T) {
			if testing.Short() {
				t.Skip("takes seconds")
			}
			r := replayDefault(t, c.trace, c.procs, Change{})
			t.Logf("mean bounded slowdown %.4f, %.3f of EASY's; longest wait %.2f of EASY's", r.MeanSlowdown, r.MeanSlowdown/c.easy, float64(r.MaxWait)/c.longest)
			if r.MeanSlowdown > 0.60*c.easy || float64(r.MaxWait) > 1.3*c.longest {
				t.Error("wanted are at most 0.60 and 1.3")
			}
			if c.compress == 0 {
				return
			}
			r = replayDefault(t, c.trace, c.procs, Change{Compress: c.compress})
			t.Logf("arrivals in %.2f of the time: utilisation %.4f, EASY's is %.4f", c.compress, r.WindowUtilisation, c.util)
			if r.WindowUtilisation < c.util-0.01 {
				t.Error("wanted is EASY's less 0.01")
			}
		})
	}
}

func replayDefault(t *testing.T, trace string, procs int64, change Change) Result {
	t.Helper()
	tasks := realWorkload(t, trace, procs, change)
	policy := backfill.Policy{Protected: 1, Order: backfill.Responsive}
	s, err := Replay(tasks, Options{Nodes: Machine(procs), Policy: policy, Predict: true})
	if err != nil {
		t.Fatal(err)
	}
	return Summarise(tasks, s.Starts, procs)
}
