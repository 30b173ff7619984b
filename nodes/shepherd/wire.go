package shepherd

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A frame is a kind byte, the payload's length in four bytes, and the payload. The kinds are part of the protocol
// between a daemon and the shepherds of an older version: their meaning never changes.
const (
	frameControl  = 'C' // first on a connection: requests follow
	frameTerminal = 'T' // first on a connection: payload is the key of the job to attach to
	frameHello    = 'h' // the shepherd serves; payload is the protocol version
	frameRequest  = 'q' // JSON request
	frameAnswer   = 'a' // JSON answer
	frameExited   = 'x' // JSON Exited: pushed on a control connection, last on a terminal
	frameInput    = 'i' // to the job
	frameOutput   = 'o' // terminal output, or stdout
	frameStderr   = 'e'
	frameResize   = 'r' // rows and columns, two bytes each
	frameEOF      = 'z' // end of input
	frameHangup   = 'H'
)

const (
	version  = 1
	maxFrame = 16 << 20 // argv and environment are at most a few MiB
)

type request struct {
	ID     uint64 // 0 wants no answer
	Op     string // start cancel signal list ack
	Key    string `json:",omitempty"`
	Start  *Start `json:",omitempty"`
	Signal int    `json:",omitempty"`
}

type answer struct {
	ID      uint64
	Started *Started    `json:",omitempty"`
	Jobs    []Job       `json:",omitempty"`
	Failed  *StartError `json:",omitempty"`
	Unknown bool        `json:",omitempty"` // no such job
	Error   string      `json:",omitempty"`
}

func appendFrame(to []byte, kind byte, payload []byte) []byte {
	to = append(to, kind)
	to = binary.BigEndian.AppendUint32(to, uint32(len(payload)))
	return append(to, payload...)
}

func appendJSON(to []byte, kind byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("internal error: impossible: " + err.Error()) // our own plain structs
	}
	return appendFrame(to, kind, text)
}

// readFrame reads one frame; io.EOF only between frames.
func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes", size)
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return head[0], payload, nil
}

// outbox sends frames in order without ever making the sender wait; what piles up goes out in one write.
type outbox struct {
	conn net.Conn
	wake chan struct{}
	done chan struct{} // closed when run has returned

	mu     sync.Mutex
	frames []byte
	closed bool
}

func newOutbox(conn net.Conn) *outbox {
	return &outbox{conn: conn, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// send may be called after close, and then does nothing.
func (o *outbox) send(kind byte, v any) {
	o.mu.Lock()
	if !o.closed {
		if raw, ok := v.([]byte); ok {
			o.frames = appendFrame(o.frames, kind, raw)
		} else {
			o.frames = appendJSON(o.frames, kind, v)
		}
	}
	o.mu.Unlock()
	o.poke()
}

func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.poke()
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run writes until close or a failed write, and closes the connection.
func (o *outbox) run() {
	defer close(o.done)
	defer o.conn.Close()
	for range o.wake {
		o.mu.Lock()
		frames, closed := o.frames, o.closed
		o.frames = nil
		o.mu.Unlock()
		if len(frames) > 0 {
			if _, err := o.conn.Write(frames); err != nil {
				o.close()
				return
			}
		}
		if closed {
			return
		}
	}
}

// socketAddress returns an address for a socket whose path may be longer than the 107 bytes the kernel takes.
func socketAddress(path string) (address string, release func(), err error) {
	if len(path) < 100 {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + filepath.Base(path), func() { unix.Close(fd) }, nil
}

// dial connects to a shepherd's socket; ErrGone when nobody listens, and then the socket is removed.
func dial(path string) (*net.UnixConn, error) {
	address, release, err := socketAddress(path)
	if err != nil {
		return nil, err
	}
	defer release()
	conn, err := net.DialTimeout("unix", address, 5*time.Second)
	if errors.Is(err, unix.ECONNREFUSED) {
		os.Remove(path)
		return nil, fmt.Errorf("%s: %w", path, ErrGone)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("%s: %w", path, ErrGone)
	}
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}
