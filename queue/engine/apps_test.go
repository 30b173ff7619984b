package engine_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"fairslice/queue"
)

// Apps are checked against what the image says when a session is submitted.
func TestAppsAreTheImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Images = map[string]string{"file": "/images/file.sif", "unread": "/images/unread.sif"}
		cfg.FileApps = func(file string) ([]string, bool) { return []string{"notes"}, file == "/images/file.sif" }
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		defer s.stop()
		ctx := context.Background()
		labels := map[string]string{"fairslice.apps": "jupyter:http:8081,db:tcp:5432"}
		if _, err := s.e.PutImage(ctx, identity("ada"), imageOf("ada/env:1", "a", labels), false); err != nil {
			t.Fatal(err)
		}
		for apps, want := range map[string]string{"jupyter": "", "db,jupyter": "", "jupyter,vim": "vim: the image has no such app; there are: db, jupyter"} {
			sub := imageJob("ada", "env:1")
			sub.Spec.Apps = strings.Split(apps, ",")
			_, err := s.e.Submit(ctx, sub)
			if (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("-apps %s: %v, want %q", apps, err, want)
			}
		}
		// The same when a job is modified, for its new apps and for its new image.
		if _, err := s.e.PutImage(ctx, identity("ada"), imageOf("ada/plain:1", "b", nil), false); err != nil {
			t.Fatal(err)
		}
		waiting := imageJob("ada", "env:1")
		waiting.Spec.Apps, waiting.Spec.Hold = []string{"db"}, true
		acc, err := s.e.Submit(ctx, waiting)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct{ option, value, want string }{
			{"apps", "jupyter", "are being changed"},
			{"apps", "vim", "vim: the image has no such app; there are: db, jupyter"},
			{"image", "file", "jupyter: the image has no such app; there are: notes"},
			{"image", "plain:1", "jupyter: the image has no such app; there are none"},
			{"image", "unread", "are being changed"}, // found out when it runs
			{"apps", "vim", "are being changed"},
			{"apps", "notes", "are being changed"},
			{"image", "file", "are being changed"},
			{"image", "env:1", "notes: the image has no such app; there are: db, jupyter"},
		} {
			out, err := s.e.Control(ctx, queue.Control{Op: queue.OpModify, By: identity("ada"), Select: queue.Selection{IDs: []string{strconv.Itoa(int(acc.Job))}},
				Options: []queue.Given{{Name: row.option, Values: []string{row.value}}}})
			if err != nil || len(out) != 1 || !strings.HasSuffix(out[0].Text, row.want) {
				t.Errorf("bmod -%s %s: %v %v, want %q", row.option, row.value, out, err, row.want)
			}
		}
		// What somebody else's image has is not told, by this error either.
		sub := imageJob("eve", "ada/env:1")
		sub.Spec.Apps = []string{"vim"}
		if _, err := s.e.Submit(ctx, sub); err == nil || err.Error() != "ada/env:1: No such image" {
			t.Errorf("apps of a private image: %v", err)
		}
	})
}

// An app that could not be started stands in the listings for as long as the attempt lasts.
func TestAppsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.stop()
		for _, line := range []string{"join a=2", "submit ada queue=again pty", "report a 1#1 began"} {
			if got, ok := s.do(strings.Fields(line)); !ok {
				t.Fatal(line, ": ", got)
			}
			s.store.rest()
		}
		note := func() (text string) {
			s.e.View(func(v queue.View) {
				_, el := v.Book().Find(elementOf("1"))
				text = el.Note
			})
			return text
		}
		for _, row := range []struct {
			attempt   int
			why, want string
		}{{2, "of another attempt", ""}, {1, "App db could not be started: no", "App db could not be started: no"}} {
			if err := s.e.AppsFailed(t.Context(), elementOf("1"), row.attempt, row.why); err != nil {
				t.Fatal(err)
			}
			if got := note(); got != row.want {
				t.Errorf("attempt %d: %q, want %q", row.attempt, got, row.want)
			}
		}
		s.do(strings.Fields("report a 1#1 ended:0"))
		if err := s.e.AppsFailed(t.Context(), elementOf("1"), 1, "too late"); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}
