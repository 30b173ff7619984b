package store

import (
	"context"
	"time"

	"fairslice/reports"
)

// RollUpBy is RollUp in steps of a size.
func (s *Store) RollUpBy(ctx context.Context, step int64) error { return s.rollUp(ctx, step) }

// ReportBy is Report that reads at most so many waits one by one.
func (s *Store) ReportBy(ctx context.Context, q reports.Query, now time.Time, exact int64) (*reports.Table, error) {
	return s.report(ctx, q, now, exact)
}
