package api_test

import (
	"reflect"
	"testing"
	"time"

	"fairslice/api"
	"fairslice/api/wire"
	"fairslice/queue"
)

// The tests' user is the daemon's, and so an administrator.
func TestAnAdministratorSeesAndSetsThePolicy(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u := s.users(s.unix())
	state := queue.PolicyState{Version: 3, Text: "account lab\n", By: "root", At: time.Unix(7, 5).UTC()}
	s.engine.mu.Lock()
	s.engine.book.Policy = state
	s.engine.mu.Unlock()
	if got, err := u.Policy(deadline(t)); err != nil || got != state {
		t.Errorf("%+v, %v", got, err)
	}
	out, err := u.SetPolicy(deadline(t), queue.PolicyChange{Base: 3, Text: "account chem\n", DryRun: true, By: queue.Identity{User: "somebody"}})
	if want := (queue.PolicyOutcome{Version: 4, Diff: []string{"account lab: added"}}); err != nil || !reflect.DeepEqual(out, want) {
		t.Errorf("%+v, %v", out, err)
	}
	if c := s.engine.policy; c.Base != 3 || c.Text != "account chem\n" || !c.DryRun || c.By.User != me(t) || !c.By.Admin {
		t.Errorf("asked %+v", c)
	}
	list, err := u.PolicyLog(deadline(t), 9)
	if err != nil || len(list) != 1 || list[0].Version != 9 || list[0].By != "root" || !list[0].At.Equal(time.Unix(5, 0)) || !reflect.DeepEqual(list[0].Diff, []string{"x", "y"}) {
		t.Errorf("%+v, %v", list, err)
	}
	for _, limit := range []int{0, -1, 1 << 30} { // as many as one answer holds
		if list, err := u.PolicyLog(deadline(t), limit); err != nil || list[0].Version != 100 {
			t.Errorf("%d: %+v, %v", limit, list, err)
		}
	}
}

func TestAnOrdinaryUserHasNoSayInThePolicy(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u := s.users(s.tls(api.UserToken, "daemon"))
	if _, err := u.Policy(deadline(t)); err != nil {
		t.Errorf("who belongs where is no secret: %v", err)
	}
	_, err2 := u.SetPolicy(deadline(t), queue.PolicyChange{Text: "account lab\n"})
	_, err3 := u.PolicyLog(deadline(t), 1)
	for _, err := range []error{err2, err3} {
		if code(err) != wire.Denied {
			t.Errorf("got %v", err)
		}
	}
	if s.engine.policy.Text != "" {
		t.Errorf("asked %+v", s.engine.policy)
	}
}
