package shepherd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Client is a daemon's connection to one shepherd. Its methods may be called at once from many goroutines.
type Client struct {
	socket string
	out    *outbox
	peer   int                   // the shepherd's pid
	gone   func(<-chan struct{}) // returns when the shepherd's process has ended, or Close was called
	stop   chan struct{}         // closed by Close
	events chan Exited
	wake   chan struct{} // for the goroutine that feeds events

	closing sync.Once

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan answer
	exits   []Exited // not yet taken from events
	ended   bool     // the connection has
}

// Spawn starts a shepherd for the attempts in dir, and returns once it serves. dir is made, for its owner only. The
// calling process becomes a subreaper, so that it can Adopt. binary is the path of the shepherd program.
func Spawn(ctx context.Context, binary, dir string) (*Client, error) {
	c, err := spawn(ctx, binary, dir)
	if err != nil {
		return nil, fmt.Errorf("spawn shepherd: %w", err)
	}
	return c, nil
}

func spawn(ctx context.Context, binary, dir string) (*Client, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "shepherd"), os.NewFile(uintptr(fds[1]), "daemon")
	defer ours.Close()
	defer theirs.Close()
	log, err := os.OpenFile(filepath.Join(dir, "shepherd.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := &exec.Cmd{
		Path: binary, Args: []string{"shepherd", dir}, Dir: "/", Stdout: log, Stderr: log,
		ExtraFiles: []*os.File{theirs}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, fmt.Sprintf("shepherd-%d.sock", cmd.Process.Pid))
	theirs.Close() // so that its death is seen
	return newClient(ctx, conn, socket, cmd.Process.Pid, func(stop <-chan struct{}) {
		select {
		case <-ended:
		case <-stop:
		}
	})
}

// Connect returns a connection to a shepherd of an earlier life of the daemon. Exits not yet acknowledged are in Events again.
// ErrGone: it has ended or was killed.
func Connect(ctx context.Context, socket string) (*Client, error) {
	conn, err := dial(socket)
	if err != nil {
		return nil, fmt.Errorf("connect to shepherd: %w", err)
	}
	var peer *unix.Ucred
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { peer, _ = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	}
	if peer == nil {
		conn.Close()
		return nil, fmt.Errorf("connect to shepherd %s: %w", socket, ErrGone)
	}
	pid := int(peer.Pid)
	process, err := unix.PidfdOpen(pid, 0)
	return newClient(ctx, conn, socket, pid, func(stop <-chan struct{}) {
		if err != nil {
			return
		}
		defer unix.Close(process)
		select {
		case <-stop:
		default:
			pollEnd(process, 5000)
		}
	})
}

// Sockets returns the sockets of the shepherds that serve, or served, this directory.
func Sockets(dir string) []string {
	paths, _ := filepath.Glob(filepath.Join(dir, "shepherd-*.sock"))
	return paths
}

func newClient(ctx context.Context, conn net.Conn, socket string, peer int, gone func(<-chan struct{})) (*Client, error) {
	c := &Client{
		socket: socket, out: newOutbox(conn), peer: peer, gone: gone, stop: make(chan struct{}), events: make(chan Exited),
		wake: make(chan struct{}, 1), waiting: map[uint64]chan answer{},
	}
	c.out.send(frameControl, []byte(nil))
	hello := make(chan struct{}, 1)
	go c.out.run()
	go c.receive(conn, hello)
	go c.feed()
	select {
	case _, open := <-hello:
		if open {
			return c, nil
		}
		c.Close()
		return nil, fmt.Errorf("shepherd %d: %w", peer, ErrGone)
	case <-ctx.Done():
		c.Close()
		return nil, ctx.Err()
	}
}

// receive hands on what the shepherd sends, until the connection ends. It sends on hello once, and then closes it.
func (c *Client) receive(conn net.Conn, hello chan<- struct{}) {
	in := bufio.NewReader(conn)
	for {
		kind, payload, err := readFrame(in)
		if err != nil {
			break
		}
		switch kind {
		case frameHello:
			select {
			case hello <- struct{}{}:
			default: // said before
			}
		case frameAnswer:
			var a answer
			if json.Unmarshal(payload, &a) == nil {
				c.mu.Lock()
				if reply := c.waiting[a.ID]; reply != nil {
					reply <- a // it has room
					delete(c.waiting, a.ID)
				}
				c.mu.Unlock()
			}
		case frameExited:
			var e Exited
			if json.Unmarshal(payload, &e) == nil {
				c.mu.Lock()
				c.exits = append(c.exits, e)
				c.mu.Unlock()
				c.poke()
			}
		}
	}
	close(hello)
	c.out.close()
	c.gone(c.stop) // its jobs have another parent only when the process is gone, which is after its connection
	c.mu.Lock()
	c.ended = true
	for id, reply := range c.waiting {
		close(reply)
		delete(c.waiting, id)
	}
	c.mu.Unlock()
	c.poke()
}

