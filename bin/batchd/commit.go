package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fairslice/api"
	"fairslice/etc"
	"fairslice/images"
	"fairslice/images/depot"
	"fairslice/images/sif"
	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/engine"
)

// committer makes images of sessions: of approved requests, one at a time on each node. What it does of a request is begun anew when
// batchd is: until CompleteCommit nobody knows of it, and what it leaves on the disk the depot removes.
type committer struct {
	eng   *engine.Engine
	hub   *api.Hub
	depot *depot.Depot
	cfg   func() *etc.Config
	log   *slog.Logger
	wake  chan struct{} // there may be something to do

	mu   sync.Mutex
	work map[images.CommitID]*commitWork // of requests that are approved
}

// commitWork is one request.
type commitWork struct {
	images.Commit
	session queue.ElementID
	node    nodes.ID
	base    string        // the full name, or file, of the image that the session began with
	digest  images.Digest // of the base; "" for a file
	busy    bool
	bytes   int64 // of the archive, so far
	tries   int   // that the session has failed
	after   time.Time
}

const (
	// commitEvery is how often the committer looks by itself.
	commitEvery = 2 * time.Second
	// commitTries is how often a session may fail to give its archive. A node that is away does not count.
	commitTries = 3
	// commitStall is how long a session may send nothing.
	commitStall = 2 * time.Minute
)

func newCommitter(eng *engine.Engine, hub *api.Hub, files *depot.Depot, cfg func() *etc.Config, log *slog.Logger) *committer {
	return &committer{eng: eng, hub: hub, depot: files, cfg: cfg, log: log, wake: make(chan struct{}, 1), work: map[images.CommitID]*commitWork{}}
}

// look has the committer look for work now.
func (c *committer) look() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run works until ctx ends, and returns when nothing is under way any more.
func (c *committer) run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		for _, w := range c.due(time.Now()) {
			workers.Go(func() { c.make(ctx, w) })
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-time.After(commitEvery):
		}
	}
}

// due is what to begin now.
func (c *committer) due(now time.Time) []*commitWork {
	c.mu.Lock()
	defer c.mu.Unlock()
	approved := map[images.CommitID]bool{}
	c.eng.View(func(v queue.View) {
		for _, r := range slices.Backward(v.Book().Images.Commits("")) { // the oldest first
			if r.State == images.CommitApproved {
				approved[r.ID] = true
				c.know(v.Book(), r)
			}
		}
	})
	busy := map[nodes.ID]bool{}
	var waiting []*commitWork
	for id, w := range c.work {
		switch {
		case w.busy:
			busy[w.node] = true
		case !approved[id]:
			delete(c.work, id)
		case !w.after.After(now):
			waiting = append(waiting, w)
		}
	}
	slices.SortFunc(waiting, func(a, b *commitWork) int { return int(a.ID - b.ID) })
	return slices.DeleteFunc(waiting, func(w *commitWork) bool {
		if busy[w.node] {
			return true
		}
		busy[w.node], w.busy = true, true
		return false
	})
}

// know takes up a request whose session runs. Of one that does not, the engine says so itself.
func (c *committer) know(book *queue.Book, r *images.Commit) {
	if c.work[r.ID] != nil {
		return
	}
	id := queue.ElementID{Job: queue.JobID(r.Job), Index: r.Index}
	j, el := book.Find(id)
	if j == nil || el == nil || !el.State.Live() || el.Attempt.Number != r.Attempt {
		return
	}
	w := &commitWork{Commit: *r, session: id, node: el.Attempt.Alloc[0].Node, base: j.Spec.Image}
	if i := book.Images.Get(j.Spec.ImageID); i != nil {
		w.digest = i.Digest
	}
	c.work[r.ID] = w
}

// CommitBytes is how many bytes of a session were read for a request that is worked on.
func (c *committer) CommitBytes(id images.CommitID) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.work[id]; w != nil {
		return w.bytes
	}
	return 0
}

func (c *committer) count(w *commitWork, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.bytes = n
}

// make works on a request, and says how that went, unless it has to be tried again.
func (c *committer) make(ctx context.Context, w *commitWork) {
	err := c.image(ctx, w)
	c.eng.KeepCommit(w.ID, false)
	again := err != nil && (ctx.Err() != nil || c.again(err, w))
	c.mu.Lock()
	w.busy, w.bytes = false, 0
	if again {
		w.after = time.Now().Add(commitEvery << min(w.tries, 4))
	} else {
		w.after = time.Now().Add(time.Hour) // it is over; due forgets it when the book says so
	}
	c.mu.Unlock()
	defer c.look()
	defer c.tellOver(ctx, w.ID)
	switch {
	case err == nil:
		c.log.Info("session became an image", "request", int64(w.ID), "image", w.Ref.String(), "job", w.session.String())
	case again:
		c.log.Info("session not read for an image, trying again", "request", int64(w.ID), "job", w.session.String(), "error", err)
	default:
		c.log.Info("session became no image", "request", int64(w.ID), "job", w.session.String(), "error", err)
		if err := c.eng.FailCommit(ctx, w.ID, oneLine(err.Error())); err != nil {
			c.mu.Lock()
			w.after = time.Time{}
			c.mu.Unlock()
		}
	}
}

