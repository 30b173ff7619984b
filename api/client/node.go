package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/pb/pbconnect"
	"fairslice/api/wire"
	"fairslice/queue"
)

// Handler is what acts on a node; the package comment says who calls what when.
type Handler interface {
	Hello() queue.Hello
	Connected(up queue.Upstream, heartbeatEvery time.Duration)
	Disconnected(err error)
	Assign(queue.Assignment)
	Order(queue.Order)
	Acknowledged(id queue.ElementID, attempt int, kind queue.ReportKind)
	OpenPipe(queue.PipeOrder, queue.Pipe)
}

// Pauses between attempts to connect. All nodes of a site come back at once after a restart of
// batchd, so each pause is stretched by chance.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
)

// Node keeps a node connected.
type Node struct {
	config Config
	nodes  pbconnect.NodesClient
	pipes  pbconnect.NodesClient // over connections of their own: what nobody reads there must not hold up the node's stream
	close  func()
	log    *slog.Logger
}

// NewNode checks the configuration; it does not dial. Config.Tries and Waiting are not used: a node never gives up.
func NewNode(c Config, log *slog.Logger) (*Node, error) {
	n := &Node{config: c, log: log.With("service", "link")}
	socket, base, err := n.config.resolve()
	if err != nil {
		return nil, err
	}
	client, err := n.config.client(socket)
	if err != nil {
		return nil, err
	}
	piped, err := n.config.client(socket)
	if err != nil {
		return nil, err
	}
	n.pipes = pbconnect.NewNodesClient(piped, base, connect.WithReadMaxBytes(maxAnswer))
	n.nodes, n.close = pbconnect.NewNodesClient(client, base, connect.WithReadMaxBytes(maxAnswer)), func() { client.CloseIdleConnections(); piped.CloseIdleConnections() }
	return n, nil
}

// Run dials, serves and dials again until ctx ends, and returns its cause. When it has returned, h is
// not called any more, and no OpenPipe is under way.
func (n *Node) Run(ctx context.Context, h Handler) error {
	defer n.close()
	var pipes sync.WaitGroup
	defer pipes.Wait()
	pause := firstPause
	told := ""
	for {
		welcome, err := n.connect(ctx, h, &pipes)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if welcome {
			pause, told = firstPause, ""
		}
		if text := err.Error(); text != told { // say it once, not at each try
			told = text
			n.log.WarnContext(ctx, "batch daemon not connected", "address", n.config.Address, "error", err)
		}
		t := time.NewTimer(pause + rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
		pause = min(2*pause, cmp.Or(n.config.MaxPause, maxPause))
	}
}

// connect is one connection, from hello to its end, which always has an error.
func (n *Node) connect(ctx context.Context, h Handler, pipes *sync.WaitGroup) (welcome bool, err error) {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up := &upstream{stream: n.nodes.Connect(ctx)}
	hangUp(ctx, up.stream)
	defer leaveWith(ctx, up.stream.CloseRequest)()
	defer func() { cancel(); _ = up.stream.CloseResponse() }() // reports the cancellation
	if err := up.send(&pb.NodeUp{Kind: &pb.NodeUp_Hello{Hello: wire.FromHello(h.Hello())}}); err != nil && !errors.Is(err, io.EOF) {
		return false, coded(err)
	}
	first, err := up.stream.Receive() // also has the reason where the hello could not be sent
	switch {
	case err != nil:
		return false, ended(err)
	case first.GetWelcome() == nil:
		return false, wire.Errorf(wire.Internal, "the batch daemon did not begin with a welcome")
	}
	n.log.InfoContext(ctx, "batch daemon connected", "address", n.config.Address, "cluster", first.GetWelcome().GetCluster())
	h.Connected(up, time.Duration(first.GetWelcome().GetHeartbeatEvery()))
	for {
		m, err := up.stream.Receive()
		if err != nil {
			err = ended(err)
			cancel() // a send that hangs must not hold end up
			up.end(err)
			h.Disconnected(err)
			return true, err
		}
		switch k := m.GetKind().(type) {
		case *pb.NodeDown_Assign:
			h.Assign(wire.ToAssignment(k.Assign))
		case *pb.NodeDown_Order:
			h.Order(wire.ToOrder(k.Order))
		case *pb.NodeDown_Ack:
			h.Acknowledged(queue.ElementID{Job: queue.JobID(k.Ack.GetJob()), Index: int(k.Ack.GetIndex())}, int(k.Ack.GetAttempt()), queue.ReportKind(k.Ack.GetKind()))
		case *pb.NodeDown_OpenPipe:
			order := wire.ToPipeOrder(k.OpenPipe)
			pipes.Add(1)
			go func() { defer pipes.Done(); n.pipe(outer, order, h) }()
		}
	}
}

// leaveWith ends a stream's requests with ctx. net/http notices that the context of an HTTP/2 call has ended only
// when it is not waiting for the next part of the request, so without this a silent stream outlives it.
func leaveWith(ctx context.Context, closeRequest func() error) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = closeRequest() })
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return wire.Errorf(wire.Unavailable, "the batch daemon closed the connection")
	}
	return coded(err)
}

// upstream sends on one connection.
type upstream struct {
	mu     sync.Mutex
	stream *connect.BidiStreamForClient[pb.NodeUp, pb.NodeDown] // sent on with mu held only
	over   error                                                // set when the connection has ended
}

func (u *upstream) Report(r queue.Report) error {
	return u.tell(&pb.NodeUp{Kind: &pb.NodeUp_Report{Report: wire.FromReport(r)}})
}

func (u *upstream) Heartbeat(b queue.Heartbeat) error {
	return u.tell(&pb.NodeUp{Kind: &pb.NodeUp_Heartbeat{Heartbeat: wire.FromHeartbeat(b)}})
}

func (u *upstream) tell(m *pb.NodeUp) error {
	if err := u.send(m); err != nil {
		return fmt.Errorf("not connected: %w", err)
	}
	return nil
}

func (u *upstream) send(m *pb.NodeUp) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over != nil {
		return u.over
	}
	return u.stream.Send(m)
}

// end makes later sends fail. A send under way fails by itself, the connection being dead.
func (u *upstream) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = err
}
