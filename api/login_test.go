package api_test

import (
	"context"
	"strings"
	"testing"

	"fairslice/api"
	"fairslice/api/client"
	"fairslice/api/wire"
)

func TestLoginLinks(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{Web: "https://batch.example.org"})
	users, err := client.NewUsers(client.Config{Address: "unix://" + s.socket})
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for range 6 {
		l, err := users.Login(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		code, ok := strings.CutPrefix(l.Url, "https://batch.example.org/login?once=")
		if !ok || len(code) < 26 {
			t.Fatalf("the link is %q", l.Url)
		}
		codes = append(codes, code)
	}
	for _, row := range []struct {
		name, code string
		ok         bool
	}{
		{"the oldest of too many", codes[0], false},
		{"another", codes[1], true},
		{"that one again", codes[1], false},
		{"the newest", codes[5], true},
		{"a guess", "AAAAAAAAAAAAAAAAAAAAAAAAAA", false},
		{"nothing", "", false},
	} {
		uid, err := s.server.Redeem(row.code)
		if e, known := wire.AsError(err); row.ok != (err == nil) || err != nil && (!known || e.Code != api.Denied) {
			t.Errorf("%s: user %d, %v", row.name, uid, err)
		}
		if row.ok {
			if by, err := s.server.Person(uid); err != nil || by.UID != uid || !by.Admin {
				t.Errorf("%s is %+v, %v", row.name, by, err)
			}
		}
	}
}

func TestNoPageNoLinks(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	users, err := client.NewUsers(client.Config{Address: "unix://" + s.socket})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := users.Login(context.Background()); err == nil || !strings.Contains(err.Error(), "no web page") {
		t.Errorf("a link to no page: %v", err)
	}
}
