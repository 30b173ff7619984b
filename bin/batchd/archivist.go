package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"fairslice/accounting"
	"fairslice/api"
	"fairslice/archive"
	"fairslice/etc"
	"fairslice/store"
)

// archivist moves jobs of long ago to files and back, under one lease.
type archivist struct {
	store *store.Store
	term  int64
	cfg   func() *etc.Config
	now   func() time.Time
}

// spared is the time from which on jobs stay in the database, as they count for something still: for fair share, by the half-life;
// for budgets and the monthly files, which are made of charges, this quarter of the year and the one before.
func (a *archivist) spared() (time.Time, error) {
	cfg, now := a.cfg(), a.now()
	usage, err := accounting.NewUsage(cfg.Scheduler.HalfLife)
	if err != nil {
		return time.Time{}, fmt.Errorf("scheduler: half_life: %w", err)
	}
	since := usage.Since(now)
	y, m, _ := now.In(cfg.Location()).Date()
	if quarter := time.Date(y, (m-1)/3*3+1-3, 1, 0, 0, 0, 0, cfg.Location()); quarter.Before(since) {
		since = quarter
	}
	return since, nil
}

// dates of the command, as ISO and as LSF write them.
var dateForms = []string{"2006-01-02", "2006/01/02"}

// parseDate reads a date, and is the beginning of that day in the zone.
func parseDate(s string, zone *time.Location) (time.Time, error) {
	for _, form := range dateForms {
		if t, err := time.ParseInLocation(form, s, zone); err == nil && t.Year() >= 1970 {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q: want a date from 1970 on, such as 2026-01-01", s)
}

// before reads the date of a command. Jobs that leave must be older than what is spared; of those that stay, any past date will do.
func (a *archivist) before(text string, keep bool) (time.Time, error) {
	t, err := parseDate(text, a.cfg().Location())
	if err != nil {
		return t, &api.Error{Code: api.Invalid, Msg: err.Error()}
	}
	until, why := a.now(), "the date has not come yet"
	if !keep {
		if until, err = a.spared(); err != nil {
			return t, err
		}
		why = "fair share counts what was used in the last half-lives, and budgets this quarter and the last"
	}
	if t.After(until) {
		return t, &api.Error{Code: api.Invalid, Msg: fmt.Sprintf("%s: %s; the latest date that is allowed is %s", text, why, until.In(a.cfg().Location()).Format(dateForms[0]))}
	}
	return t, nil
}

func (a *archivist) Export(ctx context.Context, before string, keep bool, w io.Writer) error {
	t, err := a.before(before, keep)
	if err != nil {
		return err
	}
	_, _, err = a.store.Export(ctx, t, w)
	return a.speak(err)
}

func (a *archivist) Purge(ctx context.Context, before, sum, by string) (api.ArchiveOutcome, error) {
	t, err := a.before(before, false)
	if err != nil {
		return api.ArchiveOutcome{}, err
	}
	st, err := a.store.Purge(ctx, a.term, t, sum, by)
	return api.ArchiveOutcome(st), a.speak(err)
}

func (a *archivist) Restore(ctx context.Context, sum string, from io.Reader) (api.ArchiveOutcome, error) {
	st, err := a.store.Restore(ctx, a.term, sum, from)
	return api.ArchiveOutcome(st), a.speak(err)
}

func (a *archivist) ArchivedUntil(ctx context.Context) (time.Time, error) {
	return a.store.ArchivedUntil(ctx)
}

// speak marks the errors that administrators may read.
func (a *archivist) speak(err error) error {
	if errors.Is(err, store.ErrNothing) {
		return &api.Error{Code: api.NotFound, Msg: "No job that finished before this date is in the database: nothing to archive"}
	}
	if refused, ok := errors.AsType[*store.ArchiveRefused](err); ok {
		return &api.Error{Code: api.Conflict, Msg: refused.Text}
	}
	if damage, ok := errors.AsType[*archive.Damage](err); ok {
		return &api.Error{Code: api.Invalid, Msg: damage.Error() + ": nothing was restored"}
	}
	return err
}
