package cgroup

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestParseMounts(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       found
	}{
		{"v1, separate", `32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory
37 31 0:34 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
38 31 0:35 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
`, found{v1: dirs{memory: "/sys/fs/cgroup/memory", cpu: "/sys/fs/cgroup/cpu", cpuacct: "/sys/fs/cgroup/cpuacct",
			freezer: "/sys/fs/cgroup/freezer", devices: "/sys/fs/cgroup/devices"}, v2: "/sys/fs/cgroup/unified"}},
		{"v1, mounted together", `35 31 0:32 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
36 31 0:33 / /cg/my\040memory rw - cgroup cgroup rw,memory
`, found{v1: dirs{memory: "/cg/my memory", cpu: "/cg/cpu,cpuacct", cpuacct: "/cg/cpu,cpuacct"}}},
		{"v2 only", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", found{v2: "/sys/fs/cgroup"}},
		{"nothing", "30 23 0:26 / /tmp rw - tmpfs none rw\nshort\n", found{}},
	} {
		if got := parseMounts(c.text); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestCoMountedHierarchyIsOneDirectory(t *testing.T) {
	d := dirs{memory: "/m", cpu: "/c", cpuacct: "/c"}.child("x")
	if got := d.all(); !reflect.DeepEqual(got, []string{"/m/x", "/c/x"}) {
		t.Error(got)
	}
}

func TestOwnV2(t *testing.T) {
	if got := ownV2("4:memory:/a\n0::/user.slice/user@1000.service/x\n"); got != "/user.slice/user@1000.service/x" {
		t.Error(got)
	}
}

// fakeV2 makes a directory with the files a kernel would show.
func fakeV2(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestV2Files(t *testing.T) {
	dir := fakeV2(t, map[string]string{"memory.max": "", "memory.swap.max": "", "cpu.weight": "", "cpu.max": ""})
	if err := createV2(dir, Limits{Memory: 1 << 30, CPUs: 2.5, Quota: true}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "cpu.weight": "250", "cpu.max": "250000 100000"} {
		if got, _ := os.ReadFile(filepath.Join(dir, file)); string(got) != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	dir = fakeV2(t, map[string]string{
		"cgroup.procs":   "12\n13\n",
		"cpu.stat":       "usage_usec 1500000\nuser_usec 1\n",
		"memory.current": "5000\n", "memory.peak": "9000\n",
		"memory.stat": "anon 1\ninactive_file 1000\n", "memory.events": "low 0\noom 3\noom_kill 2\n",
	})
	u, err := v2{dir}.usage()
	if want := (Usage{CPU: 1500 * time.Millisecond, Memory: 4000, MemoryMax: 9000, OOMKills: 2, Processes: 2}); err != nil || u != want {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestV2HandsControllersDown(t *testing.T) {
	top := fakeV2(t, map[string]string{"cgroup.controllers": "cpu io memory pids\n", "cgroup.subtree_control": ""})
	if err := handDown(top, []string{"cpu", "memory"}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(top, "cgroup.subtree_control")); string(got) != "+cpuory" { // a file, unlike the kernel, keeps the rest of +memory
		t.Errorf("%q", got)
	}
	none := fakeV2(t, map[string]string{"cgroup.controllers": "hugetlb\n"})
	if _, err := prepareV2(none, "a"); err == nil {
		t.Error("a hierarchy without the memory controller was taken")
	}
}

func TestParseStat(t *testing.T) {
	text := "42 (a ) b) S 7 42 40 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 777 1 1"
	p, ok := parseStat(42, text)
	if want := (process{pid: 42, parent: 7, session: 40, started: 777, cpu: time.Second}); !ok || p != want {
		t.Errorf("%+v", p)
	}
	if _, ok := parseStat(42, "42 (x) Z 7 42 40 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 777 1 1"); ok {
		t.Error("a zombie was taken for a process")
	}
}
