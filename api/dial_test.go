package api_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"fairslice/api"
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

// echo is a node with a program beside the job that says back what it hears.
func echo(o queue.PipeOrder, p queue.Pipe) {
	if o.Kind != "dial" || o.Dial == nil || o.Dial.Port != 8888 {
		_ = p.Fail("connection refused")
		return
	}
	_ = p.Send(queue.PipeOutput{})
	for {
		f, err := p.Recv()
		if err != nil {
			return
		}
		if string(f.Data) == "bye" {
			_ = p.Send(queue.PipeOutput{EOF: true})
			continue
		}
		if string(f.Data) == "end" {
			_ = p.Close()
			return
		}
		_ = p.Send(queue.PipeOutput{Data: append([]byte("echo "), f.Data...)})
	}
}

func TestDial(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	a := newAgent("n1")
	a.pipe = echo
	s.node(s.unix(), a)
	s.engine.change(1, func(j *queue.Job) { running(j, 7, queue.Batch) })
	s.engine.change(2, func(j *queue.Job) { running(j, 7, queue.Batch); j.Elements[0].State = queue.Pend })
	s.engine.change(3, func(j *queue.Job) { running(j, 7, queue.Batch); j.Elements[0].State = queue.USusp })
	owner := queue.Identity{User: "seven", UID: 7}
	app := queue.DialOrder{Port: 8888}
	for _, row := range []struct {
		what, job string
		by        queue.Identity
		to        queue.DialOrder
		want      wire.Code
	}{
		{"another user", "1", queue.Identity{User: "eight", UID: 8}, app, wire.Denied},
		{"an administrator", "1", queue.Identity{User: "root", Admin: true}, app, wire.Denied},
		{"another user, of a job that waits", "2", queue.Identity{UID: 8}, app, wire.Denied},
		{"no such job", "9", owner, app, wire.NotFound},
		{"all jobs", "0", owner, app, wire.Invalid},
		{"no job", "", owner, app, wire.Invalid},
		{"not yet", "2", owner, app, wire.Conflict},
		{"suspended", "3", owner, app, wire.Conflict},
		{"nobody listens", "1", owner, queue.DialOrder{Port: 1}, wire.Conflict},
	} {
		if c, err := s.server.Dial(deadline(t), row.by, row.job, row.to); code(err) != row.want {
			t.Errorf("%s: %v %v", row.what, c, err)
		}
	}
	var all sync.WaitGroup
	for i := range 200 { // at once
		all.Go(func() {
			c, err := s.server.Dial(deadline(t), owner, "1", app)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			late := time.AfterFunc(20*time.Second, func() { _ = c.Close() })
			defer late.Stop()
			for k := range 5 {
				text := fmt.Sprintf("%d/%d %s", i, k, strings.Repeat("x", 10_000))
				got := make([]byte, len("echo ")+len(text))
				if _, err := io.WriteString(c, text); err != nil {
					t.Error(err)
				} else if _, err := io.ReadFull(c, got); err != nil || string(got) != "echo "+text {
					t.Errorf("%v: %.40q", err, got)
				}
			}
			if _, err := io.WriteString(c, "bye"); err != nil {
				t.Error(err)
			}
			if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("after its end: %d %v", n, err)
			}
		})
	}
	all.Wait()
}

