package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	// starting are attempts whose start is under way. If their shepherd dies, start and resume see to them: only
	// they can tell what was never started, and may be started anew, from what has ended.
	starting map[string]bool
	waiters  map[string]chan exit
	early    map[string]exit // ended before anybody waited
	wg       sync.WaitGroup
}

func newFlock(ctx context.Context, binary, dir string, log *slog.Logger) (*flock, error) {
	f := &flock{binary: binary, dir: dir, log: log, ctx: ctx, keepers: map[string]*shepherd.Client{},
		starting: map[string]bool{}, waiters: map[string]chan exit{}, early: map[string]exit{}}
	for _, sock := range shepherd.Sockets(dir) {
		c, err := shepherd.Connect(ctx, sock)
		if err != nil {
			if errors.Is(err, shepherd.ErrGone) {
				_ = os.Remove(sock)
			}
			continue // it has ended since, or was killed: its jobs are found by their files
		}
		jobs, err := c.List(ctx)
		if err != nil {
			c.Close()
			continue
		}
		for _, j := range jobs {
			f.keepers[j.Key] = c // what has ended comes again in Events
			f.starting[j.Key] = j.Pid == 0
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
			if !f.starting[key] {
				orphans = append(orphans, key)
			}
			delete(f.keepers, key)
		}
	}
	wasCurrent := f.current == c
	if wasCurrent {
		f.current = nil
	}
	f.mu.Unlock()
	_ = os.Remove(c.Socket()) // a killed shepherd leaves it
	for _, key := range orphans {
		if !f.adopt(key, wasCurrent) {
			f.deliver(key, exit{lost: true, detail: "the job's keeper was lost with all traces of the job", at: time.Now()})
		}
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
// neither is possible, until it is gone, with its exit status lost. false: it was never started. ours says
// that the shepherd was spawned in this life of noded, so that what it has forked cannot have vanished.
func (f *flock) adopt(key string, ours bool) bool {
	if e, ok, err := shepherd.ReadStatus(f.dir, key); err == nil && ok {
		f.deliver(key, exit{status: e, at: e.Ended})
		return true
	}
	wait, err := shepherd.Adopt(f.dir, key)
	switch {
	case errors.Is(err, shepherd.ErrUnknown), errors.Is(err, shepherd.ErrNoTrace) && ours:
		return false
	case err != nil:
		f.deliver(key, exit{lost: true, detail: "the job's keeper was lost: " + err.Error(), at: time.Now()})
		return true
	}
	f.wg.Go(func() {
		e, err := wait()
		if err != nil {
			f.deliver(key, exit{lost: true, detail: "the exit status was lost with the job's keeper: " + err.Error(), at: time.Now()})
			return
		}
		f.deliver(key, exit{status: e, at: e.Ended})
	})
	return true
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
		err := error(shepherd.ErrGone)
		var st shepherd.Started
		c := f.claim(s.Key)
		if c != nil {
			st, err = c.Start(ctx, s)
		}
		if err == nil {
			f.took(s.Key, c)
			return st, w, nil
		}
		if !errors.Is(err, shepherd.ErrGone) || time.Now().After(deadline) || ctx.Err() != nil {
			f.release(s.Key)
			return st, nil, err
		}
		if c != nil {
			if st, ran, err := f.inquest(s.Key, true); ran || err != nil {
				if st.StdoutPath == "" {
					st.StdoutPath, st.StderrPath = s.Stdout.Path, s.Stderr.Path // killed before it was written down
				}
				return st, w, err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// claim makes the present shepherd, if there is one, the keeper of an attempt that is about to be started.
func (f *flock) claim(key string) *shepherd.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		f.keepers[key], f.starting[key] = f.current, true
	}
	return f.current
}

// took ends a claim: the job runs. If its shepherd was buried in between, that left it to us.
func (f *flock) took(key string, c *shepherd.Client) {
	f.mu.Lock()
	delete(f.starting, key)
	kept := f.keepers[key] == c
	f.mu.Unlock()
	if !kept && !f.adopt(key, true) {
		f.deliver(key, exit{lost: true, detail: "the job's keeper was lost with all traces of the job", at: time.Now()})
	}
}

// release ends a claim: nothing runs.
func (f *flock) release(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.starting, key)
	delete(f.keepers, key)
}

// inquest finds out what became of a start whose shepherd is gone. Either the job runs, or ran, and its end
// is delivered; or nothing was executed, and then the key is free to be started again.
func (f *flock) inquest(key string, ours bool) (st shepherd.Started, ran bool, err error) {
	f.release(key)
	dir := filepath.Join(f.dir, key)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return st, false, nil // made before anything is executed
	}
	if !f.adopt(key, ours) {
		return st, false, os.RemoveAll(dir)
	}
	st, ok, err := shepherd.ReadStarted(f.dir, key)
	if !ok {
		st.Began = time.Now()
	}
	return st, true, err
}

// resume finds an attempt that was started in an earlier life of noded. started is false when it never was.
func (f *flock) resume(ctx context.Context, key string) (st shepherd.Started, started bool, exits <-chan exit, err error) {
	w := f.await(key)
	for {
		f.mu.Lock()
		c := f.keepers[key]
		f.mu.Unlock()
		if c == nil {
			st, started, err = f.inquest(key, false)
			return st, started, w, err
		}
		st, started, err = shepherd.ReadStarted(f.dir, key)
		if started || err != nil {
			f.took(key, c)
			return st, started, w, err
		}
		// It is being started at the wish of the noded that died.
		jobs, err := c.List(ctx)
		switch {
		case ctx.Err() != nil:
			return st, false, nil, ctx.Err()
		case errors.Is(err, shepherd.ErrGone), !slices.ContainsFunc(jobs, func(j shepherd.Job) bool { return j.Key == key }):
			st, started, err = f.inquest(key, false)
			return st, started, w, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// discard ends the memory of an attempt that nobody knows any more, once its processes have ended.
func (f *flock) discard(key string) {
	f.mu.Lock()
	kept := f.keepers[key] != nil
	f.mu.Unlock()
	if !kept {
		f.forget(key)
		return
	}
	f.forgetAfter(key, f.await(key))
}

// forgetAfter forgets an attempt when its end has come: until then its shepherd would keep it, and then for ever. If noded goes before,
// the next one discards it.
func (f *flock) forgetAfter(key string, exits <-chan exit) {
	if f.ctx.Err() != nil {
		return
	}
	f.wg.Go(func() {
		select {
		case <-exits:
			f.forget(key)
		case <-f.ctx.Done():
		}
	})
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

// keys lists the attempts of which anything is left: a shepherd that has not heard that it may forget one, or files.
func (f *flock) keys() []string {
	f.mu.Lock()
	out := slices.Collect(maps.Keys(f.keepers))
	f.mu.Unlock()
	entries, _ := os.ReadDir(f.dir)
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(out, e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

// forget lets the shepherd forget an attempt.
func (f *flock) forget(key string) {
	f.mu.Lock()
	c := f.keepers[key]
	delete(f.keepers, key)
	delete(f.starting, key)
	delete(f.waiters, key)
	delete(f.early, key)
	f.mu.Unlock()
	if c != nil {
		c.Forget(key)
	}
	if err := removeDir(filepath.Join(f.dir, key), "run"); err != nil {
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
