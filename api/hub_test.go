package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"fairslice/api"
	"fairslice/api/client"
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
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

func running(j *queue.Job, uid int, kind queue.Interactive) {
	j.Owner.UID, j.Spec.Interactive = uid, kind
	j.Elements[0] = queue.Element{State: queue.Run, Attempts: 1, Attempt: &queue.Attempt{Number: 1, Alloc: []nodes.Allocation{{Node: "n1"}}}}
}

func TestPeekReadsThroughTheNode(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	a := newAgent("n1")
	a.pipe = func(o queue.PipeOrder, p queue.Pipe) {
		if o.ID.Job == 2 {
			_ = p.Fail("no such file")
			return
		}
		for i := range 300 { // more than the windows of the way hold
			_ = p.SendData([]byte(strings.Repeat(fmt.Sprint(i%10), 10_000)))
		}
		_ = p.SendErr([]byte("oops"))
	}
	s.node(s.unix(), a)
	u := s.users(s.unix())
	for id := queue.JobID(1); id <= 4; id++ {
		s.engine.change(id, func(j *queue.Job) { running(j, uid(), queue.Batch) })
	}
	s.engine.change(3, func(j *queue.Job) { j.Elements[0].State = queue.Pend })
	s.engine.change(4, func(j *queue.Job) { j.Elements[0].Attempt.Alloc[0].Node = "away" })
	var out, errs int
	err := u.Peek(deadline(t), "1", false, func(p *pb.PeekResponse) error {
		out, errs = out+len(p.Stdout), errs+len(p.Stderr)
		return nil
	})
	if err != nil || out != 3_000_000 || errs != 4 {
		t.Errorf("%d and %d bytes, %v", out, errs, err)
	}
	for id, want := range map[string]string{"2": "Job <2> : no such file", "3": "Job <3> : Not yet started.", "4": "node away is not connected", "9": "Job <9> is not found"} {
		if err := u.Peek(deadline(t), id, false, func(*pb.PeekResponse) error { return nil }); err == nil || err.Error() != want {
			t.Errorf("peek %s: %v", id, err)
		}
	}
}

func TestASessionIsTiedFromItsFirstByteToItsLastState(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	a := newAgent("n1")
	frames := make(chan queue.PipeFrame, 10)
	early := make(chan struct{}, 1)
	early <- struct{}{}
	a.pipe = func(o queue.PipeOrder, p queue.Pipe) {
		select {
		case <-early: // the node does not know the attempt yet
			_ = p.Fail("unknown attempt")
			return
		default:
		}
		_ = p.SendData([]byte("hello "))
		for {
			f, err := p.Recv()
			if err != nil {
				return
			}
			frames <- f
			if f.EOF {
				break
			}
		}
		_ = p.SendData([]byte("bye"))
		s.engine.change(1, func(j *queue.Job) {
			j.Elements[0].State, j.Elements[0].Result = queue.Exit, &queue.Result{Status: 2 << 8}
		})
	}
	s.node(s.unix(), a)
	s.engine.change(1, func(j *queue.Job) {
		j.Owner.UID, j.Spec.Interactive = uid(), queue.Pty
		j.Elements[0].State = queue.Pend
	})
	for name, c := range map[string]client.Config{"socket": s.unix()} {
		session, err := s.users(c).Attach(deadline(t), 1, false, 24, 80)
		if err != nil {
			t.Fatal(name, err)
		}
		m, err := session.Recv()
		if err != nil || m.GetState().GetState() != "PEND" {
			t.Fatalf("first %v, %v", m, err)
		}
		s.engine.change(1, func(j *queue.Job) { running(j, uid(), queue.Pty) })
		text, states := "", []string{}
		for {
			m, err := session.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if st := m.GetState(); st != nil {
				states = append(states, st.State)
			}
			if text += string(m.GetData()); text == "hello " {
				for _, f := range []queue.PipeFrame{{Data: []byte("ls\n")}, {Rows: 50, Cols: 120}, {Signal: "INT"}, {EOF: true}} {
					if err := session.Send(f); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if text != "hello bye" || strings.Join(states, " ") != "RUN EXIT" {
			t.Errorf("%q, %v", text, states)
		}
		for _, want := range []string{"{[108 115 10] false  0 0}", "{[] false  50 120}", "{[] false INT 0 0}", "{[] true  0 0}"} {
			if got := fmt.Sprint(receive(t, frames)); got != want {
				t.Errorf("frame %s, want %s", got, want)
			}
		}
		session.Close()
		session.Close()
	}
}

func TestASessionIsItsOwnersOnly(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	s.engine.change(1, func(j *queue.Job) { running(j, uid()+1, queue.Pty) })
	s.engine.change(2, func(j *queue.Job) { running(j, uid(), queue.Batch) })
	for id, want := range map[queue.JobID]wire.Code{1: wire.Denied, 2: wire.Conflict, 3: wire.NotFound} {
		session, err := s.users(s.unix()).Attach(deadline(t), id, true, 0, 0)
		if err == nil {
			_, err = session.Recv()
			session.Close()
		}
		if code(err) != want {
			t.Errorf("job %d: %v", id, err)
		}
	}
}

func TestANodeSeesThatTheTerminalHasGone(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	a := newAgent("n1")
	ends := make(chan error, 1)
	a.pipe = func(_ queue.PipeOrder, p queue.Pipe) {
		_ = p.SendData([]byte("$ "))
		_, err := p.Recv()
		ends <- err
	}
	s.node(s.unix(), a)
	s.engine.change(1, func(j *queue.Job) { running(j, uid(), queue.Pty) })
	session, err := s.users(s.unix()).Attach(deadline(t), 1, false, 24, 80)
	if err != nil {
		t.Fatal(err)
	}
	for m := (*pb.AttachResponse)(nil); len(m.GetData()) == 0; {
		if m, err = session.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	session.Close()
	if err := receive(t, ends); !errors.Is(err, io.EOF) {
		t.Errorf("the node read %v", err)
	}
}
