package shepherd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Enter prepares a birth in the group that Start.Cgroup names: what the calling thread forks with attr, until done is called,
// is born there. The thread is not the main one and ends soon after. cgroup.Join is one.
type Enter func(group string, attr *syscall.SysProcAttr) (done func(), err error)

// launch is one attempt to start a job. It runs from top to bottom on a thread of its own, and what it opens
// are plain descriptors, closed by closeAll.
type launch struct {
	Start
	enter  Enter
	term   *terminal // nil without TTY or Pipe
	opened []int
	files  [3]int
	report Started
}

// prepare does all that can fail or hang because of the user: a file system that does not answer holds up this
// thread only.
func (l *launch) prepare() *StartError {
	if err := ownView(l.Umask); err != nil {
		return startError(Internal, "start", err)
	}
	if l.Setuid {
		if err := become(Cred{UID: l.UID, GID: l.GID, Groups: l.Groups}); err != nil {
			return startError(BadUser, "start", err)
		}
	}
	if l.Dir == "" {
		l.Dir = "/"
	}
	if err := unix.Chdir(l.Dir); err != nil {
		return startError(BadCwd, "enter directory "+l.Dir, err)
	}
	if err := l.openAll(); err != nil {
		return err
	}
	if err := l.findProgram(); err != nil {
		return err
	}
	if l.Setuid { // back to root's rights, which cgroups and the change of user need
		if err := setFileIDs(os.Geteuid(), os.Getegid()); err != nil {
			return startError(BadUser, "start", err)
		}
	}
	return nil
}

// openAll fills the job's three descriptors.
func (l *launch) openAll() *StartError {
	stream := [3]int{-1, -1, -1}
	if l.term != nil {
		stream = l.term.jobEnds()
	}
	l.files = stream
	if l.Stdin != "" || stream[0] < 0 {
		path := l.Stdin
		if path == "" {
			path = os.DevNull
		}
		fd, err := l.open(path, unix.O_RDONLY, 0)
		if err != nil {
			return startError(BadStdin, "open stdin "+path, err)
		}
		l.files[0] = fd
	}
	return l.openOutputs(stream)
}

func (l *launch) openOutputs(stream [3]int) *StartError {
	if l.Stdout.Path != "" || stream[1] < 0 {
		fd, path, err := l.openOutput(l.Stdout, ".out")
		if err != nil {
			return startError(BadOutput, "open output "+l.Stdout.Path, err)
		}
		l.files[1], l.report.StdoutPath = fd, path
	}
	switch {
	case l.Stderr.Path == "" && stream[2] >= 0 && l.Stdout.Path == "": // a stream of its own, or the terminal
	case l.Stderr.Path == "" || l.Stderr.Path == l.Stdout.Path:
		l.files[2], l.report.StderrPath = l.files[1], l.report.StdoutPath
	default:
		fd, path, err := l.openOutput(l.Stderr, ".err")
		if err != nil {
			return startError(BadOutput, "open output "+l.Stderr.Path, err)
		}
		l.files[2], l.report.StderrPath = fd, path
	}
	return nil
}

// openOutput opens one output, or the file in Fallback that stands for it.
func (l *launch) openOutput(o Output, suffix string) (fd int, path string, err error) {
	if o.Path == "" {
		fd, err = l.open(os.DevNull, unix.O_WRONLY, 0)
		return fd, "", err
	}
	// Always appending: stdout and stderr may be one file under two names, and others append reports to it.
	flags := unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND
	if o.Truncate {
		flags |= unix.O_TRUNC
	}
	fd, err = l.open(o.Path, flags, 0o666)
	if err == nil {
		return fd, l.absolute(o.Path), nil
	}
	if l.Fallback == "" {
		return -1, "", err
	}
	why := "open " + o.Path + ": " + err.Error()
	if err := unix.Mkdir(l.Fallback, 0o700); err != nil && err != unix.EEXIST {
		return -1, "", errors.New(why + "; make " + l.Fallback + ": " + err.Error())
	}
	path = filepath.Join(l.Fallback, l.Key+suffix)
	fd, err = l.open(path, flags, 0o666)
	if err != nil {
		return -1, "", errors.New(why + "; open " + path + ": " + err.Error())
	}
	if l.report.Fallback == "" {
		l.report.Fallback = why
	}
	return fd, l.absolute(path), nil
}

func (l *launch) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.Dir, path)
}

// open does not wait for the other end of a named pipe, which may never come: reading one nobody writes gives end of file,
// and writing one nobody reads is an error.
func (l *launch) open(path string, flags int, perm uint32) (int, error) {
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, perm)
	if err != nil {
		return -1, err
	}
	l.opened = append(l.opened, fd)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&unix.O_APPEND)
	return fd, err
}

func (l *launch) closeAll() {
	for _, fd := range l.opened {
		unix.Close(fd)
	}
	l.opened = nil
}

// findProgram makes Argv[0] a path. It also touches the program before the fork, during which nothing else can be forked.
func (l *launch) findProgram() *StartError {
	if len(l.Argv) == 0 || l.Argv[0] == "" {
		return startError(BadExec, "execute", unix.ENOENT)
	}
	name := l.Argv[0]
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for dir := range strings.SplitSeq(variable(l.Env, "PATH", "/usr/bin:/bin"), ":") {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	var failed error = unix.ENOENT
	for _, path := range candidates {
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		switch {
		case err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0:
			l.Argv = append([]string{path}, l.Argv...) // path first, then what the program sees as its name
			return nil
		case err == nil:
			failed = unix.EACCES
		case err != unix.ENOENT && err != unix.ENOTDIR:
			failed = err
		}
	}
	return startError(BadExec, "execute "+name, failed)
}

func variable(env []string, name, otherwise string) string {
	for _, v := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return otherwise
}

// fork executes the prepared program. The caller holds the lock under which children are waited for, so that the
// process, living or dead, is still there when its start time is read.
func (l *launch) fork(attr *syscall.SysProcAttr) *StartError {
	attr.Setsid = true
	if l.TTY && l.term != nil {
		if i := slices.Index(l.files[:], l.term.jobEnds()[0]); i >= 0 {
			attr.Setctty, attr.Ctty = true, i
		}
	}
	if l.Setuid {
		cred := &syscall.Credential{Uid: uint32(l.UID), Gid: uint32(l.GID)}
		for _, g := range l.Groups {
			cred.Groups = append(cred.Groups, uint32(g))
		}
		attr.Credential = cred
	}
	env := l.Env
	if mark := "FAIRSLICE_ATTEMPT=" + l.Key; !slices.Contains(env, mark) {
		env = append(slices.Clip(env), mark)
	}
	l.report.Began = time.Now()
	pid, err := syscall.ForkExec(l.Argv[0], l.Argv[1:], &syscall.ProcAttr{
		Env: env, Sys: attr, Files: []uintptr{uintptr(l.files[0]), uintptr(l.files[1]), uintptr(l.files[2])},
	})
	if err != nil {
		return startError(BadExec, "execute "+l.Argv[0], err)
	}
	l.report.Pid = pid
	l.report.Ticks, _, err = ticksOf(pid)
	if err != nil {
		unix.Kill(pid, unix.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
		return startError(Internal, "start", err)
	}
	return nil
}
