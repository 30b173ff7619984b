package shepherd

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

const (
	replay   = 64 << 10         // bytes of output kept for who attaches later
	backlog  = 256 << 10        // bytes a viewer may be behind before the job has to wait for it
	patience = 30 * time.Second // that a viewer of a terminal may take nothing before it is cut off
	grace    = 200 * time.Millisecond
)

// terminal is the shepherd's end of a job's pty or pipes: it drains what the job writes, keeps the last of it,
// and passes it on to who is attached. A job waits for slow viewers but not for absent ones, except that a Pipe job's first
// output waits for the first viewer, so that none is lost. Opposite ends: Terminal, in the daemon.
type terminal struct {
	tty    bool
	input  *os.File    // pty master, or the stdin pipe
	output [2]*os.File // pty master and nil, or stdout and stderr pipes
	ends   [3]*os.File // the job's, closed here after the fork
	done   chan struct{}
	pumps  sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond // of what follows
	chunks   []chunk    // the last output, oldest first
	kept     int        // bytes in chunks
	viewers  map[*viewer]bool
	seen     bool // somebody has been attached
	released bool // the daemon has forgotten the job: nobody can attach any more
	exited   *Exited
	finished bool // exited, and all output is drained
}

type chunk struct {
	kind byte
	data []byte
}

// viewer is one attached connection. Its fields are guarded by terminal.mu.
type viewer struct {
	pending    []byte // frames not yet written
	gone       bool
	rows, cols uint16 // of its window; 0: it has not said
}

func newTerminal(st *Start) (*terminal, error) {
	t := &terminal{tty: st.TTY, viewers: map[*viewer]bool{}, done: make(chan struct{})}
	t.changed = sync.NewCond(&t.mu)
	if st.TTY {
		return t, t.openPty(st)
	}
	var err error
	if t.ends[0], t.input, err = os.Pipe(); err != nil {
		return t, err
	}
	for i := range t.output {
		if t.output[i], t.ends[i+1], err = os.Pipe(); err != nil {
			return t, err
		}
	}
	if st.Setuid { // so that the job can open /dev/stdout
		for _, f := range t.ends {
			err = errors.Join(err, f.Chown(st.UID, st.GID))
		}
	}
	return t, err
}

func (t *terminal) openPty(st *Start) error {
	master, slave, err := pty.Open()
	if err != nil {
		return fmt.Errorf("open pty: %w", err)
	}
	defer master.Close()
	t.ends[0] = slave
	if st.Setuid {
		if err := errors.Join(slave.Chown(st.UID, -1), slave.Chmod(0o620)); err != nil {
			return err
		}
	}
	if st.Rows > 0 && st.Cols > 0 {
		if err := pty.Setsize(master, &pty.Winsize{Rows: st.Rows, Cols: st.Cols}); err != nil {
			return err
		}
	}
	// The library leaves the master blocking; a non-blocking copy costs no thread while it waits.
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return err
	}
	t.input = os.NewFile(uintptr(fd), "pty")
	t.output[0] = t.input
	return nil
}

// jobEnds returns the descriptors for the job's stdin, stdout and stderr.
func (t *terminal) jobEnds() [3]int {
	if t.tty {
		slave := blocking(t.ends[0])
		return [3]int{slave, slave, slave}
	}
	return [3]int{blocking(t.ends[0]), blocking(t.ends[1]), blocking(t.ends[2])}
}

// blocking returns the descriptor of a file in the mode programs expect; package os opens pipes for its poller.
func blocking(f *os.File) int {
	fd := int(f.Fd())
	unix.SetNonblock(fd, false)
	return fd
}

// closeJobEnds leaves them to the job alone, so that its end is seen.
func (t *terminal) closeJobEnds() {
	for i, f := range t.ends {
		if f != nil {
			f.Close()
			t.ends[i] = nil
		}
	}
}

// run starts draining, once the job has been forked.
func (t *terminal) run() {
	t.closeJobEnds()
	for i, f := range t.output {
		if f != nil {
			kind := byte(frameOutput)
			if i == 1 {
				kind = frameStderr
			}
			t.pumps.Add(1)
			go t.pump(kind, f)
		}
	}
	go func() {
		t.pumps.Wait()
		<-t.done
		t.mu.Lock()
		t.finished = true
		t.changed.Broadcast()
		t.mu.Unlock()
		t.closeFiles()
	}()
}

func (t *terminal) closeFiles() {
	t.closeJobEnds()
	for _, f := range []*os.File{t.input, t.output[0], t.output[1]} {
		if f != nil {
			f.Close()
		}
	}
}

// pump drains one output until its end. After the job's exit it takes what is there and does not wait for
// processes left in the background that hold it open.
func (t *terminal) pump(kind byte, f *os.File) {
	defer t.pumps.Done()
	buf := make([]byte, 32<<10)
	for {
		n, err := f.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// A read past its deadline fails even when there is something to read.
			if n = readNow(f, buf); n > 0 {
				err = nil
			}
		}
		if n > 0 {
			t.publish(kind, buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func readNow(f *os.File, buf []byte) (n int) {
	raw, err := f.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) })
	}
	return n
}

func (t *terminal) publish(kind byte, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.chunks) - 1
	if last >= 0 && t.chunks[last].kind == kind && len(t.chunks[last].data)+len(data) <= 4096 {
		t.chunks[last].data = append(t.chunks[last].data, data...)
	} else {
		t.chunks = append(t.chunks, chunk{kind, append([]byte(nil), data...)})
	}
	t.kept += len(data)
	for v := range t.viewers {
		v.pending = appendFrame(v.pending, kind, data)
	}
	t.changed.Broadcast()
	for t.mustWait() {
		t.changed.Wait()
	}
	for t.kept-len(t.chunks[0].data) >= replay {
		t.kept -= len(t.chunks[0].data)
		t.chunks = t.chunks[1:]
	}
}

func (t *terminal) mustWait() bool {
	if !t.tty && !t.seen && !t.released && t.kept >= replay {
		return true
	}
	for v := range t.viewers {
		if len(v.pending) > backlog {
			return true
		}
	}
	return false
}

// ended tells the viewers, after the rest of the output, how the job ended.
func (t *terminal) ended(e Exited) {
	t.mu.Lock()
	t.exited = &e
	t.mu.Unlock()
	for _, f := range t.output {
		if f != nil {
			f.SetReadDeadline(time.Now().Add(grace))
		}
	}
	if !t.tty {
		t.input.Close()
	}
	close(t.done)
}

// release is called when nobody can attach any more.
func (t *terminal) release() {
	t.mu.Lock()
	t.released = true
	t.changed.Broadcast()
	t.mu.Unlock()
}

func (t *terminal) waitFinished() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for !t.finished {
		t.changed.Wait()
	}
}

// idle reports that nothing is left to pass on.
func (t *terminal) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.finished && len(t.viewers) == 0
}
