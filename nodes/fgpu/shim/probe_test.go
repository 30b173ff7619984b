package shim_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	out, errors := run(t, fenced(t, region(t, stubUUID, 1<<30, 0, 10000, 0), nil, library(t, "fence-probe")), 0)
	if out+errors != "" {
		t.Errorf("a fence that stands: %q", out+errors)
	}
	out, _ = run(t, exec.Command(library(t, "fence-probe")), 1)
	if !strings.HasPrefix(out, "libfgpu.so is not loaded") {
		t.Errorf("without the library: %q", out)
	}
	// A library in front of ours, as a tenant may preload one.
	cmd := fenced(t, region(t, stubUUID, 1<<30, 0, 10000, 0), nil, library(t, "fence-probe"))
	cmd.Env[1] = "LD_PRELOAD=" + library(t, "stub.so") + ":" + library(t, "libfgpu.so")
	out, _ = run(t, cmd, 1)
	if !strings.Contains(out, "another library stands before libfgpu.so") {
		t.Errorf("behind another library: %q", out)
	}
	run(t, fenced(t, "", nil, library(t, "fence-probe"), "--nonsense"), 2)
}

// A region that is not what noded made leaves the process without a GPU: never without a limit.
func TestBadRegions(t *testing.T) {
	write := func(name string, at int64, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte(text), at); err != nil {
				t.Fatal(err)
			}
		}
	}
	number := func(n uint32) string { return string(binary.NativeEndian.AppendUint32(nil, n)) }
	cut := func(name string, size int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(*testing.T, string)
		says  string
	}{
		{"no directory", remove("."), "slice is missing"},
		{"no slice", remove("slice"), "slice is missing"},
		{"no usage", remove("usage"), "usage is missing"},
		{"a slice cut short", cut("slice", 4000), "slice has the wrong size"},
		{"an empty slice", cut("slice", 0), "slice has the wrong size"},
		{"a usage file cut short", cut("usage", 64), "usage has the wrong size"},
		{"a usage file that has grown", cut("usage", 1<<20), "usage has the wrong size"},
		{"another file for the slice", write("slice", 0, "FSnothng"), "slice is not a slice file"},
		{"another file for the usage", write("usage", 0, "FSnothng"), "usage is not a usage file"},
		{"a slice of another version", write("slice", 8, number(2)), "slice is of another version"},
		{"a slice of another layout", write("slice", 12, number(1)), "slice is of another version"},
		{"a usage file of another version", write("usage", 8, number(2)), "usage is of another version"},
		{"too many devices", write("slice", 16, number(17)), "slice names too many devices"},
		{"a name without an end", write("slice", 256, strings.Repeat("x", 48)), "slice holds a broken name"},
		{"a directory for the slice", func(t *testing.T, dir string) {
			remove("slice")(t, dir)
			if err := os.Mkdir(filepath.Join(dir, "slice"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "slice is not a file"},
		{"a link for the usage", func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "usage"), filepath.Join(dir, "elsewhere")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("elsewhere", filepath.Join(dir, "usage")); err != nil {
				t.Fatal(err)
			}
		}, "usage cannot be opened"},
		{"a slice of somebody else", func(t *testing.T, dir string) {
			if os.Getuid() != 0 {
				t.Skip("needs root, to give the file away")
			}
			if err := os.Chown(filepath.Join(dir, "slice"), 12345, 12345); err != nil {
				t.Fatal(err)
			}
		}, "slice does not belong to noded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := region(t, stubUUID, 1<<30, 0, 10000, 0)
			c.spoil(t, dir)
			out, errors := run(t, fenced(t, dir, nil, library(t, "fence-probe")), 1)
			if !strings.Contains(errors, c.says) || strings.Count(errors, "\n") != 1 {
				t.Errorf("standard error %q, want one line with %q", errors, c.says)
			}
			if !strings.Contains(out, "the slice's files cannot be used") {
				t.Errorf("standard output %q", out)
			}
			// A launch is refused as well: the stub's would return 1001.
			out, _ = run(t, fenced(t, dir, []string{"LD_LIBRARY_PATH=" + built}, library(t, "finds")), 0)
			if !strings.Contains(out, "gpa-12000-0 cuLaunchKernel leads to 800\n") {
				t.Errorf("a launch was not refused: %q", out)
			}
		})
	}
}
