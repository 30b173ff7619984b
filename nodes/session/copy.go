package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync/atomic"

	"fairslice/nodes/session/tree"
)

// copy sends files out, or takes them in. To who asked it looks like a program: its input and output are the tree, its
// standard error is what could not be copied, and its status is 0 when all was.
func (s *server) copy(r *reader, w *writer, q *Copy) {
	told := atomic.Bool{}
	note := func(text string) {
		told.Store(true)
		_ = w.frame(frameError, []byte(text+"\n")) // who asked may have gone; then so has the input or output
	}
	if w.frame(frameTaken, nil) != nil {
		return
	}
	var err error
	if len(q.To) > 0 {
		err = s.copyIn(r, q, note)
	} else {
		err = s.copyOut(w, q, note)
	}
	if err != nil {
		note(err.Error())
	}
	status := uint32(0)
	if told.Load() {
		status = 1 << 8
	}
	_ = w.number(frameExit, status)
}

func (s *server) absolute(p []byte) string {
	if path.IsAbs(string(p)) {
		return string(p)
	}
	return path.Join(s.dir, string(p))
}

func (s *server) copyOut(w *writer, q *Copy, note func(string)) error {
	paths := make([]string, len(q.Paths))
	for i, p := range q.Paths {
		paths[i] = s.absolute(p)
	}
	return tree.Send(output{w}, paths, tree.Options{Recursive: q.Recursive, Note: note})
}

func (s *server) copyIn(r *reader, q *Copy, note func(string)) error {
	in := &input{r: r}
	err := tree.Receive(in, s.absolute(q.To), tree.Options{Into: q.Into, Note: note})
	if err == nil {
		_, err = io.Copy(io.Discard, in) // the end of input says that the sender has sent all
	} else if !errors.Is(err, io.ErrUnexpectedEOF) {
		_, _ = io.Copy(io.Discard, in) // the sender listens only when it has sent all
	}
	return err
}

// output is a program's output.
type output struct{ w *writer }

func (o output) Write(b []byte) (int, error) {
	if err := o.w.frame(frameOutput, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// input is a program's input. A connection that ends before the end of input is io.ErrUnexpectedEOF.
type input struct {
	r    *reader
	rest []byte
	over bool
}

func (i *input) Read(b []byte) (int, error) {
	for len(i.rest) == 0 {
		if i.over {
			return 0, io.EOF
		}
		kind, payload, err := i.r.next()
		switch {
		case err != nil:
			return 0, io.ErrUnexpectedEOF
		case kind == frameInput:
			i.rest = payload
		case kind == frameEnd:
			i.over = true
		case kind == frameSignal: // whoever copies wants out
			return 0, fmt.Errorf("interrupted: %w", os.ErrClosed)
		default:
			return 0, fmt.Errorf("frame %q is out of place", kind)
		}
	}
	n := copy(b, i.rest)
	i.rest = i.rest[n:]
	return n, nil
}
