package shim_test

import (
	"slices"
	"strings"
	"testing"
)

// Whatever way a program takes to find a function, it gets ours where we have one, the driver's own where not, and none where the
// driver has none, or has one that could not be counted.
func TestEveryWayToFindAFunction(t *testing.T) {
	dir := region(t, stubUUID, 1<<30, 0, 10000, 0)
	find := func(stub string) []string {
		cmd := fenced(t, dir, []string{"LD_LIBRARY_PATH=" + built, "STUB=" + stub}, library(t, "finds"))
		cmd.Env[1] += ":" + library(t, "next.so")
		out, _ := run(t, cmd, 0)
		return strings.Split(strings.TrimSpace(out), "\n")
	}
	expect := func(t *testing.T, got, want []string) {
		t.Helper()
		for _, line := range want {
			if !slices.Contains(got, line) {
				words := strings.Fields(line)
				at := slices.IndexFunc(got, func(l string) bool { return strings.HasPrefix(l, words[0]+" "+words[1]+" ") })
				if at < 0 {
					t.Fatalf("no answer to %q in %q", line, got)
				}
				t.Errorf("%q, want %q", got[at], line)
			}
		}
		for _, line := range got {
			if strings.Contains(line, "differs") {
				t.Errorf("the two cuGetProcAddress do not agree: %s", line)
			}
		}
	}

	var exported []string
	for _, way := range []string{"dlsym", "dlvsym", "deepbind", "default"} {
		exported = append(exported, way+" cuMemAlloc_v2 ours", way+" cuLaunchKernel_ptsz ours", way+" dlsym ours",
			way+" cuCtxCreate_v4 none", // this driver is too old for it
			way+" cuMemAlloc_v3 none")  // of a driver newer than us: not to be counted
		if way != "default" { // the driver is not in the default scope here
			exported = append(exported, way+" cuInit driver's", way+" cuMemGetInfo_v3 driver's")
		}
	}
	exported = append(exported, "dlsym puts libc's", "default puts libc's", "no-driver cuMemAlloc_v2 ours", "dlmopen cuMemAlloc_v2 ours",
		"dlsym cuGetProcAddress ours", "dlsym cuGetProcAddress_v2 ours",
		"next getppid libc's") // and not the caller's own, which would call itself for ever
	asked := []string{
		"gpa-12000-0 cuLaunchKernel ours", "gpa-12000-0 cuLaunchKernel leads to 1001",
		"gpa-12000-1 cuLaunchKernel ours", "gpa-12000-1 cuLaunchKernel leads to 1001",
		"gpa-12000-2 cuLaunchKernel ours", "gpa-12000-2 cuLaunchKernel leads to 1002", // the per-thread variant stays it
		"gpa-6000-2 cuLaunchKernel ours", "gpa-6000-2 cuLaunchKernel leads to 1001", // there was none in CUDA 6
		"gpa-12000-0 cuMemAlloc ours", "gpa-12000-0 cuInit driver's", "gpa-12000-0 cuNothing none",
		"gpa-11030-0 cuGetProcAddress ours", "gpa-12000-0 cuGetProcAddress ours",
	}
	t.Run("exported", func(t *testing.T) { expect(t, find(""), exported) })
	t.Run("cuGetProcAddress", func(t *testing.T) {
		expect(t, find(""), append(asked, "gpa-14000-0 cuMemAlloc ours"))
	})
	t.Run("a driver that gives out other addresses than it exports", func(t *testing.T) {
		expect(t, find("inner"), append(asked, "gpa-14000-0 cuMemAlloc ours"))
	})
	t.Run("a driver with variants that nobody knows", func(t *testing.T) {
		expect(t, find("future"), append(asked, "gpa-14000-0 cuMemAlloc none", "gpa-14000-0 cuMemGetInfo driver's"))
	})
}
