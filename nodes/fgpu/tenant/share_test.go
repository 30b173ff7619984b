package tenant_test

import (
	"path/filepath"
	"testing"

	"fairslice/nodes/fgpu/tenant"
)

// A quarter of the GPU beside three greedy neighbours, each of two processes: without the fence the one process would get a
// seventh. Counted are kernels that completed in the same time in which one alone, unfenced, completes all
// that the simulated device can do.
func TestAQuarterBesideThreeGreedyNeighbours(t *testing.T) {
	const (
		seconds = 3
		blocks  = 500 // half a millisecond: few enough launches that a busy machine keeps up
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
			share := float64(counts[0]) / float64(alone[0])
			t.Logf("alone %d kernels; one of a quarter %d (%.1f %%), its neighbours %v", alone[0], counts[0], 100*share, counts[1:])
			if share < 0.225 || share > 0.275 {
				t.Errorf("got %.1f %% of the simulated device: want 25 within a tenth", 100*share)
			}
		})
	}
}
