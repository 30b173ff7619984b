package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"fairslice/nodes/fgpu"
)

func TestWordsThatMakeNoRegion(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		why   string
		words []string
		usage bool
	}{
		{"nothing", nil, true},
		{"no share", []string{dir, "GPU-1", "100"}, true},
		{"too much", []string{dir, "GPU-1", "100", "50", "1", "2"}, true},
		{"a limit with a unit", []string{dir, "GPU-1", "1G", "50"}, false},
		{"a negative limit", []string{dir, "GPU-1", "-1", "50"}, false},
		{"a share of nothing", []string{dir, "GPU-1", "100", "0"}, false},
		{"more than all", []string{dir, "GPU-1", "100", "100.01"}, false},
		{"no share that is a number", []string{dir, "GPU-1", "100", "half"}, false},
		{"a context that is none", []string{dir, "GPU-1", "100", "50", "x"}, false},
		{"no region to sweep", []string{"-sweep", dir}, false},
	} {
		err := run(c.words)
		if err == nil || errors.Is(err, errUsage) != c.usage {
			t.Errorf("%s: %v", c.why, err)
		}
		if _, err := os.Stat(filepath.Join(dir, fgpu.SliceFile)); err == nil {
			t.Errorf("%s: made a region", c.why)
		}
	}
}

func FuzzPercent(f *testing.F) {
	for _, s := range []string{"25", "0.01", "100", "100.001", "NaN", "-1", "1e9", "0x1p-2", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		share, err := percent(s)
		if err == nil && (share < 1 || share > fgpu.Whole) {
			t.Errorf("%q: %d", s, share)
		}
	})
}
