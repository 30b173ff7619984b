package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"fairslice/queue"
)

// IdleWarning is what a session's owner is to hear: it will be ended at Deadline, unless it is used.
type IdleWarning struct {
	ID       queue.ElementID
	Owner    string
	Name     string
	Since    time.Time // not used
	Deadline time.Time
}

// idleness is what is known of the use of sessions. Nothing of it is durable: after a restart of the daemon the time without use
// begins anew. mu is taken after Engine.mu, never before.
type idleness struct {
	mu      sync.Mutex
	watches map[queue.ElementID]*watch // of all sessions that have begun
	pipes   map[pipesOf]int            // of all jobs: they may be there before the session has begun
	wake    chan struct{}
}

// pipesOf are the pipes to one attempt.
type pipesOf struct {
	id      queue.ElementID
	attempt int
}

func newIdleness() idleness {
	return idleness{watches: map[queue.ElementID]*watch{}, pipes: map[pipesOf]int{}, wake: make(chan struct{}, 1)}
}

func (i *idleness) kick() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// Attended says that somebody is connected to an attempt, until left is called. Of a terminal it is no use that it is open:
// used says that something was typed there. Who is connected to a session without one (bsub -I) waits for it, and so uses it. It is
// no use of a session that somebody looks at its output.
func (e *Engine) Attended(id queue.ElementID, attempt int, terminal bool) (used, left func()) {
	key := pipesOf{id, attempt}
	e.mu.RLock()
	if j := e.book.Jobs[id.Job]; j == nil || !j.Spec.Interactive.HasPty() {
		terminal = false
	}
	e.mu.RUnlock()
	if terminal {
		used = func() { e.use(key) }
		used()
		return used, used // to come and to go are uses, too
	}
	e.attend(key, 1)
	return func() {}, func() { e.attend(key, -1) }
}

// use is called for every key: only who was warned makes the loop look.
func (e *Engine) use(key pipesOf) {
	i := &e.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	if w := i.watches[key.id]; w != nil && w.attempt == key.attempt {
		w.active = latest(w.active, e.idleNow())
		if !w.warned.IsZero() {
			w.changed = true
			i.kick()
		}
	}
}

func (e *Engine) attend(key pipesOf, more int) {
	i := &e.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pipes[key] += more; i.pipes[key] == 0 {
		delete(i.pipes, key)
	}
	if w := i.watches[key.id]; w != nil && w.attempt == key.attempt {
		w.use(e.idleNow())
		i.kick()
	}
}

// idleNow is the time as the writer's transactions have it: what is due by one is due by the other.
func (e *Engine) idleNow() time.Time { return e.cfg().Now().Truncate(time.Microsecond) }

// restore begins to watch what runs when the engine begins.
func (i *idleness) restore(e *Engine) {
	now := e.idleNow()
	e.mu.RLock()
	defer e.mu.RUnlock()
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, live := range e.liveElements() {
		if a := live.element.Attempt; live.job.Spec.Interactive.Session() && !a.Began.IsZero() {
			i.watches[live.job.ElementID(live.element.Index)] = &watch{attempt: a.Number, active: now, changed: true}
		}
	}
}

// note follows sessions through the events of a batch. The caller holds Engine.mu.
func (i *idleness) note(e *Engine, events []queue.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for k := range events {
		ev := &events[k]
		id := queue.ElementID{Job: ev.Job, Index: ev.Index}
		switch body := ev.Body.(type) {
		case *queue.Began:
			if j := e.book.Jobs[ev.Job]; j != nil && j.Spec.Interactive.Session() {
				i.watches[id] = &watch{attempt: body.Attempt, active: ev.At, changed: true, samples: []sample{{at: ev.At}}}
				i.kick()
			}
		case *queue.Resumed, *queue.Found:
			if w := i.watches[id]; w != nil {
				w.use(ev.At)
				i.kick()
			}
		case *queue.Ended, *queue.Requeued:
			delete(i.watches, id)
		}
	}
}

// observe takes over what a node says of an attempt. The caller holds Engine.mu.
func (i *idleness) observe(e *Engine, u *queue.AttemptUsage, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w := i.watches[u.ID]
	if w == nil || w.attempt != u.Attempt {
		return
	}
	gpu := u.Usage.GPUTotal()
	window := time.Duration(0)
	if rule := e.idleRule(u.ID); rule != nil {
		window = rule.After
	}
	if w.observe(sample{now, u.Usage.CPU, gpu.SMTime, gpu.Measured}, window); w.changed {
		i.kick()
	}
}

// again has everything looked at anew: the rules have changed.
func (i *idleness) again() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, w := range i.watches {
		w.changed = true
	}
	i.kick()
}

