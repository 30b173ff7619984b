package api_test

import (
	"strings"
	"testing"
	"time"

	"fairslice/api"
	"fairslice/api/wire"
	"fairslice/queue"
)

func TestExtend(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u := s.users(s.unix())
	x, err := u.Extend(deadline(t), "7", time.Hour, 0)
	if err != nil || !x.Granted || x.Id != "7" || x.RunLimit != int64(time.Hour) || x.Ends != 7200e9 || x.Longest != int64(2*time.Hour) || x.Why != "why" {
		t.Errorf("%+v %v", x, err)
	}
	if got, want := <-s.engine.calls, "extend 7 1h0m0s 0s by "; got[:len(want)] != want || len(got) == len(want) {
		t.Errorf("the engine was asked to %s", got)
	}
	for _, row := range []struct {
		id         string
		add, limit time.Duration
	}{
		{"", time.Hour, 0}, {"0", time.Hour, 0}, {"7", 0, 0}, {"7", time.Hour, time.Hour}, {"7", -time.Hour, 0}, {"7", -1, 1},
		{"7", queue.MaxRunLimit + 1, 0}, {"7", 0, queue.MaxRunLimit + 1},
	} {
		if _, err := u.Extend(deadline(t), row.id, row.add, row.limit); code(err) != wire.Invalid {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// The engine hears who is connected to a session, until they have left, however that comes.
func TestAttended(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	a := newAgent("n1")
	a.pipe = echo
	s.node(s.unix(), a)
	s.engine.change(1, func(j *queue.Job) { running(j, 7, queue.Pty) })
	key := queue.ElementID{Job: 1}.String() + "#1"
	attended := func(want int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			s.engine.mu.RLock()
			n := s.engine.attended[key]
			s.engine.mu.RUnlock()
			if n == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d are connected, want %d", n, want)
			}
		}
	}
	by := queue.Identity{User: "seven", UID: 7}
	one, err := s.server.Dial(deadline(t), by, "1", queue.DialOrder{Port: 8888})
	if err != nil {
		t.Fatal(err)
	}
	attended(1)
	two, err := s.server.Dial(deadline(t), by, "1", queue.DialOrder{Port: 8888})
	if err != nil {
		t.Fatal(err)
	}
	attended(2)
	if _, err := s.server.Dial(deadline(t), by, "1", queue.DialOrder{Port: 1}); err == nil {
		t.Error("connected to nobody")
	}
	attended(2)
	_ = one.Close()
	attended(1)
	if _, err := two.Write([]byte("end")); err != nil { // the node closes it
		t.Fatal(err)
	}
	attended(0)
	_ = two.Close()
	attended(0)
	shell, err := s.server.Takeover(deadline(t), by, "1", 24, 80)
	if err != nil {
		t.Fatal(err)
	}
	key += " terminal"
	attended(1)
	if err := shell.Send(queue.PipeFrame{Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	key += " used"
	attended(1)
	key = strings.TrimSuffix(key, " used")
	shell.Close()
	attended(0)
}
