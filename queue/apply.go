package queue

import (
	"fmt"
	"slices"
	"time"

	"fairslice/nodes"
)

// Apply changes b by one event. It is the only function that assigns a state. An event that does not
// follow from the present state is an error and changes nothing.
func (b *Book) Apply(ev Event) error {
	if ev.Seq != b.LastSeq+1 {
		return fmt.Errorf("event %d does not follow event %d", ev.Seq, b.LastSeq)
	}
	if err := b.apply(ev); err != nil {
		return fmt.Errorf("event %d (%s of job %s): %w", ev.Seq, ev.Body.Kind(), ElementID{ev.Job, ev.Index}, err)
	}
	b.LastSeq = ev.Seq
	return nil
}

func (b *Book) apply(ev Event) error {
	switch body := ev.Body.(type) {
	case *Submitted:
		return b.submit(ev, body)
	case *NodeJoined, *NodeLost, *NodeClosed, *NodeOpened:
		return b.applyNode(ev)
	case *QueueSet:
		b.Queues[body.Queue] = QueueState{Closed: body.Closed, Inact: body.Inact, Reason: body.Reason}
		b.dirty.Queues[body.Queue] = struct{}{}
		return nil
	case *PolicySet:
		if body.Version != b.Policy.Version+1 {
			return fmt.Errorf("policy version %d does not follow version %d", body.Version, b.Policy.Version)
		}
		b.Policy = PolicyState{Version: body.Version, Text: body.Text, By: ev.By, At: ev.At}
		b.dirty.Policy = true
		return nil
	case *ImagePut:
		if err := b.Images.Put(body.Image); err != nil {
			return err
		}
		b.dirty.Images[body.Image.ID] = struct{}{}
		return nil
	case *ImageForgotten:
		if err := b.Images.Forget(body.ID); err != nil {
			return err
		}
		b.dirty.Images[body.ID] = struct{}{}
		return nil
	case *CommitPut:
		if err := b.Images.PutCommit(body.Commit); err != nil {
			return err
		}
		b.dirty.Commits[body.Commit.ID] = body.Commit
		return nil
	case *ReservationAdded, *ReservationDeleted:
		return b.applyReservation(body)
	}
	j := b.Jobs[ev.Job]
	if j == nil {
		return fmt.Errorf("no such job")
	}
	switch body := ev.Body.(type) {
	case *Modified, *Switched, *Moved, *ArrayLimited:
		if err := b.applyJob(j, body); err != nil {
			return err
		}
		b.dirty.Jobs[j.ID] = struct{}{}
		return nil
	case *Forgotten:
		if !j.Finished() {
			return fmt.Errorf("it has not ended")
		}
		b.forget(j.ID)
		return nil
	}
	e := j.Element(ev.Index)
	if e == nil {
		return fmt.Errorf("no such element")
	}
	if err := b.applyElement(j, e, ev); err != nil {
		return err
	}
	b.dirty.Elements[ElementID{j.ID, e.Index}] = struct{}{}
	return nil
}

func (b *Book) submit(ev Event, body *Submitted) error {
	if b.Jobs[ev.Job] != nil || ev.Job <= b.LastJob {
		return fmt.Errorf("the number is taken")
	}
	j := &Job{
		ID: ev.Job, Spec: body.Spec, Owner: body.Owner, Submitted: ev.At, Token: body.Token,
		Queue: body.Queue, Position: int64(ev.Job) << 20, Plan: body.Plan,
		Elements: newElements(body.Spec, ev.At),
	}
	if err := b.add(j); err != nil {
		return err
	}
	b.dirty.Jobs[j.ID] = struct{}{}
	return nil
}

