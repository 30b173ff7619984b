package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
)

// Apps are checked against what the image says when a session is submitted.
func TestAppsAreTheImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
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
		// What somebody else's image has is not told, by this error either.
		sub := imageJob("eve", "ada/env:1")
		sub.Spec.Apps = []string{"vim"}
		if _, err := s.e.Submit(ctx, sub); err == nil || err.Error() != "ada/env:1: No such image" {
			t.Errorf("apps of a private image: %v", err)
		}
	})
}
