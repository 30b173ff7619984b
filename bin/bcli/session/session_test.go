package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

// TestMain keeps signals that come when a session is just over from ending the test.
func TestMain(m *testing.M) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH)
	os.Exit(m.Run())
}

// wireEnd is batchd's end of one attachment.
type wireEnd struct {
	takeover   bool
	rows, cols uint16
	down       chan any // *pb.AttachResponse or error
	up         chan queue.PipeFrame
	closed     chan struct{}
	once       sync.Once
}

func (w *wireEnd) Send(f queue.PipeFrame) error {
	select {
	case w.up <- f:
		return nil
	case <-w.closed:
		return io.ErrClosedPipe
	}
}

func (w *wireEnd) Recv() (*pb.AttachResponse, error) {
	select {
	case m := <-w.down:
		if err, ok := m.(error); ok {
			return nil, err
		}
		return m.(*pb.AttachResponse), nil
	case <-w.closed:
		return nil, io.ErrClosedPipe
	}
}

func (w *wireEnd) Close() { w.once.Do(func() { close(w.closed) }) }

func (w *wireEnd) state(state string, change ...func(*pb.Job)) {
	j := &pb.Job{Id: 9, State: state, Status: queue.NoStatus}
	if state != "PEND" && len(change) == 0 {
		j.Alloc, j.Dispatched = []*pb.Allocation{{Node: "gpu01"}}, 1
	}
	for _, f := range change {
		f(j)
	}
	w.down <- &pb.AttachResponse{Kind: &pb.AttachResponse_State{State: j}}
}

func (w *wireEnd) data(s string) {
	w.down <- &pb.AttachResponse{Kind: &pb.AttachResponse_Data{Data: []byte(s)}}
}

func exited(code int32) func(*pb.Job) {
	return func(j *pb.Job) {
		j.Alloc, j.HasResult, j.Status, j.ExitCode = []*pb.Allocation{{Node: "gpu01"}}, true, code<<8, code
	}
}

// locked is a buffer that a test reads while the session writes.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a session under test.
type rig struct {
	t           *testing.T
	attached    chan *wireEnd
	killed      chan struct{}
	out, errors locked
	code        chan int
}

