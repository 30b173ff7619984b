package session

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

// Stream is one attachment to a session. One goroutine may Send while another receives. Both end with
// the context that Attach was given.
type Stream interface {
	Send(queue.PipeFrame) error
	Recv() (*pb.AttachResponse, error)
	Close()
}

// Config is what a session needs. Attach and Kill dial anew each time they are called, and say
// themselves that they wait for batchd.
type Config struct {
	Job      queue.JobID
	Pty      bool
	Takeover bool
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer

	Attach func(ctx context.Context, takeover bool, rows, cols uint16) (Stream, error)
	Kill   func(context.Context) error
}

// failed is the exit status where the job's cannot be told.
const failed = 255

// pause is the time before another try; the client below has tried several times by then.
var pause = 500 * time.Millisecond

// run is one session, over all its attachments.
type run struct {
	Config
	terminal *Terminal
	out      chan queue.PipeFrame // what is to be sent, in order
	unsent   *queue.PipeFrame     // what the last attachment took and could not send; used by one sender at a time
	signals  chan os.Signal
	ctx      context.Context
	cancel   context.CancelFunc

	reading  bool // standard input is being read
	announce text

	mu        sync.Mutex
	tied      bool // an attachment is up
	running   bool // the job runs, or did
	taken     bool // the user has taken the job back before its start
	interrupt bool // the user wants out while batchd is away
	detached  bool // the user has left with the escape
}

// Run ties the streams to the job until it has ended, and returns the exit status of bsub.
func Run(ctx context.Context, cfg Config) int {
	r := &run{Config: cfg, out: make(chan queue.PipeFrame), signals: make(chan os.Signal, 8)}
	r.announce = text{w: cfg.Stderr, waiting: !cfg.Takeover}
	r.ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	if cfg.Pty {
		r.terminal = TerminalOf(cfg.Stdin)
	}
	signal.Notify(r.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH)
	defer signal.Stop(r.signals)
	defer r.terminal.Restore()
	go r.handleSignals()
	for {
		job, err := r.attach()
		r.terminal.Restore()
		if job != nil {
			return r.announce.ended(job)
		}
		if code, over := r.lost(err); over {
			return code
		}
	}
}

// lost decides what follows a broken attachment.
func (r *run) lost(err error) (code int, over bool) {
	r.mu.Lock()
	out, detached := r.interrupt, r.detached
	r.mu.Unlock()
	if detached {
		code = 0
	} else {
		code = failed
	}
	switch {
	case out || detached || r.ctx.Err() != nil:
		r.announce.say("The session goes on without this terminal; `battach " + strconv.FormatInt(int64(r.Job), 10) + "` comes back to it.")
		return code, true
	case refused(err):
		r.announce.say(err.Error())
		return failed, true
	}
	// The node has kept what nobody has read, and a session that has ended meanwhile can still be asked
	// for its end: a take-over would show again what was shown, and would be refused.
	r.Takeover = false
	rest(r.ctx)
	return 0, false
}

func rest(ctx context.Context) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

// refused says that asking again would give the same answer.
func refused(err error) bool {
	var e *wire.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case wire.Invalid, wire.NotFound, wire.Conflict, wire.Denied:
		return true
	}
	return false
}

// attach ties the streams once. It returns the job when that has ended, or why the stream broke.
func (r *run) attach() (*pb.Job, error) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	rows, cols := r.terminal.Size()
	stream, err := r.Attach(ctx, r.Takeover, rows, cols)
	if err != nil {
		return nil, err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r.send(ctx, stream)
	}()
	r.setTied(true)
	job, err := r.receive(stream)
	r.setTied(false)
	cancel()
	stream.Close()
	<-sent
	return job, err
}

func (r *run) setTied(v bool) {
	r.mu.Lock()
	r.tied = v
	r.mu.Unlock()
}

