package api

import (
	"context"
	"errors"
	"io"

	"fairslice/api/wire"
	"fairslice/queue"
)

// Console is a terminal of a running job, for a page in this process: the job's own, or that of a program beside it. One
// goroutine may Recv beside one that Sends. It must be closed, and ends with the job and with the server.
type Console struct {
	pipe *Pipe
	own  bool // the job's own
}

// Beside runs a program beside a running job of by, as Exec does. Only the owner may, and errors are those of Exec.
func (s *Server) Beside(ctx context.Context, by queue.Identity, job string, program queue.ExecOrder, rows, cols uint16) (*Console, error) {
	order := queue.PipeOrder{Exec: &program, Rows: rows, Cols: cols}
	if err := checkBeside(&order); err != nil {
		return nil, err
	}
	pipe, err := s.beside(ctx, by, job, order)
	if err != nil {
		return nil, err
	}
	return &Console{pipe: pipe}, nil
}

// Takeover ties the caller to the terminal of a running session of by, and shows again what it has written last. Others that are
// tied to it stay; the session does not notice.
func (s *Server) Takeover(ctx context.Context, by queue.Identity, job string, rows, cols uint16) (*Console, error) {
	element, attempt, node, err := s.running(job, by)
	if err != nil {
		return nil, err
	}
	session := false
	s.engine.View(func(v queue.View) {
		j := v.Book().Jobs[element.Job]
		session = j != nil && j.Spec.Interactive.HasPty()
	})
	if !session {
		return nil, wire.Errorf(Conflict, "Job <%s> : Not an interactive job.", element)
	}
	pipe, err := s.hub.Pipe(ctx, node, queue.PipeOrder{Kind: "tty", ID: element, Attempt: attempt, Replay: true, Rows: rows, Cols: cols})
	if err != nil {
		return nil, err
	}
	return &Console{pipe: pipe, own: true}, nil
}

// Recv waits for output. The last one of a program says that it has exited, and how; that of the job's own terminal does not
// know how. Any error has a text for people.
func (c *Console) Recv() (queue.PipeOutput, error) {
	if !c.own {
		m, err := received(c.pipe)
		if err != nil {
			return queue.PipeOutput{}, err
		}
		return wire.ToPipeOutput(m), nil
	}
	m, err := c.pipe.Recv()
	switch {
	case errors.Is(err, io.EOF) || err == nil && m.GetEnd() && len(m.GetData()) == 0:
		return queue.PipeOutput{Exited: true}, nil
	case err != nil:
		return queue.PipeOutput{}, wire.Errorf(Unavailable, "the connection to the job's node broke")
	case m.GetError() != "":
		return queue.PipeOutput{}, wire.Errorf(Conflict, "%s", m.GetError())
	}
	out := wire.ToPipeOutput(m)
	out.Exited, out.Taken = m.GetEnd(), 0
	return out, nil
}

// Send gives a frame to the terminal. Of input to a program no more than queue.InputWindow bytes may be under way: Recv says
// what was taken.
func (c *Console) Send(f queue.PipeFrame) error { return c.pipe.Send(f) }

// Own says that it is the job's own terminal.
func (c *Console) Own() bool { return c.own }

// Close ends it: a program beside the job is ended, a session is left as it is. Closing twice is harmless.
func (c *Console) Close() { c.pipe.Close() }

// Tail reads the end of what a running job has written so far, at most size bytes of standard output and as many of errors
// (nil where they are not apart). Its owner may, and administrators; other errors are those of Peek.
func (s *Server) Tail(ctx context.Context, by queue.Identity, job string, size int) (stdout, stderr []byte, err error) {
	u := &users{s}
	order, node, apart, err := u.peekable(job, by)
	if err != nil {
		return nil, nil, err
	}
	order.Tail = int64(size)
	pipe, err := s.hub.Pipe(ctx, node, order)
	if err != nil {
		return nil, nil, err
	}
	defer pipe.Close()
	defer context.AfterFunc(ctx, pipe.Close)()
	for {
		m, err := pipe.Recv()
		switch {
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case errors.Is(err, io.EOF) || err == nil && m.GetEnd():
			if apart && stderr == nil {
				stderr = []byte{}
			}
			return stdout[max(0, len(stdout)-size):], stderr[max(0, len(stderr)-size):], nil
		case err != nil:
			return nil, nil, wire.Errorf(Unavailable, "node %s left while its output was read", node)
		case m.GetError() != "":
			return nil, nil, wire.Errorf(Conflict, "Job <%s> : %s", order.ID, m.GetError())
		}
		stdout, stderr = last(stdout, m.GetData(), size), last(stderr, m.GetErr(), size)
	}
}

// last appends and keeps the end only, of up to size bytes, without copying it at each call.
func last(to, more []byte, size int) []byte {
	if to = append(to, more...); len(to) > 2*size {
		to = append(to[:0], to[len(to)-size:]...)
	}
	return to
}
