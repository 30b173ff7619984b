package engine

import (
	"fmt"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/bsub"
)

// adminEvent is what an administrator's word means for one host, queue or reservation; without a body, the text says why not.
func (t *tx) adminEvent(c queue.AdminCommand, name string) (queue.Body, string) {
	switch c.Op {
	case "rsvdel":
		return t.deleteReservation(name)
	case "hopen", "hclose":
		n := t.e.book.Nodes[nodes.ID(name)]
		switch {
		case n == nil:
			return nil, fmt.Sprintf("%s: Bad host name", name)
		case c.Op == "hclose":
			return &queue.NodeClosed{Node: n.ID, Reason: c.Reason}, fmt.Sprintf("Close <%s> ...... done", name)
		}
		return &queue.NodeOpened{Node: n.ID}, fmt.Sprintf("Open <%s> ...... done", name)
	}
	if t.e.cfg().queue(name) == nil {
		return nil, fmt.Sprintf("%s: No such queue", name)
	}
	st := t.e.book.Queues[name]
	set := &queue.QueueSet{Queue: name, Closed: st.Closed, Inact: st.Inact, Reason: c.Reason}
	switch c.Op {
	case "qopen":
		set.Closed = false
		return set, fmt.Sprintf("Queue <%s> is opened", name)
	case "qclose":
		set.Closed = true
		return set, fmt.Sprintf("Queue <%s> is closed", name)
	case "qact":
		set.Inact = false
		return set, fmt.Sprintf("Queue <%s> is activated", name)
	case "qinact":
		set.Inact = true
		return set, fmt.Sprintf("Queue <%s> is inactivated", name)
	}
	return nil, fmt.Sprintf("%s: unknown operation %q", name, c.Op)
}

// parseInput is the context in which bmod's options are read: that of the job's own submission.
func (e *Engine) parseInput(t *tx, j *queue.Job) bsub.Input {
	return bsub.Input{
		CWD: j.Spec.SubCWD, Host: j.Spec.SubHost, Now: t.now.In(e.location()), Unit: e.cfg().MemoryUnit,
		MaxArray: e.cfg().MaxArray, Consumables: e.cfg().Consumables,
	}
}

func (e *Engine) location() *time.Location {
	if e.cfg().Location != nil {
		return e.cfg().Location
	}
	return time.Local
}
