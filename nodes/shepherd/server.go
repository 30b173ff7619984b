package shepherd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownerFD is the descriptor on which Spawn hands the shepherd its first connection. When that one ends, the daemon that
// spawned it is gone.
const ownerFD = 3

// server is the shepherd. Its locks are taken in the order children, mu.
type server struct {
	dir   string
	enter Enter
	gate  chan struct{} // bounds how many starts are prepared at once
	ended chan struct{} // closed when nothing is left to do

	// children is held while a child is forked and written down, and while one is waited for: nobody learns that a
	// process has ended before it is known which job it was.
	children sync.Mutex

	mu        sync.Mutex
	jobs      map[string]*job
	byPid     map[int]*job
	conns     map[*control]bool
	terminals map[*terminal]bool // those not yet idle, of forgotten jobs too
	owned     bool               // the spawning daemon's connection lives
}

// job is guarded by server.mu.
type job struct {
	key      string
	started  Started // Pid is 0 until it is forked
	canceled bool
	exited   *Exited
	term     *terminal
}

// control is a connection of a daemon.
type control struct {
	conn *net.UnixConn
	out  *outbox
	read chan struct{} // closed when all its requests have been taken in
}

// Main is the shepherd's whole life; args are those of the process: its name and the directory of attempts. It returns
// the exit code. enter is used for jobs with a Start.Cgroup.
func Main(args []string, enter Enter) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: shepherd DIR (with a socket as descriptor 3; it is run by the node daemon)")
		return 2
	}
	debug.SetGCPercent(50) // memory matters more than the little work there is
	runtime.GOMAXPROCS(1)  // and so does leaving the jobs alone: threads that wake each other are much of what a start costs
	syscall.Umask(0o077)
	s := &server{
		dir: args[1], enter: enter, gate: make(chan struct{}, 8), ended: make(chan struct{}), owned: true,
		jobs: map[string]*job{}, byPid: map[int]*job{}, conns: map[*control]bool{}, terminals: map[*terminal]bool{},
	}
	if err := s.serve(); err != nil {
		fmt.Fprintln(os.Stderr, "shepherd:", err)
		return 1
	}
	return 0
}

func (s *server) serve() error {
	heedInternalSignals()
	// Handled, so that nothing sent to a whole session or terminal ends the shepherd before its jobs; not ignored,
	// because what is ignored would be ignored in the jobs too.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGUSR1,
		unix.SIGUSR2, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	// Processes that jobs leave behind come to the shepherd, and not to a daemon that does not expect them.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	// Also what the daemon itself inherited without knowing must not reach the jobs.
	inherited, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range inherited {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	file := os.NewFile(ownerFD, "owner")
	owner, err := net.FileConn(file)
	file.Close()
	if err != nil {
		return fmt.Errorf("descriptor 3: %w", err)
	}
	path := filepath.Join(s.dir, fmt.Sprintf("shepherd-%d.sock", os.Getpid()))
	os.Remove(path) // of an earlier process with this number
	address, release, err := socketAddress(path)
	if err != nil {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	release()
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false) // by the path as it is known here
	defer os.Remove(path)
	go s.reap(children)
	go s.accept(listener)
	go func() {
		s.connection(owner.(*net.UnixConn))
		s.mu.Lock()
		s.owned = false
		s.endIfDone()
		s.mu.Unlock()
	}()
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.out.close()
		select {
		case <-c.out.done: // the last answers are out
		case <-time.After(time.Second):
		}
	}
	return nil
}

func (s *server) accept(listener *net.UnixListener) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors
			continue
		}
		if !fromOurUser(conn) {
			conn.Close()
			continue
		}
		go s.connection(conn)
	}
}

// fromOurUser: whoever may connect may run programs as anybody, so the directory's permissions are not the only guard.
func fromOurUser(conn *net.UnixConn) (ok bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ok = err == nil && (peer.Uid == 0 || int(peer.Uid) == os.Geteuid())
	})
	return ok
}

func (s *server) connection(conn *net.UnixConn) {
	kind, payload, err := readFrame(conn)
	switch {
	case err == nil && kind == frameControl:
		s.control(conn)
	case err == nil && kind == frameTerminal:
		s.attach(conn, string(payload))
	default:
		conn.Close()
	}
}

