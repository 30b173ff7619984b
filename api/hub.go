package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// HubConfig is what a site may set; zero values mean the defaults.
type HubConfig struct {
	Cluster          string
	HeartbeatEvery   time.Duration // asked of nodes; 5 s
	HeartbeatTimeout time.Duration // silence after which a node is gone; 4 × HeartbeatEvery
	QueuePerNode     int           // messages that wait for a node to read; 4096
	ReportsPerNode   int           // reports of one node that wait for durability at once; 256
	PipeTimeout      time.Duration // for a node to open a pipe; 10 s
}

// Hub holds the nodes' connections. Make it first, give it to the engine, and then to New.
// Assign, Order and Pipe may be called from any goroutine; Assign and Order never block.
type Hub struct {
	cfg HubConfig
	log *slog.Logger

	// Files are the images that nodes may fetch; nil for none. Set it before the first connection.
	Files ImageFiles

	// Set by New, before any connection.
	members  Members
	stopping <-chan struct{}
	allowed  func(context.Context) (node string, err error)

	running sync.WaitGroup // connections and pipes

	mu    sync.Mutex
	ended bool               // no connection may begin any more
	links map[nodes.ID]*link // the newest connection of each node, joined or about to
	pipes map[string]*waiting
}

// NewHub makes a hub without nodes.
func NewHub(cfg HubConfig, log *slog.Logger) *Hub {
	if cfg.HeartbeatEvery <= 0 {
		cfg.HeartbeatEvery = 5 * time.Second
	}
	if cfg.HeartbeatTimeout <= 0 {
		cfg.HeartbeatTimeout = 4 * cfg.HeartbeatEvery
	}
	if cfg.QueuePerNode <= 0 {
		cfg.QueuePerNode = 4096
	}
	if cfg.ReportsPerNode <= 0 {
		cfg.ReportsPerNode = 256
	}
	if cfg.PipeTimeout <= 0 {
		cfg.PipeTimeout = 10 * time.Second
	}
	return &Hub{cfg: cfg, log: log.With("service", "hub"), links: map[nodes.ID]*link{}, pipes: map[string]*waiting{}}
}

// Assign sends an attempt to its node. Nil says that it is on its way, not that it has arrived: the
// node's hello tells what it has. It fails with Unavailable when the node is not connected or does not keep up.
func (h *Hub) Assign(node nodes.ID, a queue.Assignment) error {
	return h.send(node, &pb.NodeDown{Kind: &pb.NodeDown_Assign{Assign: wire.FromAssignment(a)}})
}

// Order sends an order, after all that was sent to that node before. See Assign for what nil means.
func (h *Hub) Order(node nodes.ID, o queue.Order) error {
	return h.send(node, &pb.NodeDown{Kind: &pb.NodeDown_Order{Order: wire.FromOrder(o)}})
}

func (h *Hub) send(node nodes.ID, m *pb.NodeDown) error {
	h.mu.Lock()
	l := h.links[node]
	h.mu.Unlock()
	if l == nil || !l.ready.Load() {
		return wire.Errorf(Unavailable, "node %s is not connected", node)
	}
	return l.push(m)
}

// Sign is a node's last sign of life and the version it runs.
type Sign struct {
	Heartbeat queue.Heartbeat
	Version   string
}

// Signs gives the last sign of each connected node.
func (h *Hub) Signs() map[nodes.ID]Sign {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[nodes.ID]Sign, len(h.links))
	for id, l := range h.links {
		if l.ready.Load() {
			out[id] = Sign{*l.beat.Load(), l.version}
		}
	}
	return out
}

// fetchKey is an attempt whose image is on its way.
type fetchKey struct {
	id      queue.ElementID
	attempt int
}

// fetches is how far the images of attempts are, as their nodes have said last; nil for none.
func (h *Hub) fetches() Fetches {
	var out Fetches
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, l := range h.links {
		if !l.ready.Load() {
			continue
		}
		for _, f := range l.beat.Load().Fetches {
			if out == nil {
				out = Fetches{}
			}
			out[fetchKey{f.ID, f.Attempt}] = &pb.ImageFetch{Node: string(id), Done: f.Done, Total: f.Total}
		}
	}
	return out
}

// begin counts a connection in, unless the hub has ended.
func (h *Hub) begin() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return errStopping
	}
	h.running.Add(1)
	return nil
}

// wait returns when no connection is left, and none can come. Server.Stop calls it after the listeners are closed.
func (h *Hub) wait() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.running.Wait()
}

// nodeService is the Nodes service. It is apart from Hub because both have a Pipe.
type nodeService struct{ hub *Hub }

