package api

import (
	"context"
	"math"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
	"fairslice/reports"
)

// Reporter looks at what was charged. Both read the database only; nothing waits for them.
type Reporter interface {
	// Report completes and answers a query; period is its text, read in the site's time zone. A mistake in either is an *Error. svg is
	// the drawing where asked.
	Report(ctx context.Context, q reports.Query, period string, plot bool) (t *reports.Table, svg []byte, err error)
	// Summarise sums the jobs that q names.
	Summarise(ctx context.Context, q *reports.FinishedQuery) (reports.Summary, error)
	// Finished calls fn for each of them, in the order of their ends, until fn fails. fn must not keep the pointer.
	Finished(ctx context.Context, q *reports.FinishedQuery, fn func(*reports.Finished) error) error
}

// Report gives administrators what they ask for. Others see their own jobs, and the utilisation of the site, which is nobody's;
// whose a node's time is, is not theirs to know.
func (u *users) Report(ctx context.Context, req *connect.Request[pb.ReportRequest]) (*connect.Response[pb.ReportResponse], error) {
	by, err := u.user(ctx)
	if err != nil {
		return nil, err
	}
	m := req.Msg
	q := reports.Query{Kind: reports.Kind(m.Kind), By: reports.By(m.By), Limit: int(m.Limit),
		Filter: reports.Filter{User: m.User, Account: m.Account, Queue: m.Queue, Project: m.Project, Host: m.Host}}
	if !by.Admin && q.Kind != reports.Utilisation {
		switch {
		case q.Filter.User == "":
			q.Filter.User = by.User
		case q.Filter.User != by.User:
			return nil, wire.Errorf(Denied, "Reports about others are for administrators: leave -u out for one about your own jobs")
		}
	}
	t, svg, err := u.engine.Report(ctx, q, m.Period, m.Plot)
	if err != nil {
		return nil, err
	}
	out := &pb.ReportResponse{Title: t.Title, Notes: t.Notes, Svg: svg}
	for _, c := range t.Columns {
		out.Columns = append(out.Columns, &pb.ReportColumn{Name: c.Name, Text: c.Text})
	}
	for _, row := range t.Rows {
		out.Rows = append(out.Rows, &pb.ReportRow{Cells: row})
	}
	return answer(out, nil)
}

// Finished streams in pages.
func (u *users) Finished(ctx context.Context, req *connect.Request[pb.FinishedRequest], stream *connect.ServerStream[pb.FinishedResponse]) error {
	by, err := u.user(ctx)
	if err != nil {
		return err
	}
	ctx, done := u.streaming(ctx)
	defer done()
	m := req.Msg
	q := &reports.FinishedQuery{Users: m.Users, Queues: m.Queues, Hosts: m.Hosts, Projects: m.Projects, Done: m.Done, Failed: m.Failed,
		Ended: period(m.Ended), Submitted: period(m.Submitted), Dispatched: period(m.Dispatched)}
	if m.Own {
		q.Users = append(q.Users, by.User)
	}
	for _, id := range m.Ids {
		ref, err := queue.ParseElements(id)
		if err != nil || ref.Job == 0 {
			return wire.Errorf(Invalid, "%s: Illegal job ID.", id)
		}
		q.IDs = append(q.IDs, elements(ref)...)
	}
	if !m.List {
		sum, err := u.engine.Summarise(ctx, q)
		if err != nil {
			return err
		}
		archived, err := u.archivedFinished(ctx, q, sum.Done+sum.Failed > 0)
		if err != nil {
			return err
		}
		return stream.Send(&pb.FinishedResponse{Summary: wire.FromSummary(&sum), Caller: by.User, Archived: archived})
	}
	page := &pb.FinishedResponse{Caller: by.User}
	found := false
	err = u.engine.Finished(ctx, q, func(f *reports.Finished) error {
		found = true
		page.Jobs = append(page.Jobs, wire.FromFinished(f))
		if len(page.Jobs) < pageRows {
			return nil
		}
		full := page
		page = &pb.FinishedResponse{}
		return stream.Send(full)
	})
	if err != nil {
		return err
	}
	if page.Archived, err = u.archivedFinished(ctx, q, found); err != nil {
		return err
	}
	return stream.Send(page)
}

// elements are what an id names.
func elements(ref queue.Ref) []reports.Ref {
	if ref.Indices == nil {
		return []reports.Ref{{Job: int64(ref.Job), Last: math.MaxInt32, Step: 1}}
	}
	var out []reports.Ref
	for _, r := range ref.Indices.Ranges {
		out = append(out, reports.Ref{Job: int64(ref.Job), First: int32(r.First), Last: int32(r.Last), Step: int32(r.Step)})
	}
	return out
}

func period(s *pb.Span) reports.Period {
	at := func(ns int64) time.Time {
		if ns == 0 {
			return time.Time{}
		}
		return time.Unix(0, ns).UTC()
	}
	return reports.Period{From: at(s.GetFrom()), To: at(s.GetTo())}
}
