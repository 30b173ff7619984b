package queue

import (
	"reflect"
	"testing"
	"time"

	"fairslice/nodes"
)

func TestSliceTexts(t *testing.T) {
	quarter := nodes.Slice{UUID: "GPU-a", Index: 0, Memory: 2 << 30, SMShare: 2500}
	half := nodes.Slice{UUID: "GPU-b", Index: 3, Memory: 4 << 30, SMShare: 5000}
	one := []nodes.Allocation{{Node: "gpu01", Slices: []nodes.Slice{quarter, half}}}
	for _, c := range []struct {
		name  string
		alloc []nodes.Allocation
		gpus  []GPUUsage
		want  []string
	}{
		{"without slices", []nodes.Allocation{{Node: "gpu01"}}, []GPUUsage{{UUID: "GPU-a"}}, nil},
		{"whose slices are in another order than the usage", one,
			[]GPUUsage{{UUID: "GPU-b", SMTime: 30 * time.Second, Measured: time.Minute, MaxMemory: 1}, {UUID: "GPU-a", MaxMemory: 1536 << 20, SMTime: 21_300 * time.Millisecond, Measured: 100 * time.Second}},
			[]string{"GPU 0 (GPU-a): peak 1536 MiB of 2048 MiB, SM 21.3 % of 25.0 %", "GPU 3 (GPU-b): peak 1 MiB of 4096 MiB, SM 50.0 % of 50.0 %"}},
		{"of which one slice was never looked at, and one too short for a share", one, []GPUUsage{{UUID: "GPU-a", MaxMemory: 5 << 20}},
			[]string{"GPU 0 (GPU-a): peak 5 MiB of 2048 MiB, SM not measured of 25.0 %", "GPU 3 (GPU-b): not measured"}},
		{"on two hosts whose GPUs have the same name", []nodes.Allocation{{Node: "n1", Slices: []nodes.Slice{quarter}}, {Node: "n2", Slices: []nodes.Slice{quarter}}},
			[]GPUUsage{{UUID: "GPU-a", Measured: 1}}, []string{"GPU 0 (GPU-a) on n1: peak 0 MiB of 2048 MiB, SM 0.0 % of 25.0 %", "GPU 0 (GPU-a) on n2: not measured"}},
	} {
		if got := SliceTexts(c.alloc, Usage{GPUs: c.gpus}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("a job %s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestGPUTotal(t *testing.T) {
	u := Usage{GPUs: []GPUUsage{
		{UUID: "a", Memory: 1, MaxMemory: 9, Util: 100, SMTime: time.Second, Measured: 10 * time.Second},
		{UUID: "b", Memory: 2, MaxMemory: 7, Util: 200, SMTime: 3 * time.Second, Measured: 10 * time.Second},
	}}
	want := GPUUsage{Memory: 3, MaxMemory: 9, Util: 300, SMTime: 4 * time.Second, Measured: 20 * time.Second}
	got := u.GPUTotal()
	if got != want || got.MeanShare() != 2000 {
		t.Errorf("%+v with a mean of %d", got, got.MeanShare())
	}
	none := GPUUsage{}
	if none.MeanShare() != 0 || (&Usage{}).GPUTotal() != none {
		t.Error("nothing measured is not nothing used")
	}
}
