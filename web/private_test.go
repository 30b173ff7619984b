package web_test

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
)

// admin is a browser in which an administrator is logged in.
func (s *site) admin() *browser {
	s.t.Helper()
	b := s.browser()
	_, code := s.link()
	if status, body, _ := b.login("once", code); status != http.StatusSeeOther {
		s.t.Fatalf("log in as an administrator: %d %s", status, body)
	}
	return b
}

// digest is that of the file which an image of these tests would have.
func digest(name string) images.Digest {
	sum := sha256.Sum256([]byte(name))
	return images.DigestOf(sum[:])
}

// add puts an image into the catalogue.
func (s *site) add(name string, seen images.Visibility, apps string) {
	s.t.Helper()
	ref, err := images.ParseRef(name)
	if err != nil {
		s.t.Fatal(err)
	}
	i := images.Image{Ref: ref, Digest: digest(name), Size: 1 << 20, Visibility: seen, Labels: map[string]string{"fairslice.apps": apps}}
	if _, err := s.engine.PutImage(context.Background(), queue.Identity{User: ref.Owner, Admin: true}, i, false); err != nil {
		s.t.Fatal(err)
	}
}

// run has a job run on a node that is there for it, and returns its owner.
func (s *site) run(job queue.JobID) queue.Identity {
	s.t.Helper()
	ctx := context.Background()
	node := nodes.Node{ID: "n1", Slots: 8, Memory: 8 << 30, GPUs: []nodes.GPU{{UUID: "A", Memory: 8 << 30, Capacity: 200, Mode: nodes.ModeShim}}}
	if err := s.engine.NodeJoined(ctx, queue.Hello{Node: node}); err != nil {
		s.t.Fatal(err)
	}
	id := queue.ElementID{Job: job}
	changed, cancel := s.engine.Subscribe(job)
	defer cancel()
	for sent := false; ; {
		var owner queue.Identity
		var e queue.Element
		s.engine.View(func(v queue.View) {
			if j, el := v.Book().Find(id); el != nil {
				owner, e = j.Owner, *el
			}
		})
		switch {
		case e.State == queue.Run && !e.Attempt.Began.IsZero():
			return owner
		case e.State == queue.Run && !sent:
			sent = true
			if err := s.engine.NodeReport(ctx, "n1", queue.Report{ID: id, Attempt: e.Attempt.Number, At: s.clock(), Kind: queue.ReportBegan}); err != nil {
				s.t.Fatal(err)
			}
			continue
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			s.t.Fatalf("job %d does not run: %+v", job, e)
		}
	}
}

// A private image is for others as one that does not exist, on every page and for every request.
func TestOthersPrivateImages(t *testing.T) {
	s := newSite(t)
	s.add(alice+"/envy:1", images.Private, "hush:http:8091")
	s.add("open:1", images.Public, "lab:http:8092")
	a, other := s.as(alice), s.as(bob)
	for _, name := range []string{"envy:1", alice + "/envy:1"} {
		if status, body := a.launch(url.Values{"name": {"own"}, "image": {name}, "apps": {"hush"}, "token": {"0123456789abcdef" + name}}); status != http.StatusSeeOther {
			t.Fatalf("one's own image: %d %s", status, body)
		}
	}
	s.run(1)
	shown := func(b *browser, path string) string {
		t.Helper()
		_, body := b.get(path)
		return body
	}
	for _, path := range []string{"/launch", "/", "/jobs/1"} {
		if !strings.Contains(shown(a, path), "envy:1") {
			t.Errorf("%s does not show one's own image, so that it proves nothing of others'", path)
		}
	}
	if !strings.Contains(shown(a, "/launch"), `value="hush"`) {
		t.Error("the dialog does not offer the app of one's own image")
	}
	for _, path := range []string{"/", "/launch", "/all", "/nodes", "/commits", "/jobs/1", "/jobs/2", "/jobs/1/terminal", "/launch?image=envy:1", "/jobs/1?image=envy:1"} {
		body := shown(other, path)
		for _, word := range []string{"envy", "hush", string(digest(alice + "/envy:1"))} {
			if strings.Contains(body, word) {
				t.Errorf("%s shows %q to another user: %s", path, word, body)
			}
		}
	}

	// What the dialog does not offer can be sent all the same.
	csrf := other.csrf("/launch")
	forge := func(image, app, command string) (int, string) {
		status, body, _ := other.send("POST", "/launch", url.Values{"csrf": {csrf}, "token": {"0123456789abcdef"}, "count": {"1"}, "cores": {"1"}, "image": {image}, "apps": {app}, "command": {command}})
		return status, body
	}
	for _, name := range []string{"envy:1", alice + "/envy:1", alice + "/envy", "envy", bob + "/envy:1"} {
		for _, app := range []string{"", "hush"} {
			for _, command := range []string{"", "true"} {
				none := strings.ReplaceAll(name, "envy", "none")
				status, body := forge(name, app, command)
				noStatus, noBody := forge(none, app, command)
				if status != http.StatusUnprocessableEntity || noStatus != status || strings.ReplaceAll(body, "envy", "none") != noBody || !strings.Contains(body, name+": No such image") && !strings.Contains(body, name+":latest: No such image") {
					t.Errorf("image %s, app %q, command %q: %d %s\nand of an image that is not there: %d %s", name, app, command, status, body, noStatus, noBody)
				}
			}
		}
	}
	for _, name := range []string{"1", string(digest(alice + "/envy:1")), alice + "/envy@" + string(digest(alice+"/envy:1"))} { // no names at all
		if status, body := forge(name, "", ""); status != http.StatusUnprocessableEntity || strings.Contains(strings.ReplaceAll(body, name, ""), "envy") {
			t.Errorf("image %s: %d %s", name, status, body)
		}
	}
	if status, body := forge("open:1", "hush", ""); status != http.StatusUnprocessableEntity || !strings.Contains(body, "hush: the image has no such app; there are: lab, ttyd<") {
		t.Errorf("an app of another user's image: %d %s", status, body)
	}
	s.engine.View(func(v queue.View) {
		for _, j := range v.Book().Jobs {
			if j.Owner.User != alice {
				t.Errorf("%s runs job %d in image %q", j.Owner.User, j.ID, j.Spec.Image)
			}
		}
	})
	if status, body := forge("open:1", "lab", ""); status != http.StatusSeeOther {
		t.Errorf("a public image: %d %s", status, body)
	}
}

