package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/pb/pbconnect"
	"fairslice/api/wire"
	"fairslice/queue"
)

func (c *Config) client(socket string) (*http.Client, error) {
	t, err := c.transport(socket)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: authorized{c, t}}, nil
}

// CloseIdleConnections passes http.Client's on.
func (a authorized) CloseIdleConnections() {
	if t, ok := a.next.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// coded makes a *wire.Error of what a Connect stream says; io.EOF stays.
func coded(err error) error {
	var own *wire.Error
	var remote *connect.Error
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case errors.As(err, &own): // explain's, under Connect's wrapping
		return own
	case errors.As(err, &remote):
		return &wire.Error{Code: wire.CodeOf(remote.Code().String()), Msg: remote.Message()}
	}
	return wire.Errorf(wire.Unavailable, "%v", err)
}

// hangUp makes the end of ctx end a stream: net/http's HTTP/2 does not look at ctx while it waits for
// more of the request's body, which for a conversation is nearly always.
func hangUp(ctx context.Context, stream interface{ CloseRequest() error }) {
	context.AfterFunc(ctx, func() { _ = stream.CloseRequest() }) // closing twice is harmless
}

// Session is a terminal tied to a job. One goroutine may Recv beside others that Send.
type Session struct {
	stream *connect.BidiStreamForClient[pb.AttachRequest, pb.AttachResponse]
	cancel context.CancelFunc

	sending sync.Mutex // held for stream.Send
}

// Attach ties the caller to a session of its own, and waits with it until it starts. takeover (battach)
// asks for what the terminal showed last. It is tried again while the daemon does not answer.
func (u *Users) Attach(ctx context.Context, job queue.JobID, takeover bool, rows, cols uint16) (*Session, error) {
	first := &pb.AttachRequest{Kind: &pb.AttachRequest_Open{Open: &pb.AttachOpen{
		Job: int64(job), Takeover: takeover, Size: &pb.WindowSize{Rows: uint32(rows), Cols: uint32(cols)}}}}
	stream, cancel, err := converse(ctx, u, func(ctx context.Context, client *http.Client) *connect.BidiStreamForClient[pb.AttachRequest, pb.AttachResponse] {
		return pbconnect.NewUsersClient(client, u.base).Attach(ctx)
	}, first)
	if err != nil {
		return nil, err
	}
	return &Session{stream: stream, cancel: cancel}, nil
}

// Recv waits for a state of the job or for output. The last state comes after the last output, and then io.EOF.
func (s *Session) Recv() (*pb.AttachResponse, error) {
	m, err := s.stream.Receive()
	return m, coded(err)
}

// Send gives input, an end of input, a signal or a new size to the job.
func (s *Session) Send(f queue.PipeFrame) error {
	m := &pb.AttachRequest{}
	switch {
	case f.EOF:
		m.Kind = &pb.AttachRequest_Eof{Eof: true}
	case f.Signal != "":
		m.Kind = &pb.AttachRequest_Signal{Signal: f.Signal}
	case f.Rows != 0 || f.Cols != 0:
		m.Kind = &pb.AttachRequest_Size{Size: &pb.WindowSize{Rows: uint32(f.Rows), Cols: uint32(f.Cols)}}
	default:
		m.Kind = &pb.AttachRequest_Data{Data: f.Data}
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	return coded(s.stream.Send(m))
}

// Close leaves; the job is not told. Closing twice is harmless.
func (s *Session) Close() {
	s.cancel()
	_ = s.stream.CloseResponse() // reports the cancellation
}
