package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fairslice/accounting"
	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
)

// ErrStale is what a Store returns when this process is no longer the leader.
var ErrStale = errors.New("another leader has taken over")

// ErrStopped answers commands that arrive when the engine has stopped.
var ErrStopped = errors.New("the batch daemon is stopping")

// maxBatch bounds the commands of one transaction, so that no answer waits for too many others.
const maxBatch = 1000

// Engine owns the book.
type Engine struct {
	conf  atomic.Pointer[Config]
	store Store
	hub   Nodes

	mu    sync.RWMutex // guards book; the writer holds it from the first event to the end of the commit
	book  *queue.Book
	held  *holdings  // under each limit of the policy; guarded by mu, too
	slots queueSlots // in each queue; guarded by mu, too

	budgets budgets // guarded by mu, too

	committing map[images.CommitID]bool // requests that need their session no more; guarded by mu, too

	commands chan *command
	stopped  chan struct{}
	wake     chan struct{} // something has changed that the planner should look at

	sched *schedule
	idle  idleness

	subs  subscriptions
	blobs blobCache
	names *selector
	stats *Stats

	loadMu sync.Mutex // guards loads
	loads  map[nodes.ID]Load
}

// Load is the last heartbeat's facts about a node.
type Load struct {
	Load1           float64
	MemoryAvailable int64
	Version         string
}

// New makes an engine on a restored book. Call Run to let it work.
func New(cfg Config, store Store, hub Nodes, book *queue.Book) *Engine {
	if cfg.MaxStarts == 0 {
		cfg.MaxStarts = defaultMaxStarts
	}
	book.TakeDirty() // what was restored is stored
	e := &Engine{
		store: store, hub: hub, book: book,
		commands: make(chan *command, 4*maxBatch), stopped: make(chan struct{}), wake: make(chan struct{}, 1),
		subs: newSubscriptions(), blobs: newBlobCache(), stats: newStats(), loads: map[nodes.ID]Load{},
	}
	e.conf.Store(&cfg)
	policy, err := accounting.ParsePolicy(book.Policy.Text)
	if err != nil { // an older version has accepted it: the daemon says so before it makes an engine
		cfg.Logger.Error("the stored policy is not understood and none is in force", "version", book.Policy.Version, "error", err)
		policy = &accounting.Policy{}
	}
	e.held = newHoldings(e, policy, cfg.Now())
	e.slots = newQueueSlots(book)
	e.warnOfUnknown()
	e.budgets = newBudgets(policy, cfg.Now(), e.location())
	e.names = newSelector(e.cfg)
	e.sched = newSchedule(e)
	e.idle = newIdleness()
	return e
}

// cfg is the configuration in force. A command that began under an earlier one goes on with what it has read.
func (e *Engine) cfg() *Config { return e.conf.Load() }

// Reconfigure takes over another configuration while everything goes on. What was worked out for a job
// when it was submitted (its limits, its queue's priority) stays until it is switched or modified.
func (e *Engine) Reconfigure(cfg Config) {
	if cfg.MaxStarts == 0 {
		cfg.MaxStarts = defaultMaxStarts
	}
	e.mu.Lock()
	e.conf.Store(&cfg)
	e.held = newHoldings(e, e.held.policy, cfg.Now()) // queues may have other images now
	e.warnOfUnknown()
	e.mu.Unlock()
	e.idle.again()
	e.Wake()
}

// defaultMaxStarts bounds the starts of one cycle.
const defaultMaxStarts = 2000

// Run works until ctx ends (nil), the lease is lost (ErrStale) or the store refuses a batch for good (its error). After it,
// every command is answered with ErrStopped.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(e.stopped)
	defer cancel()
	wg.Go(func() { e.planLoop(ctx) })
	wg.Go(func() { e.sched.forecastLoop(ctx) })
	wg.Go(func() { e.sweepLoop(ctx) })
	wg.Go(func() { e.gpuHoursLoop(ctx) })
	wg.Go(func() { e.idleLoop(ctx) })
	e.Wake()
	for {
		select {
		case <-ctx.Done():
			e.writeLastGPUHours(ctx)
			return nil
		case c := <-e.commands:
			if err := e.runBatch(ctx, e.drain(c)); err != nil {
				if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
					e.writeLastGPUHours(ctx)
					return nil // stopped while the database did not answer
				}
				return err // also when ctx has ended since: somebody was told already that his command failed
			}
		}
	}
}

// Wake asks for a scheduling cycle.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

type command struct {
	do   func(*tx) error
	err  error
	done chan struct{}
}

// write runs do as a command and returns when its events are durable. do may run only once and must not block.
func (e *Engine) write(ctx context.Context, do func(*tx) error) error {
	c := &command{do: do, done: make(chan struct{})}
	select {
	case e.commands <- c:
	case <-e.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-c.done:
		return c.err
	case <-e.stopped:
		select {
		case <-c.done:
			return c.err
		default:
			return ErrStopped
		}
	}
}