// A connection that nobody reads holds up neither the others nor the node's own stream; closing wakes who reads; the end is seen.
func TestADialedConnectionIsLikeAnyOther(t *testing.T) {
	s := newSite(t, api.HubConfig{HeartbeatEvery: 100 * time.Millisecond, HeartbeatTimeout: 5 * time.Second}, api.Config{})
	a := newAgent("n1")
	flooded := make(chan int, 100)
	a.pipe = func(o queue.PipeOrder, p queue.Pipe) {
		if o.Dial.Port != 1 {
			echo(o, p)
			return
		}
		_ = p.Send(queue.PipeOutput{})
		go func() { _, _ = p.Recv() }()
		for n := 0; ; n += 32 << 10 {
			if n >= 128<<10 && n < 160<<10 {
				flooded <- n
			}
			if p.Send(queue.PipeOutput{Data: make([]byte, 32<<10)}) != nil {
				return
			}
		}
	}
	s.node(s.unix(), a)
	s.engine.change(1, func(j *queue.Job) { running(j, 7, queue.Batch) })
	owner := queue.Identity{UID: 7}
	for range 20 {
		flood, err := s.server.Dial(deadline(t), owner, "1", queue.DialOrder{Port: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer flood.Close()
		receive(t, flooded)
	}
	c, err := s.server.Dial(deadline(t), owner, "1", queue.DialOrder{Port: 8888})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now()); !errors.Is(err, os.ErrNoDeadline) {
		t.Errorf("a deadline: %v", err)
	}
	if _, err := io.WriteString(c, "end"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the node's end: %v", err)
	}
	closing, err := s.server.Dial(deadline(t), owner, "1", queue.DialOrder{Port: 8888})
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	go func() { _, err := closing.Read(make([]byte, 1)); read <- err }()
	_ = closing.Close()
	if err := receive(t, read); !errors.Is(err, io.EOF) {
		t.Errorf("a read when the connection is closed: %v", err)
	}
	if n, err := io.WriteString(closing, "x"); n != 0 || err == nil {
		t.Errorf("a write after it: %d, %v", n, err)
	}
	if err := s.hub.Order("n1", queue.Order{ID: queue.ElementID{Job: 9}, Op: queue.OrderKill}); err != nil || receive(t, a.orders).ID.Job != 9 {
		t.Errorf("the node's own stream: %v", err)
	}
}

func TestExecIsItsOwnersOnly(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	a := newAgent("n1")
	orders := make(chan queue.PipeOrder, 10)
	a.pipe = func(o queue.PipeOrder, p queue.Pipe) {
		orders <- o
		_ = p.Send(queue.PipeOutput{})
		f, _ := p.Recv()
		_ = p.Send(queue.PipeOutput{Data: f.Data})
		_ = p.Send(queue.PipeOutput{Err: []byte("oops"), Taken: len(f.Data)})
		_ = p.Send(queue.PipeOutput{Exited: true, Status: 7 << 8})
	}
	s.node(s.unix(), a)
	s.engine.change(1, func(j *queue.Job) { running(j, uid()+1, queue.Batch) })
	s.engine.change(2, func(j *queue.Job) { running(j, uid(), queue.Batch) })
	run := func(o *pb.ExecOrder) *pb.ExecOpen { return &pb.ExecOpen{What: &pb.ExecOpen_Exec{Exec: o}} }
	for _, row := range []struct {
		id   string
		open *pb.ExecOpen
		want wire.Code
	}{
		{"1", run(&pb.ExecOrder{}), wire.Denied},
		{"3", run(&pb.ExecOrder{}), wire.NotFound},
		{"2", &pb.ExecOpen{}, wire.Invalid},
		{"2", run(&pb.ExecOrder{Args: [][]byte{make([]byte, queue.MaxArguments+1)}}), wire.Invalid},
	} {
		row.open.Id = row.id
		b, err := s.users(s.unix()).Exec(deadline(t), row.open)
		if err == nil {
			_, err = b.Recv()
			b.Close()
		}
		if code(err) != row.want {
			t.Errorf("job %s: %v, want %v", row.id, err, row.want)
		}
	}
	open := run(&pb.ExecOrder{Args: [][]byte{[]byte("\xff")}, Tty: true, Term: "xterm"})
	open.Id, open.Size = "2", &pb.WindowSize{Rows: 3, Cols: 5}
	b, err := s.users(s.unix()).Exec(deadline(t), open)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Send(queue.PipeFrame{Data: []byte("hi")}); err != nil {
		t.Fatal(err)
	}
	said := ""
	for {
		m, err := b.Recv()
		if err != nil {
			t.Fatal(err)
		}
		said += fmt.Sprintf("%v/%s/%s/%d/%v/%d ", m.Begun, m.Data, m.Err, m.Taken, m.Exited, m.Status)
		if m.Exited {
			break
		}
	}
	if want := "true///0/false/0 false/hi//0/false/0 false//oops/2/false/0 false///0/true/1792 "; said != want {
		t.Errorf("it said %q, want %q", said, want)
	}
	if o := receive(t, orders); o.Kind != "exec" || string(o.Exec.Args[0]) != "\xff" || !o.Exec.TTY || o.Rows != 3 || o.Cols != 5 || o.Attempt != 1 {
		t.Errorf("the node was told %+v", o)
	}
}