func (b *Book) applyJob(j *Job, body Body) error {
	switch body := body.(type) {
	case *Modified:
		var depend Condition
		if body.Spec.Depend != "" {
			c, err := ParseCondition(body.Spec.Depend)
			if err != nil {
				return err
			}
			depend = c
		}
		was := j.Plan.RunLimit
		j.Spec, j.Plan, j.depend = body.Spec, body.Plan, depend
		for i := range j.Elements { // the new limit holds for what runs, too; without a new one, what was extended keeps that
			e := &j.Elements[i]
			if e.State.Live() && e.Attempt.RunLimit != body.Plan.RunLimit && (e.Attempt.Changed == 0 || was != body.Plan.RunLimit) {
				e.Attempt.limit(body.Plan.RunLimit)
				b.dirty.Elements[ElementID{j.ID, e.Index}] = struct{}{}
			}
		}
	case *Switched:
		j.Queue, j.Plan = body.Queue, body.Plan
	case *Moved:
		j.Position = body.Position
	case *ArrayLimited:
		if j.Spec.Array == nil {
			return fmt.Errorf("it is no array")
		}
		spec, array := *j.Spec, *j.Spec.Array
		array.Limit = body.Limit
		spec.Array = &array
		j.Spec = &spec
	}
	return nil
}

// limit gives a another run limit.
func (a *Attempt) limit(to time.Duration) {
	a.Changed += to - a.RunLimit
	a.RunLimit = to
}

// transitions lists, for each event, the states in which it may happen.
var transitions = map[Kind][]State{
	"started":        {Pend},
	"began":          {Run, USusp, SSusp, Unkwn},
	"ended":          {Pend, PSusp, Run, USusp, SSusp, Unkwn, Zombi},
	"requeued":       {Run, USusp, SSusp, Unkwn, Done, Exit},
	"kill-requested": {Run, USusp, SSusp, Unkwn},
	"signalled":      {Run, USusp, SSusp, Unkwn},
	"noted":          {Run, USusp, SSusp, Unkwn},
	"extended":       {Run, USusp, SSusp, Unkwn},
	"suspended":      {Pend, Run},
	"resumed":        {PSusp, USusp, SSusp},
	"lost":           {Run, USusp, SSusp},
	"found":          {Unkwn},
}

func (b *Book) applyElement(j *Job, e *Element, ev Event) error {
	if !slices.Contains(transitions[ev.Body.Kind()], e.State) {
		return fmt.Errorf("it is %s", e.State)
	}
	if n := attemptOf(ev.Body); n != 0 && (e.Attempt == nil || e.Attempt.Number != n) {
		return fmt.Errorf("attempt %d is not the present one", n)
	}
	state := e.State
	switch body := ev.Body.(type) {
	case *Started:
		if body.Attempt != e.Attempts+1 {
			return fmt.Errorf("attempt %d does not follow %d", body.Attempt, e.Attempts)
		}
		old := e.Attempt
		e.Attempt = &Attempt{Number: body.Attempt, Alloc: body.Alloc, Dispatched: ev.At, RunLimit: body.RunLimit,
			Account: body.Account, Waited: waited(j, e, ev.At)}
		if err := b.hold(j, e); err != nil {
			e.Attempt = old
			return err
		}
		e.Attempts, e.Retry, e.Waited, state = body.Attempt, time.Time{}, 0, Run
	case *Began:
		a := e.Attempt
		a.Began, a.Pid, a.Home, a.CWD = body.Ran, body.Pid, body.Home, body.CWD
		a.Stdout, a.Stderr, a.Image = body.Stdout, body.Stderr, body.Image
		if e.Failed = 0; e.KillAs == "" { // bkill -C came first: its text counts
			e.Note = body.Note
		}
	case *Ended:
		if (body.Attempt != 0) != e.State.Live() {
			return fmt.Errorf("it is %s and the attempt is %d", e.State, body.Attempt)
		}
		if body.Attempt != 0 {
			e.Attempt.Usage = body.Usage
			b.release(j, e)
		}
		result := body.Result
		e.Result, e.KillAs, e.KillAt, e.Requeue, e.Hold, e.AsDone = &result, "", time.Time{}, false, false, false
		j.ended++
		if state = Exit; body.Done {
			state = Done
		}
	case *Requeued:
		if (body.Attempt != 0) != e.State.Live() {
			return fmt.Errorf("it is %s and the attempt is %d", e.State, body.Attempt)
		}
		if e.State.Final() {
			j.ended--
			e.Result = nil
		} else {
			e.Attempt.Usage = body.Usage
			b.release(j, e)
		}
		e.Note, e.Retry = body.Why, body.NotYet
		if body.Failed {
			e.Failed++
		}
		e.Attempt, e.Waited, e.KillAs, e.KillAt, e.Requeue, e.Hold, e.AsDone = nil, 0, "", time.Time{}, false, false, false
		if state = Pend; body.Hold {
			state = PSusp
		}
	case *KillRequested:
		e.KillAs, e.KillAt, e.Requeue, e.Hold, e.AsDone = body.Verdict, ev.At, body.Requeue, body.Hold, body.AsDone
		if body.Note != "" {
			e.Note = body.Note
		}
	case *Signalled:
	case *Noted:
		if body.Keep {
			e.Note = body.Text
		}
	case *Extended:
		if e.Attempt.RunLimit <= 0 || body.RunLimit <= e.Attempt.RunLimit {
			return fmt.Errorf("a run limit of %s is no extension of %s", body.RunLimit, e.Attempt.RunLimit)
		}
		e.Attempt.limit(body.RunLimit)
	case *Suspended:
		switch {
		case e.State == Pend:
			state, e.Waited = PSusp, waited(j, e, ev.At)
		case body.System:
			state = SSusp
		default:
			state = USusp
		}
	case *Resumed:
		if state = Run; e.State == PSusp {
			state = Pend
		} else {
			e.Attempt.Stopped += max(ev.At.Sub(e.Since), 0)
		}
	case *Lost:
		if e.State != Run { // what follows is not known to be a stop
			e.Attempt.Stopped += max(ev.At.Sub(e.Since), 0)
		}
		e.Attempt.Was, state = e.State, Unkwn
	case *Found:
		if !body.State.Live() {
			return fmt.Errorf("found as %s", body.State)
		}
		e.Attempt.Was, state = "", body.State
	}
	if state != e.State {
		e.State, e.Since = state, ev.At
	}
	return nil
}

