package cgroup

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Join prepares a birth in the group with this Ref. The caller is locked to its OS thread and, in V1, lets the
// thread end soon after (by returning from a locked goroutine), because the thread itself enters the group:
// that is cheaper than leading it out again. It must not be the main thread, which Go cannot end. What the thread
// forks with attr, until the caller calls done, is born in the group. An empty ref asks for nothing.
func Join(ref string, attr *syscall.SysProcAttr) (done func(), err error) {
	kind, rest, _ := strings.Cut(ref, "\n")
	switch kind {
	case "":
		return func() {}, nil
	case "v1":
		if unix.Gettid() == unix.Getpid() {
			return nil, fmt.Errorf("join group: called on the main thread")
		}
		for dir := range strings.SplitSeq(rest, "\n") {
			if err := write(filepath.Join(dir, "tasks"), "0"); err != nil { // 0: the thread that writes
				return nil, fmt.Errorf("join group: %w", err)
			}
		}
		return func() {}, nil
	case "v2":
		fd, err := unix.Open(rest, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("join group %s: %w", rest, err)
		}
		attr.UseCgroupFD, attr.CgroupFD = true, fd
		return func() { unix.Close(fd) }, nil
	}
	return nil, fmt.Errorf("join group: unknown kind %q", kind)
}
