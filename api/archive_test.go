package api_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"fairslice/api"
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

// The tests' user is the daemon's, and so an administrator.
func TestAnArchiveGoesBothWays(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u, ctx := s.users(s.unix()), deadline(t)
	var b bytes.Buffer
	if err := u.Export(ctx, "2026-01-01", true, &b); err != nil || b.String() != strings.Repeat("2026-01-01true;", 150_000) {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	if err := u.Export(ctx, "broken", false, &b); code(err) != wire.Unavailable {
		t.Errorf("half an export: %v", err)
	}
	if err := u.Export(ctx, "", false, &b); code(err) != wire.Invalid {
		t.Errorf("no date: %v", err)
	}
	if err := u.Export(ctx, "2026-01-01", false, errWriter{}); err == nil || err.Error() != "disk full" {
		t.Errorf("a full disk: %v", err)
	}
	got, err := u.Purge(ctx, "2026-01-01", "abc")
	if err != nil || got.Jobs != 1 || got.Events != 2 || got.Charges != 3 || got.Cancelled != 4 || !got.Again || got.Since != 5e9 || s.engine.purged != "2026-01-01 abc "+me(t) {
		t.Errorf("%v, %v, asked %q", got, err, s.engine.purged)
	}
	data := strings.Repeat("0123456789", 1<<20) // 10 MiB: more than any other call may send
	if got, err := u.Restore(ctx, "abc", iotest.HalfReader(strings.NewReader(data))); err != nil || got.Jobs != int64(len(data)) || got.Again || s.engine.restored != data {
		t.Errorf("%v, %v, %d bytes arrived", got, err, len(s.engine.restored))
	}
	if _, err := u.Restore(ctx, "unknown", strings.NewReader(data)); code(err) != wire.Conflict {
		t.Errorf("a refusal before the end: %v", err)
	}
	s.engine.restored = ""
	if _, err := u.Restore(ctx, "abc", io.MultiReader(strings.NewReader(data), iotest.ErrReader(errors.New("bad disk")))); err == nil || err.Error() != "bad disk" {
		t.Errorf("half a file: %v", err)
	}
}

type errWriter struct{}

func (errWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestArchivesAreForAdministrators(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u, ctx := s.users(s.tls(api.UserToken, "daemon")), deadline(t)
	if err := u.Export(ctx, "2026-01-01", true, io.Discard); code(err) != wire.Denied {
		t.Errorf("export: %v", err)
	}
	if _, err := u.Purge(ctx, "2026-01-01", "abc"); code(err) != wire.Denied || s.engine.purged != "" {
		t.Errorf("purge: %v", err)
	}
	if _, err := u.Restore(ctx, "abc", strings.NewReader("x")); code(err) != wire.Denied || s.engine.restored != "" {
		t.Errorf("restore: %v", err)
	}
}

func TestWhoMissesArchivedJobsIsTold(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u, ctx := s.users(s.unix()), deadline(t)
	s.engine.change(1, func(*queue.Job) {}) // there is one
	mark := time.Unix(1000, 0)
	history := func(sel queue.Selection) (archived int64) {
		t.Helper()
		if err := u.History(ctx, sel, func(page *pb.HistoryResponse) error { archived = max(archived, page.Archived); return nil }); err != nil {
			t.Fatal(err)
		}
		return archived
	}
	finished := func(req *pb.FinishedRequest) (archived int64) {
		t.Helper()
		if err := u.Finished(ctx, req, func(page *pb.FinishedResponse) error { archived = max(archived, page.Archived); return nil }); err != nil {
			t.Fatal(err)
		}
		return archived
	}
	all := queue.Selection{Scope: queue.ScopeAll}
	if history(all) != 0 || finished(&pb.FinishedRequest{}) != 0 {
		t.Error("told, though nothing is archived")
	}
	s.engine.archived = mark
	recent := all
	recent.Since = mark
	for what, row := range map[string]struct{ got, want int64 }{
		"all":                {history(all), mark.UnixNano()},
		"recent":             {history(recent), 0},
		"unfinished":         {history(queue.Selection{}), 0},
		"a job that is":      {history(queue.Selection{IDs: []string{"1"}}), 0},
		"a job that is not":  {history(queue.Selection{IDs: []string{"987654"}}), mark.UnixNano()},
		"any that finished":  {finished(&pb.FinishedRequest{}), mark.UnixNano()},
		"in a list":          {finished(&pb.FinishedRequest{List: true}), mark.UnixNano()},
		"before the mark":    {finished(&pb.FinishedRequest{Ended: &pb.Span{From: mark.UnixNano() - 1}}), mark.UnixNano()},
		"from the mark on":   {finished(&pb.FinishedRequest{Ended: &pb.Span{From: mark.UnixNano()}}), 0},
		"submitted after it": {finished(&pb.FinishedRequest{Submitted: &pb.Span{From: mark.UnixNano()}}), 0},
		"named, and found":   {finished(&pb.FinishedRequest{Ids: []string{"7"}}), 0}, // the fake finds as many as are named
		"started after it":   {finished(&pb.FinishedRequest{List: true, Dispatched: &pb.Span{From: mark.UnixNano()}}), 0},
	} {
		if row.got != row.want {
			t.Errorf("%s: %d, want %d", what, row.got, row.want)
		}
	}
}
