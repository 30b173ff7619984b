package api_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"fairslice/api"
	"fairslice/api/client"
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

func code(err error) wire.Code {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestCallsAnswerOverTheSocketAndOverTLS(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	for name, config := range map[string]client.Config{"socket": s.unix(), "TLS": s.tls(api.UserToken, me(t))} {
		t.Run(name, func(t *testing.T) {
			ctx := deadline(t)
			u := s.users(config)
			sub := queue.Submission{Token: "t-" + name, Spec: &queue.Spec{Command: "true", SubCWD: "/"}, Script: bytes.Repeat([]byte("x"), 8<<20), Env: [][]byte{[]byte("A=\xff")}}
			a, err := u.Submit(ctx, sub)
			if err != nil || a.Job == 0 || !a.Default || a.Notes[0] != me(t) {
				t.Fatalf("submit: %+v, %v", a, err)
			}
			if b, err := u.Submit(ctx, sub); err != nil || b.Job != a.Job {
				t.Errorf("the same token gave job %d and %d, %v", a.Job, b.Job, err)
			}
			s.engine.change(a.Job, func(j *queue.Job) {
				if !j.Owner.Admin && os.Geteuid() == 0 {
					t.Error("root is no administrator")
				}
			})
			out, err := u.Control(ctx, queue.Control{Op: queue.OpKill, Select: queue.Selection{IDs: []string{"5"}}})
			if err != nil || len(out) != 1 || s.engine.control.By.User != me(t) {
				t.Errorf("control: %+v, %v", out, err)
			}
			if _, err := u.Admin(ctx, queue.AdminCommand{Op: "reconfig"}); code(err) != wire.Internal || strings.Contains(err.Error(), "secret") {
				t.Errorf("an internal error came out as %v", err)
			}
			if q, err := u.Queues(ctx, &pb.QueuesRequest{Names: []string{"normal", "nope"}}); err != nil || len(q.Queues) != 1 || q.Queues[0].Pend == 0 || q.NotFound[0] != "nope: No such queue" {
				t.Errorf("queues: %v, %v", q, err)
			}
			if h, err := u.Hosts(ctx, "nope"); err != nil || len(h.NotFound) != 1 {
				t.Errorf("hosts: %v, %v", h, err)
			}
			if c, err := u.Cluster(ctx); err != nil || c.Name != "test" {
				t.Errorf("cluster: %v, %v", c, err)
			}
			if w, err := u.Why(ctx, queue.Selection{}); err != nil || w.Jobs[0].Ahead != 3 || w.Jobs[0].Job.Reasons[0].Text != "no GPU" || w.Jobs[0].Job.ExpectedStart == 0 {
				t.Errorf("why: %v, %v", w, err)
			}
			events := 0
			if err := u.History(ctx, queue.Selection{}, func(p *pb.HistoryResponse) error {
				for _, j := range p.Jobs {
					for _, e := range j.Events {
						if ev, err := wire.ToEvent(e); err != nil || ev.Body.(*queue.Switched).Queue != "long" {
							t.Errorf("event %v, %v", ev, err)
						}
						events++
					}
				}
				return nil
			}); err != nil || events != 1 {
				t.Errorf("history: %d events, %v", events, err)
			}
		})
	}
}

func TestListingsComeInPagesAndArraysInOneRow(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	s.engine.change(7, func(j *queue.Job) {
		j.Spec.Array = &queue.Array{Ranges: []queue.Range{{First: 1, Last: 2500, Step: 1}}}
		j.Elements = make([]queue.Element, 2500)
		for i := range j.Elements {
			j.Elements[i] = queue.Element{Index: i + 1, State: queue.Pend}
		}
	})
	u := s.users(s.unix())
	pages, next := 0, int32(1)
	if err := u.Jobs(deadline(t), &pb.JobsRequest{Reasons: true}, func(p *pb.JobsResponse) error {
		pages++
		for _, j := range p.Jobs {
			if j.Index != next || len(j.Reasons) != 1 || j.Priority != 30 {
				t.Fatalf("row %d: %v", next, j)
			}
			next++
		}
		return nil
	}); err != nil || pages != 3 || next != 2501 {
		t.Errorf("%d pages, %d rows, %v", pages, next-1, err)
	}
	var row *pb.Job
	if err := u.Jobs(deadline(t), &pb.JobsRequest{Arrays: true}, func(p *pb.JobsResponse) error { row = p.Jobs[0]; return nil }); err != nil || row.Counts.Pend != 2500 {
		t.Errorf("array row %v, %v", row, err)
	}
	var missing []string
	if err := u.Jobs(deadline(t), &pb.JobsRequest{Select: &pb.Selection{Ids: []string{"99"}}}, func(p *pb.JobsResponse) error { missing = p.NotFound; return nil }); err != nil || len(missing) != 1 {
		t.Errorf("not found: %v, %v", missing, err)
	}
	mine := errors.New("enough")
	if err := u.Jobs(deadline(t), &pb.JobsRequest{}, func(*pb.JobsResponse) error { return mine }); err != mine {
		t.Errorf("the caller's own error became %v", err)
	}
}

func TestWatchTellsChangesUntilTheEnd(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u := s.users(s.unix())
	s.engine.change(1, func(j *queue.Job) { j.Elements[0].State = queue.Pend })
	var states []string
	err := u.Watch(deadline(t), 1, func(w *pb.WatchResponse) error {
		states = append(states, w.Job.State)
		switch w.Job.State {
		case "PEND":
			s.engine.change(1, func(j *queue.Job) { j.Elements[0].State = queue.Run })
		case "RUN":
			s.engine.change(1, func(j *queue.Job) {
				j.Elements[0].State, j.Elements[0].Result = queue.Exit, &queue.Result{Status: 3 << 8, At: time.Unix(9, 0)}
			})
		case "EXIT":
			if w.Failed != 1 || w.Unfinished != 0 || w.Job.ExitCode != 3 {
				t.Errorf("last: %v", w)
			}
		}
		return nil
	})
	if err != nil || strings.Join(states, " ") != "PEND RUN EXIT" {
		t.Errorf("%v, %v", states, err)
	}
	if err := u.Watch(deadline(t), 99, func(*pb.WatchResponse) error { return nil }); code(err) != wire.NotFound || err.Error() != "Job <99> is not found" {
		t.Errorf("got %v", err)
	}
}

func TestOnlyTheRightTokensOpenTheDoor(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{Admins: []string{"boss"}})
	ctx := deadline(t)
	with := func(change func(*client.Config)) client.Config {
		c := s.tls(api.UserToken, "daemon")
		change(&c)
		return c
	}
	expired, err := s.tokens.Create(api.UserToken, "daemon", time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]client.Config{
		"no token":      with(func(c *client.Config) { c.Token = "" }),
		"unknown token": with(func(c *client.Config) { c.Token = "fs_guess" }),
		"expired token": with(func(c *client.Config) { c.Token = expired }),
		"node's token":  s.tls(api.NodeToken, ""),
		"unknown user":  s.tls(api.UserToken, "nobody-here"),
	} {
		if _, err := s.users(c).Cluster(ctx); code(err) != wire.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	u := s.users(s.tls(api.UserToken, "daemon"))
	if _, err := u.Cluster(ctx); err != nil {
		t.Errorf("good token: %v", err)
	}
	if _, err := u.Admin(ctx, queue.AdminCommand{Op: "hclose"}); code(err) != wire.Denied {
		t.Errorf("an ordinary user closed a host: %v", err)
	}
	if n, err := s.tokens.Revoke("daemon"); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	if _, err := u.Cluster(ctx); code(err) != wire.Denied {
		t.Errorf("revoked token: %v", err)
	}
	data, err := os.ReadFile(strings.TrimSuffix(s.socket, "batchd.sock") + "tokens.json")
	if err != nil || bytes.Contains(data, []byte("fs_")) {
		t.Errorf("the token file holds tokens: %v", err)
	}
	root := s.users(s.unix())
	if os.Geteuid() == 0 {
		out, err := root.Admin(ctx, queue.AdminCommand{Op: "token", Names: []string{"daemon", "node:n1"}})
		if err != nil || len(out) != 2 || !strings.HasPrefix(out[0].Text, "fs_") {
			t.Fatalf("token: %v, %v", out, err)
		}
		if _, err := s.users(client.Config{Address: "https://" + s.tcp, CAFile: s.ca, Token: out[0].Text, Tries: 1}).Cluster(ctx); err != nil {
			t.Errorf("a token that the administrator made: %v", err)
		}
	}
}

func TestAWrongAuthorityIsExplained(t *testing.T) {
	a, b := newSite(t, api.HubConfig{}, api.Config{}), newSite(t, api.HubConfig{}, api.Config{})
	c := a.tls(api.UserToken, "daemon")
	c.CAFile = b.ca
	if _, err := a.users(c).Cluster(deadline(t)); code(err) != wire.Denied || !strings.Contains(err.Error(), "copy ca.crt") {
		t.Errorf("got %v", err)
	}
	c.CAFile = ""
	if _, err := a.users(c).Cluster(deadline(t)); code(err) != wire.Denied || !strings.Contains(err.Error(), "FAIRSLICE_CA") {
		t.Errorf("got %v", err)
	}
	c = a.tls(api.UserToken, "daemon")
	c.Address = strings.Replace(c.Address, "127.0.0.1", "localhost", 1)
	if _, err := a.users(c).Cluster(deadline(t)); code(err) != wire.Denied || !strings.Contains(err.Error(), "other names") {
		t.Errorf("got %v", err)
	}
}
