package api

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// link is one connection of one node. Three kinds of goroutine use it: the handler reads, sendAll
// writes, and a bounded number of workers wait for the engine. The handler returns last: writing to
// a stream whose handler has returned is not allowed.
type link struct {
	hub     *Hub
	stream  *connect.BidiStream[pb.NodeUp, pb.NodeDown]
	control *http.ResponseController
	id      nodes.ID
	version string
	out     chan *pb.NodeDown
	watch   *time.Timer // fires after too long a silence
	slots   chan struct{}
	workers sync.WaitGroup
	ready   atomic.Bool // NodeJoined has been called
	beat    atomic.Pointer[queue.Heartbeat]
	gone    chan struct{} // closed when all is over, NodeGone included
	joined  bool          // the engine believes the node here; the handler's, and the next handler's after gone

	dropOnce sync.Once
	end      chan struct{} // closed by drop
	why      error         // set before end is closed

	mu      sync.Mutex
	waiting map[attempt][]queue.Report // reports behind the one that a worker has in hand
}

type attempt struct {
	id     queue.ElementID
	number int
}

func newLink(h *Hub, stream *connect.BidiStream[pb.NodeUp, pb.NodeDown], control *http.ResponseController) *link {
	l := &link{
		hub: h, stream: stream, control: control, out: make(chan *pb.NodeDown, h.cfg.QueuePerNode),
		slots: make(chan struct{}, h.cfg.ReportsPerNode), gone: make(chan struct{}), end: make(chan struct{}), waiting: map[attempt][]queue.Report{},
	}
	l.watch = time.AfterFunc(h.cfg.HeartbeatTimeout, func() {
		l.drop(wire.Errorf(Unavailable, "no heartbeat for %s", h.cfg.HeartbeatTimeout))
	})
	return l
}

func (l *link) alive() {
	if !l.dropped() {
		l.watch.Reset(l.hub.cfg.HeartbeatTimeout)
	}
}

// drop ends the connection: whoever reads or writes is woken with an error. The first reason counts.
func (l *link) drop(why error) {
	l.dropOnce.Do(func() {
		l.why = why
		close(l.end)
		l.watch.Stop()
		_ = l.control.SetReadDeadline(time.Unix(1, 0)) // fails only when the connection is gone already
		// What is being written may still leave, so that the node can read why.
		_ = l.control.SetWriteDeadline(time.Now().Add(time.Second))
	})
}

func (l *link) dropped() bool {
	select {
	case <-l.end:
		return true
	default:
		return false
	}
}

// cause is the reason of the end: the first drop's, or else err.
func (l *link) cause(err error) error {
	if l.dropped() && l.why != nil {
		return l.why
	}
	return err
}

// push queues m. A node that lets the queue fill does not read: it is cut off, and asked again by its next hello.
func (l *link) push(m *pb.NodeDown) error {
	select {
	case <-l.end:
		return wire.Errorf(Unavailable, "node %s is not connected", l.id)
	case l.out <- m:
		return nil
	default:
		err := wire.Errorf(Unavailable, "node %s does not read: %d messages wait", l.id, cap(l.out))
		l.drop(err)
		return err
	}
}

func (l *link) sendAll() {
	for {
		select {
		case <-l.end:
			return
		case m := <-l.out:
			if err := l.stream.Send(m); err != nil {
				l.drop(wire.Errorf(Unavailable, "the connection broke: %v", err))
				return
			}
		}
	}
}

// report hands r to a worker: a new one, or the one that already works for the same attempt. It
// blocks while too many are at work, which slows the node down and nobody else.
func (l *link) report(ctx context.Context, r queue.Report) {
	key := attempt{r.ID, r.Attempt}
	select {
	case l.slots <- struct{}{}:
	case <-l.end:
		return
	}
	l.mu.Lock()
	rest, busy := l.waiting[key]
	if busy {
		l.waiting[key] = append(rest, r)
	} else {
		l.waiting[key] = nil
	}
	l.mu.Unlock()
	if busy {
		return
	}
	l.workers.Add(1)
	go func() { defer l.workers.Done(); l.work(ctx, key, r) }()
}

// work brings the reports of one attempt to the engine, in order, until none is left.
func (l *link) work(ctx context.Context, key attempt, r queue.Report) {
	for more := true; more; {
		if !l.dropped() {
			if err := l.hub.members.NodeReport(ctx, l.id, r); err != nil {
				// Not durable: the node has to say it again, which it does when it connects.
				l.hub.log.WarnContext(ctx, "report not accepted", "node", l.id, "job", r.ID.String(), "attempt", r.Attempt, "kind", r.Kind, "error", err)
				l.drop(wire.Errorf(Unavailable, "a report could not be stored"))
			} else {
				_ = l.push(&pb.NodeDown{Kind: &pb.NodeDown_Ack{Ack: &pb.Acknowledge{
					Job: int64(r.ID.Job), Index: int32(r.ID.Index), Attempt: int32(r.Attempt), Kind: string(r.Kind)}}}) // a full queue drops the link
			}
		}
		<-l.slots
		l.mu.Lock()
		if rest := l.waiting[key]; len(rest) > 0 {
			r, l.waiting[key] = rest[0], rest[1:]
		} else {
			delete(l.waiting, key)
			more = false
		}
		l.mu.Unlock()
	}
}
