package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// DenyV2 is what closes devices in mode V2, and TryV2 says by a program that allows all why the kernel lets nobody do that here. They
// are set by a file that may import the means.
var (
	DenyV2 func(dir string, devices []Device) error
	TryV2  func(dir string) error
)

// The memory devices stand for GPUs.
var zero, full = Device{1, 5}, Device{1, 7}

// gpus is a directory with nodes of both devices, and a second one of the second under another name.
func gpus(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, d := range map[string]Device{"zero": zero, "full": full, "alias": full} {
		if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR|0o666, int(unix.Mkdev(d.Major, d.Minor))); err != nil {
			t.Skip("cannot make device nodes here: ", err)
		}
	}
	return dir
}

// eachDenying runs a test in the modes that can deny devices: a mode that this machine has and that cannot, though the kernel could, fails.
func eachDenying(t *testing.T, test func(t *testing.T, m *Manager, dir string)) {
	t.Helper()
	eachMode(t, func(t *testing.T, m *Manager) {
		if m.mode == None {
			t.Skip("nothing can be denied without cgroups: ", m.CannotDeny())
		}
		dir := gpus(t)
		if m.mode == V2 {
			if err := TryV2(m.roots.unified); err != nil {
				t.Skip("NOT CHECKED here, only by the interpreter of package devices: the kernel takes no device program at all: ", err)
			}
		}
		if why := m.CannotDeny(); why != "" {
			t.Fatal("devices cannot be denied: ", why)
		}
		test(t, m, dir)
	})
}

// tries is a script that tries the devices in all ways and writes to $out what came of it. A child process of a child in a session
// of its own tries too.
func tries(dir, out string) string {
	return fmt.Sprintf(`cd %s; rm -f new made; exec 3> %s
try() { shift $(($# - 2)); if message=$(LC_ALL=C sh -c "$2" 2>&1); then echo $1 yes >&3; else echo $1 "${message##*: }" >&3; fi; }
try zero ': < zero'
try full ': < full'
try write ': > full'
try alias ': < alias'
try grandchild 'setsid -w sh -c "(: < full)"'
try mknod 'mknod new c 1 7'
try mknod-zero 'mknod made c 1 5'
`, dir, out)
}

// tryIn runs the script in the group, as root, and returns what it wrote.
func tryIn(t *testing.T, g *Group, dir string) map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	_, wait := sh(t, g, tries(dir, out))
	if ws := wait(); ws.ExitStatus() != 0 {
		t.Fatalf("the script ended with %v", ws)
	}
	return results(t, out)
}

func results(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(text)) {
		what, came, _ := strings.Cut(strings.TrimSpace(line), " ")
		got[what] = came
	}
	return got
}

const refused = "Operation not permitted"

// wantTries compares with what the script says when full is denied or not; zero is allowed.
func wantTries(t *testing.T, when string, got map[string]string, denied bool) {
	t.Helper()
	full := "yes"
	if denied {
		full = refused
	}
	want := map[string]string{"zero": "yes", "mknod-zero": "yes",
		"full": full, "write": full, "alias": full, "grandchild": full, "mknod": full}
	for what, w := range want {
		if got[what] != w {
			t.Errorf("%s: %s: %q, want %q", when, what, got[what], w)
		}
	}
}

func TestDeniedDeviceIsClosedToRootAndChildren(t *testing.T) {
	eachDenying(t, func(t *testing.T, m *Manager, dir string) {
		wantTries(t, "nothing denied", tryIn(t, create(t, m, "open", Limits{}), dir), false)
		g := create(t, m, "closed", Limits{Deny: []Device{full}})
		wantTries(t, "full denied", tryIn(t, g, dir), true)
		wantTries(t, "the other group still", tryIn(t, create(t, m, "open", Limits{}), dir), false)
	})
}

func TestDenialOutlivesTheManagerAndOnlyGrows(t *testing.T) {
	eachDenying(t, func(t *testing.T, m *Manager, dir string) {
		create(t, m, "7.1.1", Limits{Deny: []Device{full}})
		restarted := &Manager{mode: m.mode, parent: m.parent, roots: m.roots}
		restarted.DenyWith(DenyV2)
		g, ok := restarted.Open("7.1.1")
		if !ok {
			t.Fatal("the group is gone")
		}
		wantTries(t, "opened again", tryIn(t, g, dir), true)
		for range 3 {
			g = create(t, restarted, "7.1.1", Limits{Deny: []Device{full}})
		}
		wantTries(t, "made again", tryIn(t, g, dir), true)
		g = create(t, restarted, "7.1.1", Limits{})
		wantTries(t, "made again with another limit", tryIn(t, g, dir), true)
		g = create(t, restarted, "7.1.1", Limits{Deny: []Device{zero}})
		got := tryIn(t, g, dir)
		if got["zero"] != refused || got["full"] != refused || got["mknod-zero"] != refused {
			t.Errorf("after a second denial: %v", got)
		}
		if err := g.Remove(); err != nil {
			t.Fatal(err)
		}
		for _, d := range m.roots.child("7.1.1").all() {
			if exists(d) {
				t.Errorf("%s is left", d)
			}
		}
		wantTries(t, "a new group of that name", tryIn(t, create(t, m, "7.1.1", Limits{}), dir), false)
	})
}

