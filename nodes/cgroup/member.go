package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// GroupOf returns the name of the group of this Manager that a process is in, also in one nested in it; ok is false for a
// process of none, and for one that has ended. The group itself may be gone while its last process still ends.
// In V1 and V2 it reads one file of /proc. In mode None the process's own mark counts first, then what Pids would say, as of at
// most 100 ms ago; there a process that fakes another's mark is taken for the other's.
func (m *Manager) GroupOf(pid int) (name string, ok bool, err error) {
	if m.mode == None {
		name, ok, err = m.table.groupOf(m.parent, pid)
	} else {
		name, ok, err = m.groupInHierarchy(pid)
	}
	if err != nil {
		return "", false, fmt.Errorf("group of process %d: %w", pid, err)
	}
	return name, ok, nil
}

// place says which line of /proc/PID/cgroup tells the group, and what its path begins with.
type place struct {
	controller string // empty for the unified hierarchy
	parent     string // "/fairslice/node1"
}

func (m *Manager) groupInHierarchy(pid int) (string, bool, error) {
	m.placeOnce.Do(func() { m.place, m.placeErr = findPlace(m.roots) })
	if m.placeErr != nil {
		return "", false, m.placeErr
	}
	proc := "/proc/" + strconv.Itoa(pid)
	name, ok, err := m.place.groupIn(proc + "/cgroup")
	if ok || err != nil || m.mode != V1 || !leaderEnded(proc) {
		return name, ok, err
	}
	// In V1 a first thread that has ended is shown at the top of the hierarchy, wherever it was; the others tell.
	threads, err := os.ReadDir(proc + "/task")
	if ended(err) {
		return "", false, nil
	}
	for _, t := range threads {
		if name, ok, err := m.place.groupIn(filepath.Join(proc, "task", t.Name(), "cgroup")); ok || err != nil {
			return name, ok, err
		}
	}
	return "", false, err
}

// groupIn reads one cgroup file of /proc.
func (p place) groupIn(file string) (string, bool, error) {
	text, err := read(file)
	if ended(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return p.group(string(text))
}

// ended tells whether an error from a file in /proc/PID says that the process is no more.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// leaderEnded tells whether the process's first thread has ended; the process may live on in others.
func leaderEnded(proc string) bool {
	stat, err := read(proc + "/stat")
	if err != nil {
		return false
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(f) > 0 && string(f[0]) == "Z"
}

// group finds the group in the text of a /proc/PID/cgroup: "ID:CONTROLLERS:PATH" lines (cgroups(7)).
func (p place) group(text string) (name string, ok bool, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		id, rest, ok1 := strings.Cut(line, ":")
		controllers, path, ok2 := strings.Cut(rest, ":")
		if _, err := strconv.ParseUint(id, 10, 32); err != nil || !ok1 || !ok2 || !strings.HasPrefix(path, "/") {
			return "", false, fmt.Errorf("line %q is not of the form \"4:memory:/path\"", line)
		}
		mine := id == "0" && controllers == ""
		if p.controller != "" {
			mine = slices.Contains(strings.Split(controllers, ","), p.controller)
		}
		if !mine {
			continue
		}
		below, inside := strings.CutPrefix(strings.TrimSuffix(path, " (deleted)"), p.parent+"/")
		name, _, _ := strings.Cut(below, "/")
		if !inside || !validName.MatchString(name) {
			return "", false, nil
		}
		return name, true, nil
	}
	return "", false, fmt.Errorf("no line of the hierarchy %q", p.controller)
}

// findPlace looks up where the mount of the parent's main directory shows its groups in /proc: a mount may show only a part of
// its hierarchy, as in some containers.
func findPlace(roots dirs) (place, error) {
	p := place{}
	switch {
	case roots.unified != "":
	case roots.freezer != "":
		p.controller = "freezer"
	default:
		p.controller = "memory"
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return p, err
	}
	p.parent, err = pathInHierarchy(string(mounts), roots.main())
	return p, err
}

// pathInHierarchy turns a directory of a cgroup file system into its path in the hierarchy, by the text of /proc/self/mountinfo.
func pathInHierarchy(mountinfo, dir string) (string, error) {
	best, path := -1, ""
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 1 || right[0] != "cgroup" && right[0] != "cgroup2" {
			continue
		}
		root, point := unescape(left[3]), unescape(left[4])
		below, inside := strings.CutPrefix(dir, strings.TrimSuffix(point, "/"))
		if inside && (below == "" || below[0] == '/') && len(point) >= best { // of two at one point the later one shows
			best, path = len(point), strings.TrimSuffix(root, "/")+below
		}
	}
	if best < 0 {
		return "", fmt.Errorf("%s is in no cgroup mount", dir)
	}
	return path, nil
}

// groupOf is Manager.GroupOf in mode None.
func (t *table) groupOf(parent string, pid int) (string, bool, error) {
	if name, ok := strings.CutPrefix(markOf(strconv.Itoa(pid)), parent+"/"); ok && validName.MatchString(name) {
		return name, true, nil
	}
	const age = 100 * time.Millisecond
	all, err := t.read(age)
	if err == nil && !slices.ContainsFunc(all, func(p process) bool { return p.pid == pid }) {
		all, err = t.read(0) // it may be younger than the look
	}
	if err != nil || !slices.ContainsFunc(all, func(p process) bool { return p.pid == pid }) {
		return "", false, err
	}
	for _, mark := range t.marks(parent, all) {
		members, err := t.group(mark).members(age)
		if err != nil {
			return "", false, err
		}
		if slices.ContainsFunc(members, func(p process) bool { return p.pid == pid }) {
			return strings.TrimPrefix(mark, parent+"/"), true, nil
		}
	}
	return "", false, nil
}

// marks returns, sorted, the marks of the parent's groups that are kept or that a process has.
func (t *table) marks(parent string, all []process) []string {
	found := map[string]bool{}
	for _, p := range all {
		if name, ok := strings.CutPrefix(p.mark, parent+"/"); ok && validName.MatchString(name) {
			found[p.mark] = true
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for mark := range t.kept {
		if strings.HasPrefix(mark, parent+"/") {
			found[mark] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
