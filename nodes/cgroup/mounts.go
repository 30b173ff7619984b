package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// dirs are the directories of one group, or of the parent; what is not mounted is empty.
type dirs struct {
	memory, cpu, cpuacct, freezer string // V1
	devices                       string // V1; a group that denies no device has no directory there
	unified                       string // V2
}

func (d dirs) child(name string) dirs {
	for _, p := range []*string{&d.memory, &d.cpu, &d.cpuacct, &d.freezer, &d.devices, &d.unified} {
		if *p != "" {
			*p = filepath.Join(*p, name)
		}
	}
	return d
}

// all returns each directory once, the main one first and that of the devices last: co-mounted hierarchies share theirs.
func (d dirs) all() []string {
	var out []string
	for _, p := range []string{d.unified, d.freezer, d.memory, d.cpu, d.cpuacct, d.devices} {
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// main returns the directory whose processes are the group's: the freezer's, so that what is counted can be stopped.
func (d dirs) main() string { return d.all()[0] }

type found struct {
	mode Mode
	v1   dirs
	v2   string
}

func detect() (found, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return found{}, err
	}
	f := parseMounts(string(mounts))
	if f.v1.memory != "" {
		f.mode = V1
		return f, nil
	}
	if f.v2 == "" {
		return f, errors.New("no cgroup hierarchy is mounted")
	}
	f.mode = V2
	if os.Geteuid() != 0 {
		// An ordinary user owns at most the part of the tree delegated to it, where it is now.
		own, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return f, err
		}
		f.v2 = filepath.Join(f.v2, ownV2(string(own)))
	}
	return f, nil
}

// parseMounts finds the hierarchies in the text of /proc/self/mountinfo. Groups are made from the top of each mount, not
// from where this process is, so that a daemon started again from elsewhere finds them.
func parseMounts(text string) found {
	var f found
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		point := unescape(left[4])
		switch right[0] {
		case "cgroup2":
			if f.v2 == "" {
				f.v2 = point
			}
		case "cgroup":
			for option := range strings.SplitSeq(right[2], ",") {
				switch option {
				case "memory":
					f.v1.memory = point
				case "cpu":
					f.v1.cpu = point
				case "cpuacct":
					f.v1.cpuacct = point
				case "freezer":
					f.v1.freezer = point
				case "devices":
					f.v1.devices = point
				}
			}
		}
	}
	return f
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// ownV2 finds this process's path in the unified hierarchy in the text of /proc/self/cgroup.
func ownV2(text string) string {
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path)
		}
	}
	return "/"
}

func mkdir(dir string) error {
	if err := unix.Mkdir(dir, 0o755); err != nil && err != unix.EEXIST {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	return nil
}

// write sets one control file. It is plain system calls because several are written for each job, and package os would
// register each with the poller.
func write(path, value string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(value)); err != nil {
		return &fs.PathError{Op: "write " + value, Path: path, Err: err}
	}
	return nil
}

// writeIfThere is write for a file that not every kernel has.
func writeIfThere(path, value string) error {
	if err := write(path, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
