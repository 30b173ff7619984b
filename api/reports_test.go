package api_test

import (
	"testing"

	"fairslice/api"
	"fairslice/api/pb"
	"fairslice/api/wire"
)

// The tests' user is the daemon's, and so an administrator.
func TestReportsOfOthersAreForAdministrators(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	admin, daemon := s.users(s.unix()), s.users(s.tls(api.UserToken, "daemon"))
	ctx := deadline(t)
	for _, row := range []struct {
		user string
		of   string // whom the report is about, as the engine is asked
	}{{"", ""}, {"bob", "bob"}} {
		got, err := admin.Report(ctx, &pb.ReportRequest{Kind: "usage", By: "day", Period: "2026/03", User: row.user, Plot: true})
		if err != nil || got.Title != "2026/03" || got.Notes[0] != "usage by day" || string(got.Svg) != "<svg/>" || len(got.Columns) != 2 || !got.Columns[0].Text || got.Columns[1].Text || got.Rows[0].Cells[0] != row.of {
			t.Errorf("%q: %v, %v", row.user, got, err)
		}
	}
	got, err := daemon.Report(ctx, &pb.ReportRequest{Kind: "usage"})
	if err != nil || got.Rows[0].Cells[0] != "daemon" || got.Svg != nil {
		t.Errorf("an ordinary user's own: %v, %v", got, err)
	}
	if got, err = daemon.Report(ctx, &pb.ReportRequest{Kind: "usage", User: "bob"}); code(err) != wire.Denied {
		t.Errorf("of another: %v, %v", got, err)
	}
}

func TestFinishedComesInPages(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u := s.users(s.unix())
	var sizes []int
	next := int64(0)
	if err := u.Finished(deadline(t), &pb.FinishedRequest{List: true, Ended: &pb.Span{From: 5e9}}, func(page *pb.FinishedResponse) error {
		sizes = append(sizes, len(page.Jobs))
		for _, j := range page.Jobs {
			if j.Job != next || j.Ended != 5e9 {
				t.Errorf("%v after %d", j, next)
			}
			next++
		}
		return nil
	}); err != nil || next != 2500 || len(sizes) != 3 {
		t.Errorf("%d jobs in %v, %v", next, sizes, err)
	}
	var sum *pb.FinishedSummary
	ask := func(r *pb.FinishedRequest) error {
		return u.Finished(deadline(t), r, func(page *pb.FinishedResponse) error {
			if sum = page.Summary; page.Caller != me(t) {
				t.Errorf("the caller is %q", page.Caller)
			}
			return nil
		})
	}
	// The fake counts what it was asked for: ids as done, users as failed.
	if err := ask(&pb.FinishedRequest{Ids: []string{"7", "8[1-3,9]"}, Users: []string{"bob"}, Own: true}); err != nil || sum.Done != 3 || sum.Failed != 2 {
		t.Errorf("%v, %v", sum, err)
	}
	for _, id := range []string{"x", "0", "7[", "name[3]", ""} {
		if err := ask(&pb.FinishedRequest{Ids: []string{id}}); code(err) != wire.Invalid {
			t.Errorf("%q: %v", id, err)
		}
	}
}
