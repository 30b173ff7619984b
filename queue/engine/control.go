package engine

import (
	"context"
	"fmt"

	"fairslice/queue"
)

// Control acts on the elements of a selection: one outcome for each thing named, in the order named.
// What cannot be done for one is an outcome, not an error, and does not stop the others.
func (e *Engine) Control(ctx context.Context, c queue.Control) ([]queue.Outcome, error) {
	if c.Op == queue.OpSwitch && e.cfg().queue(c.Queue) == nil {
		return nil, refuse("%s: No such queue", c.Queue)
	}
	var out []queue.Outcome
	fileApps := e.appsOfFiles(c)
	err := e.write(ctx, func(t *tx) error {
		t.fileApps = fileApps
		targets, err := t.targets(c)
		if err != nil {
			return err
		}
		for _, target := range targets {
			out = append(out, t.control(c, target)...)
		}
		t.wake = true
		return nil
	})
	return out, err
}

// target is one thing that was named: a job, or some of its elements, or nothing.
type target struct {
	id       string
	job      *queue.Job
	elements []*queue.Element
	missing  bool
}

func (t *tx) targets(c queue.Control) ([]target, error) {
	var out []target
	refs, all, err := parseIDs(c.Select.IDs)
	if err != nil {
		return nil, err
	}
	if len(refs) > 0 && !all {
		for i, ref := range refs {
			one := queue.Selection{IDs: []string{c.Select.IDs[i]}, User: "all", Scope: queue.ScopeAll}
			found, _, err := find(t.e.book, one, c.By)
			if err != nil {
				return nil, err
			}
			grouped := group(found, ref)
			if len(grouped) == 0 {
				grouped = []target{{id: c.Select.IDs[i], missing: true}}
			}
			out = append(out, grouped...)
		}
		return out, nil
	}
	sel := c.Select
	if sel.Scope == queue.ScopeDefault && c.Op != queue.OpRequeue {
		sel.Scope = queue.ScopeUnfinished
	}
	found, _, err := find(t.e.book, sel, c.By)
	if err != nil {
		return nil, err
	}
	out = group(found, queue.Ref{})
	if c.Latest && len(out) > 1 {
		out = out[len(out)-1:]
	}
	return out, nil
}

// group makes one target of the elements of each job; of single elements when they were named by index.
func group(found []Found, ref queue.Ref) []target {
	var out []target
	for _, f := range found {
		if ref.Indices != nil {
			out = append(out, target{id: f.Job.ElementID(f.Element.Index).String(), job: f.Job, elements: []*queue.Element{f.Element}})
			continue
		}
		if n := len(out); n == 0 || out[n-1].job != f.Job {
			out = append(out, target{id: queue.ElementID{Job: f.Job.ID}.String(), job: f.Job})
		}
		out[len(out)-1].elements = append(out[len(out)-1].elements, f.Element)
	}
	return out
}

// control acts on one target.
func (t *tx) control(c queue.Control, g target) []queue.Outcome {
	one := func(ok bool, format string, args ...any) []queue.Outcome {
		return []queue.Outcome{{ID: g.id, OK: ok, Text: fmt.Sprintf(format, args...)}}
	}
	if g.missing {
		return one(false, "Job <%s>: No matching job found", g.id)
	}
	if c.By.User != g.job.Owner.User && !c.By.Admin {
		return one(false, "Job <%s>: User permission denied", g.id)
	}
	var text string
	var err error
	switch c.Op {
	case queue.OpKill:
		text, err = t.killTarget(c, g)
	case queue.OpSignal:
		text, err = t.signalTarget(c, g)
	case queue.OpStop:
		text, err = t.stopTarget(c, g)
	case queue.OpResume:
		text, err = t.resumeTarget(c, g)
	case queue.OpRequeue:
		text, err = t.requeueTarget(c, g)
	case queue.OpTop, queue.OpBottom:
		text, err = t.moveTarget(c, g)
	case queue.OpSwitch:
		text, err = t.switchTarget(c, g)
	case queue.OpModify:
		text, err = t.modifyTarget(c, g)
	default:
		err = refuse("unknown operation %q", c.Op)
	}
	if err != nil {
		return one(false, "Job <%s>: %s", g.id, err.Error())
	}
	if c.Op == queue.OpModify {
		return one(true, "Parameters of job <%s> %s", g.id, text)
	}
	return one(true, "Job <%s> %s", g.id, text)
}

// each acts on the elements of a target that do's state test lets through; none is an error with the text given.
func (g *target) each(want func(*queue.Element) bool, none string, do func(*queue.Element) error) error {
	n := 0
	for _, el := range g.elements {
		if !want(el) {
			continue
		}
		n++
		if err := do(el); err != nil {
			return err
		}
	}
	if n == 0 {
		return Refusal{none}
	}
	return nil
}

func notFinal(el *queue.Element) bool { return !el.State.Final() }

// killVerdict is whose kill it is, and whether it leaves time.
func killVerdict(c queue.Control, j *queue.Job) queue.Verdict {
	owner := c.By.User == j.Owner.User
	switch {
	case c.Force && owner:
		return queue.TermForceOwner
	case c.Force:
		return queue.TermForceAdmin
	case !owner:
		return queue.TermAdmin
	}
	return queue.TermOwner
}

func (t *tx) killTarget(c queue.Control, g target) (string, error) {
	return "is being terminated", g.each(notFinal, "Job has already finished", func(el *queue.Element) error {
		return t.killElement(c, g.job, el)
	})
}

