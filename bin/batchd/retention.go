package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"fairslice/archive"
	"fairslice/store"
)

// keepHouse writes the files of months and archives what is old, until ctx ends. What fails is tried again at the next look.
func keepHouse(ctx context.Context, a *archivist, log *slog.Logger) {
	m := &months{a.store, a.cfg, a.now, log}
	r := &retention{archivist: a, log: log}
	for {
		if err := m.run(ctx); err != nil && ctx.Err() == nil {
			log.Error("month not written", "error", err)
		}
		if err := r.run(ctx); err != nil && ctx.Err() == nil {
			log.Error("old jobs not archived", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(houseEvery):
		}
	}
}

const (
	houseEvery = 10 * time.Minute
	// restoredFor is how long nothing is archived after a restore, so that those who asked for it can look at it.
	restoredFor = 7 * 24 * time.Hour
	// pendingName is the file of which it is not known yet whether its jobs have left the database.
	pendingName = "pending.jsonl.zst"
)

// retention archives jobs that are older than the site keeps, once a day.
type retention struct {
	*archivist
	log  *slog.Logger
	done time.Time // the date before which all is archived
}

// run brings the archives up to today's date. Killed anywhere, it goes on where it was: first with the pending file. A file has its
// final name only when its jobs have left.
func (r *retention) run(ctx context.Context) error {
	cfg := r.cfg()
	if cfg.Accounting.Keep == 0 {
		return nil
	}
	before, err := r.due()
	if err != nil || !r.done.Before(before) {
		return err
	}
	if err := os.MkdirAll(cfg.Accounting.ArchiveDir, 0o700); err != nil {
		return err
	}
	pending := filepath.Join(cfg.Accounting.ArchiveDir, pendingName)
	if err := r.settle(ctx, pending); err != nil {
		return err
	}
	oldest, restored, err := r.store.Archivable(ctx)
	if err != nil || oldest.IsZero() || r.now().Before(restored.Add(restoredFor)) {
		return err
	}
	for _, cut := range cuts(oldest.In(cfg.Location()), before) {
		if err := r.archive(ctx, pending, cut); err != nil {
			return err
		}
	}
	r.done = before
	return nil
}

// due is the date before which jobs are to leave today: so many months before it, and no later than what is spared.
func (r *retention) due() (time.Time, error) {
	cfg := r.cfg()
	y, m, d := r.now().In(cfg.Location()).Date()
	before := time.Date(y, m-time.Month(cfg.Accounting.Keep), d, 0, 0, 0, 0, cfg.Location())
	if before.Day() != d { // that month is shorter
		before = before.AddDate(0, 0, -before.Day())
	}
	spared, err := r.spared()
	if spared.Before(before) {
		before = spared
	}
	return before, err
}

// cuts divides what is old into months of the calendar, so that a site that begins to archive after years does not do it in one transaction.
func cuts(oldest, before time.Time) (out []time.Time) {
	y, m, _ := oldest.Date()
	for n := time.Month(1); ; n++ {
		cut := time.Date(y, m+n, 1, 0, 0, 0, 0, oldest.Location())
		if !cut.Before(before) {
			return append(out, before)
		}
		out = append(out, cut)
	}
}

// archive moves the jobs that finished before a date into a file.
func (r *retention) archive(ctx context.Context, pending string, before time.Time) error {
	_, _, err := archive.Create(pending, func(w io.Writer) error {
		_, _, err := r.store.Export(ctx, before, w)
		return err
	})
	if errors.Is(err, store.ErrNothing) {
		return nil
	} else if err != nil {
		return err
	}
	return r.settle(ctx, pending)
}

// settle deletes the jobs of the pending file from the database, if they are still there, and gives the file its name. A file that
// is not what the database has was not purged, and goes. One that is damaged may have been: it stays, under another name.
func (r *retention) settle(ctx context.Context, pending string) error {
	h, sum, err := archive.Verify(pending)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, damaged := errors.AsType[*archive.Damage](err); damaged {
		aside := filepath.Join(filepath.Dir(pending), fmt.Sprintf("damaged-%d.jsonl.zst", r.now().UnixNano()))
		r.log.Error("archive damaged", "file", aside, "error", err)
		return archive.Rename(pending, aside)
	}
	if err != nil {
		return err
	}
	st, err := r.store.Purge(ctx, r.term, h.Before, sum, "batchd")
	if refused, ok := errors.AsType[*store.ArchiveRefused](err); ok {
		r.log.Warn("archive given up", "file", pending, "error", refused)
		return os.Remove(pending)
	}
	if err != nil {
		return err
	}
	cfg := r.cfg()
	file := filepath.Join(filepath.Dir(pending), fmt.Sprintf("%s-before-%s-%.8s.jsonl.zst", cfg.Cluster, h.Before.In(cfg.Location()).Format("2006-01-02"), sum))
	if err := archive.Rename(pending, file); err != nil {
		return err
	}
	r.log.Info("old jobs archived", "file", file, "jobs", st.History, "charges", st.Charges)
	return nil
}
