package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fairslice/nodes/shepherd"
)

// flock is the shepherds of this node: the one that starts new jobs, and those of earlier lives of
// noded that still keep some.
type flock struct {
	binary string
	dir    string
	log    *slog.Logger
	ctx    context.Context

	mu      sync.Mutex
	current *shepherd.Client
	keepers map[string]*shepherd.Client // who keeps which attempt
	waiters map[string]chan exit
	early   map[string]exit // ended before anybody waited
	wg      sync.WaitGroup
}

func newFlock(ctx context.Context, binary, dir string, log *slog.Logger) (*flock, error) {
	f := &flock{binary: binary, dir: dir, log: log, ctx: ctx, keepers: map[string]*shepherd.Client{},
		waiters: map[string]chan exit{}, early: map[string]exit{}}
	for _, sock := range shepherd.Sockets(dir) {
		c, err := shepherd.Connect(ctx, sock)
		if err != nil {
			continue // it has ended since, or was killed: its jobs are found by their files
		}
		jobs, err := c.List(ctx)
		if err != nil {
			c.Close()
			continue
		}
		for _, j := range jobs {
			f.keepers[j.Key] = c // what has ended comes again in Events
		}
		f.follow(c)
	}
	return f, f.spawn()
}

func (f *flock) spawn() error {
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	defer cancel()
	c, err := shepherd.Spawn(ctx, f.binary, f.dir)
	if err != nil {
		return fmt.Errorf("start a shepherd: %w", err)
	}
	f.mu.Lock()
	f.current = c
	f.mu.Unlock()
	f.follow(c)
	return nil
}

// follow hands on what a shepherd says, until it is gone; then it sees to its jobs.
func (f *flock) follow(c *shepherd.Client) {
	f.wg.Go(func() {
		for e := range c.Events() {
			f.deliver(e.Key, exit{status: e, at: e.Ended})
		}
		if f.ctx.Err() == nil {
			f.bury(c)
		}
	})
}

// bury takes over the jobs of a shepherd that has gone, and replaces it if it started new ones.
func (f *flock) bury(c *shepherd.Client) {
	f.mu.Lock()
	var orphans []string
	for key, k := range f.keepers {
		if k == c {
			orphans = append(orphans, key)
			delete(f.keepers, key)
		}
	}
	wasCurrent := f.current == c
	if wasCurrent {
		f.current = nil
	}
	f.mu.Unlock()
	for _, key := range orphans {
		f.adopt(key)
	}
	if !wasCurrent {
		return
	}
	f.log.Warn("shepherd was lost, its jobs are kept by noded itself", "jobs", len(orphans))
	for wait := 100 * time.Millisecond; f.ctx.Err() == nil; wait = min(2*wait, 10*time.Second) {
		err := f.spawn()
		if err == nil {
			return
		}
		f.log.Error("no shepherd", "error", err)
		select {
		case <-f.ctx.Done():
		case <-time.After(wait):
		}
	}
}

// adopt waits for a job whose shepherd is gone: by its status file, or as its new parent, or, when
// neither is possible, until it is gone, with its exit status lost.
func (f *flock) adopt(key string) {
	if e, ok, err := shepherd.ReadStatus(f.dir, key); err == nil && ok {
		f.deliver(key, exit{status: e, at: e.Ended})
		return
	}
	wait, err := shepherd.Adopt(f.dir, key)
	if err != nil {
		f.deliver(key, exit{lost: true, detail: "the job's keeper was lost: " + err.Error(), at: time.Now()})
		return
	}
	f.wg.Go(func() {
		e, err := wait()
		if err != nil {
			f.deliver(key, exit{lost: true, detail: "the exit status was lost with the job's keeper", at: time.Now()})
			return
		}
		f.deliver(key, exit{status: e, at: e.Ended})
	})
}

func (f *flock) deliver(key string, x exit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.waiters[key]; w != nil {
		select {
		case w <- x:
		default: // told already
		}
		return
	}
	f.early[key] = x
}

// await returns a channel that gets the attempt's exit once.
func (f *flock) await(key string) <-chan exit {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := make(chan exit, 1)
	if x, ok := f.early[key]; ok {
		delete(f.early, key)
		w <- x
	}
	f.waiters[key] = w
	return w
}

// start starts an attempt's command.
func (f *flock) start(ctx context.Context, s shepherd.Start) (shepherd.Started, <-chan exit, error) {
	w := f.await(s.Key)
	for deadline := time.Now().Add(30 * time.Second); ; {
		f.mu.Lock()
		c := f.current
		if c != nil {
			f.keepers[s.Key] = c
		}
		f.mu.Unlock()
		err := error(shepherd.ErrGone)
		var st shepherd.Started
		if c != nil {
			st, err = c.Start(ctx, s)
		}
		if err == nil {
			return st, w, nil
		}
		if !errors.Is(err, shepherd.ErrGone) || time.Now().After(deadline) || ctx.Err() != nil {
			return st, nil, err
		}
		// The shepherd died around the start: the pid file says whether it was started.
		if st, ok, err := shepherd.ReadStarted(f.dir, s.Key); err == nil && ok {
			return st, w, nil // bury has adopted it, or will
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// resume finds an attempt that was started in an earlier life of noded. started is false when it never was.
func (f *flock) resume(key string) (st shepherd.Started, started bool, exits <-chan exit, err error) {
	st, started, err = shepherd.ReadStarted(f.dir, key)
	if err != nil || !started {
		return st, started, nil, err
	}
	f.mu.Lock()
	kept := f.keepers[key] != nil
	f.mu.Unlock()
	w := f.await(key)
	if !kept {
		f.adopt(key)
	}
	return st, true, w, nil
}

// attach ties the caller to a job's terminal or streams.
func (f *flock) attach(key string) (*shepherd.Terminal, error) {
	f.mu.Lock()
	c := f.keepers[key]
	f.mu.Unlock()
	if c == nil {
		return nil, errors.New("the session's terminal was lost with its keeper")
	}
	return c.Attach(key)
}

// forget lets the shepherd forget an attempt.
func (f *flock) forget(key string) {
	f.mu.Lock()
	c := f.keepers[key]
	delete(f.keepers, key)
	delete(f.waiters, key)
	delete(f.early, key)
	f.mu.Unlock()
	if c != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		// An error means that there is nothing to forget, or that the shepherd has gone.
		_ = c.Ack(ctx, key)
	}
	if err := os.RemoveAll(filepath.Join(f.dir, key)); err != nil {
		f.log.Warn("status not removed", "attempt", key, "error", err)
	}
}

// close disconnects from the shepherds; they go on while they have jobs.
func (f *flock) close() {
	f.mu.Lock()
	all := map[*shepherd.Client]bool{}
	for _, c := range f.keepers {
		all[c] = true
	}
	if f.current != nil {
		all[f.current] = true
	}
	f.mu.Unlock()
	for c := range all {
		c.Close()
	}
	f.wg.Wait()
}