// waited is how long a PEND element has waited, see Attempt.Waited. A clock that was set back takes nothing away.
func waited(j *Job, e *Element, now time.Time) time.Duration {
	since := e.Since
	if j.Spec.Begin.After(since) {
		since = j.Spec.Begin
	}
	return e.Waited + max(now.Sub(since), 0)
}

// attemptOf is the attempt that a body is about, 0 when it names none or makes a new one.
func attemptOf(b Body) int {
	switch b := b.(type) {
	case *Began:
		return b.Attempt
	case *Noted:
		return b.Attempt
	case *Extended:
		return b.Attempt
	case *Ended:
		return b.Attempt
	case *Requeued:
		return b.Attempt
	}
	return 0
}

func (b *Book) applyNode(ev Event) error {
	switch body := ev.Body.(type) {
	case *NodeJoined:
		n := b.Nodes[body.Node.ID]
		if n == nil {
			n = &nodes.Node{ID: body.Node.ID}
			b.Nodes[n.ID] = n
		}
		n.Resize(body.Node)
		n.Alive, n.Since = true, ev.At
		b.dirty.Nodes[n.ID] = struct{}{}
		return nil
	}
	id := nodeOf(ev.Body)
	n := b.Nodes[id]
	if n == nil {
		return fmt.Errorf("node %s is not known", id)
	}
	switch body := ev.Body.(type) {
	case *NodeLost:
		n.Alive = false
	case *NodeClosed:
		n.Closed, n.Reason, n.ClosedBy = true, body.Reason, ev.By
	case *NodeOpened:
		n.Closed, n.Reason, n.ClosedBy = false, "", ""
	}
	n.Since = ev.At
	b.dirty.Nodes[id] = struct{}{}
	return nil
}

func (b *Book) applyReservation(body Body) error {
	id := ""
	switch body := body.(type) {
	case *ReservationAdded:
		r := body.Reservation
		if r == nil {
			return fmt.Errorf("it has no reservation")
		}
		if err := r.valid(); err != nil {
			return err
		}
		if id = r.ID; b.Reservations[id] != nil {
			return fmt.Errorf("reservation %s is there already", id)
		}
		b.Reservations[id] = r
	case *ReservationDeleted:
		if id = body.ID; b.Reservations[id] == nil {
			return fmt.Errorf("reservation %s is not known", id)
		}
		delete(b.Reservations, id)
	}
	b.dirty.Reservations[id] = struct{}{}
	return nil
}

func nodeOf(b Body) nodes.ID {
	switch b := b.(type) {
	case *NodeLost:
		return b.Node
	case *NodeClosed:
		return b.Node
	case *NodeOpened:
		return b.Node
	}
	return ""
}
