package api_test

import (
	"context"

	"fairslice/reports"
)

// The fake's reports say what they were asked for.

func (e *engine) Report(_ context.Context, q reports.Query, period string, plot bool) (*reports.Table, []byte, error) {
	t := &reports.Table{Title: period, Columns: []reports.Column{{Name: "user", Text: true}, {Name: "jobs"}}, Notes: []string{string(q.Kind) + " by " + string(q.By)}}
	t.Add(q.Filter.User, "3")
	if plot {
		return t, []byte("<svg/>"), nil
	}
	return t, nil, nil
}

func (e *engine) Summarise(_ context.Context, q *reports.FinishedQuery) (reports.Summary, error) {
	return reports.Summary{Done: int64(len(q.IDs)), Failed: int64(len(q.Users))}, nil
}

func (e *engine) Finished(_ context.Context, q *reports.FinishedQuery, fn func(*reports.Finished) error) error {
	for i := range 2500 {
		if err := fn(&reports.Finished{Job: int64(i), Ended: q.Ended.From}); err != nil {
			return err
		}
	}
	return nil
}
