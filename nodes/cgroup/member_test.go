package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// wantGroup asks for the group of one process.
func wantGroup(t *testing.T, m *Manager, pid int, want string) {
	t.Helper()
	if name, ok, err := m.GroupOf(pid); err != nil || name != want || ok != (want != "") {
		t.Errorf("group of %d: %q, %v, %v; want %q", pid, name, ok, err, want)
	}
}

func TestGroupOfEachProcess(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		one, two := create(t, m, "1.1.1", Limits{}), create(t, m, "2.1.1", Limits{})
		for _, g := range []*Group{one, two} {
			// The second clears its mark, the third leaves the session, the fourth is an orphan.
			sh(t, g, `env -i sleep 300 & setsid sleep 301 & (sleep 302 &); sleep 303`)
			eventually(t, "the shell and four that sleep are seen", func() bool {
				p, _ := g.Pids()
				sleep := 0
				for _, pid := range p {
					if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "sleep\n" {
						sleep++
					}
				}
				return len(p) == 5 && sleep == 4
			})
			pids, _ := g.Pids()
			for _, pid := range pids {
				wantGroup(t, m, pid, g.Name())
			}
		}
		wantGroup(t, m, os.Getpid(), "")
		wantGroup(t, m, 1, "")
		elsewhere := &Manager{mode: m.mode, parent: m.parent + "-other", table: m.table}
		if m.mode != None {
			elsewhere.roots = m.roots.child("..").child(filepath.Base(elsewhere.parent))
		}
		pids, _ := one.Pids()
		wantGroup(t, elsewhere, pids[0], "")
	})
}

func TestGroupOfAProcessThatHasEnded(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		g := create(t, m, "short", Limits{})
		pid, wait := sh(t, g, `exit 0`)
		wait()
		wantGroup(t, m, pid, "")
	})
}

func TestGroupOfNestedProcess(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		if m.mode == None {
			t.Skip("groups do not nest there")
		}
		g := create(t, m, "outer", Limits{})
		inner := m.roots.child("outer").main() + "/a b/inner"
		pid, _ := sh(t, g, fmt.Sprintf(`mkdir -p '%[1]s' && echo $$ > '%[1]s/cgroup.procs'; exec sleep 300`, inner))
		eventually(t, "it is nested", func() bool { p, _ := readPids(inner + "/cgroup.procs"); return slices.Equal(p, []int{pid}) })
		wantGroup(t, m, pid, "outer")
	})
}

func TestGroupOfProcessWhoseFirstThreadEnded(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		if m.mode == None {
			t.Skip("such a process shows neither environment nor session to others: it escapes there")
		}
		g := create(t, m, "leaderless", Limits{})
		pid := leaderless(t, g)
		wantGroup(t, m, pid, "leaderless")
		if pids, err := g.Pids(); err != nil || !slices.Equal(pids, []int{pid}) {
			t.Errorf("pids %v, %v; want %d", pids, err, pid)
		}
	})
}

func TestStarterHasNoGroup(t *testing.T) {
	eachMode(t, func(t *testing.T, m *Manager) {
		g := create(t, m, "birth", Limits{})
		if err := g.Start(func(*syscall.SysProcAttr) error { wantGroup(t, m, os.Getpid(), ""); return nil }); err != nil {
			t.Fatal(err)
		}
	})
}

// sleeper starts a process of nobody's.
func sleeper(t *testing.T) int {
	t.Helper()
	pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "300"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
	})
	return pid
}

