package tenant_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"fairslice/nodes/fgpu"
	"fairslice/nodes/fgpu/simdriver"
	"fairslice/nodes/fgpu/tenant"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30

	card       = 8 * gib  // of the simulated GPU
	contextFee = 64 * mib // of one context there
)

var built string // where the programs of these tests are

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fairslice-tenant-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	_ = os.Chmod(dir, 0o755) // one test runs them as another user
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the simulated driver, the shim and the tenant, once.
var build = sync.OnceValue(func() error {
	ctx := context.Background()
	if err := simdriver.Build(ctx, filepath.Join(built, "simdriver")); err != nil {
		return err
	}
	if err := tenant.Build(ctx, built); err != nil {
		return err
	}
	shim := exec.Command("sh", "../shim/build.sh")
	shim.Env = append(os.Environ(), "OUT="+built)
	if text, err := shim.CombinedOutput(); err != nil {
		return fmt.Errorf("build the shim: %w\n%s", err, text)
	}
	return nil
})

// machine is a simulated node of one GPU that nobody uses yet.
func machine(t *testing.T, knobs ...string) *tenant.Machine {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	env, err := simdriver.Env("1x8GiB", t.Name())
	if err != nil {
		t.Fatal(err)
	}
	env = append(env, simdriver.StateVar+"="+open(t))
	return &tenant.Machine{Programs: built, Driver: filepath.Join(built, "simdriver"), Env: append(env, knobs...)}
}

// open makes a directory that every user may enter.
func open(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(built, "dir")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// slice makes a region of the machine's GPU.
func slice(t *testing.T, m *tenant.Machine, memory int64, share int) *fgpu.Region {
	t.Helper()
	return sliceOf(t, m, tenant.Slice{Memory: memory, Share: share, Context: contextFee})
}

func sliceOf(t *testing.T, m *tenant.Machine, s tenant.Slice) *fgpu.Region {
	t.Helper()
	var err error
	if s.UUID, err = m.UUID(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := m.Make(filepath.Join(open(t), "region"), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// do runs a tenant that must end well.
func do(t *testing.T, m *tenant.Machine, region string, words ...string) []tenant.Line {
	t.Helper()
	lines, err := m.Run(t.Context(), region, words...)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// find returns the line that begins so; there must be one.
func find(t *testing.T, lines []tenant.Line, begins string) tenant.Line {
	t.Helper()
	l := tenant.Find(lines, begins)
	if l == "" {
		t.Fatalf("no line %q in %q", begins, lines)
	}
	return l
}

// talk starts a tenant that is ended with the test.
func talk(t *testing.T, m *tenant.Machine, region string, options ...string) *tenant.Talk {
	t.Helper()
	k, err := m.Talk(t.Context(), region, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Kill)
	return k
}

// tell gives a command to a tenant, which must answer.
func tell(t *testing.T, k *tenant.Talk, command string) tenant.Line {
	t.Helper()
	l, err := k.Do(command)
	if err != nil {
		t.Fatalf("%s: %q: %v", command, l, err)
	}
	return l
}

// ledger is what the driver says all processes hold on the GPU, and each.
func ledger(t *testing.T, m *tenant.Machine) (sum int64, each map[int]int64) {
	t.Helper()
	k := talk(t, m, "")
	each, err := k.Holding()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range each {
		sum += n
	}
	return sum, each
}

// settle clears what dead processes left, as noded does, and returns what the region says its processes hold.
func settle(t *testing.T, r *fgpu.Region) fgpu.DeviceUsage {
	t.Helper()
	if _, err := r.Sweep(fgpu.Processes{}.Alive); err != nil {
		t.Fatal(err)
	}
	u, err := r.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u[0]
}
