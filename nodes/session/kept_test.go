package session

import (
	"net"
	"os"
	"slices"
	"testing"

	"fairslice/images"
)

// An app takes the ports that the node keeps for it, one after the other where somebody was faster, and any when there are no more.
func TestAppTakesTheKeptPorts(t *testing.T) {
	kept, err := freePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	j := newJob(t)
	start := func(name string, kept []int) int {
		t.Helper()
		order := images.AppOrder{Start: name, Apps: []images.Program{appOf(t, name, "{port}", name)}}
		states, err := j.appsAt(Request{App: &order, Ports: kept})
		if err != nil || len(states) != 1 || !states[0].Running {
			t.Fatalf("%s: %+v, %v", name, states, err)
		}
		return states[0].Port
	}
	if got := start("first", kept); got != kept[0] {
		t.Errorf("started at %d, not at %d", got, kept[0])
	}
	if got := start("first", kept[1:]); got != kept[0] {
		t.Errorf("it runs at %d, and not at %d any more", got, kept[0])
	}
	said(t, kept[0], true)
	if os.Geteuid() != 0 {
		t.Skip("to take a port as another user needs root")
	}
	var foreign net.Listener
	if foreign, err = listenAs(4242); err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	taken := foreign.Addr().(*net.TCPAddr).Port
	if got := start("second", []int{taken, kept[1]}); got != kept[1] {
		t.Errorf("beside a port that another has it started at %d, not at %d", got, kept[1])
	}
	said(t, kept[1], true)
	got := start("third", []int{taken})
	if got == taken {
		t.Errorf("started at %d, which another has", got)
	}
	said(t, got, true)
}

func TestPortsOfARequest(t *testing.T) {
	if q, err := parseRequest([]byte(`{"app":{"apps":[]},"ports":[1,65535]}`)); err != nil || !slices.Equal(q.Ports, []int{1, 65535}) {
		t.Errorf("%+v, %v", q, err)
	}
	for _, bad := range []string{`{"ports":[1]}`, `{"dial":{"port":1},"ports":[1]}`, `{"app":{"apps":[]},"ports":[0]}`, `{"app":{"apps":[]},"ports":[65536]}`} {
		if _, err := parseRequest([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
