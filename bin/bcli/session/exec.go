package session

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"fairslice/api/pb"
	"fairslice/queue"
)

// Beside is something under way beside a job. One goroutine may Send while another receives.
type Beside interface {
	Send(queue.PipeFrame) error
	Recv() (*pb.ExecResponse, error)
	Close()
}

// Program is a program beside a job and the streams that it is tied to. Terminal is nil where it has none.
type Program struct {
	Beside
	Terminal *Terminal
	Stdin    io.Reader // nil: no input
	Stdout   io.Writer
	Stderr   io.Writer
}

// maxInterrupts is how many times the user may interrupt a program before bexec leaves it.
const maxInterrupts = 3

// Exec ties the streams to the program until it has ended, and returns its exit status as a shell gives it. An error says
// that it is not known.
func Exec(ctx context.Context, p Program) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer p.Terminal.Restore()
	stop := context.AfterFunc(ctx, p.Close)
	defer stop()
	in := &window{free: queue.InputWindow}
	in.changed = sync.NewCond(&in.mu)
	go p.handleSignals(ctx, cancel)
	for {
		m, err := p.Recv()
		if err != nil {
			return failed, err
		}
		if m.Begun {
			p.Terminal.Raw()
			go p.read(in)
		}
		if _, err := p.Stdout.Write(m.Data); err != nil {
			return failed, err
		}
		if _, err := p.Stderr.Write(m.Err); err != nil {
			return failed, err
		}
		in.release(int(m.Taken))
		if m.Exited {
			return shellStatus(syscall.WaitStatus(m.Status)), nil
		}
	}
}

func shellStatus(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// window is how much input may still be sent.
type window struct {
	mu      sync.Mutex
	changed *sync.Cond
	free    int
}

func (w *window) take(most int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.free <= 0 {
		w.changed.Wait()
	}
	n := min(most, w.free)
	w.free -= n
	return n
}

func (w *window) release(n int) {
	if n > 0 {
		w.mu.Lock()
		w.free += n
		w.changed.Broadcast()
		w.mu.Unlock()
	}
}

// read passes on standard input until its end. Nobody can wake it from its read; it ends with the process.
func (p *Program) read(w *window) {
	if p.Stdin == nil {
		_ = p.Send(queue.PipeFrame{EOF: true}) // Recv says that it is over
		return
	}
	for {
		buf := make([]byte, 16<<10)
		n, err := p.Stdin.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			part := rest[:w.take(len(rest))]
			if p.Send(queue.PipeFrame{Data: part}) != nil {
				return
			}
			rest = rest[len(part):]
		}
		if err != nil {
			_ = p.Send(queue.PipeFrame{EOF: true})
			return
		}
	}
}

// handleSignals gives the program what is meant for it. On a terminal the keys are bytes, and its loss is the program's, too.
func (p *Program) handleSignals(ctx context.Context, leave func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH)
	defer signal.Stop(signals)
	for interrupts := 0; ; {
		select {
		case sig := <-signals:
			if sig == syscall.SIGWINCH {
				if rows, cols := p.Terminal.Size(); rows > 0 {
					_ = p.Send(queue.PipeFrame{Rows: rows, Cols: cols})
				}
				continue
			}
			if sig == os.Interrupt {
				interrupts++
			}
			if sig == syscall.SIGHUP || interrupts >= maxInterrupts {
				leave()
				return
			}
			_ = p.Send(queue.PipeFrame{Signal: signalWord(sig)})
		case <-ctx.Done():
			return
		}
	}
}