// Requests for images are the administrators' to see and to decide on the page; of another user's nobody else learns.
func TestCommitRequests(t *testing.T) {
	s := newSite(t)
	s.add("open:1", images.Public, "")
	a, other, admin := s.as(alice), s.as(bob), s.admin()
	if status, body := a.launch(url.Values{"name": {"x"}}); status != http.StatusSeeOther { // to know who alice is
		t.Fatalf("%d %s", status, body)
	}
	ctx := context.Background()
	owner := s.run(1)
	ask := func(name string) images.CommitID {
		t.Helper()
		job, err := s.engine.Submit(ctx, queue.Submission{Spec: &queue.Spec{Command: "sh", Image: "open:1", Writable: true}, Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		s.run(job.Job)
		c, err := s.engine.RequestCommit(ctx, owner, queue.ElementID{Job: job.Job}, images.Ref{Name: name, Tag: "1"}, "with a <b>secret</b>", false)
		if err != nil {
			t.Fatal(err)
		}
		return c.ID
	}
	state := func(id images.CommitID) (out images.Commit) {
		s.engine.View(func(v queue.View) { out = *v.Book().Images.Commit(id) })
		return out
	}
	if ask("kept") != 1 || ask("thrown") != 2 {
		t.Fatal("the requests have other numbers than are asked for below")
	}
	for _, path := range []string{"/", "/launch", "/commits", "/jobs/2", "/jobs/3"} {
		if _, body := other.get(path); strings.Contains(body, "kept") || strings.Contains(body, "secret") {
			t.Errorf("%s shows a request to another user: %s", path, body)
		}
	}
	for name, b := range map[string]*browser{"another user": other, "its owner, who decides as little": a} {
		csrf := b.csrf("/launch")
		for _, decision := range []string{"approve", "refuse", "else"} {
			decide := func(path string) (int, string) {
				status, body, _ := b.send("POST", path, url.Values{"csrf": {csrf}, "decision": {decision}, "reason": {"because"}})
				return status, body
			}
			status, body := decide("/commits/1")
			noStatus, noBody := decide("/commits/999")
			if status != http.StatusNotFound || noStatus != status || body != noBody {
				t.Errorf("%s: %s: %d %s\nand of a request that is not there: %d %s", name, decision, status, body, noStatus, noBody)
			}
		}
	}
	if c := state(1); c.State != images.CommitAsked {
		t.Fatalf("request 1 is %+v", c)
	}

	status, body := admin.get("/commits")
	for _, want := range []string{`id="commit-1"`, alice + "/kept:1", "with a &lt;b&gt;secret&lt;/b&gt;", `action="/commits/2"`, `value="approve"`, `href="/jobs/2"`} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("an administrator's page has no %s: %d %s", want, status, body)
		}
	}
	csrf := admin.csrf("/commits")
	decide := func(path, decision string) (int, string) {
		status, body, h := admin.send("POST", path, url.Values{"csrf": {csrf}, "decision": {decision}, "reason": {"too large"}})
		if to := h.Get("Location"); status == http.StatusSeeOther && to != "/commits" {
			t.Errorf("from %s the browser is led to %s", path, to)
		}
		return status, body
	}
	for _, row := range []struct {
		path, decision string
		want           int
	}{
		{"/commits/1", "", 422}, {"/commits/999", "approve", 422}, {"/commits/x", "approve", 404}, {"/commits/1", "approve", 303}, {"/commits/2", "refuse", 303}, {"/commits/1", "refuse", 422},
	} {
		if status, body := decide(row.path, row.decision); status != row.want {
			t.Errorf("%s %s: %d, want %d: %s", row.decision, row.path, status, row.want, body)
		}
	}
	if c := state(1); c.State != images.CommitApproved || c.DecidedBy == "" {
		t.Errorf("request 1 is %+v", c)
	}
	if c := state(2); c.State != images.CommitRefused || c.Reason != "too large" {
		t.Errorf("request 2 is %+v", c)
	}
	_, body = admin.get("/commits")
	for _, want := range []string{"image " + alice + "/kept:1 is being made", "was refused by ", "too large", "approved", "refused"} {
		if !strings.Contains(body, want) {
			t.Errorf("after the decisions the page has no %q: %s", want, body)
		}
	}
	if strings.Contains(body, "<form method=\"post\" action=\"/commits/") {
		t.Errorf("what is decided can be decided again: %s", body)
	}
}
