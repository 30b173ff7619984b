package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"fairslice/api"
	"fairslice/reports"
	"fairslice/reports/plot"
	"fairslice/store"
)

// reporter answers from the database what was charged.
type reporter struct {
	store *store.Store
	zone  func() *time.Location // the site's
	now   func() time.Time
}

// reportDays is the period of a report that names none.
const reportDays = 30

func (r *reporter) Report(ctx context.Context, q reports.Query, period string, draw bool) (*reports.Table, []byte, error) {
	now := r.now()
	q.Zone = r.zone()
	if period == "" {
		period = fmt.Sprintf(".-%dd,.", reportDays)
	}
	var err error
	if q.Period, err = reports.ParsePeriod(period, now, q.Zone); err != nil {
		return nil, nil, &api.Error{Code: api.Invalid, Msg: err.Error()}
	}
	if q.Period.To.IsZero() {
		q.Period.To = now
	}
	if q.Period.From.IsZero() { // there were no jobs before that
		if q.Period.From, err = r.store.FirstCharge(ctx, q.Period.To); err != nil {
			return nil, nil, err
		}
	}
	if err := q.Check(); err != nil {
		return nil, nil, &api.Error{Code: api.Invalid, Msg: err.Error()}
	}
	if (q.Kind == reports.Nodes || q.Kind == reports.GPUs || q.Kind == reports.Utilisation) && !q.Period.From.Before(now) {
		return nil, nil, &api.Error{Code: api.Invalid, Msg: "the period has not begun"}
	}
	t, err := r.store.Report(ctx, q, now)
	if err != nil {
		return nil, nil, err
	}
	t.Title = q.Title()
	if !draw {
		return t, nil, nil
	}
	var svg bytes.Buffer
	if err := plot.WriteSVG(&svg, plot.Report(t)...); err != nil {
		return nil, nil, err
	}
	return t, svg.Bytes(), nil
}

func (r *reporter) Summarise(ctx context.Context, q *reports.FinishedQuery) (reports.Summary, error) {
	return r.store.Summarise(ctx, q)
}

func (r *reporter) Finished(ctx context.Context, q *reports.FinishedQuery, fn func(*reports.Finished) error) error {
	return r.store.Finished(ctx, q, fn)
}
