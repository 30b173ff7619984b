package api

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"fairslice/queue"
)

// Dial connects to a program beside a running job of by, named as bjobs names it: for a proxy in this process. Errors are as of
// Exec; that nothing listens there is Conflict, with a text. ctx bounds the connecting only. The connection
// has no deadlines, and cannot be half closed; closing it ends whatever waits for it. It must be closed, and ends with the job
// and with the server.
func (s *Server) Dial(ctx context.Context, by queue.Identity, job string, to queue.DialOrder) (net.Conn, error) {
	order := queue.PipeOrder{Dial: &to}
	if err := checkBeside(&order); err != nil {
		return nil, err
	}
	pipe, err := s.beside(ctx, by, job, order)
	if err != nil {
		return nil, err
	}
	return connected(ctx, pipe, to)
}

// connected makes a connection of a pipe once the node says that it leads somewhere. It takes the pipe over.
func connected(ctx context.Context, pipe *Pipe, to queue.DialOrder) (net.Conn, error) {
	stop := context.AfterFunc(ctx, pipe.Close)
	_, err := received(pipe) // the first message says that it is connected
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		pipe.Close()
		return nil, err
	}
	return &dialed{pipe: pipe, to: to}, nil
}

// dialed is a connection through a pipe. The pipe's own order and limits are the connection's: nothing stands between, and
// nothing is held back.
type dialed struct {
	pipe *Pipe
	to   queue.DialOrder

	reading sync.Mutex
	rest    []byte // of what came last
}

// maxFrame bounds the bytes of one message to the node.
const maxFrame = 64 << 10

func (d *dialed) Read(b []byte) (int, error) {
	d.reading.Lock()
	defer d.reading.Unlock()
	for len(d.rest) == 0 && len(b) > 0 {
		m, err := received(d.pipe)
		if err != nil || m.GetEof() {
			d.pipe.Close()
			return 0, io.EOF
		}
		d.rest = m.GetData()
	}
	n := copy(b, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *dialed) Write(b []byte) (int, error) {
	for done := 0; done < len(b); {
		part := b[done:min(done+maxFrame, len(b))]
		if err := d.pipe.Send(queue.PipeFrame{Data: part}); err != nil {
			return done, io.ErrClosedPipe
		}
		done += len(part)
	}
	return len(b), nil
}

func (d *dialed) Close() error {
	d.pipe.Close()
	return nil
}

// RemoteAddr is the address beside the job.
func (d *dialed) RemoteAddr() net.Addr {
	if d.to.Path != "" {
		return &net.UnixAddr{Name: d.to.Path, Net: "unix"}
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: d.to.Port}
}

// LocalAddr has no meaning of its own.
func (d *dialed) LocalAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

func (d *dialed) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (d *dialed) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (d *dialed) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