// idleRule is that of a job's queue, nil without one. The caller holds Engine.mu.
func (e *Engine) idleRule(id queue.ElementID) *IdleRule {
	j := e.book.Jobs[id.Job]
	if j == nil {
		return nil
	}
	if q := e.cfg().queue(j.Queue); q != nil && q.Idle.After > 0 {
		return &q.Idle
	}
	return nil
}

// idleLoop warns of sessions that are idle, and ends them. When it must look next is worked out, so nothing is late by a tick.
func (e *Engine) idleLoop(ctx context.Context) {
	e.idle.restore(e)
	for {
		act, next := e.lookAtIdle()
		if len(act) > 0 {
			if e.write(ctx, func(t *tx) error { return t.actOnIdle(act) }) != nil {
				return // the engine is stopping
			}
			continue
		}
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(max(next.Sub(e.cfg().Now()), 0))
		}
		select {
		case <-ctx.Done():
			return
		case <-e.idle.wake:
		case <-timer:
		}
	}
}

// lookAtIdle lists the sessions about which something is to be done, and says when one must be looked at next.
func (e *Engine) lookAtIdle() (act []queue.ElementID, next time.Time) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	i, now := &e.idle, e.idleNow()
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, w := range i.watches {
		if w.changed || !w.due.IsZero() && !w.due.After(now) {
			d := e.decideIdle(id, w, now)
			w.changed, w.due, w.hungry = false, d.due, d.hungry
			if d.do != idleWait {
				act = append(act, id)
			}
		}
		if !w.due.IsZero() && (next.IsZero() || w.due.Before(next)) {
			next = w.due
		}
	}
	slices.SortFunc(act, func(a, b queue.ElementID) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index))
	})
	return act, next
}

// decideIdle says what is to be done about a session. One that is stopped, or whose node is away, is left alone: its time begins anew when
// it goes on. The caller holds Engine.mu and idleness.mu.
func (e *Engine) decideIdle(id queue.ElementID, w *watch, now time.Time) decision {
	rule := e.idleRule(id)
	_, el := e.book.Find(id)
	if rule == nil || el == nil || el.State != queue.Run || el.KillAs != "" || el.Attempt.Number != w.attempt {
		return decision{}
	}
	return w.decide(now, rule, el.Attempt, e.idle.pipes[pipesOf{id, w.attempt}])
}

// actOnIdle decides again, and does it.
func (t *tx) actOnIdle(ids []queue.ElementID) error {
	i := &t.e.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, id := range ids {
		w := i.watches[id]
		if w == nil {
			continue
		}
		w.changed = true
		d := t.e.decideIdle(id, w, t.now)
		j, el := t.e.book.Find(id)
		if err := t.actOn(j, el, w, d); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) actOn(j *queue.Job, el *queue.Element, w *watch, d decision) error {
	stamp := func(at time.Time) string { return at.In(t.e.location()).Format("Jan _2 15:04:05") }
	switch d.do {
	case idleWarn:
		rule := t.e.idleRule(j.ElementID(el.Index))
		since, deadline := w.active, t.now.Add(rule.Warn)
		w.warn(t.now)
		t.order(el.Attempt.Alloc[0].Node, queue.Order{ID: j.ElementID(el.Index), Attempt: el.Attempt.Number, Op: queue.OrderTell,
			Text: fmt.Sprintf("this session is idle and ends at %s unless it is used (a key, a program beside it, an app, the GPU).",
				deadline.In(t.e.location()).Format("15:04:05"))})
		if warned := t.e.cfg().IdleWarned; warned != nil {
			t.after = append(t.after, func() {
				warned(IdleWarning{ID: j.ElementID(el.Index), Owner: j.Owner.User, Name: j.DisplayName(el.Index), Since: since, Deadline: deadline})
			})
		}
		return t.emit(j.ID, el.Index, "", &queue.Noted{Attempt: w.attempt, Keep: true,
			Text: fmt.Sprintf("nobody has used the session since %s: it will be ended at %s, unless somebody does", stamp(since), stamp(deadline))})
	case idleClear:
		w.warned, w.active = time.Time{}, t.now
		return t.emit(j.ID, el.Index, "", &queue.Noted{Attempt: w.attempt, Keep: true, Text: "the session is in use again, and goes on: " + d.why})
	case idleEnd:
		err := t.emit(j.ID, el.Index, "", &queue.KillRequested{Verdict: queue.TermIdle, Note: "nobody has used the session since " + stamp(w.active)})
		if err == nil {
			t.kill(j, el, false)
		}
		return err
	}
	return nil
}
