package cgroup

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start runs fn such that what it forks with attr is born in the group. fn runs on an OS thread of its own and
// may add to attr, but must fork on that thread, so with syscall.ForkExec or os.StartProcess and not in another
// goroutine. Start returns fn's error.
func (g *Group) Start(fn func(attr *syscall.SysProcAttr) error) error {
	result := make(chan error, 1)
	go onExpendableThread(func() {
		attr := &syscall.SysProcAttr{}
		done, err := Join(g.Ref(), attr)
		if err == nil {
			err = fn(attr)
			done()
		}
		result <- err
	})
	return <-result
}

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

// onExpendableThread runs fn on a thread that ends with it. It is the whole of a goroutine. The main thread
// cannot end: when this goroutine is given that one, it sits on it while another goroutine gets another.
func onExpendableThread(fn func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		fn()
		return
	}
	other := make(chan struct{})
	go func() {
		defer close(other)
		runtime.LockOSThread()
		fn()
	}()
	<-other
	runtime.UnlockOSThread()
}
