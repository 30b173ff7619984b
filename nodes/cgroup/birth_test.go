package cgroup

import (
	"runtime"
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
