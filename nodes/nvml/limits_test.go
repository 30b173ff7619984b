package nvml

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairslice/nodes/fgpu/simdriver"
)

// group makes a group of cgroup v2, wherever this machine has that mounted.
func group(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[2] == "cgroup2" {
			dir, err := os.MkdirTemp(fields[1], "nvml-test-")
			if err != nil {
				t.Skip("no group can be made: ", err)
			}
			t.Cleanup(func() { os.Remove(dir) })
			return dir
		}
	}
	t.Skip("this machine has no cgroup v2")
	return ""
}

func TestMemoryLimits(t *testing.T) {
	dir := group(t)
	t.Setenv(simdriver.MIGVar, "1:7g.8gb")
	state := node(t, "3x8GiB", "n1")
	l := open(t)
	list := devices(t, l)
	limits := l.MemoryLimits()
	if limits == nil {
		t.Fatal("the calls are not there")
	}
	uuid := list[0].UUID
	if err := limits.Set(dir, uuid, 0, gib); !errors.Is(err, ErrUnsupported) {
		t.Errorf("with a driver that does not support them: %v", err)
	}
	if err := simdriver.SetMemoryLimits(state, true); err != nil {
		t.Fatal(err)
	}
	want := func(when, uuid string, want Limits) {
		t.Helper()
		if got, err := limits.Get(dir, uuid); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", when, got, err, want)
		}
	}
	want("before", uuid, Limits{0, NoLimit, 0})
	if err := limits.Set(dir, uuid, gib, 2*gib); err != nil {
		t.Fatal(err)
	}
	want("set", uuid, Limits{gib, 2 * gib, 0})
	want("of another GPU", list[2].UUID, Limits{0, NoLimit, 0})
	if err := limits.Set(dir, list[2].UUID, 0, 8*gib); err != nil {
		t.Fatal(err)
	}

	// What a process of the group, and of one below it, holds is the group's.
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	inside, outside := member(t, below), member(t, "")
	err := simdriver.SetProcesses(state, 0, []simdriver.Process{{PID: inside, Bytes: gib}, {PID: outside, Bytes: 3 * gib}})
	if err != nil {
		t.Fatal(err)
	}
	want("in use", uuid, Limits{gib, 2 * gib, gib})

	if err := limits.Set(dir, uuid, 0, 3*gib); err != nil {
		t.Fatal(err)
	}
	want("changed", uuid, Limits{0, 3 * gib, gib})
	for range 2 {
		if err := limits.Clear(dir, uuid); err != nil {
			t.Fatal(err)
		}
	}
	want("cleared", uuid, Limits{0, NoLimit, 0})
	want("of the other GPU still", list[2].UUID, Limits{0, 8 * gib, 0})

	// A damaged file is no limit, and is repaired by the next one that is set.
	if err := os.WriteFile(filepath.Join(state, "limits"), []byte("nonsense\n0 1\n0 1 2 relative\n-1 -1 -1 -1\n\xff\x00\n0 5 6"), 0o644); err != nil {
		t.Fatal(err)
	}
	want("damaged", uuid, Limits{0, NoLimit, 0})
	if err := limits.Set(dir, uuid, 5, 6); err != nil {
		t.Fatal(err)
	}
	want("repaired", uuid, Limits{5, 6, gib})

	for _, c := range []struct {
		name, group, uuid string
		soft, hard        int64
		unsupported       bool
		says              string
	}{
		{"soft above hard", dir, uuid, 2, 1, false, "0 <= soft <= hard"},
		{"less than nothing", dir, uuid, -1, 1, false, "0 <= soft <= hard"},
		{"more than the GPU has", dir, uuid, 0, 9 * gib, false, "Invalid Argument"},
		{"a group of another file system", t.TempDir(), uuid, 0, gib, true, "not a directory of cgroup v2"},
		{"a group that is not there", filepath.Join(dir, "none"), uuid, 0, gib, false, "no such file"},
		{"a part of a path", "some/group", uuid, 0, gib, false, "full path"},
		{"a GPU in MIG mode", dir, list[1].UUID, 0, gib, true, list[1].UUID},
		{"no such GPU", dir, "GPU-none", 0, gib, false, "GPU-none"},
	} {
		err := limits.Set(c.group, c.uuid, c.soft, c.hard)
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrUnsupported) != c.unsupported {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	l.Close()
	if _, err := limits.Get(dir, uuid); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// member starts a process in a group, "" for where this one is, and gives its id once it is there.
func member(t *testing.T, dir string) int {
	t.Helper()
	script := "echo there; read wait"
	if dir != "" {
		script = "echo $$ > " + dir + "/cgroup.procs && " + script
	}
	cmd := exec.Command("sh", "-c", script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		io.WriteString(in, "\n")
		cmd.Wait()
		if dir != "" {
			os.Remove(dir)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "there\n" {
		t.Fatalf("the process said %q, %v", line, err)
	}
	return cmd.Process.Pid
}
