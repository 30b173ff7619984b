package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"fairslice/nodes/shepherd"
	"fairslice/queue"
)

// OpenPipe serves one byte stream: a session's terminal, a look at output files, or something beside a job. It returns when
// the stream has ended, so the connection calls it in a goroutine of its own.
func (a *Agent) OpenPipe(o queue.PipeOrder, p queue.Pipe) {
	at := a.find(o.ID, o.Attempt)
	if at == nil {
		_ = p.Fail(fmt.Sprintf("job %s does not run on this host", o.ID))
		return
	}
	var err error
	switch o.Kind {
	case "tty":
		err = at.serveTerminal(o, p)
	case "peek":
		err = at.servePeek(o, p)
	case "exec", "copy", "dial", "app":
		err = at.serveBeside(o, p)
	case "snapshot":
		if err = errors.New("The job cannot change its image."); at.rec.Assignment.Spec.Writable { // on the bare node the root would be the node's
			err = at.serveBeside(o, p)
		}
	default:
		err = fmt.Errorf("unknown kind of stream %q", o.Kind)
	}
	if err != nil {
		_ = p.Fail(err.Error())
		return
	}
	_ = p.Close()
}

// serveTerminal ties p to the job's terminal or streams until the job ends or the other side goes.
func (t *attempt) serveTerminal(o queue.PipeOrder, p queue.Pipe) error {
	term, err := t.a.flock.attach(t.key)
	if err != nil {
		return err
	}
	defer term.Close()
	if o.Rows > 0 && o.Cols > 0 {
		_ = term.Resize(o.Rows, o.Cols)
	}
	if p.Send(queue.PipeOutput{}) != nil { // the user's input waits for it
		return nil
	}
	if t.rec.Assignment.Spec.Interactive.HasPty() {
		defer t.joinTerminals(p)()
	}
	go func() { // from the user to the job; ends with the stream
		defer term.Close()
		for {
			f, err := p.Recv()
			if err != nil {
				return
			}
			// What fails here comes too late for the job, whose last output is still on its way.
			switch {
			case f.EOF:
				_ = term.CloseWrite()
			case f.Signal != "":
				t.order(queue.Order{Op: queue.OrderSignal, Signal: f.Signal})
			case f.Rows > 0 && f.Cols > 0:
				_ = term.Resize(f.Rows, f.Cols)
			default:
				_, _ = term.Write(f.Data)
			}
		}
	}()
	for {
		stream, data, err := term.Next()
		switch {
		case errors.Is(err, io.EOF):
			t.drain() // all that the job wrote has been seen
			return nil
		case err != nil:
			return nil // the user's side took nothing for too long; the job goes on
		case stream == shepherd.Stderr:
			err = p.Send(queue.PipeOutput{Err: data})
		default:
			err = p.Send(queue.PipeOutput{Data: data})
		}
		if err != nil {
			return nil // the user has gone; the job goes on
		}
	}
}

// peekEvery is how often a followed file is read.
const peekEvery = 200 * time.Millisecond

// servePeek sends the job's output so far, and with Follow what is added until the job ends.
func (t *attempt) servePeek(o queue.PipeOrder, p queue.Pipe) error {
	r := t.snapshot()
	if r.Began.IsZero() {
		return errors.New("Not yet started.")
	}
	out, err := t.openOutput(r.Stdout, r.StdoutFrom)
	if err != nil {
		return err
	}
	defer out.Close()
	var errFile *os.File
	if r.Stderr != "" && r.Stderr != r.Stdout {
		if errFile, err = t.openOutput(r.Stderr, r.StderrFrom); err != nil {
			return err
		}
		defer errFile.Close()
	}
	if o.Tail > 0 {
		skipTo(out, o.Tail)
		skipTo(errFile, o.Tail)
	}
	for {
		over := t.snapshot().Stage == ended // asked before reading, so that nothing written before the end is missed
		if err := send(out, func(b []byte) error { return p.Send(queue.PipeOutput{Data: b}) }); err != nil {
			return err
		}
		if errFile != nil {
			if err := send(errFile, func(b []byte) error { return p.Send(queue.PipeOutput{Err: b}) }); err != nil {
				return err
			}
		}
		if !o.Follow || over {
			return nil
		}
		select {
		case <-t.a.ctx.Done():
			return nil
		case <-time.After(peekEvery):
		}
	}
}

// openOutput opens a job's own file with its user's rights, past what was there before.
func (t *attempt) openOutput(path string, from int64) (*os.File, error) {
	if path == "" || path == os.DevNull {
		return os.Open(os.DevNull)
	}
	f, err := shepherd.OpenAs(t.cred(), path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hold us up
	if err != nil {
		return nil, fmt.Errorf("the output cannot be read: %w", err)
	}
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && st.Size() >= from {
		_, _ = f.Seek(from, io.SeekStart)
	}
	return f, nil
}

// skipTo leaves the last so many bytes of what is still to be read of a file; of a pipe, or of nil, all.
func skipTo(f *os.File, last int64) {
	if f == nil {
		return
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return
	}
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(at, end-last), io.SeekStart)
	}
}

func send(f *os.File, out func([]byte) error) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			if err := out(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // the end for now; a file that cannot be read further has no more to show
		}
	}
}
