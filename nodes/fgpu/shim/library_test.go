package shim_test

import (
	"debug/elf"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

type entry struct {
	base, spelling, kind string
	since                int
}

// entries are the rows of the table of entry points.
func entries(t *testing.T) []entry {
	t.Helper()
	text, err := os.ReadFile("../abi/entries.def")
	if err != nil {
		t.Fatal(err)
	}
	var all []entry
	rows := regexp.MustCompile(`^FGPU_ENTRY\((\w+), (\w+), (\d+), ([A-Z]+)\)`)
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "FGPU_ENTRY") {
			continue
		}
		m := rows.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("entries.def:%d: %q: not a row", i+1, line)
		}
		since, _ := strconv.Atoi(m[3])
		all = append(all, entry{m[1], m[2], m[4], since})
	}
	if len(all) < 100 {
		t.Fatalf("entries.def has %d rows", len(all))
	}
	return all
}

func exports(t *testing.T, file string) []string {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestTheLibraryExportsTheTableAndNothingElse(t *testing.T) {
	want := []string{"dlopen", "dlsym", "dlvsym", "fgpu_probe"}
	for _, e := range entries(t) {
		if e.kind != "FORWARD" {
			want = append(want, e.spelling)
		}
	}
	text, err := os.ReadFile("nvml.def")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^FGPU_NVML\((\w+)\)`).FindAllStringSubmatch(string(text), -1) {
		want = append(want, m[1])
	}
	slices.Sort(want)
	want = slices.Compact(want)
	got := exports(t, library(t, "libfgpu.so"))
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("exports %s, which no table has", name)
		}
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("does not export %s", name)
		}
	}
}

func TestTheTableIsInOrder(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range entries(t) {
		row := e.base + " " + e.spelling
		if seen[row] {
			t.Errorf("%s is there twice", row)
		}
		seen[row] = true
		if e.since < 2000 || e.since > 13990 || e.since%10 != 0 {
			t.Errorf("%s: since %d: want 1000*major+10*minor", row, e.since)
		}
		if !strings.HasPrefix(e.spelling, e.base) {
			t.Errorf("%s: a spelling begins with its base name", row)
		}
		if !slices.Contains([]string{"RESOLVE", "CONTEXT", "ALLOC", "FREE", "TRACK", "LAUNCH", "REPORT", "SYNC", "FORWARD"}, e.kind) {
			t.Errorf("%s: kind %s", row, e.kind)
		}
	}
}

// An image's C library may be old: what needs a newer one than 2.17 is "cannot be preloaded: ignored", and the job unfenced.
func TestItLoadsWithOldCLibraries(t *testing.T) {
	for _, name := range []string{"libfgpu.so", "fence-probe"} {
		f, err := elf.Open(library(t, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		needed, err := f.ImportedLibraries()
		if err != nil || !slices.Equal(needed, []string{"libc.so.6"}) {
			t.Errorf("%s needs %q (%v), want libc.so.6 alone", name, needed, err)
		}
		symbols, err := f.ImportedSymbols()
		if err != nil || len(symbols) == 0 {
			t.Fatalf("%s: %d imported symbols, %v", name, len(symbols), err)
		}
		for _, s := range symbols {
			if s.Name == "fgpu_probe" && s.Library == "" { // weak, of the library that may be missing
				continue
			}
			var major, minor, patch int
			version := strings.Split(strings.TrimPrefix(s.Version, "GLIBC_"), ".")
			for i, to := range []*int{&major, &minor, &patch} {
				if i < len(version) {
					*to, err = strconv.Atoi(version[i])
				}
			}
			if err != nil || major != 2 || minor > 17 {
				t.Errorf("%s needs %s@%s, which glibc 2.17 lacks", name, s.Name, s.Version)
			}
		}
	}
}

// It is loaded into each program of a job, the shell included: nothing may run there.
func TestNothingRunsWhenItIsLoaded(t *testing.T) {
	f, err := elf.Open(library(t, "libfgpu.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range f.Sections {
		if slices.Contains([]string{".init", ".init_array", ".preinit_array", ".ctors", ".fini", ".fini_array", ".dtors", ".tdata", ".tbss"}, s.Name) && s.Size > 0 {
			t.Errorf("section %s has %d bytes", s.Name, s.Size)
		}
	}
	for _, tag := range []elf.DynTag{elf.DT_INIT, elf.DT_INIT_ARRAY, elf.DT_FINI, elf.DT_FINI_ARRAY, elf.DT_TEXTREL} {
		if v, _ := f.DynValue(tag); len(v) > 0 {
			t.Errorf("dynamic section has %v", tag)
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if slices.Contains([]string{"malloc", "calloc", "realloc", "free", "pthread_create", "atexit", "__cxa_finalize"}, s.Name) {
			t.Errorf("uses %s", s.Name)
		}
	}
}