// Without cgroups, what one Group has learnt another of that name knows, and an older look at /proc does not undo it.
func TestKnownProcessIsNotForgotten(t *testing.T) {
	m := &Manager{parent: fmt.Sprintf("fairslice-test/known-%d", os.Getpid()), table: &table{}}
	g := create(t, m, "nameless", Limits{})
	if _, ok := m.Open("nameless"); ok {
		t.Error("a group without a process can be opened")
	}
	if len(m.table.kept) != 0 { // nobody would remove it
		t.Errorf("kept although it cannot be opened: %v", m.table.kept)
	}
	stranger := sleeper(t)
	if _, err := m.table.read(0); err != nil { // a look from before pid was born
		t.Fatal(err)
	}
	pid := sleeper(t)
	g.Know(pid)
	if _, err := g.Usage(); err != nil {
		t.Fatal(err)
	}
	wantGroup(t, m, pid, "nameless")
	wantGroup(t, m, stranger, "")
	again, ok := m.Open("nameless")
	if !ok {
		t.Fatal("it cannot be opened")
	}
	if pids, err := again.Pids(); err != nil || !slices.Equal(pids, []int{pid}) {
		t.Errorf("pids %v, %v", pids, err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it ends", func() bool { p, _ := g.Pids(); return len(p) == 0 })
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	if len(m.table.kept) != 0 {
		t.Errorf("kept after the removal: %v", m.table.kept)
	}
}

func TestPlaceGroup(t *testing.T) {
	v1, v2 := place{"freezer", "/fairslice/n1"}, place{"", "/user.slice/fairslice/n1"}
	for _, c := range []struct {
		p          place
		text, want string
	}{
		{v1, "4:memory:/x\n3:cpu,freezer:/fairslice/n1/7.1.1\n0::/\n", "7.1.1"},
		{v1, "3:freezer:/fairslice/n1/7.1.1/a:b/c\n", "7.1.1"},
		{v1, "3:freezer:/fairslice/n1/7.1.1 (deleted)\n", "7.1.1"},
		{v1, "3:freezer:/fairslice/n1\n", ""},
		{v1, "3:freezer:/fairslice/n10/7.1.1\n", ""},
		{v1, "3:freezer:/fairslice/n1/.x\n", ""},
		{v1, "3:freezer:/../fairslice/n1/7.1.1\n", ""},
		{v1, "0::/fairslice/n1/7.1.1\n3:freezer:/\n", ""},
		{v2, "3:freezer:/user.slice/fairslice/n1/8\n0::/user.slice/fairslice/n1/9.1.1\n", "9.1.1"},
		{v2, "1:name=systemd:/user.slice/fairslice/n1/8\n0::/user.slice/other\n", ""},
	} {
		if name, ok, err := c.p.group(c.text); err != nil || name != c.want || ok != (c.want != "") {
			t.Errorf("%+v in %q: %q, %v, %v; want %q", c.p, c.text, name, ok, err, c.want)
		}
	}
	for _, bad := range []string{"", "3:memory:/x\n", "x:freezer:/\n", "3:freezer\n", "3:freezer:relative\n", "\n"} {
		if name, ok, err := v1.group(bad); err == nil {
			t.Errorf("%q was taken: %q, %v", bad, name, ok)
		}
	}
}

func FuzzPlaceGroup(f *testing.F) {
	f.Add("4:memory:/x\n3:cpu,freezer:/fairslice/n1/7.1.1\n0::/\n")
	f.Add("0::/fairslice/n1/9 (deleted)\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range []place{{"freezer", "/fairslice/n1"}, {"", "/fairslice/n1"}} {
			name, ok, err := p.group(text)
			if ok != (name != "") || err != nil && ok {
				t.Fatalf("%q: %q, %v, %v", text, name, ok, err)
			}
			if ok && (!validName.MatchString(name) || !strings.Contains(text, p.parent+"/"+name)) {
				t.Fatalf("%q: %q", text, name)
			}
		}
	})
}

func TestPathInHierarchy(t *testing.T) {
	text := `30 23 0:26 / /sys/fs/cgroup rw - tmpfs none rw
35 30 0:32 / /sys/fs/cgroup/memory rw shared:3 - cgroup cgroup rw,memory
36 30 0:33 /docker/1f2e /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
37 30 0:34 /../.. /cg/my\040group rw - cgroup2 cgroup2 rw
`
	for dir, want := range map[string]string{
		"/sys/fs/cgroup/memory/fairslice/n1":  "/fairslice/n1",
		"/sys/fs/cgroup/freezer/fairslice/n1": "/docker/1f2e/fairslice/n1",
		"/cg/my group/fairslice":              "/../../fairslice",
	} {
		if got, err := pathInHierarchy(text, dir); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", dir, got, err, want)
		}
	}
	for _, dir := range []string{"/sys/fs/cgroup/memory2/x", "/sys/fs/cgroup/x", ""} {
		if got, err := pathInHierarchy(text, dir); err == nil {
			t.Errorf("%q: %q", dir, got)
		}
	}
}

func FuzzPathInHierarchy(f *testing.F) {
	f.Add("36 30 0:33 /docker/1f2e /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n", "/sys/fs/cgroup/freezer/a")
	f.Fuzz(func(t *testing.T, text, dir string) {
		if path, err := pathInHierarchy(text, dir); err == nil && !strings.Contains(text, "cgroup") {
			t.Fatalf("%q in %q: %q", dir, text, path)
		}
		parseMounts(text) // reads the same file
	})
}

func BenchmarkGroupOf(b *testing.B) {
	best, err := New(fmt.Sprintf("fairslice-test/bench-%d", os.Getpid()))
	if err != nil {
		b.Fatal(err)
	}
	defer best.Remove()
	for _, m := range []*Manager{best, {parent: best.parent, table: &table{}}} {
		g, err := m.Create("one", Limits{})
		if err != nil {
			b.Fatal(err)
		}
		var pid int
		err = g.Start(func(attr *syscall.SysProcAttr) (err error) {
			pid, err = syscall.ForkExec("/bin/sleep", []string{"sleep", "300"}, &syscall.ProcAttr{Sys: attr})
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		g.Know(pid)
		for name, pid := range map[string]int{"member": pid, "stranger": 1} {
			b.Run(m.Mode().String()+"/"+name, func(b *testing.B) {
				for b.Loop() {
					if _, ok, err := m.GroupOf(pid); ok != (name == "member") || err != nil {
						b.Fatal(ok, err)
					}
				}
			})
		}
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
		if err := g.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}
