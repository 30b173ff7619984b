package api

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/archive"
	"fairslice/queue"
	"fairslice/reports"
)

// Archivist moves jobs of long ago out of the database and back. before is a date of the site's zone, YYYY-MM-DD. Mistakes are *Error.
type Archivist interface {
	// Export writes an archive; keep says that the jobs are to stay.
	Export(ctx context.Context, before string, keep bool, w io.Writer) error
	// Purge deletes what the archive of a sum has.
	Purge(ctx context.Context, before, sum, by string) (ArchiveOutcome, error)
	// Restore brings back what the archive of a sum has, which it reads to its end.
	Restore(ctx context.Context, sum string, from io.Reader) (ArchiveOutcome, error)
	// ArchivedUntil is the time before which jobs that finished may be in archives only; zero where none is.
	ArchivedUntil(ctx context.Context) (time.Time, error)
}

// ArchiveOutcome is what Purge and Restore have done, or had done before.
type ArchiveOutcome struct {
	archive.Counts
	Again bool
	Since time.Time // with Again
}

// archivePart bounds a message of Export. Those of Restore are bounded as all messages are.
const archivePart = 256 << 10

// Export streams an archive as it is written.
func (u *users) Export(ctx context.Context, req *connect.Request[pb.ExportRequest], stream *connect.ServerStream[pb.ExportResponse]) error {
	if _, err := u.admin(ctx); err != nil {
		return err
	}
	ctx, done := u.streaming(ctx)
	defer done()
	return u.engine.Export(ctx, req.Msg.GetBefore(), req.Msg.GetKeep(), exportTo{stream})
}

type exportTo struct {
	stream *connect.ServerStream[pb.ExportResponse]
}

func (e exportTo) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), archivePart)]
		if err := e.stream.Send(&pb.ExportResponse{Data: part}); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

// Purge deletes what an archive has.
func (u *users) Purge(ctx context.Context, req *connect.Request[pb.PurgeRequest]) (*connect.Response[pb.ArchiveResponse], error) {
	by, err := u.admin(ctx)
	if err != nil {
		return nil, err
	}
	out, err := u.engine.Purge(ctx, req.Msg.GetBefore(), req.Msg.GetSum(), by.User)
	if err == nil && !out.Again {
		u.log.InfoContext(ctx, "archived jobs deleted", "user", by.User, "jobs", out.History, "before", req.Msg.GetBefore())
	}
	return answer(archiveResponse(out), err)
}

// Restore reads an archive as it comes.
func (u *users) Restore(ctx context.Context, stream *connect.ClientStream[pb.RestoreRequest]) (*connect.Response[pb.ArchiveResponse], error) {
	by, err := u.admin(ctx)
	if err != nil {
		return nil, err
	}
	ctx, done := u.streaming(ctx)
	defer done()
	if !stream.Receive() {
		return nil, errors.Join(wire.Errorf(Invalid, "the first message must have the sum of the file"), stream.Err())
	}
	sum := stream.Msg().GetSum()
	out, err := u.engine.Restore(ctx, sum, &messages[pb.RestoreRequest]{stream: stream, data: (*pb.RestoreRequest).GetData})
	if err == nil && !out.Again {
		u.log.InfoContext(ctx, "archived jobs restored", "user", by.User, "jobs", out.History)
	}
	return answer(archiveResponse(out), err)
}

func archiveResponse(out ArchiveOutcome) *pb.ArchiveResponse {
	m := &pb.ArchiveResponse{Jobs: out.History, Events: out.Events, Charges: out.Charges, Cancelled: out.Cancelled, Again: out.Again}
	if out.Again {
		m.Since = wire.Nanos(out.Since)
	}
	return m
}

// archivedHistory is archived for History: of jobs that are named it is told only where one was not found.
func (u *users) archivedHistory(ctx context.Context, s queue.Selection, found []HistoryJob) (int64, error) {
	if len(s.IDs) == 0 {
		if s.Scope != queue.ScopeAll && s.Scope != queue.ScopeFinished {
			return 0, nil // who asks for what has not ended yet misses nothing
		}
		return u.archived(ctx, s.Since)
	}
	have := map[queue.JobID]bool{}
	for i := range found {
		have[found[i].Job.ID] = true
	}
	for _, id := range s.IDs {
		if ref, err := queue.ParseElements(id); err == nil && ref.Job != 0 && !have[ref.Job] {
			return u.archived(ctx, time.Time{})
		}
	}
	return 0, nil
}

// archivedFinished is archived for Finished: of jobs that are named it is told only where none was found. Who was submitted or started at
// some time ended later.
func (u *users) archivedFinished(ctx context.Context, q *reports.FinishedQuery, found bool) (int64, error) {
	if len(q.IDs) > 0 && found {
		return 0, nil
	}
	since := q.Ended.From
	for _, t := range []time.Time{q.Submitted.From, q.Dispatched.From} {
		if t.After(since) {
			since = t
		}
	}
	return u.archived(ctx, since)
}

// archived is what History and Finished tell of jobs that they cannot see: the mark, where what was asked for reaches back before it; else 0.
// since is the earliest end that was asked for, zero for any.
func (u *users) archived(ctx context.Context, since time.Time) (int64, error) {
	until, err := u.engine.ArchivedUntil(ctx)
	if err != nil || until.IsZero() || !since.Before(until) {
		return 0, err
	}
	return wire.Nanos(until), nil
}
