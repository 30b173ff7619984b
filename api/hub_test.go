package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fairslice/api"
	"fairslice/api/client"
	"fairslice/api/wire"
	"fairslice/queue"
)

func TestANodeGetsOrdersAndItsReportsAreAcknowledgedInOrder(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	for name, config := range map[string]client.Config{"socket": s.unix(), "TLS": s.tls(api.NodeToken, "n1")} {
		t.Run(name, func(t *testing.T) {
			a := newAgent("n1")
			up, stop := s.node(config, a)
			s.called("joined n1")
			if err := up.Heartbeat(queue.Heartbeat{Load1: 1.5}); err != nil {
				t.Fatal(err)
			}
			s.called("heartbeat n1")
			if got := s.hub.Signs()["n1"]; got.Heartbeat.Load1 != 1.5 || got.Version != "1" {
				t.Errorf("sign %+v", got)
			}
			const attempts = 2000
			began := time.Now()
			for i := range attempts {
				if err := s.hub.Assign("n1", queue.Assignment{ID: queue.ElementID{Job: queue.JobID(i + 1)}, Attempt: 1, Spec: &queue.Spec{}, Script: make([]byte, 2048)}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range attempts {
				x := receive(t, a.assigns)
				if x.ID.Job != queue.JobID(i+1) {
					t.Fatalf("assignment %d came as number %d", x.ID.Job, i+1)
				}
			}
			t.Logf("%d assignments in %s", attempts, time.Since(began))
			if err := s.hub.Order("n1", queue.Order{ID: queue.ElementID{Job: 9}, Op: queue.OrderKill}); err != nil || receive(t, a.orders).ID.Job != 9 {
				t.Errorf("order: %v", err)
			}
			// Reports of one attempt stay in order even though the engine is slow with the first.
			hold := make(chan struct{})
			s.engine.durable = func(r queue.Report) error {
				if r.Kind == queue.ReportBegan {
					<-hold
				}
				return nil
			}
			s.engine.reports = nil
			const jobs = 50
			for i := 1; i <= jobs; i++ {
				id := queue.ElementID{Job: queue.JobID(i)}
				for _, r := range []queue.Report{{ID: id, Attempt: 1, Kind: queue.ReportBegan}, {ID: id, Attempt: 1, Kind: queue.ReportEnded}} {
					if err := up.Report(r); err != nil {
						t.Fatal(err)
					}
				}
			}
			close(hold) // had they been serialised, the first would have held up all
			for range 2 * jobs {
				receive(t, a.acks)
			}
			last := map[queue.JobID]queue.ReportKind{}
			for _, r := range s.engine.reports {
				if r.Kind == queue.ReportEnded && last[r.ID.Job] != queue.ReportBegan {
					t.Errorf("job %d ended before it began", r.ID.Job)
				}
				last[r.ID.Job] = r.Kind
			}
			stop()
			receive(t, a.lost)
			s.called("gone n1")
			if err := s.hub.Assign("n1", queue.Assignment{}); code(err) != wire.Unavailable {
				t.Errorf("assign to a node that has gone: %v", err)
			}
			if up.Report(queue.Report{Kind: queue.ReportBegan}) == nil {
				t.Error("a report on a dead connection was taken")
			}
		})
	}
}

func TestManyReportsWaitForTheEngineAtTheSameTime(t *testing.T) {
	s := newSite(t, api.HubConfig{ReportsPerNode: 8}, api.Config{})
	arrived, hold := make(chan struct{}, 100), make(chan struct{})
	s.engine.durable = func(queue.Report) error { arrived <- struct{}{}; <-hold; return nil }
	a := newAgent("n1")
	up, _ := s.node(s.unix(), a)
	for i := range 20 {
		if err := up.Report(queue.Report{ID: queue.ElementID{Job: queue.JobID(i + 1)}, Attempt: 1, Kind: queue.ReportBegan}); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		receive(t, arrived)
	}
	select {
	case <-arrived:
		t.Error("more reports are under way than allowed")
	default:
	}
	close(hold)
	for range 20 {
		receive(t, a.acks)
	}
}

func TestAReportThatIsNotDurableIsNotAcknowledged(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	fail := make(chan error, 1)
	fail <- errors.New("disk full")
	s.engine.durable = func(queue.Report) error {
		select {
		case err := <-fail:
			return err
		default:
			return nil
		}
	}
	a := newAgent("n1")
	up, _ := s.node(s.unix(), a)
	r := queue.Report{ID: queue.ElementID{Job: 1}, Attempt: 1, Kind: queue.ReportEnded}
	if err := up.Report(r); err != nil {
		t.Fatal(err)
	}
	receive(t, a.lost)    // cut off, so that it repeats
	up = receive(t, a.up) // by itself
	s.called("gone n1")   // in this order
	s.called("joined n1")
	if len(a.acks) != 0 {
		t.Error("acknowledged")
	}
	if err := up.Report(r); err != nil {
		t.Fatal(err)
	}
	receive(t, a.acks)
}

func TestASecondConnectionReplacesTheFirst(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	first, second := newAgent("n1"), newAgent("n1")
	_, stop := s.node(s.unix(), first)
	s.called("joined n1")
	s.node(s.unix(), second)
	if err := receive(t, first.lost); !strings.Contains(err.Error(), "connected again") {
		t.Errorf("the first was told: %v", err)
	}
	stop() // or it would come back
	s.called("joined n1")
	select {
	case got := <-s.engine.calls:
		if strings.HasPrefix(got, "gone") {
			t.Errorf("told %q though the node is here", got)
		}
	default:
	}
}

func TestASilentNodeIsGone(t *testing.T) {
	s := newSite(t, api.HubConfig{HeartbeatEvery: 10 * time.Millisecond, HeartbeatTimeout: 50 * time.Millisecond}, api.Config{})
	a := newAgent("n1")
	s.node(s.unix(), a)
	if got := s.called("gone n1"); !strings.Contains(got, "no heartbeat") {
		t.Error(got)
	}
	if err := receive(t, a.lost); !strings.Contains(err.Error(), "no heartbeat") {
		t.Errorf("the node was told %v", err)
	}
}

// deaf is a node that stops reading.
type deaf struct {
	*agent
	hold chan struct{}
}

func (d deaf) Assign(queue.Assignment) { <-d.hold }

func TestANodeThatDoesNotReadIsCutOffAndDelaysNobody(t *testing.T) {
	s := newSite(t, api.HubConfig{QueuePerNode: 16}, api.Config{})
	a := newAgent("deaf")
	hold := make(chan struct{})
	n, err := client.NewNode(s.unix(), quiet())
	if err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	done := make(chan error, 1)
	stopped, stop := context.WithCancel(ctx)
	go func() { done <- n.Run(stopped, deaf{a, hold}) }()
	receive(t, a.up)
	s.called("joined deaf")
	for i := 0; ; i++ {
		if i > 10000 {
			t.Fatal("never cut off")
		}
		if err := s.hub.Assign("deaf", queue.Assignment{Spec: &queue.Spec{}, Script: make([]byte, 1<<20)}); err != nil {
			if code(err) != wire.Unavailable {
				t.Errorf("got %v", err)
			}
			break
		}
	}
	if got := s.called("gone deaf"); !strings.Contains(got, "does not read") {
		t.Error(got)
	}
	stop()
	close(hold)
	<-done
}

func TestANodesTokenHoldsForItsOwnNameOnly(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	for name, c := range map[string]client.Config{"another's": s.tls(api.NodeToken, "n2"), "a user's": s.tls(api.UserToken, "daemon")} {
		n, err := client.NewNode(c, quiet())
		if err != nil {
			t.Fatal(err)
		}
		a := newAgent("n1")
		ctx, stop := context.WithCancel(deadline(t))
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx, a) }()
		select {
		case <-a.up:
			t.Errorf("%s token was accepted", name)
		case <-time.After(300 * time.Millisecond): // absence can only be waited for
		}
		stop()
		<-done
	}
	s.node(s.tls(api.NodeToken, ""), newAgent("any"))
	s.called("joined any")
}
