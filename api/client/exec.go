package client

import (
	"context"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/pb/pbconnect"
	"fairslice/queue"
)

// Beside is something under way beside a job. One goroutine may Recv beside others that Send.
type Beside struct {
	stream *connect.BidiStreamForClient[pb.ExecRequest, pb.ExecResponse]
	cancel context.CancelFunc

	sending sync.Mutex // held for stream.Send
}

// Exec runs a program beside a job, or copies files. It is tried again while the daemon does not answer, and never once it
// has: a program must not run twice.
func (u *Users) Exec(ctx context.Context, open *pb.ExecOpen) (*Beside, error) {
	stream, cancel, err := converse(ctx, u, func(ctx context.Context, client *http.Client) *connect.BidiStreamForClient[pb.ExecRequest, pb.ExecResponse] {
		return pbconnect.NewUsersClient(client, u.base).Exec(ctx)
	}, &pb.ExecRequest{Kind: &pb.ExecRequest_Open{Open: open}})
	if err != nil {
		return nil, err
	}
	return &Beside{stream: stream, cancel: cancel}, nil
}

// Recv waits for what comes. After Exited nothing does.
func (b *Beside) Recv() (*pb.ExecResponse, error) {
	m, err := b.stream.Receive()
	return m, coded(err)
}

// Send gives input, an end of input, a signal or a new size. Of a program's input queue.InputWindow bytes may be under way.
func (b *Beside) Send(f queue.PipeFrame) error {
	m := &pb.ExecRequest{}
	switch {
	case f.EOF:
		m.Kind = &pb.ExecRequest_Eof{Eof: true}
	case f.Signal != "":
		m.Kind = &pb.ExecRequest_Signal{Signal: f.Signal}
	case f.Rows != 0 || f.Cols != 0:
		m.Kind = &pb.ExecRequest_Size{Size: &pb.WindowSize{Rows: uint32(f.Rows), Cols: uint32(f.Cols)}}
	default:
		m.Kind = &pb.ExecRequest_Data{Data: f.Data}
	}
	b.sending.Lock()
	defer b.sending.Unlock()
	return coded(b.stream.Send(m))
}

// Close leaves: a program that still runs gets SIGHUP. Closing twice is harmless.
func (b *Beside) Close() {
	b.cancel()
	_ = b.stream.CloseResponse() // reports the cancellation
}
