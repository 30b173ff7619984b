package session

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// A frame is its kind, the length of its payload (4 bytes, big-endian), and the payload.
const (
	frameRequest = 'q' // first of all, to the server: a Request
	frameTaken   = 'k' // the answer: it is under way
	frameRefused = 'f' // the answer, or later the end: why not, for people; the first byte is the Refusal
	frameInput   = 'i' // to the program
	frameEnd     = 'z' // end of input, or of the output of a connection
	frameOutput  = 'o' // standard output, the terminal's, or a connection's
	frameError   = 'e' // standard error
	frameResize  = 'r' // rows and columns, 2 bytes each
	frameSignal  = 's' // a signal's number, 1 byte
	frameWindow  = 'w' // so many bytes of input were taken, 4 bytes
	frameExit    = 'x' // the last: the wait status, 4 bytes
)

const (
	// MaxData is the largest payload of a frame of data.
	MaxData = 32 << 10
	// maxRequest bounds a request; queue.MaxArguments is below it.
	maxRequest = 2 << 20
	maxText    = 4 << 10
	// Window is how many bytes of a program's input may be under way, that is sent and not yet taken by the program.
	Window = 256 << 10
)

// limitOf is the largest payload of a kind; false for what is no kind.
func limitOf(kind byte) (limit uint32, ok bool) {
	switch kind {
	case frameRequest:
		return maxRequest, true
	case frameRefused:
		return maxText, true
	case frameInput, frameOutput, frameError:
		return MaxData, true
	case frameResize, frameWindow, frameExit:
		return 4, true
	case frameSignal:
		return 1, true
	case frameTaken, frameEnd:
		return 0, true
	}
	return 0, false
}

const headSize = 5

// reader reads frames. The payload it returns is good until the next call.
type reader struct {
	r   *bufio.Reader // has room for a whole frame of data: that one is not copied
	old int           // bytes in r of the frame before
	buf []byte
}

func newReader(r io.Reader) *reader { return &reader{r: bufio.NewReaderSize(r, 2*(headSize+MaxData))} }

// next returns io.EOF only between frames.
func (r *reader) next() (kind byte, payload []byte, err error) {
	_, _ = r.r.Discard(r.old) // it is there
	r.old = 0
	head, err := r.r.Peek(headSize)
	switch {
	case err == io.EOF && len(head) > 0:
		return 0, nil, io.ErrUnexpectedEOF
	case err != nil:
		return 0, nil, err
	}
	kind = head[0]
	size := binary.BigEndian.Uint32(head[1:])
	limit, ok := limitOf(kind)
	switch {
	case !ok:
		return 0, nil, fmt.Errorf("frame of unknown kind %q", kind)
	case size > limit:
		return 0, nil, fmt.Errorf("frame %q of %d bytes; %d are allowed", kind, size, limit)
	case (kind == frameResize || kind == frameWindow || kind == frameExit || kind == frameSignal) && size != limit:
		return 0, nil, fmt.Errorf("frame %q of %d bytes; it has %d", kind, size, limit)
	}
	if whole := headSize + int(size); whole <= r.r.Size() {
		if payload, err = r.r.Peek(whole); err != nil {
			return 0, nil, io.ErrUnexpectedEOF
		}
		r.old = whole
		return kind, payload[headSize:], nil
	}
	_, _ = r.r.Discard(headSize)
	if int(size) > cap(r.buf) {
		r.buf = make([]byte, size)
	}
	payload = r.buf[:size]
	if _, err := io.ReadFull(r.r, payload); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return kind, payload, nil
}

// writer writes frames, each whole. Any goroutine may.
type writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// frame writes one frame; data of any length is cut into several.
func (w *writer) frame(kind byte, payload []byte) error {
	limit, _ := limitOf(kind)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		part := payload[:min(len(payload), int(limit))]
		w.buf = append(w.buf[:0], kind)
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(part)))
		w.buf = append(w.buf, part...)
		if _, err := w.w.Write(w.buf); err != nil {
			return err
		}
		if payload = payload[len(part):]; len(payload) == 0 || len(part) == 0 {
			return nil
		}
	}
}

func (w *writer) number(kind byte, n uint32) error {
	return w.frame(kind, binary.BigEndian.AppendUint32(nil, n))
}

func number(payload []byte) uint32 { return binary.BigEndian.Uint32(payload) }