// killElement ends a waiting element at once, and a live one by its node. A live one whose node does
// not answer ends at once only by force; when the node is back, what still runs is ended (settle).
func (t *tx) killElement(c queue.Control, j *queue.Job, el *queue.Element) error {
	verdict := killVerdict(c, j)
	switch {
	case el.State.Pending():
		t.e.stats.ended(j, c.AsDone)
		return t.emit(j.ID, el.Index, c.By.User, &queue.Ended{Done: c.AsDone,
			Result: queue.Result{Status: queue.NoStatus, Verdict: verdict, Detail: c.Note, At: t.now}})
	case el.State == queue.Unkwn && c.Force:
		t.kill(j, el, true)
		return t.emit(j.ID, el.Index, c.By.User, &queue.Ended{Attempt: el.Attempt.Number, Done: c.AsDone,
			Result: queue.Result{Status: queue.NoStatus, Verdict: verdict, Detail: c.Note, At: t.now},
			Usage:  el.Attempt.Usage, Charge: t.charge(j, el, el.Attempt.Usage, ending(c.AsDone), verdict)})
	}
	if el.KillAs == "" || el.Requeue || c.AsDone && !el.AsDone || c.Force {
		err := t.emit(j.ID, el.Index, c.By.User, &queue.KillRequested{Verdict: verdict, AsDone: c.AsDone, Force: c.Force, Note: c.Note})
		if err != nil {
			return err
		}
	}
	t.kill(j, el, c.Force)
	return nil
}

func (t *tx) signalTarget(c queue.Control, g target) (string, error) {
	name, err := queue.ParseSignal(c.Signal)
	if err != nil {
		return "", Refusal{err.Error()}
	}
	if name == "KILL" {
		return t.killTarget(c, g)
	}
	return "is being signaled", g.each(notFinal, "Job has already finished", func(el *queue.Element) error {
		if el.State.Pending() {
			if name == "TERM" || name == "INT" || name == "QUIT" || name == "HUP" {
				return t.killElement(c, g.job, el)
			}
			return refuse("Job has not started yet")
		}
		t.order(el.Attempt.Alloc[0].Node, queue.Order{ID: g.job.ElementID(el.Index), Attempt: el.Attempt.Number, Op: queue.OrderSignal, Signal: name})
		return t.emit(g.job.ID, el.Index, c.By.User, &queue.Signalled{Signal: name})
	})
}

func (t *tx) stopTarget(c queue.Control, g target) (string, error) {
	want := func(el *queue.Element) bool { return el.State == queue.Pend || el.State == queue.Run }
	return "is being stopped", g.each(want, stateText(g, "Job has already been stopped"), func(el *queue.Element) error {
		if el.State == queue.Run {
			t.order(el.Attempt.Alloc[0].Node, queue.Order{ID: g.job.ElementID(el.Index), Attempt: el.Attempt.Number, Op: queue.OrderStop})
		}
		return t.emit(g.job.ID, el.Index, c.By.User, &queue.Suspended{})
	})
}

func (t *tx) resumeTarget(c queue.Control, g target) (string, error) {
	want := func(el *queue.Element) bool { return el.State.Suspended() }
	return "is being resumed", g.each(want, stateText(g, "Job is not suspended"), func(el *queue.Element) error {
		if el.State != queue.PSusp {
			t.order(el.Attempt.Alloc[0].Node, queue.Order{ID: g.job.ElementID(el.Index), Attempt: el.Attempt.Number, Op: queue.OrderResume})
		}
		return t.emit(g.job.ID, el.Index, c.By.User, &queue.Resumed{})
	})
}

// stateText is why nothing could be done: that all has ended, or what otherwise says.
func stateText(g target, otherwise string) string {
	for _, el := range g.elements {
		if !el.State.Final() {
			return otherwise
		}
	}
	return "Job has already finished"
}

func (t *tx) requeueTarget(c queue.Control, g target) (string, error) {
	verdict := queue.TermRequeueOwner
	if c.By.User != g.job.Owner.User {
		verdict = queue.TermRequeueAdmin
	}
	want := func(el *queue.Element) bool {
		if len(c.Select.States) > 0 {
			for _, s := range c.Select.States {
				if el.State == s {
					return true
				}
			}
			return false
		}
		return el.State.Live()
	}
	if err := t.mayRequeue(g, want); err != nil {
		return "", err
	}
	return "is being requeued ", g.each(want, stateText(g, "Job has not started yet"), func(el *queue.Element) error {
		if el.State.Final() {
			return t.emit(g.job.ID, el.Index, c.By.User, &queue.Requeued{Verdict: verdict, Hold: c.Hold, Why: "requeued by " + c.By.User})
		}
		err := t.emit(g.job.ID, el.Index, c.By.User, &queue.KillRequested{Verdict: verdict, Requeue: true, Hold: c.Hold})
		if err == nil {
			t.kill(g.job, el, false)
		}
		return err
	})
}

// mayRequeue refuses a requeue by which more would wait than the limits of the policy let wait. A job that a failure sends
// back is not asked.
func (t *tx) mayRequeue(g target, want func(*queue.Element) bool) error {
	more := 0
	for _, el := range g.elements {
		if want(el) && !el.Requeue { // who is on the way to wait again is counted already
			more++
		}
	}
	if more == 0 {
		return nil
	}
	for _, b := range t.e.held.bounds(g.job) {
		if err := b.mayWait(more); err != nil {
			return err
		}
	}
	return nil
}