// tellOver tells a session what became of its request, if that is over.
func (c *committer) tellOver(ctx context.Context, id images.CommitID) {
	var r *images.Commit
	c.eng.View(func(v queue.View) { r = v.Book().Images.Commit(id) })
	if r != nil && !r.State.Open() {
		c.tell(ctx, r)
	}
}

// sessionError is what a session, or its node, says why there is no archive of it.
type sessionError struct{ text string }

func (e *sessionError) Error() string { return e.text }

// again says whether an error may pass.
func (c *committer) again(err error, w *commitWork) bool {
	if known, ok := errors.AsType[*api.Error](err); ok && known.Code == api.Unavailable || errors.Is(err, engine.ErrStale) || errors.Is(err, engine.ErrStopped) {
		return true // the node is away, or batchd: if the session has ended with it, the engine ends the request
	}
	if _, ok := errors.AsType[*sessionError](err); ok {
		w.tries++
		return w.tries < commitTries
	}
	return false
}

// image makes the image and names it in the catalogue.
func (c *committer) image(ctx context.Context, w *commitWork) error {
	var failed error // before the depot makes words of it
	err := c.depot.Add(ctx, func(sif.Stage, int64, int64) {}, func(ctx context.Context, dst string, o sif.Options) (sif.Result, error) {
		archive := filepath.Join(filepath.Dir(dst), "session.tar")
		if failed = c.receive(ctx, w, archive); failed != nil {
			return sif.Result{}, failed
		}
		// From here on the session may end: all that is needed of it is here.
		c.eng.KeepCommit(w.ID, true)
		r, err := sif.Convert(ctx, archive, dst, o)
		if err != nil {
			err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), archive, "the session's files"))
		}
		return r, err
	}, func(r depot.Stored) error {
		if err := vouchedFor(c.cfg(), &w.Commit); err != nil {
			return err
		}
		_, err := c.eng.CompleteCommit(ctx, w.ID, images.Image{Digest: r.Digest, Size: r.Size, Arch: r.Arch, Labels: r.Labels,
			Source: sourceWords("session " + w.session.String() + " of " + w.base)})
		return err
	})
	if failed != nil {
		return failed
	}
	return err
}

// labels say where the image comes from, in the words of OCI's annotations.
func (w *commitWork) labels() map[string]string {
	l := map[string]string{"org.opencontainers.image.base.name": w.base}
	if w.digest != "" {
		l["org.opencontainers.image.base.digest"] = string(w.digest)
	}
	return l
}

// receive writes the session's archive to a file.
func (c *committer) receive(ctx context.Context, w *commitWork, archive string) (err error) {
	pipe, err := c.hub.Pipe(ctx, w.node, queue.PipeOrder{Kind: "snapshot", ID: w.session, Attempt: w.Attempt,
		Snapshot: &queue.SnapshotOrder{Labels: w.labels()}})
	if err != nil {
		return err
	}
	defer pipe.Close()
	defer context.AfterFunc(ctx, pipe.Close)()
	stall := time.AfterFunc(commitStall, pipe.Close)
	defer stall.Stop()
	f, err := os.OpenFile(archive, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var said []string
	for size, limit := int64(0), c.cfg().Catalogue.MaxRoot; ; {
		m, err := pipe.Recv()
		stall.Reset(commitStall)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF) || err == nil && m.GetEnd():
			return &sessionError{"the session's server has ended, or the session"}
		case err != nil:
			return &api.Error{Code: api.Unavailable, Msg: "the connection to the session's node broke"}
		case m.GetError() != "":
			return &sessionError{oneLine(m.GetError())}
		}
		if len(m.GetErr()) > 0 && len(said) < 200 {
			said = append(said, strings.Split(strings.TrimSpace(string(m.GetErr())), "\n")...)
		}
		if size += int64(len(m.GetData())); limit > 0 && size > limit {
			return depot.Refused{Text: fmt.Sprintf("the session's files have more than %d bytes", limit)}
		}
		if _, err := f.Write(m.GetData()); err != nil {
			return depot.Full(err)
		}
		c.count(w, size)
		if m.GetExited() {
			return c.received(ctx, w, int(m.GetStatus()), said)
		}
	}
}

// received judges a session's archive that has ended, and tells its people what is not in it.
func (c *committer) received(ctx context.Context, w *commitWork, status int, said []string) error {
	if status != 0 {
		return &sessionError{oneLine("the session's files could not be read: " + strings.Join(said[max(0, len(said)-1):], ""))}
	}
	if len(said) == 0 {
		return nil
	}
	return c.eng.NodeReport(ctx, w.node, queue.Report{ID: w.session, Attempt: w.Attempt, Kind: queue.ReportNoted, At: time.Now(),
		Detail: oneLine(fmt.Sprintf("not in image %s: %s", w.Ref, strings.Join(said, "; ")))})
}

// oneLine makes others' words fit for histories.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	return strings.TrimSpace(text)
}
