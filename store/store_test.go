package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"time"

	"fairslice/queue"
	"fairslice/store"
	"fairslice/store/storetest"
)

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	storetest.OpenURL(t, url) // a second Open of the same version is fine
	query(t, url, "UPDATE schema_version SET version = 999 RETURNING version::text")
	s, err := store.Open(t.Context(), store.Config{URL: url})
	if err == nil {
		s.Close()
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), "schema version 999") || !strings.Contains(err.Error(), "newer one") {
		t.Errorf("the text helps nobody: %v", err)
	}
}

func TestAClusterHasOneID(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	a, created, err := storetest.OpenURL(t, url).ClusterID(t.Context())
	if err != nil || created.IsZero() {
		t.Fatal(created, err)
	}
	if b, _, err := storetest.OpenURL(t, url).ClusterID(t.Context()); err != nil || a != b || len(a) != 36 {
		t.Errorf("%q and %q, %v", a, b, err)
	}
}

// An array is one row however large it is, and its held elements come back held after bmod has touched the spec.
func TestAnArrayIsOneRow(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := newWriter(t, storetest.OpenURL(t, url))
	s := submitted("", &queue.Array{Ranges: []queue.Range{{First: 1, Last: 10_000, Step: 1}}})
	s.Spec.Hold = true
	w.do(ev(1, 0, s))
	released := *s.Spec
	released.Hold = false
	w.do(ev(1, 0, &queue.Modified{Spec: &released, Plan: s.Plan}), ev(1, 7, &queue.Resumed{}))
	if n := query(t, url, "SELECT count(*) || ' ' || (SELECT count(*) FROM elements) FROM jobs"); n[0] != "1 1" {
		t.Errorf("rows = %s", n[0])
	}
	w.check()
}

func TestForgottenJobsAreFoundInTheHistory(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := newWriter(t, storetest.OpenURL(t, url))
	at := w.now
	other := submitted("", nil)
	other.Spec.Name, other.Owner.User = "100%_x", "bob"
	w.do(ev(1, 0, submitted("tok", nil)), ev(2, 0, other), ev(3, 0, submitted("live", nil)), ev(4, 0, submitted("tok4", nil)))
	w.do(ev(1, 0, &queue.Switched{Queue: "long", Plan: queue.Shape{Queue: "long"}}))
	for id := range queue.JobID(4) {
		if id+1 != 3 {
			w.do(ev(id+1, 0, ended(0, queue.NoStatus, at)), ev(id+1, 0, &queue.Forgotten{}))
		}
	}
	w.check()
	for name, tt := range map[string]struct {
		f    store.HistoryFilter
		want []queue.JobID
	}{
		"all":      {store.HistoryFilter{}, []queue.JobID{1, 2, 4}},
		"user":     {store.HistoryFilter{User: "bob"}, []queue.JobID{2}},
		"queue":    {store.HistoryFilter{Queue: "long"}, []queue.JobID{1}},
		"wildcard": {store.HistoryFilter{Name: "tr*n"}, []queue.JobID{1, 4}},
		"literal":  {store.HistoryFilter{Name: "100%_*"}, []queue.JobID{2}},
		"no LIKE":  {store.HistoryFilter{Name: "%"}, nil},
		"ids":      {store.HistoryFilter{IDs: []queue.JobID{3, 4, 99}}, []queue.JobID{4}},
		"no ids":   {store.HistoryFilter{IDs: []queue.JobID{}}, nil},
		"since":    {store.HistoryFilter{Since: w.now.Add(-2 * time.Millisecond)}, []queue.JobID{4}},
		"until":    {store.HistoryFilter{Until: at.Add(1500 * time.Microsecond)}, []queue.JobID{1}},
		"newest":   {store.HistoryFilter{Limit: 2}, []queue.JobID{2, 4}},
		"both":     {store.HistoryFilter{User: "ada", Name: "train", Queue: "gpu"}, []queue.JobID{4}},
	} {
		if got, err := w.s.FindHistory(t.Context(), tt.f); err != nil || len(got) != len(tt.want) || len(got) > 0 && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tt.want)
		}
	}
	events, err := w.s.EventsOf(t.Context(), []queue.JobID{1})
	if err != nil || len(events) != 4 || events[0].Body.Kind() != "submitted" || events[3].Body.Kind() != "forgotten" {
		t.Errorf("events of job 1: %v, %v", events, err)
	}
	for token, want := range map[string]queue.JobID{"tok": 1, "live": 3, "none": 0, "": 0} {
		if id, found, err := w.s.JobByToken(t.Context(), "ada", token); id != want || found != (want != 0) || err != nil {
			t.Errorf("JobByToken(%q) = %d, %v, %v", token, id, found, err)
		}
	}
	if id, _, _ := w.s.JobByToken(t.Context(), "bob", "tok"); id != 0 {
		t.Errorf("bob's token gives ada's job %d", id)
	}
}

