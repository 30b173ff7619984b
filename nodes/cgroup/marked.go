package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const markVariable = "FAIRSLICE_GROUP=" // value: parent/name

// clockTick is the unit of CPU time in /proc: USER_HZ, which Linux fixes at 100 for every program.
const clockTick = 10 * time.Millisecond

// marked is a group in mode None: the processes with the mark, their descendants and their sessions.
type marked struct {
	mark  string
	table *table

	mu       sync.Mutex
	known    map[int]uint64 // pid to start time, of those seen before: their children belong even without the mark
	sessions map[int]bool   // sessions seen on marked processes
	peak     int64
}

type process struct {
	pid, parent, session int
	started              uint64 // ticks since boot; with pid it names the process
	cpu                  time.Duration
	mark                 string
}

// table is one look at /proc, shared by the groups of a Manager so that polling many costs one look.
type table struct {
	mu    sync.Mutex
	taken time.Time
	all   []process
	kept  map[string]*marked // by mark: what was learnt of a group outlives the Group it was learnt through
}

// group returns the group with this mark: the one that is kept, or a new one that is not.
func (t *table) group(mark string) *marked {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.kept[mark]; g != nil {
		return g
	}
	return &marked{mark: mark, table: t, known: map[int]uint64{}, sessions: map[int]bool{}}
}

// keep has group return g from now on, until drop.
func (t *table) keep(g *marked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = map[string]*marked{}
	}
	if t.kept[g.mark] == nil {
		t.kept[g.mark] = g
	}
}

func (t *table) drop(g *marked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept[g.mark] == g {
		delete(t.kept, g.mark)
	}
}

// read returns the living processes, as of at most maxAge ago.
func (t *table) read(maxAge time.Duration) ([]process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if maxAge > 0 && time.Since(t.taken) < maxAge {
		return t.all, nil
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make([]process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if stat, err := os.ReadFile("/proc/" + name + "/stat"); err == nil {
			if p, ok := parseStat(pid, string(stat)); ok {
				p.mark = markOf(name)
				all = append(all, p)
			}
		}
	}
	t.all, t.taken = all, time.Now()
	return all, nil
}

// spoil makes the next read a new look.
func (t *table) spoil() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = time.Time{}
}

// groups names the groups of this parent that have a marked process.
func (t *table) groups(parent string) ([]string, error) {
	all, err := t.read(0)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range all {
		if name, ok := strings.CutPrefix(p.mark, parent+"/"); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// parseStat reads the text of /proc/PID/stat; false for a process that has ended.
func parseStat(pid int, text string) (process, bool) {
	// The name in parentheses may hold anything, so fields are counted from its end.
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return process{}, false
	}
	n := func(i int) int { v, _ := strconv.Atoi(f[i-3]); return v } // i: the number in proc(5)
	started, _ := strconv.ParseUint(f[22-3], 10, 64)
	ticks := n(14) + n(15) + n(16) + n(17) // its own, and its children's that it waited for
	return process{pid: pid, parent: n(4), session: n(6), started: started, cpu: time.Duration(ticks) * clockTick}, true
}

// markOf reads the mark of a process; empty where we may not look.
func markOf(pid string) string {
	env, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		return ""
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(markVariable)); ok {
			return string(value)
		}
	}
	return ""
}

// members picks the group's processes and remembers them.
func (g *marked) members(maxAge time.Duration) ([]process, error) {
	// Locked before the look, so that one from before know is not taken for one after it.
	g.mu.Lock()
	defer g.mu.Unlock()
	all, err := g.table.read(maxAge)
	if err != nil {
		return nil, err
	}
	ours := map[int]uint64{}
	foreign := map[int]bool{} // sessions whose leader lives and is not known to be ours
	own, err := unix.Getsid(0)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.pid != p.session {
			continue
		}
		if started, known := g.known[p.pid]; p.mark == g.mark || known && started == p.started {
			g.sessions[p.session] = true
		} else {
			foreign[p.session] = true
		}
	}
	for _, p := range all {
		// A process of the group that made no session of its own does not make ours, or a user's login, the group's.
		if p.mark == g.mark && p.session != own && !foreign[p.session] {
			g.sessions[p.session] = true
		}
	}
	var out []process
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if _, in := ours[p.pid]; in {
				continue
			}
			_, child := ours[p.parent]
			started, again := g.known[p.pid]
			if p.mark == g.mark || child || again && started == p.started || g.sessions[p.session] {
				ours[p.pid], grown = p.started, true
				out = append(out, p)
			}
		}
	}
	g.known = ours
	if len(out) == 0 {
		clear(g.sessions) // the number of a session may be given out again
	}
	return out, nil
}

func (g *marked) know(pid int) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return
	}
	if p, ok := parseStat(pid, string(text)); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.known[pid] = p.started
		g.table.keep(g)
		g.table.spoil() // a look from before it was born would have it forgotten
	}
}

func (g *marked) ref() string { return "" }

func (g *marked) pids() ([]int, error) {
	members, err := g.members(0)
	pids := make([]int, len(members))
	for i, p := range members {
		pids[i] = p.pid
	}
	return pids, err
}

// freeze sends SIGSTOP until no process is found that was not stopped before: one that forks meanwhile leaves
// a child which the next look finds.
func (g *marked) freeze(on bool) error {
	sig := unix.SIGCONT
	if on {
		sig = unix.SIGSTOP
	}
	sent := map[int]bool{}
	return within(settle, func() (bool, error) {
		pids, err := g.pids()
		if err != nil {
			return true, err
		}
		fresh := false
		for _, pid := range pids {
			if !sent[pid] {
				sent[pid], fresh = true, true
				unix.Kill(pid, sig)
			}
		}
		return !fresh, nil
	})
}

func (g *marked) usage() (Usage, error) {
	members, err := g.members(100 * time.Millisecond)
	u := Usage{Processes: len(members)}
	for _, p := range members {
		u.CPU += p.cpu
		u.Memory += memoryOf(p.pid)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.peak = max(g.peak, u.Memory)
	u.MemoryMax = g.peak
	return u, err
}

// total also gives the memory of now: nothing here remembers the dead.
func (g *marked) total() (Usage, error) { return g.usage() }

// memoryOf returns the bytes of a process, with shared pages divided among those who share them where the kernel says.
func memoryOf(pid int) int64 {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if text, err := os.ReadFile(filepath.Join(dir, "smaps_rollup")); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
				kib, _ := strconv.ParseInt(f[1], 10, 64)
				return kib << 10
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "statm"))
	if f := strings.Fields(string(text)); err == nil && len(f) > 1 {
		pages, _ := strconv.ParseInt(f[1], 10, 64)
		return pages * int64(os.Getpagesize())
	}
	return 0
}

func (g *marked) remove() error {
	return within(settle, func() (bool, error) {
		pids, err := g.pids()
		if err == nil && len(pids) == 0 {
			g.table.drop(g)
		}
		return err != nil || len(pids) == 0, err
	})
}
