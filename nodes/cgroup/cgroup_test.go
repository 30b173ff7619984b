package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if os.Getenv(leaderlessVariable) != "" {
		loseLeader()
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		found, _ := detect()
		for _, d := range append(found.v1.all(), found.v2) {
			unix.Rmdir(filepath.Join(d, "fairslice-test"))
		}
		os.Exit(code)
	}))
}

// eachMode runs a test in every mode this machine can do. V2 runs in whatever unified hierarchy is mounted, with or
// without controllers: births, signals and freezing need none.
func eachMode(t *testing.T, test func(t *testing.T, m *Manager)) {
	t.Helper()
	found, _ := detect()
	parent := fmt.Sprintf("fairslice-test/%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), os.Getpid())
	t.Run("none", func(t *testing.T) { test(t, &Manager{parent: parent, table: &table{}, cannotDeny: "none"}) })
	t.Run("v1", func(t *testing.T) {
		roots, err := prepareV1(found.v1, parent)
		if found.v1.memory == "" || err != nil {
			t.Skip("no usable v1 hierarchy: ", err)
		}
		m := &Manager{mode: V1, parent: parent, roots: roots}
		m.roots.devices, m.cannotDeny = prepareDevicesV1(found.v1.devices, parent)
		t.Cleanup(func() { m.Remove() })
		test(t, m)
	})
	t.Run("v2", func(t *testing.T) {
		dir := filepath.Join(found.v2, parent)
		if err := os.MkdirAll(dir, 0o755); found.v2 == "" || err != nil {
			t.Skip("no usable unified hierarchy: ", err)
		}
		m := &Manager{mode: V2, parent: parent, roots: dirs{unified: dir}, cannotDeny: "no means was given"}
		m.DenyWith(DenyV2)
		t.Cleanup(func() { m.Remove() })
		test(t, m)
	})
}

// create is Create, also where the unified hierarchy has no memory controller.
func create(t *testing.T, m *Manager, name string, l Limits) *Group {
	t.Helper()
	g, err := m.Create(name, l)
	if m.mode == V2 && l.Memory > 0 && err != nil {
		g, err = m.group(name), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := g.Kill(ctx); err != nil {
			t.Error(err)
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// sh starts a shell script in the group and returns its pid; wait reaps it.
func sh(t *testing.T, g *Group, script string) (pid int, wait func() syscall.WaitStatus) {
	t.Helper()
	err := g.Start(func(attr *syscall.SysProcAttr) (err error) {
		attr.Setsid = true
		pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{
			Env: append(os.Environ(), g.Env()...), Files: []uintptr{0, 1, 2}, Sys: attr,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan syscall.WaitStatus, 1)
	go func() {
		var ws syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &ws, 0, nil); err != unix.EINTR {
				break
			}
		}
		done <- ws
	}()
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	return pid, func() syscall.WaitStatus {
		select {
		case ws := <-done:
			return ws
		case <-time.After(20 * time.Second):
			t.Fatalf("process %d does not end", pid)
			return 0
		}
	}
}

// eventually polls for something that has no event.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if err := within(10*time.Second, func() (bool, error) { return ok(), nil }); err != nil {
		t.Fatal("did not come true: " + what)
	}
}

func TestProcessesThatHideAreFoundAndKilled(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		g := create(t, m, "7.1.1", Limits{})
		_, wait := sh(t, g, `setsid sleep 300 & (setsid sh -c 'sleep 301 & sleep 302' &) ; sleep 303`)
		eventually(t, "six processes are seen", func() bool { p, _ := g.Pids(); return len(p) == 6 })
		if _, ok := m.Open("7.1.1"); !ok {
			t.Error("the group cannot be opened")
		}
		if names, err := m.List(); err != nil || !slices.Equal(names, []string{"7.1.1"}) {
			t.Errorf("list: %v, %v", names, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		if ws := wait(); ws.Signal() != syscall.SIGKILL {
			t.Errorf("ended with %v", ws)
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
		if _, ok := m.Open("7.1.1"); ok {
			t.Error("the group is still there")
		}
	})
}

func TestForkBombIsKilledWhole(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		g := create(t, m, "bomb", Limits{CPUs: 0.5, Quota: true})
		// Four shells that fork without end, of children that live for 50 ms: about a hundred processes at a time.
		loop := `while :; do sleep 0.05 & sleep 0.001; done`
		_, wait := sh(t, g, fmt.Sprintf(`(setsid sh -c '%s' &); (%s)& (%s)& %s`, loop, loop, loop, loop))
		eventually(t, "it multiplies", func() bool { p, _ := g.Pids(); return len(p) >= 8 })
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := g.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		wait()
		if pids, err := g.Pids(); err != nil || len(pids) > 0 {
			t.Errorf("left: %v, %v", pids, err)
		}
	})
}

func TestFreezeStopsAndThawGoesOn(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		g := create(t, m, "cold", Limits{})
		file := filepath.Join(t.TempDir(), "count")
		sh(t, g, `while :; do echo >> `+file+`; sleep 0.002; done`)
		size := func() int64 {
			info, err := os.Stat(file)
			if err != nil {
				return 0
			}
			return info.Size()
		}
		eventually(t, "it runs", func() bool { return size() > 3 })
		if err := g.Freeze(); err != nil {
			t.Fatal(err)
		}
		before := size()
		time.Sleep(100 * time.Millisecond) // the absence of progress has no event
		if after := size(); after != before {
			t.Errorf("a frozen group wrote %d bytes", after-before)
		}
		if err := g.Thaw(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it goes on", func() bool { return size() > before })
		if err := g.Freeze(); err != nil { // Kill, in the clean-up, must end a frozen group
			t.Fatal(err)
		}
	})
}