func TestChargesOfAPeriod(t *testing.T) {
	t.Parallel()
	w := newWriter(t, storetest.Open(t))
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}), ev(1, 0, submitted("", nil)), ev(1, 0, started(1, "n1", 0, 1)))
	never := &queue.Requeued{Attempt: 1, Why: "no image", Failed: true, Charge: &queue.Charge{User: "ada", Account: "default", Queue: "gpu", Ended: w.now.Truncate(time.Microsecond)}}
	w.do(ev(1, 0, never), ev(1, 0, started(2, "n1", 0, 1)))
	last := ended(2, 0, w.now)
	w.do(ev(1, 0, last))
	all := map[int]queue.Charge{}
	read := func(from, to time.Time) int {
		n := 0
		if err := w.s.Charges(t.Context(), from, to, func(c store.Charged) error { n++; all[c.Attempt] = c.Charge; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := read(time.Time{}, time.Time{}); n != 2 || all[1] != *never.Charge || all[2] != *last.Charge {
		t.Errorf("%d charges: %+v", n, all)
	}
	if a, b := read(last.Charge.Ended, time.Time{}), read(time.Time{}, last.Charge.Ended); a != 1 || b != 1 {
		t.Errorf("%d and %d of a part of the time", a, b)
	}
}

func TestBlobsStayWhileTheyAreNeeded(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := newWriter(t, storetest.OpenURL(t, url))
	hash := func(data string) string {
		h := sha256.Sum256([]byte(data))
		return hex.EncodeToString(h[:])
	}
	blobs := map[string][]byte{}
	for _, d := range []string{"script", "env", "unused", "fresh", ""} {
		blobs[hash(d)] = []byte(d)
	}
	s := submitted("", nil)
	s.Spec.ScriptHash, s.Spec.EnvHash = hash("script"), hash("env")
	b := w.batch(ev(1, 0, s))
	b.Blobs = blobs
	for range 2 { // content-addressed: again is the same
		if err := w.s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if got, found, err := w.s.Blob(t.Context(), hash("")); err != nil || !found || len(got) != 0 {
		t.Errorf("the empty blob: %q, %v, %v", got, found, err)
	}
	query(t, url, "UPDATE blobs SET created = now() - interval '5 hours' WHERE data <> 'fresh' RETURNING hash")
	// Used again, without a job that names it yet.
	if err := w.s.Commit(t.Context(), &store.Batch{Term: w.term, Blobs: map[string][]byte{hash(""): nil}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.s.SweepBlobs(t.Context(), time.Minute); err == nil {
		t.Error("a sweep of what is in use was taken")
	}
	if n, err := w.s.SweepBlobs(t.Context(), 3*time.Hour); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want 1", n, err)
	}
	delete(blobs, hash("unused"))
	var hashes []string
	for h := range blobs {
		hashes = append(hashes, h)
	}
	got, err := w.s.Blobs(t.Context(), append(hashes, hash("unused"), "nonsense"))
	if err != nil || len(got) != 4 || string(got[hash("script")]) != "script" {
		t.Errorf("left: %q, %v", got, err)
	}
	if _, found, err := w.s.Blob(t.Context(), hash("unused")); found || err != nil {
		t.Errorf("the unused one: %v, %v", found, err)
	}
}
