package api

import (
	"io"

	"connectrpc.com/connect"
)

// messages reads the file that a caller sends in parts.
type messages[Q any] struct {
	stream *connect.ClientStream[Q]
	data   func(*Q) []byte // of a message
	left   []byte
}

func (r *messages[Q]) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if !r.stream.Receive() {
			if err := r.stream.Err(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		r.left = r.data(r.stream.Msg())
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}
