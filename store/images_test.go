package store_test

import (
	"strings"
	"testing"

	"fairslice/images"
	"fairslice/queue"
	"fairslice/store/storetest"
)

// The catalogue comes back as it was: by its rows, which also have what is long forgotten of it, and by its events.
func TestTheCatalogueComesBack(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := newWriter(t, storetest.OpenURL(t, url))
	put := func(i images.Image) { w.do(ev(0, 0, &queue.ImagePut{Image: &i})) }
	i := images.Image{ID: 1, Ref: images.Ref{Owner: "ada", Name: "x", Tag: "1"}, Digest: images.Digest("sha256:" + strings.Repeat("0a", 32)), Size: 5,
		Visibility: images.Private, Labels: map[string]string{"a": "b"}, Signed: []string{"Ada <ada@example.org> (8BE1)"}, Added: w.now, By: "ada"}
	put(i)
	w.check()
	gone := i
	gone.Removed = w.now
	put(gone)
	i.ID = 2
	put(i)
	w.do(ev(0, 0, &queue.ImageForgotten{ID: 1}))
	w.check()

	request := func(owner string, job int64, states ...images.CommitState) (events []queue.Event) {
		c := images.Commit{ID: w.book.Images.NextCommit(), Ref: images.Ref{Owner: owner, Name: "y", Tag: "1"}, Job: job, Attempt: 1, Asked: w.now}
		for _, c.State = range states {
			next := c
			events = append(events, ev(0, 0, &queue.CommitPut{Commit: &next}))
		}
		return events
	}
	w.do(request("ada", 1, images.CommitAsked)...)
	w.do(request("ben", 2, images.CommitAsked, images.CommitRefused)...)
	for range images.KeptCommits + 3 {
		w.do(request("ada", 3, images.CommitAsked, images.CommitRefused)...)
	}
	w.check()
	// The oldest one ends when others are newer: it is forgotten in the very batch that ends it.
	over := *w.book.Images.Commit(1)
	over.State = images.CommitFailed
	w.do(ev(0, 0, &queue.CommitPut{Commit: &over}))
	if w.book.Images.Commit(1) != nil {
		t.Error("it is kept")
	}
	w.check()
	if got := query(t, url, "SELECT count(*) || ' ' || count(*) FILTER (WHERE open) FROM image_commits"); got[0] != "55 0" {
		t.Errorf("rows and open ones: %s", got[0])
	}
}