func (e *Engine) drain(first *command) []*command {
	batch := []*command{first}
	for len(batch) < maxBatch {
		select {
		case c := <-e.commands:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// tx is one batch being made. Its methods are called with the book locked.
type tx struct {
	e      *Engine
	now    time.Time
	events []queue.Event
	blobs  map[string][]byte
	after  []func() // once it is durable, in order
	hours  []GPUHour
	wake   bool
	budget *accounting.Budgets // see states; nil when it must be worked out

	fileApps map[string][]string // see appsOfFiles; of the command that is carried out
}

// emit applies an event and adds it to the batch. An error means that it does not follow from the
// state, and nothing has changed.
func (t *tx) emit(job queue.JobID, index int, by string, body queue.Body) error {
	ev := queue.Event{Seq: t.e.book.LastSeq + 1, At: t.now, Job: job, Index: index, By: by, Body: body}
	before := t.e.held.touched(&ev)
	t.e.slots.count(t.e.book, &ev, -1)
	err := t.e.book.Apply(ev)
	t.e.slots.count(t.e.book, &ev, 1) // also of an event that changed nothing
	if err != nil {
		return err
	}
	t.e.held.follow(&ev, before)
	t.budgeted(&ev)
	t.events = append(t.events, ev)
	return nil
}

// runBatch is one turn of the writer.
func (e *Engine) runBatch(ctx context.Context, batch []*command) error {
	began := time.Now()
	e.mu.Lock()
	t := &tx{e: e, now: e.cfg().Now().Truncate(time.Microsecond)}
	for _, c := range batch {
		c.err = c.do(t)
	}
	err := e.commit(ctx, t)
	e.mu.Unlock()
	if err != nil {
		for _, c := range batch {
			c.err = ErrStopped
			close(c.done)
		}
		return err
	}
	e.stats.batch(len(t.events), time.Since(began))
	for _, fn := range t.after {
		fn()
	}
	for _, c := range batch {
		close(c.done)
	}
	e.subs.publish(t.events)
	if t.wake {
		e.Wake()
	}
	return nil
}

// commit makes the batch durable, however long the database is away. The book stays locked meanwhile:
// nobody may see what could be lost. An error that waiting cannot mend (a constraint of the database
// refuses what the book allowed) ends the engine: going on would only lose more.
func (e *Engine) commit(ctx context.Context, t *tx) error {
	dirty := e.book.TakeDirty()
	e.sched.note(t, &dirty)
	e.idle.note(e, t.events)
	if len(t.events) == 0 && len(t.hours) == 0 {
		return nil
	}
	b := e.rows(t, dirty)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := e.store.Commit(ctx, b)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrStale):
			return err
		case !temporary(err): // whether ctx has ended or not: nobody must take this for an orderly stop
			return fmt.Errorf("commit: %w", err)
		case ctx.Err() != nil:
			return fmt.Errorf("commit: %w", ctx.Err())
		}
		e.cfg().Logger.Warn("commit failed, trying again", "events", len(t.events), "error", err)
		e.pause(ctx, wait)
	}
}

func (e *Engine) pause(ctx context.Context, d time.Duration) {
	if p := e.cfg().Pause; p != nil {
		p(ctx, d)
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// temporary says whether a store's error passes: it says so itself.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func (e *Engine) rows(t *tx, d queue.Dirty) *Batch {
	b := &Batch{Events: t.events, Forgotten: d.Forgotten, Blobs: t.blobs, GPUHours: t.hours}
	for id := range d.Jobs {
		if j := e.book.Jobs[id]; j != nil {
			b.Jobs = append(b.Jobs, j)
		}
	}
	for id := range d.Elements {
		if j, el := e.book.Find(id); j != nil {
			b.Elements = append(b.Elements, ElementRow{Job: j.ID, Element: el})
		}
	}
	for id := range d.Nodes {
		b.Nodes = append(b.Nodes, e.book.Nodes[id])
	}
	if len(d.Queues) > 0 {
		b.Queues = map[string]queue.QueueState{}
		for name := range d.Queues {
			b.Queues[name] = e.book.Queues[name]
		}
	}
	if d.Policy {
		p := e.book.Policy
		b.Policy = &p
	}
	if len(d.Images) > 0 {
		b.Images = map[images.ID]*images.Image{}
		for id := range d.Images {
			b.Images[id] = e.book.Images.Get(id)
		}
	}
	for _, c := range d.Commits {
		b.Commits = append(b.Commits, c)
	}
	if len(d.Reservations) > 0 {
		b.Reservations = map[string]*queue.Reservation{}
		for id := range d.Reservations {
			b.Reservations[id] = e.book.Reservations[id]
		}
	}
	return b
}
