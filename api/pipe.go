package api

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// waiting is a pipe that a node was told to open.
type waiting struct {
	node    nodes.ID
	arrived chan *Pipe
}

// Pipe is batchd's end of a byte stream to an attempt. One goroutine may Recv beside one that Sends.
// Close must be called.
type Pipe struct {
	stream  *connect.BidiStream[pb.PipeUp, pb.PipeDown]
	control *http.ResponseController
	used    func() // called for every frame that is sent

	using  sync.RWMutex // read-held by Recv and Send: the handler must not return under them
	closed bool         // guarded by using
	once   sync.Once
	done   chan struct{}
}

var errPipeClosed = errors.New("pipe is closed")

// Pipe tells the node to open a stream, and waits for it. It fails with Unavailable when the node is
// not connected or does not answer in time. o.Pipe is chosen here.
func (h *Hub) Pipe(ctx context.Context, node nodes.ID, o queue.PipeOrder) (*Pipe, error) {
	o.Pipe = rand.Text() // unguessable: the id is what ties the node's stream to this caller
	w := &waiting{node, make(chan *Pipe)}
	h.mu.Lock()
	h.pipes[o.Pipe] = w
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.pipes, o.Pipe)
		h.mu.Unlock()
	}()
	if err := h.send(node, &pb.NodeDown{Kind: &pb.NodeDown_OpenPipe{OpenPipe: wire.FromPipeOrder(o)}}); err != nil {
		return nil, err
	}
	timeout := time.NewTimer(h.cfg.PipeTimeout)
	defer timeout.Stop()
	select {
	case p := <-w.arrived:
		if o.Kind != "peek" { // to look at output is no use of a session
			used, left := h.members.Attended(o.ID, o.Attempt, o.Kind == "tty" || o.Exec != nil && o.Exec.TTY)
			p.used = used
			go func() { // until the pipe is closed
				<-p.done
				left()
			}()
		}
		return p, nil
	case <-timeout.C:
		return nil, wire.Errorf(Unavailable, "node %s did not open a stream to job %s in %s", node, o.ID, h.cfg.PipeTimeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// servePipe serves the stream that a node opens when told to.
func (h *Hub) servePipe(ctx context.Context, stream *connect.BidiStream[pb.PipeUp, pb.PipeDown]) error {
	only, control, err := h.enter(ctx)
	if err != nil {
		return err
	}
	defer h.running.Done()
	_ = control.SetReadDeadline(time.Now().Add(h.cfg.PipeTimeout)) // not supported only under test recorders
	first, err := stream.Receive()
	if err != nil {
		return wire.Errorf(Invalid, "a pipe's first message must have its id")
	}
	_ = control.SetReadDeadline(time.Time{})
	h.mu.Lock()
	w := h.pipes[first.GetId()]
	delete(h.pipes, first.GetId())
	h.mu.Unlock()
	if w == nil || only != "" && nodes.ID(only) != w.node {
		return wire.Errorf(NotFound, "nobody waits for this pipe any more")
	}
	p := &Pipe{stream: stream, control: control, used: func() {}, done: make(chan struct{})}
	ctx, cancel := until(ctx, h.stopping)
	defer cancel()
	timeout := time.NewTimer(h.cfg.PipeTimeout)
	defer timeout.Stop()
	select {
	case w.arrived <- p:
	case <-timeout.C: // its caller left in this very moment
		return wire.Errorf(NotFound, "nobody waits for this pipe any more")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	stop := context.AfterFunc(ctx, p.Close)
	<-p.done
	stop()
	return nil
}

// Recv waits for what the node sends. io.EOF and any other error mean that nothing more comes.
func (p *Pipe) Recv() (*pb.PipeUp, error) {
	p.using.RLock()
	defer p.using.RUnlock()
	if p.closed {
		return nil, errPipeClosed
	}
	return p.stream.Receive()
}

// Send gives a frame to the node. It waits while the node does not read.
func (p *Pipe) Send(f queue.PipeFrame) error {
	p.using.RLock()
	defer p.using.RUnlock()
	if p.closed {
		return errPipeClosed
	}
	p.used()
	return p.stream.Send(wire.FromPipeFrame(f))
}

// Close ends the stream; the node reads io.EOF. Closing twice is harmless.
func (p *Pipe) Close() {
	p.once.Do(func() {
		_ = p.control.SetReadDeadline(time.Unix(1, 0)) // wakes Recv; fails only when the connection is gone
		_ = p.control.SetWriteDeadline(time.Now().Add(time.Second))
		p.using.Lock()
		p.closed = true
		p.using.Unlock()
		close(p.done)
	})
}