func begin(t *testing.T, stdin io.Reader, hasPty bool) *rig {
	pause = time.Millisecond
	r := &rig{t: t, attached: make(chan *wireEnd), killed: make(chan struct{}, 1), code: make(chan int, 1)}
	cfg := Config{
		Job: 9, Pty: hasPty, Stdin: stdin, Stdout: &r.out, Stderr: &r.errors,
		Attach: func(ctx context.Context, takeover bool, rows, cols uint16) (Stream, error) {
			w := &wireEnd{takeover: takeover, rows: rows, cols: cols, down: make(chan any), up: make(chan queue.PipeFrame), closed: make(chan struct{})}
			context.AfterFunc(ctx, w.Close) // as the real one: its stream ends with ctx
			select {
			case r.attached <- w:
				return w, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		Kill: func(context.Context) error { r.killed <- struct{}{}; return nil },
	}
	go func() { r.code <- Run(context.Background(), cfg) }()
	return r
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func (r *rig) ends(code int, out, errors string) {
	r.t.Helper()
	if got := await(r.t, r.code); got != code || r.out.String() != out || r.errors.String() != errors {
		r.t.Errorf("got %d\nout: %q\nerr: %q\nwant %d\nout: %q\nerr: %q", got, r.out.String(), r.errors.String(), code, out, errors)
	}
}

const began = "<<Waiting for dispatch ...>>\n<<Starting on gpu01>>\n"

func TestPipes(t *testing.T) {
	r := begin(t, strings.NewReader("input"), false)
	w := await(t, r.attached)
	w.state("PEND")
	w.state("RUN")
	if f := await(t, w.up); string(f.Data) != "input" {
		t.Errorf("%+v", f)
	}
	if f := await(t, w.up); !f.EOF {
		t.Errorf("%+v", f)
	}
	w.data("hello\n")
	w.down <- &pb.AttachResponse{Kind: &pb.AttachResponse_Err{Err: []byte("oops\n")}}
	w.state("EXIT", exited(7))
	r.ends(7, "hello\n", began+"oops\n<<Job is finished>>\n")
}

func TestSessionSurvivesTheDaemon(t *testing.T) {
	in, out := io.Pipe()
	r := begin(t, in, false)
	w := await(t, r.attached)
	w.state("RUN")
	w.data("one ")
	w.down <- error(wire.Errorf(wire.Unavailable, "the connection broke"))
	go out.Write([]byte("typed meanwhile"))
	w = await(t, r.attached)
	w.down <- io.EOF
	w = await(t, r.attached)
	if w.takeover {
		t.Error("a session that comes back by itself takes over: what was shown is shown twice")
	}
	w.state("RUN")
	if f := await(t, w.up); string(f.Data) != "typed meanwhile" {
		t.Errorf("%+v", f)
	}
	w.data("two")
	w.state("DONE", exited(0))
	r.ends(0, "one two", began+"<<Job is finished>>\n")
}

func TestRefusalEndsTheSession(t *testing.T) {
	r := begin(t, strings.NewReader(""), false)
	await(t, r.attached).down <- error(wire.Errorf(wire.Denied, "Job <9> : User permission denied"))
	r.ends(255, "", "Job <9> : User permission denied\n")
}

func TestTakenBackBeforeItsStart(t *testing.T) {
	r := begin(t, strings.NewReader(""), false)
	w := await(t, r.attached)
	w.state("PEND")
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	await(t, r.killed)
	w.state("EXIT", func(j *pb.Job) { j.Verdict = "TERM_OWNER" })
	r.ends(126, "", "<<Waiting for dispatch ...>>\n<<Terminated while pending>>\n")
}

func TestSignalsGoToTheJob(t *testing.T) {
	r := begin(t, blocked{}, false)
	w := await(t, r.attached)
	w.state("RUN")
	w.data("x")
	for sig, want := range map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGQUIT: "QUIT", syscall.SIGHUP: "HUP"} {
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		if f := await(t, w.up); f.Signal != want {
			t.Errorf("%v came as %+v", sig, f)
		}
	}
	w.state("EXIT", exited(130), func(j *pb.Job) { j.Verdict = "TERM_OWNER" })
	r.ends(130, "x", began+"<< Job <9> has been terminated by user or administrator >>\n")
}

func TestInterruptWhileTheDaemonIsAway(t *testing.T) {
	r := begin(t, blocked{}, false)
	w := await(t, r.attached)
	w.state("RUN")
	w.down <- error(wire.Errorf(wire.Unavailable, "gone"))
	// From here on the session waits in Attach, which nobody answers.
	deadline := time.Now().Add(10 * time.Second)
	for {
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		select {
		case code := <-r.code:
			if code != 255 || !strings.Contains(r.errors.String(), "`battach 9` comes back to it") {
				t.Errorf("%d %q", code, r.errors.String())
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the session does not end")
		}
	}
}

// blocked is an input on which nothing ever comes.
type blocked struct{}

func (blocked) Read([]byte) (int, error) { select {} }

func mode(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *m
}

func TestPty(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	before := mode(t, tty)
	r := begin(t, tty, true)
	w := await(t, r.attached)
	if w.rows != 24 || w.cols != 80 {
		t.Errorf("size %d × %d", w.rows, w.cols)
	}
	w.state("PEND")
	w.state("RUN")
	w.data("$ ")
	w.data("") // the one before has been dealt with
	if mode(t, tty).Lflag&(unix.ECHO|unix.ISIG|unix.ICANON) != 0 {
		t.Error("the terminal is not raw")
	}
	if _, err := master.Write([]byte{3}); err != nil { // Ctrl-C is a byte
		t.Fatal(err)
	}
	if f := await(t, w.up); string(f.Data) != "\x03" {
		t.Errorf("%+v", f)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 50, Cols: 132}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	if f := await(t, w.up); f.Rows != 50 || f.Cols != 132 {
		t.Errorf("%+v", f)
	}
	// While batchd is away the terminal is the user's.
	w.down <- errors.New("gone")
	w = await(t, r.attached)
	if mode(t, tty) != before {
		t.Error("the terminal is not given back while the session is lost")
	}
	w.state("RUN")
	w.data("$ ")
	w.state("DONE", exited(0))
	r.ends(0, "$ $ ", began+"<<Job is finished>>\n")
	if mode(t, tty) != before {
		t.Error("the terminal is not as it was")
	}
}

func TestHangUpLeavesThePty(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	before := mode(t, tty)
	r := begin(t, tty, true)
	w := await(t, r.attached)
	w.state("RUN")
	w.data("$ ")
	w.data("")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code := await(t, r.code); code != 255 || !strings.Contains(r.errors.String(), "battach 9") {
		t.Errorf("%d %q", code, r.errors.String())
	}
	if mode(t, tty) != before {
		t.Error("the terminal is not as it was")
	}
}

func TestWaitGoesOnWhenTheStreamBreaks(t *testing.T) {
	pause = time.Millisecond
	run, end := &pb.Job{Id: 9, State: "RUN", Alloc: []*pb.Allocation{{Node: "gpu01"}}}, &pb.Job{Id: 9, State: "DONE", Dispatched: 1}
	calls := 0
	var out bytes.Buffer
	code := Wait(context.Background(), &out, func(_ context.Context, f func(*pb.WatchResponse) error) error {
		calls++
		switch calls {
		case 1:
			_ = f(&pb.WatchResponse{Job: run, Unfinished: 1})
			return wire.Errorf(wire.Unavailable, "gone")
		case 2:
			return wire.Errorf(wire.Unavailable, "gone")
		}
		_ = f(&pb.WatchResponse{Job: run, Unfinished: 1})
		return f(&pb.WatchResponse{Job: end})
	})
	if want := began + "<<Job is finished>>\n"; code != 0 || out.String() != want {
		t.Errorf("%d %q", code, out.String())
	}
}

func TestWaitForAnArray(t *testing.T) {
	var out bytes.Buffer
	whole := &pb.Job{Id: 9, Counts: &pb.Counts{Total: 2}}
	code := Wait(context.Background(), &out, func(_ context.Context, f func(*pb.WatchResponse) error) error {
		_ = f(&pb.WatchResponse{Job: whole, Unfinished: 2})
		return f(&pb.WatchResponse{Job: whole, Failed: 2})
	})
	if code != 1 || out.String() != "<<Waiting for dispatch ...>>\n<<Job is finished>>\n" {
		t.Errorf("%d %q", code, out.String())
	}
}
