package imagecache

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"fairslice/images"
	"fairslice/images/steady"
)

// fetch is one file on its way. It goes on as long as somebody waits for it.
type fetch struct {
	size    int64
	arrived atomic.Int64
	done    chan struct{}
	err     error // set before done is closed
	waiting int   // guarded by Cache.mu
	cancel  context.CancelFunc
	c       *Cache
}

// join waits with others for a file, or begins to fetch it. The caller holds c.mu, and calls wait after that.
func (c *Cache) join(w Wanted) *fetch {
	f := c.fetches[w.Digest]
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &fetch{size: w.Size, done: make(chan struct{}), cancel: cancel, c: c}
		if err := c.makeRoom(w.Size); err != nil {
			f.err = err
			close(f.done)
			f.waiting++
			return f
		}
		c.fetches[w.Digest] = f
		go f.run(ctx, w)
	}
	f.waiting++
	return f
}

// progressEvery is how often those who wait hear how far it is.
const progressEvery = 500 * time.Millisecond

func (f *fetch) wait(ctx context.Context, progress func(int64)) error {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	defer func() {
		f.c.mu.Lock()
		defer f.c.mu.Unlock()
		if f.waiting--; f.waiting == 0 {
			f.cancel()
		}
	}()
	for {
		select {
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if progress != nil {
				progress(f.arrived.Load())
			}
		}
	}
}

func (f *fetch) run(ctx context.Context, w Wanted) {
	err := f.c.fetchFile(ctx, w, &f.arrived)
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	delete(f.c.fetches, w.Digest)
	if err == nil {
		f.c.files[w.Digest] = &file{w.Size, f.c.cfg.Now()}
	}
	f.err = err
	close(f.done)
}

// tries is how often a file is asked for that arrives damaged, or of which nothing comes. Pauses between them grow, to about two
// minutes in all: as long as batchd may take to start again.
const (
	tries      = 8
	firstPause = time.Second
	longest    = 30 // times the first
)

func (c *Cache) fetchFile(ctx context.Context, w Wanted, arrived *atomic.Int64) error {
	partial := filepath.Join(c.cfg.Dir, "partial", w.Digest.Hex())
	best := int64(-1)
	for left, damaged, pause := tries, 0, time.Duration(0); ; left-- {
		err := c.try(ctx, w, partial, arrived)
		switch {
		case err == nil || ctx.Err() != nil || errors.Is(err, ErrNoRoom) || errors.Is(err, ErrGone):
			return err
		case errors.Is(err, ErrDamaged):
			_ = os.Remove(partial) // what is wrong in it is not known
			best = -1
			if damaged++; damaged == 3 {
				return err
			}
		case arrived.Load() > best:
			best, left, pause = arrived.Load(), tries, 0
		case left <= 1:
			return err
		default:
			pause = max(c.cfg.Pause, min(2*pause, longest*c.cfg.Pause))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// try fetches what is missing of a file, and puts it in its place when it is whole and right.
func (c *Cache) try(ctx context.Context, w Wanted, partial string, arrived *atomic.Int64) (err error) {
	out, err := os.OpenFile(partial, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum := sha256.New()
	have, err := io.Copy(sum, out)
	if err != nil {
		return err
	}
	arrived.Store(have)
	if have < w.Size {
		to := &counted{io.MultiWriter(&steady.Writer{File: out}, sum), w.Size - have, arrived}
		if err := c.source.Fetch(ctx, w.Digest, have, to); err != nil {
			return noRoom(fmt.Errorf("fetch %s: %w", w.Digest, err))
		}
	}
	if err := check(w, sum, arrived.Load()); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return noRoom(err)
	}
	// Whoever may enter a directory with a link may read it; blobs is the daemon's alone.
	if err := out.Chmod(0o444); err != nil {
		return err
	}
	if err := os.Rename(partial, c.blob(w.Digest)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(c.blob(w.Digest)))
}

func check(w Wanted, sum hash.Hash, have int64) error {
	switch got := images.DigestOf(sum.Sum(nil)); {
	case have < w.Size:
		return fmt.Errorf("fetch %s: only %d of %d bytes came: %w", w.Digest, have, w.Size, io.ErrUnexpectedEOF)
	case got != w.Digest:
		return fmt.Errorf("%w: it has %d bytes and the digest %s, not %s", ErrDamaged, have, got, w.Digest)
	}
	return nil
}

// noRoom turns a full disk into ErrNoRoom.
func noRoom(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return err
}

// counted passes on at most left bytes: a source that sends more is cut off, and nothing of it counts.
type counted struct {
	to      io.Writer
	left    int64
	arrived *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		return 0, fmt.Errorf("%w: there is more of it than there should be", ErrDamaged)
	}
	n, err := c.to.Write(p)
	c.left -= int64(n)
	c.arrived.Add(int64(n))
	return n, err
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
