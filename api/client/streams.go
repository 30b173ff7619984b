package client

import (
	"context"
	"errors"
	"io"
	"net/http"

	"connectrpc.com/connect"
)

// converse opens a stream for both ways with its first message. It is tried again while the daemon does not answer, and never
// once it has. The stream ends with ctx, or with cancel.
func converse[Q, R any](ctx context.Context, u *Users, open func(context.Context, *http.Client) *connect.BidiStreamForClient[Q, R], first *Q) (
	stream *connect.BidiStreamForClient[Q, R], cancel context.CancelFunc, err error) {
	client, err := u.client()
	if err != nil {
		return nil, nil, err
	}
	err = u.config.retry(ctx, ifNotSent, func() error {
		var lasting context.Context
		lasting, cancel = context.WithCancel(ctx)
		stream = open(lasting, client)
		hangUp(lasting, stream)
		leaveWith(lasting, stream.CloseRequest)
		err := stream.Send(first)
		if errors.Is(err, io.EOF) { // Connect's word for "ask Receive"
			_, err = stream.Receive()
		}
		if err != nil {
			cancel()
			return codedUnlessNotSent(err)
		}
		return nil
	})
	return stream, cancel, err
}

// filePart is how much of a file one message has.
const filePart = 256 << 10

// upload sends a first message and then a file in parts, and gives the answer. It is tried again only while nothing was sent. An
// error of from's own comes back as it is.
func upload[Q, R any](ctx context.Context, u *Users, open func(context.Context, *http.Client) *connect.ClientStreamForClient[Q, R], first *Q, from io.Reader, part func([]byte) *Q) (*R, error) {
	client, err := u.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stream *connect.ClientStreamForClient[Q, R]
	err = u.config.retry(ctx, ifNotSent, func() error {
		stream = open(ctx, client)
		err := stream.Send(first)
		if errors.Is(err, io.EOF) { // Connect's word for "ask for the answer"
			_, err = stream.CloseAndReceive()
		}
		return codedUnlessNotSent(err)
	})
	if err != nil {
		return nil, err
	}
	buf := make([]byte, filePart)
	for {
		n, err := io.ReadFull(from, buf)
		if n > 0 {
			if err := stream.Send(part(buf[:n])); err != nil {
				break // the answer says why
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		} else if err != nil {
			return nil, err // the call ends with ctx, and leaves nothing
		}
	}
	res, err := stream.CloseAndReceive()
	if err != nil {
		return nil, coded(err)
	}
	return res.Msg, nil
}

// codedUnlessNotSent is coded, but leaves the error by which retry knows that nothing has arrived.
func codedUnlessNotSent(err error) error {
	if err == nil || errors.Is(err, errNotSent) {
		return err
	}
	return coded(err)
}
