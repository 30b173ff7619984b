package shepherd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peek waits for a child to end, but leaves it a zombie. pid is 0 when, with WNOHANG, none has ended.
func peek(kind, id, options int) (pid int, ws syscall.WaitStatus, ru syscall.Rusage, err error) {
	var info unix.Siginfo
	var usage unix.Rusage
	for {
		err = unix.Waitid(kind, id, &info, options|unix.WEXITED|unix.WNOWAIT, &usage)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, 0, ru, err
	}
	// The kernel's siginfo_t of a child on 64-bit Linux: the package gives no names to the fields behind Code.
	raw := (*[unsafe.Sizeof(info)]byte)(unsafe.Pointer(&info))
	pid = int(binary.NativeEndian.Uint32(raw[16:]))
	status := binary.NativeEndian.Uint32(raw[24:])
	switch info.Code {
	case 1: // CLD_EXITED
		ws = syscall.WaitStatus(status << 8)
	case 2: // CLD_KILLED
		ws = syscall.WaitStatus(status)
	case 3: // CLD_DUMPED
		ws = syscall.WaitStatus(status | 0x80)
	}
	return pid, ws, syscall.Rusage{Utime: syscall.Timeval(usage.Utime), Stime: syscall.Timeval(usage.Stime), Maxrss: usage.Maxrss}, nil
}

func exitedOf(key string, began, ended time.Time, ws syscall.WaitStatus, ru *syscall.Rusage) Exited {
	return Exited{
		Key: key, WaitStatus: uint32(ws), Began: began, Ended: ended, MaxRSS: ru.Maxrss << 10,
		Utime: time.Duration(ru.Utime.Nano()), Stime: time.Duration(ru.Stime.Nano()),
	}
}

// Adopt takes over a job whose shepherd was killed: wait blocks until it has ended, writes its status down, and returns
// it. When the status is on disk already, wait returns it at once. ErrLost from wait: the job has ended and nobody can know
// how, because it was not a child of this process, which it becomes only if this process spawned the shepherd.
// ErrUnknown from Adopt: nothing was ever executed under this key.
// Call it after the Client's Events are closed, not while the shepherd lives.
func Adopt(dir, key string) (wait func() (Exited, error), err error) {
	s, ok, err := ReadStarted(dir, key)
	if err != nil {
		return nil, err
	}
	if e, ended, err := ReadStatus(dir, key); err == nil && ended {
		if ticks, parent, err := ticksOf(s.Pid); ok && err == nil && ticks == s.Ticks && parent == os.Getpid() {
			syscall.Wait4(s.Pid, nil, syscall.WNOHANG, nil) // the shepherd was killed before it could
		}
		return func() (Exited, error) { return e, nil }, nil
	}
	if !ok {
		// The shepherd was killed between the fork and the write of its pid, or before the fork.
		if s.Pid, s.Ticks, s.Began = findMarked(key); s.Pid == 0 {
			return nil, fmt.Errorf("adopt %s: %w", key, ErrUnknown)
		}
	}
	ticks, parent, err := ticksOf(s.Pid)
	if err != nil || ticks != s.Ticks {
		return func() (Exited, error) {
			return Exited{Key: key, Began: s.Began}, fmt.Errorf("wait for %s: %w", key, ErrLost)
		}, nil
	}
	if parent != os.Getpid() {
		return func() (Exited, error) {
			waitForEnd(s.Pid, s.Ticks)
			return Exited{Key: key, Began: s.Began, Ended: time.Now()}, fmt.Errorf("wait for %s: %w", key, ErrLost)
		}, nil
	}
	return func() (Exited, error) {
		_, ws, ru, err := peek(unix.P_PID, s.Pid, 0)
		if err != nil {
			return Exited{Key: key, Began: s.Began}, fmt.Errorf("wait for %s: %w: %w", key, ErrLost, err)
		}
		e := exitedOf(key, s.Began, time.Now(), ws, &ru)
		err = writeStatus(dir, s, e)
		syscall.Wait4(s.Pid, nil, 0, nil)
		return e, err
	}, nil
}

// findMarked looks for the first process of an attempt: the session leader that carries its mark.
func findMarked(key string) (pid int, ticks uint64, began time.Time) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		env, err := os.ReadFile(path)
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), "FAIRSLICE_ATTEMPT="+key) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if sid, err := unix.Getsid(pid); err != nil || sid != pid {
			continue
		}
		ticks, _, err := ticksOf(pid)
		info, statErr := os.Stat(filepath.Dir(path))
		if errors.Join(err, statErr) == nil {
			return pid, ticks, info.ModTime()
		}
	}
	return 0, 0, time.Time{}
}

// waitForEnd returns when the process has ended, be it a child or not.
func waitForEnd(pid int, ticks uint64) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, _, err := ticksOf(pid); err != nil || now != ticks {
		return
	}
	pollEnd(fd, -1)
}

// pollEnd waits for the process behind a pidfd, for at most so many milliseconds; -1 is for ever.
func pollEnd(fd, milliseconds int) {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, milliseconds)
		if err != unix.EINTR {
			return
		}
	}
}
