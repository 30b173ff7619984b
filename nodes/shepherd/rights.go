package shepherd

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Cred is a user's rights to files.
type Cred struct {
	UID, GID int
	Groups   []int
	Setuid   bool // false, as for a daemon that is not root: keep the process's own rights and umask
	Umask    int  // taken off the permissions of what is made; 0 takes nothing off
}

// OpenAs opens a file with the user's rights. flags and perm are those of os.OpenFile. The caller closes the file.
func OpenAs(c Cred, path string, flags int, perm os.FileMode) (*os.File, error) {
	if !c.Setuid {
		return os.OpenFile(path, flags, perm)
	}
	var file *os.File
	err := as(c, func() (err error) {
		file, err = os.OpenFile(path, flags, perm)
		return err
	})
	return file, err
}

// MkdirAs makes a directory with the user's rights. One that exists is an error for which errors.Is(err, fs.ErrExist) holds.
func MkdirAs(c Cred, path string, perm os.FileMode) error {
	if !c.Setuid {
		return os.Mkdir(path, perm)
	}
	return as(c, func() error { return os.Mkdir(path, perm) })
}

// as runs fn on a thread with these rights.
func as(c Cred, fn func() error) error {
	result := make(chan error, 1)
	go onExpendableThread(func() {
		err := ownView(c.Umask)
		if err == nil {
			err = become(c)
		}
		if err == nil {
			err = fn()
		}
		result <- err
	})
	return <-result
}

// onExpendableThread runs fn on an OS thread that ends with it, because what fn does to the thread cannot all be undone.
// It is the whole of a goroutine. The main thread cannot end: when this goroutine is given that one, it
// sits on it while another goroutine gets another.
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

// ownView gives this thread a working directory and a umask of its own.
func ownView(umask int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare file system view: %w", err)
	}
	unix.RawSyscall(unix.SYS_UMASK, uintptr(umask), 0, 0)
	return nil
}

// become gives this thread, and no other, the user's rights to files. The calls are raw because those of package syscall
// change every thread. With the file-system user id the kernel also takes root's file capabilities off.
func become(c Cred) error {
	groups := make([]uint32, len(c.Groups)+1) // one more, so that there is an address
	for i, g := range c.Groups {
		groups[i] = uint32(g)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(c.Groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return fmt.Errorf("set groups: %w", errno)
	}
	return setFileIDs(c.UID, c.GID)
}

func setFileIDs(uid, gid int) error {
	const ask = ^uintptr(0) // an id nobody has changes nothing; these calls report no error, only the id before
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
	if now, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, ask, 0, 0); int(uint32(now)) != gid {
		return fmt.Errorf("take on group %d: %w", gid, unix.EPERM)
	}
	unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
	if now, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ask, 0, 0); int(uint32(now)) != uid {
		return fmt.Errorf("take on user %d: %w", uid, unix.EPERM)
	}
	return nil
}