func TestNestedGroupCannotReopen(t *testing.T) {
	eachDenying(t, func(t *testing.T, m *Manager, dir string) {
		g := create(t, m, "outer", Limits{Deny: []Device{full}})
		d := m.roots.child("outer")
		inner := filepath.Join(d.unified, "inner") // where devices are decided
		if m.mode == V1 {
			inner = filepath.Join(d.devices, "inner")
		}
		out := filepath.Join(t.TempDir(), "out")
		_, wait := sh(t, g, fmt.Sprintf("set -e; mkdir %[1]s; echo $$ > %[1]s/cgroup.procs; set +e; (echo 'c 1:7 rwm' > %[1]s/devices.allow) 2> /dev/null; ", inner)+tries(dir, out))
		if ws := wait(); ws.ExitStatus() != 0 {
			t.Fatalf("the script ended with %v", ws)
		}
		wantTries(t, "nested", results(t, out), true)
	})
}

func TestRunningProcessesAreEnrolled(t *testing.T) {
	eachDenying(t, func(t *testing.T, m *Manager, dir string) {
		create(t, m, "old", Limits{})
		g, _ := m.Open("old")
		out, start := filepath.Join(t.TempDir(), "out"), filepath.Join(dir, "start")
		if err := unix.Mkfifo(start, 0o600); err != nil {
			t.Fatal(err)
		}
		// It forks all the time, so that there is always one which the last look has not seen.
		_, wait := sh(t, g, `(while :; do sleep 0.01; done) & read x < `+start+"; "+tries(dir, out)+"kill $!")
		eventually(t, "it forks", func() bool { p, _ := g.Pids(); return len(p) >= 3 })
		create(t, m, "old", Limits{Deny: []Device{full}})
		if err := os.WriteFile(start, []byte("x\n"), 0); err != nil {
			t.Fatal(err)
		}
		if ws := wait(); ws.ExitStatus() != 0 {
			t.Fatalf("the script ended with %v", ws)
		}
		wantTries(t, "denied while it ran", results(t, out), true)
	})
}

