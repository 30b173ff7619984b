package session

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// dial connects to a program of this machine and carries bytes until both sides have ended, or one is gone.
func (s *server) dial(asked net.Conn, r *reader, w *writer, q *Dial) {
	network, address := "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(q.Port))
	if q.Path != "" {
		network, address = "unix", q.Path
	}
	own := q.Own && q.Path == ""
	foreign := fmt.Errorf("connect to %s in the session: it is not this job's user who listens there", q)
	c, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		if own {
			if _, others, _ := listeners(q.Port); others { // it is kept from us
				refuse(w, Denied, foreign)
				return
			}
		}
		refuse(w, refusalOf(err), fmt.Errorf("connect to %s in the session: %w", q, cause(err)))
		return
	}
	defer c.Close()
	if own { // asked when connected: who listens now has taken the connection
		if is, err := ownPort(q.Port); err != nil || !is {
			refuse(w, Denied, foreign)
			return
		}
	}
	if w.frame(frameTaken, nil) != nil {
		return
	}
	var mu sync.Mutex
	inEnded, outEnded := false, false
	ends := func(which *bool) { // the last of both ends the connection, and with it whoever still reads
		mu.Lock()
		*which = true
		both := inEnded && outEnded
		mu.Unlock()
		if both {
			_ = asked.Close()
		}
	}
	var out sync.WaitGroup
	out.Go(func() {
		buf := make([]byte, MaxData)
		for {
			n, err := c.Read(buf)
			if n > 0 && w.frame(frameOutput, buf[:n]) != nil {
				return
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					_ = asked.Close() // broken: so is the other side
					return
				}
				_ = w.frame(frameEnd, nil) // who asked may have gone
				ends(&outEnded)
				return
			}
		}
	})
	s.toProgram(r, c, func() { ends(&inEnded) })
	_ = c.Close()
	out.Wait()
}

// toProgram carries what comes to the program, until who asked has gone.
func (s *server) toProgram(r *reader, c net.Conn, ended func()) {
	for {
		kind, payload, err := r.next()
		if err != nil {
			return
		}
		switch kind {
		case frameInput:
			if _, err := c.Write(payload); err != nil {
				return
			}
		case frameEnd:
			if half, ok := c.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite() // fails when the program has gone
			}
			ended()
		default:
			return
		}
	}
}

// cause is the system's word in a failed dial.
func cause(err error) error {
	var sys *os.SyscallError
	if errors.As(err, &sys) {
		return sys.Err
	}
	return err
}
