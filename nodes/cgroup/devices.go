package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Device is a character device, such as a GPU, by the numbers its nodes in the file system have: whatever path they
// are made at, the kernel asks for the numbers. Block devices are never denied.
type Device struct{ Major, Minor uint32 }

// The sizes of Linux's device numbers (include/linux/kdev_t.h).
const (
	majors = 1 << 12
	minors = 1 << 20
)

// String returns "195:3".
func (d Device) String() string {
	return strconv.FormatUint(uint64(d.Major), 10) + ":" + strconv.FormatUint(uint64(d.Minor), 10)
}

// Check refuses numbers that no device of Linux has.
func (d Device) Check() error {
	if d.Major >= majors || d.Minor >= minors {
		return fmt.Errorf("device %v: major numbers end at %d, minor numbers at %d", d, majors-1, minors-1)
	}
	return nil
}

// DeviceAt returns the device of the node at path, such as /dev/nvidia3. The error wraps fs.ErrNotExist when nothing is there.
func DeviceAt(path string) (Device, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Device{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return Device{}, fmt.Errorf("%s is not a character device", path)
	}
	return Device{unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))}, nil
}

// CannotDeny says why this Manager cannot hold Limits.Deny; it is empty when it can.
func (m *Manager) CannotDeny() string { return m.cannotDeny }

// DenyWith gives a Manager in mode V2 what closes devices there: deny makes the kernel refuse the devices to every process
// that is, or is born, in the group at dir or nested in it, for as long as the group exists, on top of what is
// refused already. It is tried at once; CannotDeny has the result. In the other modes it does nothing. Call it before the first Create.
//
// It is an argument because the means, package nodes/cgroup/devices, is heavy and the process that starts jobs links this package.
func (m *Manager) DenyWith(deny func(dir string, devices []Device) error) {
	if m.mode != V2 {
		return
	}
	probe := m.roots.child("probe").unified
	err := mkdir(probe)
	if err == nil {
		err = deny(probe, []Device{{majors - 1, 0}})
		err = errors.Join(err, v2{probe}.remove())
	}
	m.deny, m.cannotDeny = deny, ""
	if err != nil {
		m.cannotDeny = err.Error()
	}
}

// denyDevices closes the devices to the group.
func (m *Manager) denyDevices(name string, devices []Device) error {
	if len(devices) == 0 {
		return nil
	}
	if m.cannotDeny != "" {
		return fmt.Errorf("deny devices: %s", m.cannotDeny)
	}
	for _, d := range devices {
		if err := d.Check(); err != nil {
			return fmt.Errorf("deny %w", err)
		}
	}
	dirs := m.roots.child(name)
	if m.mode == V2 {
		return m.deny(dirs.unified, devices)
	}
	return denyV1(dirs, devices)
}

// prepareDevicesV1 makes the parent in the devices hierarchy mounted at top. why says what is wrong with it.
func prepareDevicesV1(top, parent string) (dir, why string) {
	if top == "" {
		return "", "no devices hierarchy is mounted"
	}
	dir = top
	for part := range strings.SplitSeq(parent, "/") {
		dir = filepath.Join(dir, part)
		if err := mkdir(dir); err != nil {
			return "", err.Error()
		}
	}
	probe := filepath.Join(dir, "probe")
	err := mkdir(probe)
	if err == nil {
		err = closeV1(probe, []Device{{majors - 1, 0}})
		err = errors.Join(err, removeTree(probe))
	}
	if err != nil {
		return "", err.Error()
	}
	return dir, ""
}

// denyV1 makes the group's directory in the devices hierarchy, which only a group that denies has: each hierarchy costs a
// job two directory operations and a migration.
func denyV1(d dirs, devices []Device) error {
	if err := mkdir(d.devices); err != nil {
		return err
	}
	if err := closeV1(d.devices, devices); err != nil {
		return err
	}
	return enrol(d)
}

// closeV1 refuses opening (r, w) the devices and making nodes of them (m). The kernel takes it away from nested groups too,
// and lets none of them have more than the group around it.
func closeV1(dir string, devices []Device) error {
	for _, d := range devices {
		if err := write(filepath.Join(dir, "devices.deny"), "c "+d.String()+" rwm"); err != nil {
			return err
		}
	}
	// Where the parent allows nothing but a list, as in some containers, the kernel strikes out equal entries only,
	// and leaves "c 195:* rwm" without a word.
	file := filepath.Join(dir, "devices.list")
	list, err := read(file)
	if err != nil {
		return err
	}
	for _, d := range devices {
		entry, err := allowing(string(list), d)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if entry != "" {
			return fmt.Errorf("%s: cannot deny %v alone where the parent allows %q", file, d, entry)
		}
	}
	return nil
}

// allowing returns the entry of a devices.list by which the device can still be used, or "". A group that allows everything
// with exceptions says "a *:* rwm" and keeps the exceptions to itself.
func allowing(list string, d Device) (string, error) {
	if strings.TrimSpace(list) == "a *:* rwm" {
		return "", nil
	}
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		kind, rest, ok1 := strings.Cut(line, " ")
		numbers, access, ok2 := strings.Cut(rest, " ")
		major, minor, ok3 := strings.Cut(numbers, ":")
		if !ok1 || !ok2 || !ok3 || kind != "b" && kind != "c" || access == "" || strings.Trim(access, "rwm") != "" {
			return "", fmt.Errorf("entry %q is not of the form \"c 195:0 rwm\"", line)
		}
		one, err1 := covers(major, d.Major, majors)
		two, err2 := covers(minor, d.Minor, minors)
		if err := errors.Join(err1, err2); err != nil {
			return "", fmt.Errorf("entry %q: %w", line, err)
		}
		if kind == "c" && one && two {
			return line, nil
		}
	}
	return "", nil
}

func covers(text string, number, end uint32) (bool, error) {
	if text == "*" {
		return true, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n >= uint64(end) {
		return false, fmt.Errorf("%q is not a device number below %d", text, end)
	}
	return uint32(n) == number, nil
}

// enrol moves processes of the group that were born before it denied anything, as under an older noded, into its directory in the
// devices hierarchy. A child of one that has moved is born there, so the ones outside run out.
func enrol(d dirs) error {
	return within(settle, func() (bool, error) {
		pids, err := v1{d}.pids()
		if err != nil || len(pids) == 0 {
			return true, err
		}
		var inside []int
		for _, dir := range tree(d.devices) {
			more, err := readPids(filepath.Join(dir, "cgroup.procs"))
			if err != nil {
				return true, err
			}
			inside = append(inside, more...)
		}
		moved := false
		for _, pid := range pids {
			if slices.Contains(inside, pid) {
				continue
			}
			moved = true
			if err := write(filepath.Join(d.devices, "cgroup.procs"), strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return true, err
			}
		}
		return !moved, nil
	})
}

// exists tells whether a group's directory is there.
func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}
