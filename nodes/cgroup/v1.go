package cgroup

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	quotaPeriod   = 100_000 // microseconds, the kernel's default for CPU quota
	defaultShares = 1024    // the kernel's, of a new group
)

// v1 is a group in the hierarchies of cgroup v1. There is no pids directory: nothing here limits the number of
// processes, and each hierarchy costs every job a directory and a migration.
type v1 struct{ dirs }

func prepareV1(top dirs, parent string) (dirs, error) {
	d := top
	d.devices = "" // see prepareDevicesV1: jobs run without it
	for part := range strings.SplitSeq(parent, "/") {
		d = d.child(part)
		for _, dir := range d.all() {
			if err := mkdir(dir); err != nil {
				return dirs{}, err
			}
		}
	}
	// Without this, memory of a group nested in a job's would not count for the job. Newer kernels know nothing else.
	_ = writeIfThere(filepath.Join(d.memory, "memory.use_hierarchy"), "1")
	// A directory that can be made but not written, as in some containers, would fail each job.
	probe := d.child("probe")
	if err := createV1(probe, Limits{Memory: 1 << 30}); err != nil {
		return dirs{}, err
	}
	return d, v1{probe}.remove()
}

func createV1(d dirs, l Limits) error {
	// A new group has no limit and one CPU's shares: what is so already is not written, as each file costs every job.
	isNew := true
	d.devices = ""
	for _, dir := range d.all() {
		switch err := os.Mkdir(dir, 0o755); {
		case os.IsExist(err):
			isNew = false
		case err != nil:
			return err
		}
	}
	if l.Memory > 0 || !isNew {
		if err := limitMemoryV1(d.memory, l.Memory); err != nil {
			return err
		}
	}
	if d.cpu == "" || l.CPUs <= 0 {
		return nil
	}
	shares := max(2, int64(math.Round(defaultShares*l.CPUs)))
	if shares != defaultShares || !isNew {
		if err := write(filepath.Join(d.cpu, "cpu.shares"), strconv.FormatInt(shares, 10)); err != nil {
			return err
		}
	}
	if isNew && !l.Quota {
		return nil
	}
	quota := "-1"
	if l.Quota {
		quota = strconv.FormatInt(max(1000, int64(math.Round(quotaPeriod*l.CPUs))), 10)
	} else if now, err := readNumber(filepath.Join(d.cpu, "cpu.cfs_quota_us")); err != nil || now < 0 {
		return err // there is none to take away
	}
	return writeIfThere(filepath.Join(d.cpu, "cpu.cfs_quota_us"), quota)
}

// limitMemoryV1 sets the limit of memory, and of memory and swap together where the kernel accounts swap. The second may
// never be below the first, so which is written first depends on the direction: both orders are tried.
func limitMemoryV1(dir string, limit int64) error {
	memory, both := filepath.Join(dir, "memory.limit_in_bytes"), filepath.Join(dir, "memory.memsw.limit_in_bytes")
	if limit <= 0 {
		if now, err := readNumber(memory); err != nil || now > math.MaxInt64/2 {
			return err // a new group: nothing to undo
		}
		limit = -1
	}
	value := strconv.FormatInt(limit, 10)
	if write(memory, value) == nil && writeIfThere(both, value) == nil {
		return nil
	}
	if err := writeIfThere(both, value); err != nil {
		return err
	}
	return write(memory, value)
}

func (g v1) ref() string {
	d := g.dirs
	if d.devices != "" && !exists(d.devices) {
		d.devices = ""
	}
	return "v1\n" + strings.Join(d.all(), "\n")
}

func (g v1) pids() ([]int, error) {
	var out []int
	for _, dir := range tree(g.main()) {
		pids, err := readPids(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return nil, err
		}
		if len(pids) == 0 {
			continue
		}
		tasks, err := readPids(filepath.Join(dir, "tasks"))
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			if slices.Contains(tasks, pid) || wholly(pid, tasks) {
				out = append(out, pid)
			}
		}
	}
	return out, nil
}

// wholly decides about a process whose first thread is not in the group: either that thread has ended and the others
// are all here, or this is the starter of jobs with one thread here for a moment, which must not be signalled.
func wholly(pid int, tasks []int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false
	}
	here := 0
	for _, t := range threads {
		tid, _ := strconv.Atoi(t.Name())
		if slices.Contains(tasks, tid) {
			here++
		} else if tid != pid {
			return false
		}
	}
	return here > 0
}

func (g v1) freeze(on bool) error {
	if g.freezer == "" {
		if !on {
			return nil // nothing can be frozen
		}
		return fmt.Errorf("no freezer hierarchy is mounted")
	}
	state := "THAWED"
	if on {
		state = "FROZEN"
	}
	file := filepath.Join(g.freezer, "freezer.state")
	return within(settle, func() (bool, error) {
		// Written again in each turn: a process forked meanwhile can hold the group in FREEZING.
		if err := write(file, state); err != nil {
			if os.IsNotExist(err) && !on {
				return true, nil
			}
			return true, err
		}
		now, err := os.ReadFile(file)
		return err != nil || strings.TrimSpace(string(now)) == state, err
	})
}

func (g v1) total() (u Usage, err error) {
	var cpu, killed int64
	if g.cpuacct != "" {
		cpu, err = readNumber(filepath.Join(g.cpuacct, "cpuacct.usage"))
	}
	if err == nil {
		u.MemoryMax, err = readNumber(filepath.Join(g.memory, "memory.max_usage_in_bytes"))
	}
	if err == nil {
		killed, err = readKey(filepath.Join(g.memory, "memory.oom_control"), "oom_kill")
	}
	u.CPU, u.OOMKills = time.Duration(cpu), int(killed)
	return u, err
}

func (g v1) usage() (u Usage, err error) {
	read := func(value *int64, get func() (int64, error)) {
		if err == nil {
			*value, err = get()
		}
	}
	number := func(dir, file string) func() (int64, error) {
		return func() (int64, error) { return readNumber(filepath.Join(dir, file)) }
	}
	key := func(dir, file, key string) func() (int64, error) {
		return func() (int64, error) { return readKey(filepath.Join(dir, file), key) }
	}
	var cpu, idle, killed int64
	if g.cpuacct != "" {
		read(&cpu, number(g.cpuacct, "cpuacct.usage"))
	}
	read(&u.Memory, number(g.memory, "memory.usage_in_bytes"))
	read(&idle, key(g.memory, "memory.stat", "total_inactive_file"))
	read(&u.MemoryMax, number(g.memory, "memory.max_usage_in_bytes"))
	read(&killed, key(g.memory, "memory.oom_control", "oom_kill"))
	if err != nil {
		return u, err
	}
	pids, err := g.pids()
	u.CPU, u.Memory, u.OOMKills, u.Processes = time.Duration(cpu), max(0, u.Memory-idle), int(killed), len(pids)
	return u, err
}

func (g v1) remove() error {
	// The main directory last: while it is there Open finds the group, and a removal cut short can be taken up.
	for _, dir := range slices.Backward(g.all()) {
		if err := removeTree(dir); err != nil {
			return err
		}
	}
	return nil
}
