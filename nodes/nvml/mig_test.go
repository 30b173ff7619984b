package nvml

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairslice/nodes/fgpu/simdriver"
)

func TestInstances(t *testing.T) {
	t.Setenv(simdriver.MIGVar, "0:3g.4gb,1c.2g.2gb*2;2:")
	node(t, "4x8GiB", "n1")
	l := open(t)
	list := devices(t, l)
	for i, want := range []bool{true, false, true, false} {
		if list[i].MIG != want || list[i].MPS() == want {
			t.Errorf("GPU %d: %+v, MPS %v", i, list[i], list[i].MPS())
		}
	}
	got, err := l.Instances(list[0].UUID)
	if err != nil || len(got) != 3 {
		t.Fatalf("got %+v, %v", got, err)
	}
	seen := map[string]bool{}
	for i := range got {
		if !strings.HasPrefix(got[i].UUID, "MIG-") || seen[got[i].UUID] {
			t.Errorf("UUID %q", got[i].UUID)
		}
		seen[got[i].UUID] = true
		if u, err := l.Usage(got[i].UUID); err != nil || u.GPUUtil != -1 {
			t.Errorf("usage of %s: %+v, %v", got[i].UUID, u, err)
		}
		if p, err := l.Processes(got[i].UUID); err != nil || len(p) != 0 {
			t.Errorf("processes of %s: %v, %v", got[i].UUID, p, err)
		}
		got[i].UUID = ""
	}
	for i, want := range []Instance{
		{GPUInstance: 1, ComputeInstance: 0, Profile: "3g.4gb", Memory: 4 * gib, SMs: 42},
		{GPUInstance: 2, ComputeInstance: 0, Profile: "1c.2g.2gb", Memory: 2 * gib, SMs: 14, Shared: true},
		{GPUInstance: 2, ComputeInstance: 1, Profile: "1c.2g.2gb", Memory: 2 * gib, SMs: 14, Shared: true},
	} {
		want.Parent, want.ParentSMs, want.GPUInstanceCap, want.ComputeInstanceCap = list[0].UUID, 100, -1, -1
		if got[i] != want {
			t.Errorf("instance %d: got %+v, want %+v", i, got[i], want)
		}
	}
	for _, i := range []int{1, 2} { // not in MIG mode, and not divided
		if got, err := l.Instances(list[i].UUID); err != nil || len(got) != 0 {
			t.Errorf("GPU %d: %v, %v", i, got, err)
		}
	}
	if _, err := l.Usage("MIG-none"); err == nil || !strings.Contains(err.Error(), "MIG-none") {
		t.Errorf("an unknown instance: %v", err)
	}

	// Where one GPU is lost, another's instances are still found.
	t.Setenv(simdriver.MIGVar, "0:7g.8gb;1:7g.8gb")
	state := node(t, "2x8GiB", "n2")
	l.Close()
	l = open(t)
	list = devices(t, l)
	of := func(gpu int) string {
		got, err := l.Instances(list[gpu].UUID)
		if err != nil || len(got) != 1 {
			t.Fatalf("GPU %d: %v, %v", gpu, got, err)
		}
		return got[0].UUID
	}
	first, second := of(0), of(1)
	if err := simdriver.SetLost(state, 0, true); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Instances(list[0].UUID); !errors.Is(err, ErrLost) {
		t.Errorf("instances of the lost one: %v", err)
	}
	if _, err := l.Usage(first); err == nil {
		t.Error("an instance of the lost one has a use")
	}
	if u, err := l.Usage(second); err != nil || u.MemoryUsed != 0 {
		t.Errorf("of the other: %+v, %v", u, err)
	}
}

func TestBadInstancesSayWhatIsAllowed(t *testing.T) {
	for _, text := range []string{"1:1g.1gb", "0:3g.9gb", "0:1g.1gb*8", "nonsense"} {
		t.Setenv(simdriver.MIGVar, text)
		node(t, "1x8GiB", "n1")
		if _, err := Open(driverDir); err == nil || !strings.Contains(err.Error(), "0:3g.4gb,3g.4gb") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestInstanceCaps(t *testing.T) {
	root := t.TempDir()
	it := Instance{GPUInstance: 3, ComputeInstance: 1}
	if gi, ci, err := instanceCaps(root, 2, it); gi != -1 || ci != -1 || err != nil {
		t.Errorf("without files: %d, %d, %v", gi, ci, err)
	}
	dir := filepath.Join(root, "gpu2", "mig", "gi3")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "access"), "DeviceFileMinor: 21\nDeviceFileMode: 256\nDeviceFileModify: 1\n")
	write(filepath.Join(dir, "ci1", "access"), "DeviceFileMinor: 22\nDeviceFileMode: 256\nDeviceFileModify: 1\n")
	if gi, ci, err := instanceCaps(root, 2, it); gi != 21 || ci != 22 || err != nil {
		t.Errorf("got %d, %d, %v", gi, ci, err)
	}
	write(filepath.Join(dir, "ci1", "access"), "DeviceFileMinor: x\n")
	if _, _, err := instanceCaps(root, 2, it); err == nil || !strings.Contains(err.Error(), "ci1/access") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseCap(f *testing.F) {
	for _, s := range []string{"DeviceFileMinor: 21\nDeviceFileMode: 256\n", "", "DeviceFileMinor: -1", "DeviceFileMinor: 1\nDeviceFileMinor: 2\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseCap(s); err == nil && (n < 0 || n >= 1<<20 || strings.Count(s, "DeviceFileMinor: ") < 1) {
			t.Fatalf("%q gave %d", s, n)
		}
	})
}