func TestGroupThatDeniesIsKilledAndListedLikeOthers(t *testing.T) {
	eachDenying(t, func(t *testing.T, m *Manager, _ string) {
		g := create(t, m, "both", Limits{Deny: []Device{full}})
		pid, wait := sh(t, g, `setsid sleep 300 & sleep 301`)
		eventually(t, "three processes are seen", func() bool { p, _ := g.Pids(); return len(p) == 3 })
		if m.mode == V1 {
			inside, err := readPids(filepath.Join(m.roots.child("both").devices, "cgroup.procs"))
			if err != nil || !slices.Contains(inside, pid) {
				t.Errorf("%d was not born in the devices hierarchy: %v, %v", pid, inside, err)
			}
		}
		if names, err := m.List(); err != nil || !slices.Equal(names, []string{"both"}) {
			t.Errorf("list: %v, %v", names, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		wait()
	})
}

func TestRemovalCutShortIsTakenUp(t *testing.T) {
	top := t.TempDir()
	g := v1{dirs{freezer: filepath.Join(top, "freezer"), memory: filepath.Join(top, "memory"), devices: filepath.Join(top, "devices")}}
	for _, d := range g.all() {
		if err := mkdir(d); err != nil {
			t.Fatal(err)
		}
	}
	obstacle := filepath.Join(g.memory, "file") // in a plain directory it prevents the removal
	if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.remove(); err == nil {
		t.Fatal("removed in spite of the file")
	}
	if exists(g.devices) || !exists(g.main()) {
		t.Error("the main directory, by which the group is found, went before the others")
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	if err := g.remove(); err != nil || exists(g.main()) {
		t.Errorf("the second try: %v", err)
	}
}

func TestParentThatAllowsAListOnly(t *testing.T) {
	eachDenying(t, func(t *testing.T, m *Manager, dir string) {
		if m.mode != V1 {
			t.Skip("in v2 every program is asked, there are no lists")
		}
		// As in a container: all is denied but a list, in which full is there by its class.
		// The kernel refuses that while the probe's group, which is removed, is still on its way out.
		eventually(t, "all is denied", func() bool { return write(filepath.Join(m.roots.devices, "devices.deny"), "a") == nil })
		if err := write(filepath.Join(m.roots.devices, "devices.allow"), "c 1:* rwm"); err != nil {
			t.Fatal(err)
		}
		_, err := m.Create("x", Limits{Deny: []Device{full}})
		t.Cleanup(func() { m.group("x").Remove() })
		if err == nil || !strings.Contains(err.Error(), `cannot deny 1:7 alone where the parent allows "c 1:* rwm"`) {
			t.Errorf("error %v", err)
		}
		// By its own numbers it can be struck out.
		for _, w := range [][2]string{{"devices.deny", "c 1:* rwm"}, {"devices.allow", "c 1:3 rwm"}, {"devices.allow", "c 1:5 rwm"}, {"devices.allow", "c 1:7 rwm"}} {
			if err := write(filepath.Join(m.roots.devices, w[0]), w[1]); err != nil {
				t.Fatal(err)
			}
		}
		wantTries(t, "full denied", tryIn(t, create(t, m, "y", Limits{Deny: []Device{full}}), dir), true)
	})
}

func TestWhoCannotDenySaysSo(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		switch m.mode {
		case V1:
			all := m
			m = &Manager{mode: V1, parent: all.parent, roots: all.roots} // all removes its parent
			m.roots.devices, m.cannotDeny = prepareDevicesV1("", m.parent)
		case V2:
			m.DenyWith(func(string, []Device) error { return errors.New("the kernel has no BPF") })
		}
		why := m.CannotDeny()
		if why == "" {
			t.Error("no reason is given")
		}
		if _, err := m.Create("x", Limits{Deny: []Device{full}}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("error %v, want one with %q", err, why)
		}
		create(t, m, "x", Limits{}) // jobs run without
	})
}

func TestDevicesHierarchyThatCannotBeWritten(t *testing.T) {
	// A directory without the kernel's files, as of a file system that is not a cgroup's.
	if dir, why := prepareDevicesV1(t.TempDir(), "a/b"); dir != "" || !strings.Contains(why, "devices.deny") {
		t.Errorf("%q, %q", dir, why)
	}
}

func TestDeviceNumbersAreChecked(t *testing.T) {
	eachDenying(t, func(t *testing.T, m *Manager, _ string) {
		for _, d := range []Device{{4096, 0}, {0, 1 << 20}, {1 << 31, 1 << 31}} {
			if _, err := m.Create("x", Limits{Deny: []Device{d}}); err == nil {
				t.Errorf("%v was taken", d)
			}
		}
		create(t, m, "x", Limits{Deny: []Device{{4095, 1<<20 - 1}}})
	})
}

func TestDeviceAt(t *testing.T) {
	if d, err := DeviceAt("/dev/null"); err != nil || d != (Device{1, 3}) || d.String() != "1:3" {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := DeviceAt(t.TempDir()); err == nil {
		t.Error("a directory was taken for a device")
	}
	if _, err := DeviceAt("/dev/nvidia-that-is-not-there"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestAllowing(t *testing.T) {
	for _, c := range []struct{ list, want string }{
		{"a *:* rwm\n", ""},
		{"", ""},
		{"c 1:3 rwm\nc 5:* rw\n", ""},
		{"c 195:* rwm\n", "c 195:* rwm"},
		{"b 195:7 rwm\nc *:7 m\n", "c *:7 m"},
		{"c *:* r\n", "c *:* r"},
		{"c 195:7 w\n", "c 195:7 w"},
	} {
		if got, err := allowing(c.list, Device{195, 7}); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.list, got, err, c.want)
		}
	}
	for _, bad := range []string{"c 195:7", "x 1:2 rwm", "c 1 rwm", "c -1:2 rwm", "c 1:2 rx", "c 4096:0 r", "\n", "a *:* rwm\nc 1:3 r", "c 1:2 "} {
		if got, err := allowing(bad, Device{195, 7}); err == nil {
			t.Errorf("%q was taken, as %q", bad, got)
		}
	}
}

func FuzzAllowing(f *testing.F) {
	f.Add("a *:* rwm\n", uint32(195), uint32(0))
	f.Add("c 195:* rwm\nb *:* m\n", uint32(195), uint32(1))
	f.Fuzz(func(t *testing.T, list string, major, minor uint32) {
		d := Device{major % majors, minor % minors}
		entry, err := allowing(list, d)
		if err != nil || entry == "" {
			return
		}
		if !strings.HasPrefix(entry, "c ") || !strings.Contains(list, entry) {
			t.Fatalf("%q of %q", entry, list)
		}
		// What is said to allow it does so also when it is alone, and does not once it is gone.
		if again, err := allowing(entry, d); err != nil || again != entry {
			t.Fatalf("%q alone: %q, %v", entry, again, err)
		}
		// An exact entry of the same device is found as well.
		if own, err := allowing("c "+d.String()+" r", d); err != nil || own == "" {
			t.Fatalf("%v: %q, %v", d, own, err)
		}
	})
}

const leaderlessVariable = "CGROUP_TEST_LEADERLESS"

// loseLeader ends the first thread of the test program; the others live on, as in a program whose main function calls pthread_exit.
func loseLeader() {
	go func() { time.Sleep(time.Hour) }()
	unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// leaderless starts such a process in the group.
func leaderless(t *testing.T, g *Group) int {
	t.Helper()
	var pid int
	err := g.Start(func(attr *syscall.SysProcAttr) (err error) {
		attr.Setsid = true
		pid, err = syscall.ForkExec("/proc/self/exe", []string{"leaderless"}, &syscall.ProcAttr{
			Env: append(os.Environ(), append(g.Env(), leaderlessVariable+"=1")...), Files: []uintptr{0, 1, 2}, Sys: attr,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
	})
	eventually(t, "its first thread has ended", func() bool {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return bytes.Contains(stat, []byte(") Z "))
	})
	return pid
}
