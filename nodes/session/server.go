package session

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SocketName is the socket's name in the job's directory.
const SocketName = "session"

// ProgramName is the name under which enter is the server.
const ProgramName = "fairslice-session"

// jobFD is the descriptor of the job's first process (a pidfd) where the server was started inside a container.
const jobFD = 3

// maxConnections bounds what one job's server serves at once.
const maxConnections = 512

// server is the program that runs beside a job.
type server struct {
	dir  string // the job's working directory
	busy chan struct{}
	apps apps
}

// Args is the command line of the server: its socket lies in jobDir, and dir is where programs begin. On the bare node pid is
// the job's first process; in a container it is 0, and descriptor 3 stands for it.
func Args(jobDir, dir string, pid int) []string {
	args := []string{ProgramName, filepath.Join(jobDir, SocketName), dir}
	if pid != 0 {
		args = append(args, strconv.Itoa(pid))
	}
	return args
}

// Main is the server's whole life: it ends with the job. args are what Args made.
func Main(args []string) int {
	if len(args) != 3 && len(args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: "+ProgramName+" SOCKET DIRECTORY [PID]")
		return 2
	}
	job := jobFD
	if len(args) == 4 {
		pid, err := strconv.Atoi(args[3])
		if err != nil || pid < 1 {
			fmt.Fprintf(os.Stderr, "%s: %q is no process\n", ProgramName, args[3])
			return 2
		}
		if job, err = unix.PidfdOpen(pid, 0); err != nil {
			fmt.Fprintf(os.Stderr, "%s: the job has ended: %v\n", ProgramName, err)
			return 1
		}
	}
	// Whatever else was left open belongs to the job, which may wait for its last writer.
	if err := unix.CloseRange(uint(job)+1, 1<<31-1, 0); err != nil {
		closeAbove(job)
	}
	unix.CloseOnExec(job)
	if err := serve(args[1], args[2], job); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", ProgramName, err)
		return 1
	}
	return 0
}

// closeAbove is for kernels before 5.9, which have no close_range.
func closeAbove(last int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > last {
			if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); !strings.HasPrefix(to, "anon_inode:") { // the runtime's own
				unix.Close(fd)
			}
		}
	}
}

// serve listens until the job's first process is gone.
func serve(socket, dir string, job int) error {
	// What is meant for all processes of the job is not meant for this one: it goes with the job. Notify, unlike Ignore,
	// leaves the programs that it starts with the default.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGXCPU, unix.SIGPIPE, unix.SIGVTALRM, unix.SIGPROF, unix.SIGIO, unix.SIGPWR)
	listener, err := listen(socket)
	if err != nil {
		return err
	}
	s := &server{dir: dir, busy: make(chan struct{}, maxConnections), apps: apps{temp: filepath.Join(filepath.Dir(socket), "apps")}}
	go s.accept(listener)
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(job), Events: unix.POLLIN}}, -1)
		if err != unix.EINTR {
			return nil // what it has started is the node daemon's to end, with all else that the job has left
		}
	}
}

// listen makes the socket for the job's user alone. It is named in its directory, as its whole path may be too long.
func listen(socket string) (*net.UnixListener, error) {
	if err := os.Chdir(filepath.Dir(socket)); err != nil {
		return nil, err
	}
	defer os.Chdir("/") // nothing may keep a file system busy for us; from / it cannot fail
	name := filepath.Base(socket)
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	old := unix.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	unix.Umask(old)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}

func (s *server) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			time.Sleep(100 * time.Millisecond) // out of descriptors, for now
			continue
		}
		go s.greet(c)
	}
}

// greet serves one connection, if it comes from where it may.
func (s *server) greet(c *net.UnixConn) {
	defer c.Close()
	if !trusted(c) {
		return
	}
	w := &writer{w: c}
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		refuse(w, Busy, fmt.Errorf("more than %d programs and connections beside one job", maxConnections))
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	r := newReader(c)
	kind, payload, err := r.next()
	if err != nil || kind != frameRequest {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	req, err := parseRequest(payload)
	if err != nil {
		refuse(w, Invalid, err)
		return
	}
	r.buf = nil // a large request is over
	switch {
	case req.Run != nil:
		s.run(c, r, w, req.Run)
	case req.Dial != nil:
		s.dial(c, r, w, req.Dial)
	case req.Copy != nil:
		s.copy(r, w, req.Copy)
	case req.App != nil:
		s.app(w, req.App, req.Ports)
	case req.Snapshot != nil:
		s.snapshot(w, req.Snapshot)
	}
}

// trusted asks the kernel who connected: root, or the job's own user.
func trusted(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var cred *unix.Ucred
	if raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }) != nil || err != nil {
		return false
	}
	return cred.Uid == 0 || int(cred.Uid) == os.Geteuid()
}

// Refusal says what kind of refusal a text is.
type Refusal byte

// The refusals.
const (
	Invalid  Refusal = 'i' // the request makes no sense
	NotFound Refusal = 'n' // no such program, file or port
	Denied   Refusal = 'd' // there, but not for this user
	Busy     Refusal = 'b'
	Failed   Refusal = 'f' // anything else
)

func refuse(w *writer, kind Refusal, err error) {
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > 2000 {
		text = strings.ToValidUTF8(text[:2000], "") + "…"
	}
	_ = w.frame(frameRefused, append([]byte{byte(kind)}, text...)) // whoever asked has gone
}

func refusalOf(err error) Refusal {
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return NotFound
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR):
		return Denied
	}
	return Failed
}