// send passes on what the terminal and the signals give. What could not be sent is kept for the next attachment.
func (r *run) send(ctx context.Context, stream Stream) {
	for {
		if r.unsent == nil {
			select {
			case f := <-r.out:
				r.unsent = &f
			case <-ctx.Done():
				return
			}
		}
		if stream.Send(*r.unsent) != nil {
			return // the receiver learns of it too
		}
		r.unsent = nil
	}
}

// receive prints what the job says.
func (r *run) receive(stream Stream) (*pb.Job, error) {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		switch k := m.Kind.(type) {
		case *pb.AttachResponse_State:
			if final(k.State.GetState()) {
				return k.State, nil
			}
			r.state(k.State)
		case *pb.AttachResponse_Data:
			r.tie()
			if _, err := r.Stdout.Write(k.Data); err != nil {
				return nil, err
			}
		case *pb.AttachResponse_Err:
			r.tie()
			if _, err := r.Stderr.Write(k.Err); err != nil {
				return nil, err
			}
		}
	}
}

func final(state string) bool { return state == "DONE" || state == "EXIT" }

// state follows the job before and after the streams are tied.
func (r *run) state(j *pb.Job) {
	switch j.GetState() {
	case "PEND", "PSUSP":
		r.announce.pending()
	default:
		r.announce.starting(j)
		r.tie()
	}
}

// tie begins to read standard input, and makes the terminal raw: from now on it is the job's.
func (r *run) tie() {
	r.mu.Lock()
	r.running = true
	r.mu.Unlock()
	if r.Pty {
		r.terminal.Raw()
	}
	if !r.reading {
		r.reading = true
		go r.read()
	}
}

// read passes on standard input until its end. Nobody can wake it from its read; it ends with the process.
func (r *run) read() {
	var esc escape
	for {
		buf := make([]byte, 8192)
		n, err := r.Stdin.Read(buf)
		data, leave := buf[:n], false
		if r.terminal != nil {
			data, leave = esc.filter(data)
		}
		if len(data) > 0 && !r.queue(queue.PipeFrame{Data: data}) {
			return
		}
		if leave {
			r.mu.Lock()
			r.detached = true
			r.mu.Unlock()
			r.cancel()
			return
		}
		if err != nil {
			r.queue(queue.PipeFrame{EOF: true})
			return
		}
	}
}

func (r *run) queue(m queue.PipeFrame) bool {
	select {
	case r.out <- m:
		return true
	case <-r.ctx.Done():
		return false
	}
}

func (r *run) handleSignals() {
	for {
		select {
		case sig := <-r.signals:
			r.signal(sig)
		case <-r.ctx.Done():
			return
		}
	}
}

func (r *run) signal(sig os.Signal) {
	r.mu.Lock()
	tied, running, taken := r.tied, r.running, r.taken
	r.mu.Unlock()
	switch {
	case sig == syscall.SIGWINCH:
		if rows, cols := r.terminal.Size(); rows > 0 && tied {
			go r.queue(queue.PipeFrame{Rows: rows, Cols: cols}) // a job that reads nothing must not stop the next signal
		}
	case !tied && (running || taken || sig == syscall.SIGHUP), sig == syscall.SIGHUP && r.Pty && running:
		r.mu.Lock()
		r.interrupt = true
		r.mu.Unlock()
		r.cancel()
	case !running:
		r.mu.Lock()
		r.taken = true
		r.mu.Unlock()
		if err := r.Kill(r.ctx); err != nil {
			r.announce.say(err.Error())
			r.cancel()
		}
	default:
		go r.queue(queue.PipeFrame{Signal: signalWord(sig)})
	}
}

func signalWord(sig os.Signal) string {
	switch sig {
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGHUP:
		return "HUP"
	case syscall.SIGQUIT:
		return "QUIT"
	}
	return "INT"
}

// hostNames are the hosts of a job, each once.
func hostNames(j *pb.Job) string {
	var names []string
	for _, a := range j.GetAlloc() {
		names = append(names, a.Node)
	}
	return strings.Join(names, " ")
}
