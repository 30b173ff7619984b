package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"fairslice/archive"
	"fairslice/etc"
	"fairslice/reports"
	"fairslice/store"
)

// maxMonthsBack bounds which months are written belatedly.
const maxMonthsBack = 12

// months writes a file for each month that is over: what each account and user was given, by the attempts that ended in it, as breport
// counts. A file that is there is left alone, whatever is in it.
type months struct {
	store *store.Store
	cfg   func() *etc.Config
	now   func() time.Time
	log   *slog.Logger
}

// run writes what is missing. A month that cannot be written does not keep others from it.
func (m *months) run(ctx context.Context) error {
	dir, zone := m.cfg().Accounting.MonthlyDir, m.cfg().Location()
	if dir == "" {
		return nil
	}
	now := m.now()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	first, err := m.store.FirstCharge(ctx, now)
	if err != nil {
		return err
	}
	var failed error
	y, mo, _ := now.In(zone).Date()
	for back := maxMonthsBack; back >= 1; back-- {
		from, to := time.Date(y, mo-time.Month(back), 1, 0, 0, 0, 0, zone), time.Date(y, mo-time.Month(back)+1, 1, 0, 0, 0, 0, zone)
		if !to.After(first) {
			continue
		}
		if err := m.month(ctx, dir, from, to); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", from.Format("2006-01"), err))
		}
	}
	return failed
}

// month writes one file, unless it is there, or the month is not whole yet.
func (m *months) month(ctx context.Context, dir string, from, to time.Time) error {
	file := filepath.Join(dir, from.Format("2006-01")+".csv")
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	sums, whole, archived, err := m.store.EndedBetween(ctx, from, to, m.now())
	switch {
	case err != nil:
		return err
	case archived:
		return errors.New("some of its jobs are archived: bring them back with badmin restore, or put a file of your own there")
	case !whole:
		return nil
	}
	if err := writeCSV(file, monthTable(sums)); err != nil {
		return err
	}
	m.log.Info("month written", "file", file, "rows", len(sums))
	return nil
}

// monthTable is what the file has, in the order of the names.
func monthTable(sums []store.EndedSum) *reports.Table {
	t := &reports.Table{Columns: []reports.Column{{Name: "account", Text: true}, {Name: "user", Text: true}, {Name: "attempts"}, {Name: "done"}, {Name: "exit"},
		{Name: "slot_hours"}, {Name: "fgpu_hours"}, {Name: "gpu_hours"}, {Name: "wait_hours"}, {Name: "mean_wait_seconds"}}}
	for i := range sums {
		s := &sums[i]
		t.Add(s.Account, s.User, reports.Whole(s.Attempts), reports.Whole(s.Done), reports.Whole(s.Exited), decimal(&s.SlotMillis, hourMillis), decimal(&s.FGPUMillis, 100*hourMillis),
			decimal(&s.GPUMillis, hourMillis), decimal(&s.Waited, hourMillis), decimal(&s.Waited, 1000*s.Attempts))
	}
	return t
}

const hourMillis = 3_600_000

// decimal is sum/unit with three decimals, rounded to the nearest.
func decimal(sum *big.Int, unit int64) string {
	return new(big.Rat).SetFrac(sum, big.NewInt(unit)).FloatString(3)
}

// writeCSV makes the file whole or not at all.
func writeCSV(file string, t *reports.Table) error {
	partial := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".partial")
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	err = t.WriteCSV(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = archive.Rename(partial, file)
	}
	if err != nil {
		_ = os.Remove(partial) // the next try would overwrite it
	}
	return err
}
