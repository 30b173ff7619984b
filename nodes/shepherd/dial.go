package shepherd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// DialAs connects to a Unix socket as the user, in all respects: with the user's rights to the path, and so that the kernel
// names the user to whoever listens. The path is the user's to change, so root must not lend its own name to what lies there.
// The path may be longer than the kernel takes. The caller closes the connection.
func DialAs(c Cred, path string, timeout time.Duration) (*net.UnixConn, error) {
	var fd int
	connect := func() (err error) {
		if err := unix.Chdir(filepath.Dir(path)); err != nil {
			return err
		}
		fd, err = connectTo(filepath.Base(path), time.Now().Add(timeout))
		return err
	}
	result := make(chan error, 1)
	go onExpendableThread(func() {
		err := ownView(0)
		if err == nil && c.Setuid {
			err = become(c)
		}
		if err == nil && c.Setuid {
			err = effective(c)
		}
		if err == nil {
			err = connect()
		}
		result <- err
	})
	if err := <-result; err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// connectTo does not wait for ever where the other side does not accept.
func connectTo(name string, deadline time.Time) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		if err == nil {
			return fd, nil
		}
		if err != unix.EAGAIN && err != unix.EINTR || time.Now().After(deadline) {
			_ = unix.Close(fd)
			return -1, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// effective gives this thread the user's ids where the kernel asks who it is. The real and saved ones stay root's: with them
// nobody else may send the thread, and so this process, a signal.
func effective(c Cred) error {
	const keep = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(c.GID), keep); errno != 0 {
		return fmt.Errorf("take on group %d: %w", c.GID, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(c.UID), keep); errno != 0 {
		return fmt.Errorf("take on user %d: %w", c.UID, errno)
	}
	return nil
}
