package tenant_test

import (
	"path/filepath"
	"testing"

	"fairslice/nodes/fgpu/tenant"
)

// A quarter of the GPU beside three greedy neighbours, each of two processes: without the fence the one process would get a
// seventh. Counted are kernels that completed. The quarter is of what all of them completed: how much the shim leaves unused at
// the ends of windows depends on how soon this machine wakes a process, and is for the benchmark to print.
// That no job gets more than its quarter is of all that the simulated device can do for one alone, unfenced.
func TestAQuarterBesideThreeGreedyNeighbours(t *testing.T) {
	const (
		seconds = 4
		blocks  = 200 // a fifth of a millisecond: a graph of four is short against a window of 25
	)
	for _, how := range []string{"eager", "graph"} {
		t.Run(how, func(t *testing.T) {
			m := machine(t)
			alone, err := m.Completed(t.Context(), []string{""}, seconds, blocks, how)
			if err != nil {
				t.Fatal(err)
			}
			uuid, err := m.UUID(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var regions []string
			for job := range 4 {
				r, err := m.Make(filepath.Join(open(t), "region"), tenant.Slice{
					UUID: uuid, Memory: 2 * gib, Share: 2500, Phase: 2500 * job, Context: contextFee,
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { r.Close() })
				regions = append(regions, r.Dir())
				if job > 0 {
					regions = append(regions, r.Dir())
				}
			}
			counts, err := m.Completed(t.Context(), regions, seconds, blocks, how)
			if err != nil {
				t.Fatal(err)
			}
			jobs := []float64{counts[0], counts[1] + counts[2], counts[3] + counts[4], counts[5] + counts[6]}
			sum := 0.0
			for job, n := range jobs {
				sum += n
				if n > 0.275*alone[0] {
					t.Errorf("job %d got %.1f %% of the simulated device: want at most 25 and a tenth", job, 100*n/alone[0])
				}
			}
			t.Logf("alone %.0f kernels in a second; four of a quarter %.0f, of them the one of one process %.1f %%", alone[0], jobs, 100*jobs[0]/sum)
			if share := jobs[0] / sum; share < 0.225 || share > 0.275 {
				t.Errorf("got %.1f %% of what the simulated device did: want 25 within a tenth", 100*share)
			}
		})
	}
}