func TestSignalReachesAll(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		g := create(t, m, "sig", Limits{})
		_, wait := sh(t, g, `setsid sleep 300 & sleep 300`)
		eventually(t, "both sleep", func() bool { p, _ := g.Pids(); return len(p) == 3 })
		if err := g.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if ws := wait(); ws.Signal() != syscall.SIGTERM {
			t.Errorf("ended with %v", ws)
		}
		eventually(t, "none is left", func() bool { p, _ := g.Pids(); return len(p) == 0 })
	})
}

func TestUsageCounts(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		g := create(t, m, "busy", Limits{Memory: 256 << 20, CPUs: 1})
		sh(t, g, `x=$(head -c 20000000 /dev/zero | tr '\0' x); while :; do :; done`)
		want := int64(20_000_000)
		if m.mode == V2 {
			want = 0 // no memory controller here
		}
		eventually(t, "CPU time and memory show", func() bool {
			u, err := g.Usage()
			return err == nil && u.CPU >= 50*time.Millisecond && u.Memory >= want && u.MemoryMax >= want && u.Processes == 1
		})
	})
}

func TestOutOfMemoryIsCounted(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		if m.mode != V1 {
			t.Skip("needs a memory controller")
		}
		g := create(t, m, "hungry", Limits{Memory: 32 << 20})
		_, wait := sh(t, g, `head -c 200000000 /dev/zero | tail -n 1 > /dev/null; exit 3`)
		if ws := wait(); ws.ExitStatus() != 3 {
			t.Errorf("the shell ended with %v", ws)
		}
		u, err := g.Usage()
		if err != nil || u.OOMKills != 1 || u.MemoryMax > 32<<20 {
			t.Errorf("usage %+v, %v", u, err)
		}
	})
}

func TestLimitsCanChange(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		if m.mode != V1 {
			t.Skip("needs a memory controller")
		}
		for _, l := range []Limits{
			{Memory: 64 << 20, CPUs: 2, Quota: true}, {Memory: 256 << 20, CPUs: 0.5, Quota: true}, {Memory: 32 << 20, CPUs: 4}, {},
		} {
			g := create(t, m, "x", l)
			d := g.kind.(v1).dirs
			memory, _ := readNumber(filepath.Join(d.memory, "memory.limit_in_bytes"))
			quota, _ := readNumber(filepath.Join(d.cpu, "cpu.cfs_quota_us"))
			if l.Memory > 0 && memory != l.Memory || l.Memory == 0 && memory < 1<<60 {
				t.Errorf("%+v: memory limit %d", l, memory)
			}
			if want := int64(l.CPUs * quotaPeriod); l.Quota && quota != want || !l.Quota && quota != -1 {
				t.Errorf("%+v: quota %d", l, quota)
			}
		}
	})
}

func TestOwnSessionIsNotTheGroups(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		g := create(t, m, "same-session", Limits{})
		err := g.Start(func(attr *syscall.SysProcAttr) error {
			pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "300"}, &syscall.ProcAttr{Env: g.Env(), Sys: attr})
			if err != nil {
				return err
			}
			defer syscall.Wait4(pid, nil, 0, nil)
			defer syscall.Kill(pid, syscall.SIGKILL)
			eventually(t, "only the process is seen", func() bool { p, _ := g.Pids(); return slices.Equal(p, []int{pid}) })
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestKnownProcessWithoutMarkIsFound(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		g := create(t, m, "nameless", Limits{})
		var pid int
		err := g.Start(func(attr *syscall.SysProcAttr) (err error) {
			attr.Setsid = true
			pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", "(sleep 300 &); sleep 300; :"}, &syscall.ProcAttr{Sys: attr})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		g.Know(pid)
		eventually(t, "all three are seen", func() bool { p, _ := g.Pids(); return len(p) == 3 })
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		go syscall.Wait4(pid, nil, 0, nil)
		if err := g.Kill(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestStarterIsNeverAMember(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		g := create(t, m, "birth", Limits{})
		err := g.Start(func(*syscall.SysProcAttr) error {
			pids, err := g.Pids()
			if len(pids) > 0 {
				t.Errorf("the group shows %v before a birth; we are %d", pids, os.Getpid())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestNamesAreChecked(t *testing.T) {
	m := &Manager{}
	for _, bad := range []string{"", ".", "..", "a//b", ".x", "a b", "a\n"} {
		if _, err := m.Create(bad, Limits{}); err == nil {
			t.Errorf("%q was taken as a group", bad)
		}
		if _, err := New("fairslice-test/" + bad); err == nil {
			t.Errorf("%q was taken as a parent", bad)
		}
	}
}

func BenchmarkBirth(b *testing.B) { benchmarkBirth(b, Limits{Memory: 1 << 30, CPUs: 1}) }

func BenchmarkBirthDenied(b *testing.B) {
	l := Limits{Memory: 1 << 30, CPUs: 1}
	for i := range uint32(7) {
		l.Deny = append(l.Deny, Device{195, i})
	}
	benchmarkBirth(b, l)
}

func benchmarkBirth(b *testing.B, l Limits) {
	m, err := New(fmt.Sprintf("fairslice-test/bench-%d", os.Getpid()))
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("mode %v %s", m.Mode(), m.Reason())
	defer m.Remove()
	for i := 0; b.Loop(); i++ {
		g, err := m.Create(fmt.Sprint(i), l)
		if err != nil {
			b.Fatal(err)
		}
		err = g.Start(func(attr *syscall.SysProcAttr) error {
			pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Sys: attr})
			if err == nil {
				_, err = syscall.Wait4(pid, nil, 0, nil)
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}
