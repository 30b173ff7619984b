package images

import (
	"strings"
	"testing"
	"time"
)

var (
	ada = Viewer{User: "ada", GIDs: []int{100, 2000}}
	ben = Viewer{User: "ben", GIDs: []int{100}}
)

func image(id ID, name string, v Visibility, groups ...int) *Image {
	ref, err := ParseRef(name)
	if err != nil {
		panic(err)
	}
	i := &Image{ID: id, Ref: ref, Size: 1000, Visibility: v, Digest: DigestOf([]byte(strings.Repeat(string(rune('a'+id)), 32)))}
	for _, g := range groups {
		i.Groups = append(i.Groups, Group{Name: "g", GID: g})
	}
	return i
}

func filled(t *testing.T, list ...*Image) *Catalogue {
	c := NewCatalogue()
	for _, i := range list {
		if err := c.Put(i); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func find(t *testing.T, c *Catalogue, name string, v Viewer) ID {
	r, err := ParseRef(name)
	if err != nil {
		t.Fatal(err)
	}
	if i := c.Find(r, v); i != nil {
		return i.ID
	}
	return 0
}

func TestNamesStandForOnesOwnImagesFirst(t *testing.T) {
	c := filled(t, image(1, "python:3.11", Public), image(2, "ada/python:3.11", Private), image(3, "ben/tool:1", ToGroups, 2000), image(4, "ben/mine:1", Private))
	for _, x := range []struct {
		name string
		who  Viewer
		want ID
	}{
		{"python:3.11", ada, 2}, {"python:3.11", ben, 1}, {"ada/python:3.11", ada, 2}, {"ada/python:3.11", ben, 0},
		{"ben/tool:1", ada, 3}, {"tool:1", ada, 0}, {"tool:1", ben, 3}, {"ben/mine:1", ada, 0}, {"mine:1", ben, 4}, {"python:3.11", Viewer{}, 1},
	} {
		if got := find(t, c, x.name, x.who); got != x.want {
			t.Errorf("%s is image %d to %s, want %d", x.name, got, x.who.User, x.want)
		}
	}
	if got := len(c.List(ada)); got != 3 {
		t.Errorf("ada sees %d images, want 3", got)
	}
}

func TestARemovedImageStaysUnlisted(t *testing.T) {
	c := filled(t, image(1, "ada/x:1", Private))
	gone := *c.Get(1)
	gone.Removed = time.Unix(1, 0)
	again := image(2, "ada/x:1", Private)
	if err := c.Put(again); err == nil {
		t.Fatal("two images have one name")
	}
	if err := c.Put(&gone); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(again); err != nil {
		t.Fatal(err)
	}
	if find(t, c, "x:1", ada) != 2 || c.Get(1) == nil || len(c.List(ada)) != 1 || !c.Removed() {
		t.Error("the name stands for the old image, or the old one is gone")
	}
	if n, bytes := c.Held("ada"); n != 1 || bytes != 1000 {
		t.Errorf("ada holds %d images of %d bytes", n, bytes)
	}
	back := *c.Get(1)
	back.Removed = time.Time{}
	if err := c.Put(&back); err == nil {
		t.Error("a removed image came back")
	}
	if err := c.Forget(2); err == nil {
		t.Error("a listed image was forgotten")
	}
	if err := c.Forget(1); err != nil || c.Get(1) != nil || c.Removed() || c.NextID() != 3 {
		t.Errorf("forget: %v, next %d", err, c.NextID())
	}
}

func TestWhatIsNoImageIsNotAdded(t *testing.T) {
	for name, spoil := range map[string]func(*Image){
		"number":      func(i *Image) { i.ID = 7 },
		"digest":      func(i *Image) { i.Digest = "sha256:../../etc" },
		"size":        func(i *Image) { i.Size = 0 },
		"description": func(i *Image) { i.Description = "a\nb" },
		"visibility":  func(i *Image) { i.Visibility = "all" },
		"no groups":   func(i *Image) { i.Visibility = ToGroups },
		"groups":      func(i *Image) { i.Groups = []Group{{Name: "g"}} },
		"nobody's":    func(i *Image) { i.Ref.Owner = "" },
		"name":        func(i *Image) { i.Ref.Name = "../x" },
	} {
		i := image(1, "ada/x:1", Private)
		spoil(i)
		if NewCatalogue().Put(i) == nil {
			t.Errorf("%s: added", name)
		}
	}
}

func TestACommitRequestEndsOnce(t *testing.T) {
	c := NewCatalogue()
	r := Commit{ID: 1, Ref: Ref{"ada", "x", "1"}, Job: 3, Attempt: 1, State: CommitAsked}
	put := func(state CommitState) error {
		next := r
		next.State = state
		return c.PutCommit(&next)
	}
	if err := put(CommitApproved); err == nil {
		t.Error("a request began as approved")
	}
	for _, s := range []CommitState{CommitAsked, CommitApproved, CommitDone} {
		if err := put(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(CommitFailed); err == nil || c.Requested() {
		t.Errorf("a request ended twice: %v", err)
	}
	if c.NextCommit() != 2 || len(c.Commits("ada")) != 1 || len(c.Commits("ben")) != 0 {
		t.Error("requests are listed wrong")
	}
}

// Of what is over the latest requests of each owner are known, whether they were put or restored; what is open is never forgotten.
func TestOnlyTheLatestRequestsAreKept(t *testing.T) {
	c := NewCatalogue()
	var all []*Commit
	put := func(owner string, last CommitState) {
		t.Helper()
		r := &Commit{ID: c.NextCommit(), Ref: Ref{owner, "x", "1"}, Job: int64(c.NextCommit()), Attempt: 1, State: CommitAsked}
		for _, state := range []CommitState{CommitAsked, last} {
			next := *r
			next.State = state
			r = &next
			if err := c.PutCommit(r); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, r)
	}
	put("ada", CommitApproved)
	put("ben", CommitRefused)
	for range KeptCommits + 10 {
		put("ada", CommitRefused)
	}
	check := func(c *Catalogue) {
		t.Helper()
		list := c.Commits("ada")
		if len(list) != KeptCommits+1 || list[0].ID != KeptCommits+12 || list[KeptCommits-1].ID != 13 || list[KeptCommits].ID != 1 {
			t.Errorf("%d of ada, from %d to %d", len(list), list[0].ID, list[len(list)-1].ID)
		}
		if c.Commit(12) != nil || c.Commit(2) == nil || len(c.Commits("ben")) != 1 || c.NextCommit() != KeptCommits+13 {
			t.Errorf("another owner, or what was dropped: %v, %v, next %d", c.Commit(12), c.Commits("ben"), c.NextCommit())
		}
	}
	check(c)
	again := NewCatalogue()
	if err := again.Restore(nil, all, 0, 0); err != nil {
		t.Fatal(err)
	}
	check(again)
}
