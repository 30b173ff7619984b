package shepherd

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
)

// Stream tells a job's outputs apart.
type Stream int

// The streams. A terminal has only Stdout.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Terminal is an attachment to a job's terminal or streams. One goroutine may read while others write. Opposite ends: terminal,
// in the shepherd.
type Terminal struct {
	conn net.Conn
	rest []byte // of a frame, for Read

	writing sync.Mutex // a frame is written whole

	mu     sync.Mutex
	exited *Exited
}

// Attach opens a further view of a job started with TTY or Pipe, running or not yet acknowledged. It begins with the last output,
// 64 KiB or somewhat more; the first view of a Pipe job has all. Every view sees all further output and may
// write. ErrUnknown: no such job, or it has no terminal.
func (c *Client) Attach(key string) (*Terminal, error) {
	conn, err := dial(c.socket)
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", key, err)
	}
	var a answer
	_, err = conn.Write(appendFrame(nil, frameTerminal, []byte(key)))
	if err == nil {
		var payload []byte
		if _, payload, err = readFrame(conn); err == nil {
			err = json.Unmarshal(payload, &a)
		}
	}
	if err == nil && a.Unknown {
		err = ErrUnknown
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("attach to %s: %w", key, err)
	}
	return &Terminal{conn: conn}, nil
}

// Next returns the next piece of output. io.EOF: the job has ended, all its output was returned, and Exited tells how.
// Another error: the view has ended but not the job, as when this side took nothing for too long.
func (t *Terminal) Next() (Stream, []byte, error) {
	for {
		kind, payload, err := readFrame(t.conn)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, nil, err
		}
		switch kind {
		case frameOutput:
			return Stdout, payload, nil
		case frameStderr:
			return Stderr, payload, nil
		case frameExited:
			var e Exited
			if err := json.Unmarshal(payload, &e); err != nil {
				return 0, nil, err
			}
			t.mu.Lock()
			t.exited = &e
			t.mu.Unlock()
			return 0, nil, io.EOF
		}
	}
}

// Read is Next as an io.Reader, with both streams in one.
func (t *Terminal) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		_, data, err := t.Next()
		if err != nil {
			return 0, err
		}
		t.rest = data
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// Exited returns how the job ended, after io.EOF.
func (t *Terminal) Exited() (Exited, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exited == nil {
		return Exited{}, false
	}
	return *t.exited, true
}

// Write sends input. What the job does not read is dropped when it ends.
func (t *Terminal) Write(p []byte) (int, error) {
	written := 0
	for part := p; len(part) > 0; part = p[written:] {
		part = part[:min(len(part), 32<<10)]
		if err := t.send(frameInput, part); err != nil {
			return written, err
		}
		written += len(part)
	}
	return written, nil
}

// CloseWrite is the end of input: on a terminal it types Control-D.
func (t *Terminal) CloseWrite() error { return t.send(frameEOF, nil) }

// Resize says the size of this view's window. The terminal is as large as the smallest of its views: the fewest rows and the
// fewest columns of any. It does nothing for streams.
func (t *Terminal) Resize(rows, cols uint16) error {
	return t.send(frameResize, binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, rows), cols))
}

// Hangup takes the terminal away from the job, as a closed line does: its processes get SIGHUP, all views end.
func (t *Terminal) Hangup() error { return t.send(frameHangup, nil) }

// Close ends this view only; the job goes on.
func (t *Terminal) Close() error { return t.conn.Close() }

func (t *Terminal) send(kind byte, payload []byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	_, err := t.conn.Write(appendFrame(nil, kind, payload))
	return err
}
