package fgpu

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestLayoutIsTheHeaders compiles abi/region.h and compares each size and offset, and the constants, with the Go structs.
func TestLayoutIsTheHeaders(t *testing.T) {
	structs := []struct {
		c      string
		goType reflect.Type
		fields map[string]string // C name → Go name
	}{
		{"fgpu_slice", reflect.TypeFor[sliceFile](), map[string]string{
			"magic": "magic", "version": "version", "size": "size", "devices": "devices", "policy": "policy", "frame_us": "frameUS",
			"owner": "owner", "frame_start": "frameStart", "heartbeat": "heartbeat", "job": "job", "process_seq": "processSeq",
			"processes": "processes", "device": "device", "process": "process", "history": "history"}},
		{"fgpu_device", reflect.TypeFor[sliceDevice](), map[string]string{
			"uuid": "uuid", "limit_bytes": "limit", "physical_bytes": "physical", "context_bytes": "context", "untracked_bytes": "untracked",
			"driver_bytes": "driver", "share": "share", "open": "open", "phase": "phase", "index": "index", "utilization": "utilization",
			"lost": "lost", "mode": "mode", "fgpu": "fgpu", "history_next": "historyNext", "model": "model"}},
		{"fgpu_process", reflect.TypeFor[sliceProcess](), map[string]string{"pid": "pid", "device": "device", "bytes": "bytes"}},
		{"fgpu_sample", reflect.TypeFor[sliceSample](), map[string]string{"mib": "mib", "utilization": "utilization", "throttled": "throttled"}},
		{"fgpu_usage", reflect.TypeFor[usageFile](), map[string]string{
			"magic": "magic", "version": "version", "size": "size", "slots_used": "slotsUsed", "counters": "counters", "slot": "slot"}},
		{"fgpu_counters", reflect.TypeFor[usageCounters](), map[string]string{
			"denied": "denied", "launches": "launches", "throttled_ns": "throttledNS", "peak_bytes": "peak"}},
		{"fgpu_slot", reflect.TypeFor[usageSlot](), map[string]string{
			"key": "key", "claim": "claim", "used": "used", "contexts": "contexts"}},
	}
	var program, want strings.Builder
	program.WriteString("#include <stdio.h>\n#include \"region.h\"\nint main(void) {\n")
	print := func(name, expression string, value any) {
		fmt.Fprintf(&program, "printf(\"%s %%llu\\n\", (unsigned long long)(%s));\n", name, expression)
		fmt.Fprintf(&want, "%s %v\n", name, value)
	}
	for _, s := range structs {
		print(s.c, "sizeof(struct "+s.c+")", s.goType.Size())
		named := 0
		for c, g := range s.fields {
			field, ok := s.goType.FieldByName(g)
			if !ok {
				t.Fatalf("%v has no field %s", s.goType, g)
			}
			print(s.c+"."+c, fmt.Sprintf("offsetof(struct %s, %s)", s.c, c), field.Offset)
			print(s.c+"."+c+".size", fmt.Sprintf("sizeof(((struct %s *)0)->%s)", s.c, c), field.Type.Size())
			named++
		}
		for i := range s.goType.NumField() {
			if s.goType.Field(i).Name == "_" {
				named++
			}
		}
		if named != s.goType.NumField() {
			t.Errorf("%v has a field that is not compared with %s", s.goType, s.c)
		}
	}
	for name, value := range map[string]int{
		"FGPU_VERSION": version, "FGPU_DEVICES": maxDevices, "FGPU_SLOTS": maxSlots, "FGPU_PROCESSES": maxProcesses,
		"FGPU_HISTORY": maxHistory, "FGPU_HARD": int(Hard), "FGPU_BURST": int(Burst),
	} {
		print(name, name, value)
	}
	program.WriteString(`printf("%.8s %.8s %s\n", FGPU_SLICE_MAGIC, FGPU_USAGE_MAGIC, FGPU_DIR); }`)
	fmt.Fprintf(&want, "%s %s %s\n", strings.TrimRight(sliceMagic, "\x00"), strings.TrimRight(usageMagic, "\x00"), DefaultDir)

	dir := t.TempDir()
	source, binary := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Iabi", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	got, expected := strings.Split(string(out), "\n"), strings.Split(want.String(), "\n")
	for i := range expected {
		if i >= len(got) || got[i] != expected[i] {
			t.Fatalf("line %d: C has %q, Go %q", i, got[min(i, len(got)-1)], expected[i])
		}
	}
}
