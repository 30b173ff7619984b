package fgpu

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// programs makes a directory with the named files.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBinds(t *testing.T) {
	r := create(t, quarter())
	p := Placement{Programs: programs(t, LibraryName, ProbeName, SMIName), Region: r.Dir()}
	all, err := p.Binds()
	if err != nil {
		t.Fatal(err)
	}
	want := []Bind{
		{r.Dir() + "/slice", "/.fairslice/fgpu/slice", true},
		{r.Dir() + "/usage", "/.fairslice/fgpu/usage", false},
		{p.Programs + "/fgpu-smi", "/.fairslice/fgpu/fgpu-smi", true},
		{p.Programs + "/libfgpu.so", "/.fairslice/fgpu/libfgpu.so", true},
		{p.Programs + "/fence-probe", "/.fairslice/fgpu/probe", true},
		{r.Dir() + "/ld.so.preload", "/etc/ld.so.preload", true},
	}
	if !slices.Equal(all, want) {
		t.Errorf("%v\nwant %v", all, want)
	}
	preload := filepath.Join(r.Dir(), PreloadFile)
	text, err := os.ReadFile(preload)
	if err != nil || string(text) != "/.fairslice/fgpu/libfgpu.so\n" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(preload); err != nil || info.Mode() != 0o444 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if again, err := p.Binds(); err != nil || !slices.Equal(again, want) {
		t.Errorf("again: %v, %v", again, err)
	}

	p.Driver = programs(t, driverFiles...)
	if all, err = p.Binds(); err != nil {
		t.Fatal(err)
	}
	want = append(want,
		Bind{p.Driver + "/libcuda.so.1", "/.singularity.d/libs/libcuda.so.1", true},
		Bind{p.Driver + "/libnvidia-ml.so.1", "/.singularity.d/libs/libnvidia-ml.so.1", true},
		Bind{p.Driver + "/simulated.conf", "/.singularity.d/libs/simulated.conf", true})
	if !slices.Equal(all, want) {
		t.Errorf("with a simulated driver: %v\nwant %v", all, want)
	}

	p.Unfenced = true
	if all, err = p.Binds(); err != nil || !slices.Equal(all, append(slices.Clone(want[:3]), want[6:]...)) {
		t.Errorf("unfenced: %v, %v", all, err)
	}
}

func TestAFenceWithAPartMissingIsNotPlaced(t *testing.T) {
	r := create(t, quarter())
	whole := Placement{Programs: programs(t, LibraryName, ProbeName, SMIName), Region: r.Dir(), Driver: programs(t, driverFiles...)}
	for name, p := range map[string]Placement{
		"no library": {Programs: programs(t, ProbeName, SMIName), Region: r.Dir()},
		"no driver":  {Programs: whole.Programs, Region: r.Dir(), Driver: programs(t, "libcuda.so.1")},
		"no region":  {Programs: whole.Programs, Region: t.TempDir()},
		"nowhere":    {Programs: whole.Programs, Region: r.Dir() + "/gone"},
	} {
		if all, err := p.Binds(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	for name, p := range map[string]Placement{
		"relative": {Programs: "out", Region: r.Dir()}, "empty": {}, "relative driver": {Programs: whole.Programs, Region: r.Dir(), Driver: "x"},
	} {
		if all, err := p.Binds(); err == nil {
			t.Errorf("%s: %v", name, all)
		}
	}
	folder := programs(t, ProbeName, SMIName)
	if err := os.Mkdir(filepath.Join(folder, LibraryName), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (Placement{Programs: folder, Region: r.Dir()}).Binds(); err == nil {
		t.Error("a folder was taken for the library")
	}
}
