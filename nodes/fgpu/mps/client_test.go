package mps

import (
	"slices"
	"strings"
	"testing"

	"fairslice/nodes"
)

func TestClientOf(t *testing.T) {
	mps := func(share int, memory int64) nodes.Slice {
		return nodes.Slice{UUID: "GPU-a", Mode: nodes.ModeMPS, SMShare: share, Memory: memory}
	}
	shim := nodes.Slice{UUID: "GPU-b", Mode: nodes.ModeShim, SMShare: 2500, Memory: 2 << 30}
	for _, c := range []struct {
		name            string
		slices          []nodes.Slice
		percent, memory string
		bad             string
	}{
		{"a quarter", []nodes.Slice{mps(2500, 2<<30)}, "25", "GPU-a=2048M", ""},
		{"rounded down", []nodes.Slice{mps(3399, 2<<30-1)}, "33", "GPU-a=2047M", ""},
		{"never nothing", []nodes.Slice{mps(1, 1<<20)}, "1", "GPU-a=1M", ""},
		{"all of it", []nodes.Slice{mps(10_000, 8<<30)}, "100", "GPU-a=8192M", ""},
		{"beside a slice in another mode", []nodes.Slice{shim, mps(5000, 4<<30)}, "50", "GPU-a=4096M", ""},
		{"no share", []nodes.Slice{mps(0, 2<<30)}, "", "", "want 1 to 10000"},
		{"too much", []nodes.Slice{mps(10_001, 2<<30)}, "", "", "want 1 to 10000"},
		{"less memory than can be said", []nodes.Slice{mps(2500, 1<<20-1)}, "", "", "1 MiB"},
		{"two GPUs", []nodes.Slice{mps(2500, 2<<30), mps(2500, 2<<30)}, "", "", "one GPU's MPS daemon only"},
		{"not in this mode", []nodes.Slice{shim}, "", "", "0 slices in MPS mode"},
	} {
		got, err := ClientOf(c.slices, "/run/fairslice/mps/a")
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%s: got %v, %v", c.name, got, err)
			}
			continue
		}
		want := []string{"CUDA_MPS_PIPE_DIRECTORY=/.fairslice/mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" + c.percent,
			"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=" + c.memory}
		if err != nil || !slices.Equal(got.Env, want) || got.HostDir != "/run/fairslice/mps/a" || got.GuestDir != ClientDir {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, err, want)
		}
	}
}