func (s nodeService) Connect(ctx context.Context, stream *connect.BidiStream[pb.NodeUp, pb.NodeDown]) error {
	return s.hub.serveNode(ctx, stream)
}

func (s nodeService) Pipe(ctx context.Context, stream *connect.BidiStream[pb.PipeUp, pb.PipeDown]) error {
	return s.hub.servePipe(ctx, stream)
}

// enter admits a node's stream: as which node it may speak ("" any), and the control of its deadlines.
// Without an error the stream counts as running, and the caller says Done.
func (h *Hub) enter(ctx context.Context) (only string, control *http.ResponseController, err error) {
	if err := h.begin(); err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			h.running.Done()
		}
	}()
	if only, err = h.allowed(ctx); err != nil {
		return "", nil, err
	}
	control, ok := ctx.Value(keyControl).(*http.ResponseController)
	if !ok {
		return "", nil, errors.New("stream without control of its deadlines")
	}
	return only, control, nil
}

// serveNode serves a node's one stream, until either end leaves.
func (h *Hub) serveNode(ctx context.Context, stream *connect.BidiStream[pb.NodeUp, pb.NodeDown]) error {
	only, control, err := h.enter(ctx)
	if err != nil {
		return err
	}
	defer h.running.Done()
	l := newLink(h, stream, control)
	defer l.drop(nil) // nobody may touch the stream after the return: a drop that is under way is waited for
	up, err := stream.Receive()
	hello := up.GetHello()
	if err != nil || hello == nil || hello.GetNode().GetId() == "" {
		return wire.Errorf(Invalid, "a node's first message must be a hello with its name")
	}
	l.id, l.version = nodes.ID(hello.Node.Id), hello.Version
	if only != "" && string(l.id) != only {
		return wire.Errorf(Denied, "this join token is for node %s, not %s", only, l.id)
	}
	ctx, cancel := until(ctx, h.stopping)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.drop(context.Cause(ctx)) })()
	return h.live(ctx, l, wire.ToHello(hello))
}

// live is a connection from hello to end.
func (h *Hub) live(ctx context.Context, l *link, hello queue.Hello) error {
	h.mu.Lock()
	old := h.links[l.id]
	h.links[l.id] = l
	h.mu.Unlock()
	if old != nil {
		// Reports of the old connection that are under way come before the new hello.
		old.drop(wire.Errorf(Conflict, "node %s connected again", l.id))
		<-old.gone
		l.joined = old.joined
	}
	err := h.talk(ctx, l, hello)
	l.drop(err) // for the sender, where the reader gave up by itself
	l.ready.Store(false)
	l.workers.Wait()
	h.mu.Lock()
	last := h.links[l.id] == l
	if last {
		delete(h.links, l.id)
	}
	h.mu.Unlock()
	err = l.cause(err)
	if last && l.joined {
		// The connection is gone, and with it ctx; the engine has to know nevertheless.
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if goneErr := h.members.NodeGone(after, l.id, err.Error()); goneErr != nil {
			h.log.ErrorContext(ctx, "node's end not recorded", "node", l.id, "error", goneErr)
		}
		h.log.InfoContext(ctx, "node gone", "node", l.id, "why", err)
	}
	close(l.gone)
	return err
}

func (h *Hub) talk(ctx context.Context, l *link, hello queue.Hello) error {
	if l.dropped() {
		return l.cause(nil)
	}
	l.beat.Store(&queue.Heartbeat{})
	l.out <- &pb.NodeDown{Kind: &pb.NodeDown_Welcome{Welcome: &pb.Welcome{
		Cluster: h.cfg.Cluster, HeartbeatEvery: int64(h.cfg.HeartbeatEvery), Time: time.Now().UnixNano()}}}
	l.ready.Store(true)
	l.watch.Stop() // the engine may take its time
	if err := h.members.NodeJoined(ctx, hello); err != nil {
		return err
	}
	l.joined = true
	l.alive()
	h.log.InfoContext(ctx, "node joined", "node", l.id, "version", l.version, "attempts", len(hello.Attempts))
	l.workers.Add(1)
	go func() { defer l.workers.Done(); l.sendAll() }()
	for {
		m, err := l.stream.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return wire.Errorf(Unavailable, "the node closed its connection")
		case err != nil:
			return wire.Errorf(Unavailable, "the connection broke: %v", err)
		}
		l.alive()
		switch k := m.GetKind().(type) {
		case *pb.NodeUp_Heartbeat:
			beat := wire.ToHeartbeat(k.Heartbeat)
			l.beat.Store(&beat)
			h.members.NodeHeartbeat(l.id, beat)
		case *pb.NodeUp_Report:
			if r := wire.ToReport(k.Report); r.Kind != "" {
				l.report(ctx, r)
			}
		}
	}
}
