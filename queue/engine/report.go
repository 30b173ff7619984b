package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// NodeJoined registers a node, new or back, and settles what became of each attempt it has or should have.
func (e *Engine) NodeJoined(ctx context.Context, h queue.Hello) error {
	node := h.Node
	for i := range node.GPUs {
		if e.cfg().GPUCapacity != nil {
			g := &node.GPUs[i]
			g.Capacity = g.Worth(e.cfg().GPUCapacity(g.Model))
		}
	}
	if e.cfg().NodeSupply != nil {
		node.Consumables = e.cfg().NodeSupply(node.ID)
	}
	e.loadMu.Lock()
	e.loads[node.ID] = Load{Version: h.Version}
	e.loadMu.Unlock()
	return e.write(ctx, func(t *tx) error {
		if err := t.emit(0, 0, "", &queue.NodeJoined{Node: node}); err != nil {
			return err
		}
		t.wake = true
		return t.settle(node.ID, h.Attempts)
	})
}

// settle compares what the node has with what the book says it should have.
func (t *tx) settle(node nodes.ID, has []queue.AttemptState) error {
	known := map[queue.ElementID]queue.AttemptState{}
	for _, a := range has {
		j, el := t.e.book.Find(a.ID)
		if j == nil || el == nil || !el.State.Live() || el.Attempt.Number != a.Attempt {
			t.order(node, queue.Order{ID: a.ID, Attempt: a.Attempt, Op: queue.OrderForget, AtOnce: true})
			continue
		}
		known[a.ID] = a
	}
	for _, id := range t.e.book.On(node) {
		j, el := t.e.book.Find(id)
		if first := el.Attempt.Alloc[0].Node; first != node {
			// Another node runs it; it was UNKWN only for want of this one if that one answers.
			if el.State == queue.Unkwn && t.e.book.Nodes[first].Alive {
				if err := t.emit(j.ID, el.Index, "", &queue.Found{State: cmp.Or(el.Attempt.Was, queue.Run)}); err != nil {
					return err
				}
			}
			continue
		}
		if err := t.settleElement(j, el, known[id]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) settleElement(j *queue.Job, el *queue.Element, a queue.AttemptState) error {
	switch {
	case a.Attempt != 0: // the node has it
		if el.State == queue.Unkwn {
			state := queue.Run
			if a.State == "stopped" {
				state = queue.USusp
			}
			if err := t.emit(j.ID, el.Index, "", &queue.Found{State: state}); err != nil {
				return err
			}
		}
		t.settleStop(j, el, a.State)
		if el.Attempt.Changed != 0 { // it may have been away when that was ordered
			t.orderLimit(j, el)
		}
	case el.Attempt.Began.IsZero(): // it never got the assignment, or died before acting on it
		if el.State == queue.Unkwn {
			if err := t.emit(j.ID, el.Index, "", &queue.Found{State: queue.Run}); err != nil {
				return err
			}
		}
		t.assign(j, el)
		t.settleStop(j, el, "accepted")
	default: // it ran there, and the node has forgotten: its spool is gone
		return t.lost(j, el, "the node no longer knows the job", el.Attempt.Usage)
	}
	if el.KillAs != "" {
		t.kill(j, el, false)
	}
	return nil
}

// settleStop repeats a stop or a resume that was ordered while the node was away.
func (t *tx) settleStop(j *queue.Job, el *queue.Element, has string) {
	op := queue.OrderStop
	switch {
	case el.State == queue.Run && has == "stopped":
		op = queue.OrderResume
	case el.State == queue.USusp && has != "stopped" && has != "ended":
	default:
		return
	}
	t.order(el.Attempt.Alloc[0].Node, queue.Order{ID: j.ElementID(el.Index), Attempt: el.Attempt.Number, Op: op})
}

// lost ends an attempt whose exit status cannot be known, or lets it run again if its user asked for that.
func (t *tx) lost(j *queue.Job, el *queue.Element, why string, u queue.Usage) error {
	n := el.Attempt.Number
	if el.Requeue || j.Spec.Rerunnable && el.KillAs == "" {
		return t.emit(j.ID, el.Index, "", &queue.Requeued{Attempt: n, Why: why, Hold: el.Hold, Usage: u, Charge: t.charge(j, el, u, queue.EndingLost, el.KillAs)})
	}
	verdict := el.KillAs
	if verdict == "" {
		verdict = queue.TermUnknown
	}
	t.e.stats.ended(j, el.AsDone)
	return t.emit(j.ID, el.Index, "", &queue.Ended{Attempt: n, Done: el.AsDone,
		Result: queue.Result{Status: queue.NoStatus, Verdict: verdict, Detail: why, At: t.now},
		Usage:  u, Charge: t.charge(j, el, u, ending(el.AsDone), verdict)})
}

// NodeGone notes that a node does not answer. What runs there becomes UNKWN; sweep lets rerunnable jobs wait again.
func (e *Engine) NodeGone(ctx context.Context, node nodes.ID, why string) error {
	e.loadMu.Lock()
	delete(e.loads, node)
	e.loadMu.Unlock()
	return e.write(ctx, func(t *tx) error {
		n := t.e.book.Nodes[node]
		if n == nil || !n.Alive {
			return nil
		}
		if err := t.emit(0, 0, "", &queue.NodeLost{Node: node, Why: why}); err != nil {
			return err
		}
		t.wake = true
		for _, id := range t.e.book.On(node) {
			j, el := t.e.book.Find(id)
			if el.State == queue.Unkwn {
				continue
			}
			if err := t.emit(j.ID, el.Index, "", &queue.Lost{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Connected says whether a node has joined since this engine began, and has not gone since.
func (e *Engine) Connected(node nodes.ID) bool {
	e.loadMu.Lock()
	defer e.loadMu.Unlock()
	_, ok := e.loads[node]
	return ok
}

// NodeHeartbeat notes load and consumption. Nothing of it is durable.
func (e *Engine) NodeHeartbeat(node nodes.ID, h queue.Heartbeat) {
	e.loadMu.Lock()
	l := e.loads[node]
	l.Load1, l.MemoryAvailable = h.Load1, h.MemoryAvailable
	e.loads[node] = l
	e.loadMu.Unlock()
	if len(h.LostGPUs) > 0 {
		go e.closeForLostGPU(node, h.LostGPUs)
	}
	if len(h.Usage) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.cfg().Now()
	for i := range h.Usage {
		u := &h.Usage[i]
		e.book.Observe(u.ID, u.Attempt, u.Usage)
		e.idle.observe(e, u, now)
	}
}

// closeForLostGPU closes a node of which a GPU no longer answers: nothing new starts there until an
// administrator has looked. What runs goes on, or fails by itself.
func (e *Engine) closeForLostGPU(node nodes.ID, uuids []string) {
	err := e.write(context.Background(), func(t *tx) error {
		n := t.e.book.Nodes[node]
		if n == nil || n.Closed {
			return nil
		}
		return t.emit(0, 0, "", &queue.NodeClosed{Node: node, Reason: "GPU no longer answers: " + strings.Join(uuids, ", ")})
	})
	if err != nil {
		e.cfg().Logger.Error("node with a lost GPU not closed", "node", node, "error", err)
	}
}

// NodeReport takes a report and returns when it is durable. A report that changes nothing (repeated, or
// of an attempt that is not the present one) is no error: the node may forget it.
func (e *Engine) NodeReport(ctx context.Context, node nodes.ID, r queue.Report) error {
	return e.write(ctx, func(t *tx) error {
		j, el := t.e.book.Find(r.ID)
		if j == nil || el == nil || !el.State.Live() || el.Attempt.Number != r.Attempt || el.Attempt.Alloc[0].Node != node {
			return nil
		}
		switch r.Kind {
		case queue.ReportBegan:
			return t.began(j, el, r)
		case queue.ReportStopped:
			return t.stopped(j, el, r)
		case queue.ReportNoted:
			return t.emit(j.ID, el.Index, "", &queue.Noted{Attempt: r.Attempt, Text: r.Detail})
		case queue.ReportFailed:
			return t.startFailed(j, el, r)
		case queue.ReportEnded:
			return t.ended(j, el, r)
		}
		return fmt.Errorf("report of unknown kind %q", r.Kind)
	})
}

func (t *tx) began(j *queue.Job, el *queue.Element, r queue.Report) error {
	if !el.Attempt.Began.IsZero() {
		return nil
	}
	var body queue.Began
	if r.Began != nil {
		body = *r.Began
	}
	body.Attempt, body.Ran = r.Attempt, r.At
	return t.emit(j.ID, el.Index, "", &body)
}

func (t *tx) stopped(j *queue.Job, el *queue.Element, r queue.Report) error {
	switch {
	case r.Stopped && el.State == queue.Run:
		return t.emit(j.ID, el.Index, "", &queue.Suspended{})
	case !r.Stopped && (el.State == queue.USusp || el.State == queue.SSusp):
		return t.emit(j.ID, el.Index, "", &queue.Resumed{})
	case el.State == queue.Unkwn:
		// Another of its nodes is away, or this one's return is being settled. Who runs the command knows best.
		state := queue.Run
		if r.Stopped {
			state = queue.USusp
		}
		return t.emit(j.ID, el.Index, "", &queue.Found{State: state})
	}
	return nil
}

// maxFailedStarts in a row hold an element: something is wrong with it or with the nodes.
const maxFailedStarts = 8

// codeFence is queue.Report.Code when a node could not hold the job to its slices.
const codeFence = "fence"

func (t *tx) startFailed(j *queue.Job, el *queue.Element, r queue.Report) error {
	t.wake = true
	if r.Code == codeFence && !r.JobFault { // the node's fault, and the next job there would meet it too
		if err := t.close(el.Attempt.Alloc[0].Node, codeFence+": "+r.Detail); err != nil {
			return err
		}
	}
	if r.JobFault || el.KillAs != "" {
		status := queue.NoStatus
		if r.ExitCode != 0 {
			status = r.ExitCode << 8
		}
		verdict := r.Verdict
		if el.KillAs != "" {
			verdict = el.KillAs
		}
		return t.end(j, el, queue.Result{Status: status, Verdict: verdict, Detail: r.Detail, At: r.At}, r.Usage)
	}
	failed := el.Failed + 1
	return t.emit(j.ID, el.Index, "", &queue.Requeued{
		Attempt: r.Attempt, Why: r.Code + ": " + r.Detail, Failed: true, Hold: failed >= maxFailedStarts,
		NotYet: t.now.Add(min(time.Second<<min(failed, 8), time.Minute)), Charge: t.charge(j, el, r.Usage, queue.EndingFailed, "")})
}

// close closes a node as an administrator does, who opens it again when it is mended.
func (t *tx) close(node nodes.ID, why string) error {
	if t.e.book.Nodes[node].Closed {
		return nil
	}
	return t.emit(0, 0, closedBy, &queue.NodeClosed{Node: node, Reason: why})
}

// closedBy is who has closed a node when nobody has.
const closedBy = "fairslice"

func (t *tx) ended(j *queue.Job, el *queue.Element, r queue.Report) error {
	t.wake = true
	if el.Attempt.Began.IsZero() && !r.Ran.IsZero() {
		// No report of the beginning has come, and now none needs to.
		first := r
		first.At = r.Ran
		if err := t.began(j, el, first); err != nil {
			return err
		}
	}
	if r.Lost {
		return t.lost(j, el, r.Detail, r.Usage)
	}
	if r.Verdict == queue.TermGPULost {
		// At once: the next cycle must not send it, or another, to the same GPU.
		if err := t.close(el.Attempt.Alloc[0].Node, r.Detail); err != nil {
			return err
		}
		if j.Spec.Rerunnable && el.KillAs == "" {
			return t.lost(j, el, r.Detail, r.Usage)
		}
	}
	result := queue.Result{Status: r.Status, Verdict: r.Verdict, Detail: r.Detail, At: r.At}
	return t.end(j, el, result, r.Usage)
}

// end releases the attempt: the element ends, or waits again when that was asked for.
func (t *tx) end(j *queue.Job, el *queue.Element, result queue.Result, u queue.Usage) error {
	if el.Requeue {
		return t.emit(j.ID, el.Index, "", &queue.Requeued{Attempt: el.Attempt.Number, Verdict: el.KillAs, Hold: el.Hold,
			Why: "requeued by its user or an administrator", Usage: u, Charge: t.charge(j, el, u, queue.EndingRequeued, el.KillAs)})
	}
	done := result.Status == 0 && result.Verdict == queue.TermNone || el.AsDone
	t.e.stats.ended(j, done)
	return t.emit(j.ID, el.Index, "", &queue.Ended{Attempt: el.Attempt.Number, Result: result, Done: done,
		Usage: u, Charge: t.charge(j, el, u, ending(done), result.Verdict)})
}

// order sends an order once the batch is durable.
func (t *tx) order(node nodes.ID, o queue.Order) {
	t.after = append(t.after, func() {
		if err := t.e.hub.Order(node, o); err != nil {
			t.e.cfg().Logger.Debug("order waits for the node", "job", o.ID.String(), "op", string(o.Op), "node", node, "error", err)
		}
	})
}

// kill orders the end of a live attempt.
func (t *tx) kill(j *queue.Job, el *queue.Element, atOnce bool) {
	t.order(el.Attempt.Alloc[0].Node, queue.Order{ID: j.ElementID(el.Index), Attempt: el.Attempt.Number,
		Op: queue.OrderKill, Verdict: el.KillAs, AtOnce: atOnce})
}
