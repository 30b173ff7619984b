package api

import (
	"context"
	"net"

	"fairslice/queue"
)

// Dial connects to a program beside a running job of by, named as bjobs names it: for a proxy in this process. Errors are as of
// Exec; that nothing listens there is Conflict, with a text. ctx bounds the connecting only. Reads and writes of the connection
// have deadlines; it cannot be half closed. It must be closed, and ends with the job and with the server.
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
	ours, theirs := net.Pipe() // has deadlines, and holds nothing back
	go func() {                // from the program; ends with the pipe
		defer theirs.Close()
		for {
			m, err := received(pipe)
			if err != nil || m.GetEof() {
				return
			}
			if len(m.GetData()) > 0 {
				if _, err := theirs.Write(m.GetData()); err != nil {
					return
				}
			}
		}
	}()
	go func() { // to the program; ends when either end is closed
		defer pipe.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := theirs.Read(buf)
			if n > 0 && pipe.Send(queue.PipeFrame{Data: buf[:n]}) != nil || err != nil {
				return
			}
		}
	}()
	return &dialed{ours, to}, nil
}

// dialed says whom it connects to.
type dialed struct {
	net.Conn
	to queue.DialOrder
}

// RemoteAddr is the address beside the job.
func (d *dialed) RemoteAddr() net.Addr {
	if d.to.Path != "" {
		return &net.UnixAddr{Name: d.to.Path, Net: "unix"}
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: d.to.Port}
}