func (c *Client) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// feed moves exits to the channel, so that a slow taker does not hold up answers.
func (c *Client) feed() {
	defer close(c.events)
	for {
		c.mu.Lock()
		exits, ended := c.exits, c.ended
		c.exits = nil
		c.mu.Unlock()
		for _, e := range exits {
			select {
			case c.events <- e:
			case <-c.stop:
				return
			}
		}
		if len(exits) > 0 {
			continue
		}
		if ended {
			return
		}
		select {
		case <-c.wake:
		case <-c.stop:
			return
		}
	}
}

// Events delivers every exit at least once, until it is acknowledged; the same one can come again on another
// connection, and that of a short job before Start has returned. Its status is on disk. The channel is closed after
// Close, or once the shepherd's process has ended: then Adopt what was not delivered.
func (c *Client) Events() <-chan Exited { return c.events }

// Socket returns the path by which this shepherd can be reached.
func (c *Client) Socket() string { return c.socket }

// Pid returns the shepherd's process.
func (c *Client) Pid() int { return c.peer }

// Close ends the connection. Jobs go on; a shepherd without jobs, whose spawning connection this is, ends.
func (c *Client) Close() {
	c.closing.Do(func() {
		close(c.stop)
		c.out.close()
	})
}

// Start starts a job, and returns when its program has been executed. The error is a *StartError when nothing runs. It
// is ErrGone when the shepherd ended meanwhile: then Adopt tells whether the job runs. When ctx ends, the start is called off
// and Start returns, with StartError Canceled, once it is certain that nothing runs; a job that got going nevertheless is
// returned as started. Only a shepherd that hangs for 5 s more leaves it open, with ctx's error.
func (c *Client) Start(ctx context.Context, st Start) (Started, error) {
	a, err := c.ask(ctx, request{Op: "start", Start: &st})
	switch {
	case err != nil:
		return Started{}, fmt.Errorf("start %s: %w", st.Key, err)
	case a.Failed != nil:
		return Started{}, a.Failed
	case a.Started == nil:
		return Started{}, fmt.Errorf("start %s: %s", st.Key, a.Error)
	}
	return *a.Started, nil
}

// Signal sends a signal to the job's process group. ErrUnknown: it is not running.
func (c *Client) Signal(ctx context.Context, key string, sig syscall.Signal) error {
	_, err := c.ask(ctx, request{Op: "signal", Key: key, Signal: int(sig)})
	return err
}

// List returns the jobs this shepherd has: running, or ended and not acknowledged. What a dead daemon asked it to start, and
// it has not yet started, is in the list too.
func (c *Client) List(ctx context.Context) ([]Job, error) {
	a, err := c.ask(ctx, request{Op: "list"})
	return a.Jobs, err
}

// Ack forgets an exited job; after it, the attempt's directory may be removed. ErrUnknown: no such exit.
func (c *Client) Ack(ctx context.Context, key string) error {
	_, err := c.ask(ctx, request{Op: "ack", Key: key})
	return err
}

// Forget is Ack without waiting for it: also where it does not arrive, the attempt's directory may be removed. The next
// daemon then hears of the exit again.
func (c *Client) Forget(key string) {
	c.out.send(frameRequest, request{Op: "ack", Key: key})
}

func (c *Client) ask(ctx context.Context, r request) (answer, error) {
	reply := make(chan answer, 1)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return answer{}, ErrGone
	}
	c.next++
	r.ID = c.next
	c.waiting[r.ID] = reply
	c.mu.Unlock()
	c.out.send(frameRequest, r)
	var late <-chan time.Time
	done := ctx.Done()
	for {
		select {
		case a, open := <-reply:
			return a, errorOf(a, open)
		case <-c.stop:
			return answer{}, net.ErrClosed
		case <-done:
			if r.Op != "start" {
				return answer{}, ctx.Err()
			}
			done = nil
			late = time.After(5 * time.Second)
			c.out.send(frameRequest, request{Op: "cancel", Key: r.Start.Key})
		case <-late:
			return answer{}, ctx.Err()
		}
	}
}

func errorOf(a answer, open bool) error {
	switch {
	case !open:
		return ErrGone
	case a.Unknown:
		return ErrUnknown
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}
