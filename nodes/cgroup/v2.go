package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// v2 is a group in the unified hierarchy.
type v2 struct{ dir string }

// prepareV2 makes the parent below top and hands the controllers down to it. top is the top of the mount for root, and
// for a user the delegated group it is in.
func prepareV2(top, parent string) (dirs, error) {
	have, err := os.ReadFile(filepath.Join(top, "cgroup.controllers"))
	if err != nil {
		return dirs{}, err
	}
	controllers := strings.Fields(string(have))
	if !slices.Contains(controllers, "memory") {
		return dirs{}, fmt.Errorf("%s has no memory controller", top)
	}
	dir := top
	if err := handDown(dir, controllers); err != nil {
		return dirs{}, err
	}
	for part := range strings.SplitSeq(parent, "/") {
		dir = filepath.Join(dir, part)
		if err := mkdir(dir); err != nil {
			return dirs{}, err
		}
		if err := handDown(dir, controllers); err != nil {
			return dirs{}, err
		}
	}
	probe := filepath.Join(dir, "probe")
	if err := createV2(probe, Limits{Memory: 1 << 30}); err != nil {
		return dirs{}, err
	}
	return dirs{unified: dir}, v2{probe}.remove()
}

// handDown lets the children of dir use the controllers we need.
func handDown(dir string, controllers []string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	for _, c := range []string{"memory", "cpu"} {
		if !slices.Contains(controllers, c) {
			continue
		}
		err := write(file, "+"+c)
		if errors.Is(err, unix.EBUSY) {
			// Only a group without processes of its own may hand down: they move into a leaf.
			if err = vacate(dir); err == nil {
				err = write(file, "+"+c)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func vacate(dir string) error {
	leaf := filepath.Join(dir, "daemon")
	if err := mkdir(leaf); err != nil {
		return err
	}
	pids, err := readPids(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := write(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

func createV2(dir string, l Limits) error {
	if err := mkdir(dir); err != nil {
		return err
	}
	limit := "max"
	if l.Memory > 0 {
		limit = strconv.FormatInt(l.Memory, 10)
		if err := writeIfThere(filepath.Join(dir, "memory.swap.max"), "0"); err != nil {
			return err
		}
	}
	set := write
	if l.Memory <= 0 {
		set = writeIfThere // no file, no limit to lift
	}
	if err := set(filepath.Join(dir, "memory.max"), limit); err != nil {
		return err
	}
	if l.CPUs <= 0 {
		return nil
	}
	weight := min(10_000, max(1, int64(math.Round(100*l.CPUs))))
	if err := writeIfThere(filepath.Join(dir, "cpu.weight"), strconv.FormatInt(weight, 10)); err != nil {
		return err
	}
	quota := "max"
	if l.Quota {
		quota = strconv.FormatInt(max(1000, int64(math.Round(quotaPeriod*l.CPUs))), 10)
	}
	return writeIfThere(filepath.Join(dir, "cpu.max"), quota+" "+strconv.Itoa(quotaPeriod))
}

func (g v2) ref() string { return "v2\n" + g.dir }

func (g v2) pids() ([]int, error) {
	var out []int
	for _, dir := range tree(g.dir) {
		pids, err := readPids(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return nil, err
		}
		out = append(out, pids...)
	}
	return out, nil
}

// kill needs Linux 5.14; the caller has another way.
func (g v2) kill() error { return write(filepath.Join(g.dir, "cgroup.kill"), "1") }

func (g v2) freeze(on bool) error {
	want := int64(0)
	if on {
		want = 1
	}
	err := write(filepath.Join(g.dir, "cgroup.freeze"), strconv.FormatInt(want, 10))
	if os.IsNotExist(err) && !on {
		return nil
	}
	if err != nil {
		return err
	}
	return within(settle, func() (bool, error) {
		now, err := readKey(filepath.Join(g.dir, "cgroup.events"), "frozen")
		return err != nil || now == want, err
	})
}

func (g v2) total() (Usage, error) {
	cpu, err := readKey(filepath.Join(g.dir, "cpu.stat"), "usage_usec")
	u := Usage{CPU: time.Duration(cpu) * time.Microsecond}
	if err == nil {
		u.MemoryMax, err = readNumber(filepath.Join(g.dir, "memory.peak"))
	}
	if err == nil {
		var killed int64
		killed, err = readKey(filepath.Join(g.dir, "memory.events"), "oom_kill")
		u.OOMKills = int(killed)
	}
	return u, err
}

func (g v2) usage() (u Usage, err error) {
	key := func(file, key string) (n int64) {
		if err == nil {
			n, err = readKey(filepath.Join(g.dir, file), key)
		}
		return n
	}
	number := func(file string) (n int64) {
		if err == nil {
			n, err = readNumber(filepath.Join(g.dir, file))
		}
		return n
	}
	current := number("memory.current")
	u.CPU = time.Duration(key("cpu.stat", "usage_usec")) * time.Microsecond
	u.Memory = max(0, current-key("memory.stat", "inactive_file"))
	u.MemoryMax = max(current, number("memory.peak")) // memory.peak needs Linux 5.19
	u.OOMKills = int(key("memory.events", "oom_kill"))
	if err != nil {
		return u, err
	}
	pids, err := g.pids()
	u.Processes = len(pids)
	return u, err
}

func (g v2) remove() error { return removeTree(g.dir) }
