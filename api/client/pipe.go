package client

import (
	"context"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

// drainFor is how long batchd may take to read what a closed pipe has still in flight.
const drainFor = 10 * time.Second

// pipe opens the stream that batchd asked for, and lets h use it.
func (n *Node) pipe(ctx context.Context, o queue.PipeOrder, h Handler) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &pipe{stream: n.pipes.Pipe(ctx)}
	hangUp(ctx, p.stream)
	defer leaveWith(ctx, p.stream.CloseRequest)()
	if err := p.send(&pb.PipeUp{Id: o.Pipe}); err != nil {
		n.log.WarnContext(ctx, "pipe not opened", "job_id", o.ID.String(), "error", err)
		return
	}
	h.OpenPipe(o, p)
	_ = p.Close() // the other side may have gone before
	// Leaving now would cut off what is in flight; batchd ends the stream when it has read all.
	late := time.AfterFunc(drainFor, cancel)
	defer late.Stop()
	for {
		if _, err := p.Recv(); err != nil {
			break
		}
	}
	_ = p.stream.CloseResponse() // nothing is left to read
}

// pipe is a queue.Pipe.
type pipe struct {
	stream *connect.BidiStreamForClient[pb.PipeUp, pb.PipeDown]

	reading sync.Mutex // held for Receive: the handler's reader may outlive the handler

	mu     sync.Mutex // held for Send
	closed bool
}

func (p *pipe) Recv() (queue.PipeFrame, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	m, err := p.stream.Receive()
	if err != nil {
		return queue.PipeFrame{}, coded(err)
	}
	return wire.ToPipeFrame(m), nil
}

func (p *pipe) send(m *pb.PipeUp) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return io.ErrClosedPipe
	}
	return coded(p.stream.Send(m))
}

func (p *pipe) Send(o queue.PipeOutput) error { return p.send(wire.FromPipeOutput(o)) }

func (p *pipe) Fail(msg string) error { return p.last(&pb.PipeUp{Error: msg}) }
func (p *pipe) Close() error          { return p.last(&pb.PipeUp{End: true}) }

func (p *pipe) last(m *pb.PipeUp) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	err := p.stream.Send(m)
	if closeErr := p.stream.CloseRequest(); err == nil {
		err = closeErr
	}
	return coded(err)
}
