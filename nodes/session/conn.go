package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// RefusedError says why the server does not do, or go on with, what it was asked.
type RefusedError struct {
	Kind Refusal
	Text string
}

func (e *RefusedError) Error() string { return e.Text }

// Conn is one request under way, at the end of the node daemon. One goroutine may call Next beside others that send.
type Conn struct {
	c net.Conn
	r *reader
	w *writer
}

// Output is one thing that came: exactly one of its fields is set. Data and Err are good until the next call of Next.
type Output struct {
	Data, Err []byte
	Taken     int  // bytes of input that the program took; Window bounds what may be under way
	End       bool // of the output of a connection
	Exited    bool
	Status    uint32 // with Exited: as of wait(2)
}

// openTimeout is for the answer to a request; connecting to a port takes its time.
const openTimeout = 20 * time.Second

// Open makes a request. It takes over c, which must be connected to who really is the server: the job's user, see
// shepherd.DialAs. A *RefusedError is the server's own word.
func Open(c net.Conn, q *Request) (*Conn, error) {
	s, err := open(c, q)
	if err != nil {
		_ = c.Close()
	}
	return s, err
}

func open(c net.Conn, q *Request) (*Conn, error) {
	if err := q.check(); err != nil {
		return nil, &RefusedError{Invalid, err.Error()}
	}
	b, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if len(b) > maxRequest {
		return nil, &RefusedError{Invalid, fmt.Sprintf("the request has %d bytes; %d are allowed", len(b), maxRequest)}
	}
	s := &Conn{c: c, r: newReader(c), w: &writer{w: c}}
	_ = c.SetDeadline(time.Now().Add(openTimeout)) // of a Unix socket: cannot fail
	if err := s.w.frame(frameRequest, b); err != nil {
		return nil, fmt.Errorf("ask the job's server: %w", err)
	}
	kind, payload, err := s.r.next()
	switch {
	case err != nil:
		return nil, fmt.Errorf("the job's server does not answer: %w", err)
	case kind == frameRefused:
		return nil, refused(payload)
	case kind != frameTaken:
		return nil, outOfPlace(kind)
	}
	_ = c.SetDeadline(time.Time{})
	return s, nil
}

func refused(payload []byte) error {
	if len(payload) == 0 {
		return &RefusedError{Failed, "refused without a reason"}
	}
	return &RefusedError{Refusal(payload[0]), string(payload[1:])}
}

func outOfPlace(kind byte) error {
	return fmt.Errorf("the job's server sent frame %q out of place", kind)
}

// Next waits for what comes. After Exited nothing does; an error before it means that the server, or the job, has ended.
func (s *Conn) Next() (Output, error) {
	kind, payload, err := s.r.next()
	if err != nil {
		return Output{}, err
	}
	switch kind {
	case frameOutput:
		return Output{Data: payload}, nil
	case frameError:
		return Output{Err: payload}, nil
	case frameWindow:
		return Output{Taken: int(min(number(payload), Window))}, nil
	case frameEnd:
		return Output{End: true}, nil
	case frameExit:
		return Output{Exited: true, Status: number(payload)}, nil
	case frameRefused:
		return Output{}, refused(payload)
	}
	return Output{}, outOfPlace(kind)
}

// Input sends input. For a Run at most Window bytes may be under way; for others it waits until they are taken.
func (s *Conn) Input(b []byte) error { return s.w.frame(frameInput, b) }

// EndInput says that no more input comes. On a terminal it types Control-D.
func (s *Conn) EndInput() error { return s.w.frame(frameEnd, nil) }

// Resize gives the terminal another size.
func (s *Conn) Resize(rows, cols uint16) error {
	return s.w.number(frameResize, uint32(rows)<<16|uint32(cols))
}

// Signal sends a signal to the program and its children.
func (s *Conn) Signal(number int) error {
	if number < 1 || number > 64 {
		return errors.New("no such signal")
	}
	return s.w.frame(frameSignal, []byte{byte(number)})
}

// Close leaves. A program that still runs gets SIGHUP.
func (s *Conn) Close() error { return s.c.Close() }