func (s *server) control(conn *net.UnixConn) {
	c := &control{conn: conn, out: newOutbox(conn), read: make(chan struct{})}
	go c.out.run()
	s.mu.Lock()
	s.conns[c] = true
	c.out.send(frameHello, []byte{version})
	for _, j := range s.jobs {
		if j.exited != nil {
			c.out.send(frameExited, *j.exited)
		}
	}
	s.mu.Unlock()
	in := bufio.NewReader(conn)
	for {
		kind, payload, err := readFrame(in)
		if err != nil {
			break
		}
		var r request
		if kind != frameRequest || json.Unmarshal(payload, &r) != nil {
			continue // of a newer daemon
		}
		s.handle(c, r)
	}
	close(c.read)
	c.out.close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// handle takes one request in before the next is read; what can take time goes on beside.
func (s *server) handle(c *control, r request) {
	reply := answer{ID: r.ID}
	switch r.Op {
	case "start":
		if r.Start == nil || !validKey(r.Start.Key) {
			reply.Failed = &StartError{Code: Internal, Msg: "start: bad key"}
			break
		}
		j := &job{key: r.Start.Key}
		s.mu.Lock()
		_, exists := s.jobs[j.key]
		if !exists {
			s.jobs[j.key] = j
		}
		s.mu.Unlock()
		if exists {
			reply.Failed = startError(Exists, "start "+j.key, unix.EEXIST)
			break
		}
		go s.start(c, r.ID, j, *r.Start)
		return
	case "list":
		go func() {
			reply.Jobs = s.list(c)
			c.out.send(frameAnswer, reply)
		}()
		return
	case "cancel":
		s.mu.Lock()
		if j := s.jobs[r.Key]; j != nil {
			j.canceled = true
		}
		s.mu.Unlock()
	case "signal":
		s.signal(&reply, r)
	case "ack":
		reply.Unknown = !s.forget(r.Key)
		if r.ID != 0 {
			c.out.send(frameAnswer, reply)
		}
		s.mu.Lock()
		s.endIfDone()
		s.mu.Unlock()
		return
	default:
		reply.Error = "unknown request " + r.Op
	}
	c.out.send(frameAnswer, reply)
}

// list first waits for the requests that a dead daemon left in its connection: its successor must not take a job
// for never started which is about to be.
func (s *server) list(asking *control) []Job {
	s.mu.Lock()
	var others []*control
	for c := range s.conns {
		if c != asking {
			others = append(others, c)
		}
	}
	s.mu.Unlock()
	for _, c := range others {
		if hungUp(c.conn) {
			<-c.read
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs := make([]Job, 0, len(s.jobs))
	for _, j := range s.jobs {
		jobs = append(jobs, Job{Key: j.key, Pid: j.started.Pid, Exited: j.exited})
	}
	return jobs
}

func hungUp(conn *net.UnixConn) (hung bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		unix.Poll(fds, 0)
		hung = fds[0].Revents != 0
	})
	return hung || err != nil
}

func (s *server) signal(reply *answer, r request) {
	s.children.Lock() // so that the number is still the job's
	defer s.children.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[r.Key]
	if j == nil || j.started.Pid == 0 || j.exited != nil {
		reply.Unknown = true
		return
	}
	if err := unix.Kill(-j.started.Pid, unix.Signal(r.Signal)); err != nil {
		reply.Error = fmt.Sprintf("signal %s: %v", r.Key, err)
	}
}

// forget drops an exited job, whose end the daemon has written down.
func (s *server) forget(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[key]
	if j == nil || j.exited == nil {
		return false
	}
	delete(s.jobs, key)
	if j.term != nil {
		j.term.release()
	}
	return true
}

// endIfDone ends the shepherd when its daemon and its last job are gone. Called with mu held.
func (s *server) endIfDone() {
	if s.owned || len(s.jobs) > 0 || len(s.terminals) > 0 {
		return
	}
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
}

func (s *server) attach(conn *net.UnixConn, key string) {
	s.mu.Lock()
	j := s.jobs[key]
	var term *terminal
	var pid int
	if j != nil && j.started.Pid > 0 {
		term, pid = j.term, j.started.Pid
	}
	s.mu.Unlock()
	out := appendJSON(nil, frameAnswer, answer{Unknown: term == nil})
	if _, err := conn.Write(out); err != nil || term == nil {
		conn.Close()
		return
	}
	term.view(conn, func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		if j.exited != nil {
			return 0
		}
		return pid
	})
	s.dropIfIdle(term)
}

// dropIfIdle lets the shepherd end when this was the last terminal with something to pass on.
func (s *server) dropIfIdle(term *terminal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if term.idle() {
		delete(s.terminals, term)
		s.endIfDone()
	}
}
