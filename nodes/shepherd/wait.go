package shepherd

import (
	"encoding/binary"
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
// ErrUnknown from Adopt: nothing was ever executed under this key. ErrNoTrace: the shepherd was killed around
// the fork, and no process of the job is there: if this process spawned the shepherd, the job was not forked, or its process would be here.
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
		if !mayRun(dir, key) {
			return nil, fmt.Errorf("adopt %s: %w", key, ErrUnknown)
		}
		var clear bool
		if s.Pid, s.Ticks, s.Began, clear = findMarked(dir, key); !clear {
			return nil, fmt.Errorf("adopt %s: %w", key, ErrLost)
		} else if s.Pid == 0 {
			return nil, fmt.Errorf("adopt %s: %w", key, ErrNoTrace)
		}
		if err := writeStarted(dir, key, s); err != nil {
			return nil, err
		}
	}
	ticks, parent, err := awaitParent(s.Pid)
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

// awaitParent is ticksOf, once the job has the parent it will keep: a shepherd that was killed keeps its children
// until its last thread is gone, and one that is forking into a frozen group goes only when that is thawed.
func awaitParent(pid int) (ticks uint64, parent int, err error) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		ticks, parent, err = ticksOf(pid)
		if err != nil || parent == os.Getpid() || time.Now().After(deadline) {
			return ticks, parent, err
		}
		if !dying(parent) {
			// It may have gone in between, and then the job has its new parent by now.
			if _, now, err := ticksOf(pid); err == nil && now == parent {
				return ticks, parent, nil
			}
		}
	}
}

// dying says that a process was killed and is not yet gone: a zombie, or with a SIGKILL that waits for one of its threads.
func dying(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "State":
			if strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X") {
				return true
			}
		case "SigPnd", "ShdPnd":
			if bits, err := strconv.ParseUint(value, 16, 64); err == nil && bits&(1<<(unix.SIGKILL-1)) != 0 {
				return true
			}
		}
	}
	return false
}

// findMarked looks for the first process of an attempt around whose fork the shepherd was killed: the session leader that
// carries its mark. If it has ended already, it is the zombie that nothing else accounts for; since a shepherd forks one job
// at a time, there is no second one, unless a job's own daemons ended in the same instant: that is not clear. pid is 0 when there is none.
func findMarked(dir, key string) (pid int, ticks uint64, began time.Time, clear bool) {
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		unborn := false
		var zombies []int
		paths, _ := filepath.Glob("/proc/[0-9]*")
		for _, path := range paths {
			pid, _ := strconv.Atoi(filepath.Base(path))
			args, err := os.ReadFile(path + "/cmdline")
			if err != nil || pid == os.Getpid() {
				continue
			}
			if sid, err := unix.Getsid(pid); isUnborn(dir, pid, string(args)) {
				unborn = true
			} else if err != nil || sid != pid {
				continue
			} else if len(args) == 0 {
				zombies = append(zombies, pid)
			} else if env, _ := os.ReadFile(path + "/environ"); slices.Contains(strings.Split(string(env), "\x00"), "FAIRSLICE_ATTEMPT="+key) {
				// Another cluster of this machine may have given the same key, to a process that began before ours.
				if ticks, _, err := ticksOf(pid); err == nil && !startOf(ticks).Before(claimedAt(dir, key)) {
					return pid, ticks, startOf(ticks), true
				}
			} else if again, _ := os.ReadFile(path + "/cmdline"); len(again) == 0 {
				unborn = true // it ended while it was looked at
			}
		}
		if unborn && time.Now().Before(deadline) {
			continue
		}
		zombies = slices.DeleteFunc(zombies, func(pid int) bool { return !startedBy(dir, key, pid) })
		if len(zombies) != 1 {
			return 0, 0, time.Time{}, len(zombies) == 0 && !unborn
		}
		ticks, _, err := ticksOf(zombies[0])
		return zombies[0], ticks, startOf(ticks), err == nil
	}
}

// claimedAt is when the attempt's directory got its run file, less the coarseness of start times (ticks are 10 ms).
func claimedAt(dir, key string) time.Time {
	info, err := os.Stat(filepath.Join(dir, key))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime().Add(-20 * time.Millisecond)
}

// isUnborn says that a process is a shepherd's copy, which has not executed its job's program yet, or a shepherd that has only begun.
func isUnborn(dir string, pid int, args string) bool {
	if args == "" { // a zombie, a kernel's thread, or in the middle of execve
		_, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
		return err == nil
	}
	if args != "shepherd\x00"+dir+"\x00" {
		return false
	}
	_, err := os.Lstat(filepath.Join(dir, fmt.Sprintf("shepherd-%d.sock", pid)))
	return err != nil
}

// startedBy says whether a zombie can be the attempt's: a child of ours, begun after the mark, of which no run file tells.
func startedBy(dir, key string, pid int) bool {
	ticks, parent, err := ticksOf(pid)
	marked, statErr := os.Stat(runFile(dir, key))
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil || statErr != nil || parent != os.Getpid() || string(name) == "shepherd\n" ||
		startOf(ticks).Before(marked.ModTime().Add(-20*time.Millisecond)) { // ticks are 10 ms
		return false
	}
	runs, _ := filepath.Glob(filepath.Join(dir, "*", "run"))
	return !slices.ContainsFunc(runs, func(path string) bool {
		s, ok, _ := ReadStarted(dir, filepath.Base(filepath.Dir(path)))
		return ok && s.Pid == pid && s.Ticks == ticks
	})
}

// startOf is the time of day of a process's start.
func startOf(ticks uint64) time.Time {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Now()
	}
	return time.Now().Add(time.Duration(ticks)*10*time.Millisecond - time.Duration(now.Nano())) // USER_HZ is 100 on every Linux that Go knows
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
