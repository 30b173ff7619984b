package api_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"fairslice/api"
	"fairslice/api/client"
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

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
			_ = p.Send(queue.PipeOutput{Data: []byte(strings.Repeat(fmt.Sprint(i%10), 10_000))})
		}
		_ = p.Send(queue.PipeOutput{Err: []byte("oops")})
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
		_ = p.Send(queue.PipeOutput{Data: []byte("hello ")})
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
		_ = p.Send(queue.PipeOutput{Data: []byte("bye")})
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
		_ = p.Send(queue.PipeOutput{Data: []byte("$ ")})
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
