package api

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// session is one Attach: it waits for the job to get a node, ties the caller to it, and again for
// each further attempt, until the job has ended.
type session struct {
	*users
	stream *connect.BidiStream[pb.AttachRequest, pb.AttachResponse]
	by     queue.Identity
	job    queue.JobID
	replay bool
	rows   uint16
	cols   uint16
	input  chan queue.PipeFrame // from the caller
	tied   int                  // the last attempt that was tied
	tries  int                  // at tying the next one
}

// A node may hear of the pipe a moment before it hears of the attempt, or be away for a moment.
const (
	tieEvery = 200 * time.Millisecond
	maxTies  = 25
)

// Attach ties the caller to the streams of a session. Only the owner may: it is their terminal.
func (u *users) Attach(ctx context.Context, stream *connect.BidiStream[pb.AttachRequest, pb.AttachResponse]) error {
	by, err := u.user(ctx)
	if err != nil {
		return err
	}
	ctx, done := u.streaming(ctx)
	defer done()
	first, err := stream.Receive()
	open := first.GetOpen()
	if err != nil || open == nil {
		return wire.Errorf(Invalid, "the first message must say which job")
	}
	s := &session{
		users: u, stream: stream, by: by, job: queue.JobID(open.Job), replay: open.Takeover,
		rows: uint16(open.GetSize().GetRows()), cols: uint16(open.GetSize().GetCols()), input: make(chan queue.PipeFrame),
	}
	l, err := u.look(by, s.job)
	switch {
	case err != nil:
		return err
	case l.owner.UID != by.UID:
		return wire.Errorf(Denied, "Job <%d> : User permission denied", s.job)
	case !l.kind.Session():
		return wire.Errorf(Conflict, "Job <%d> : Not an interactive job.", s.job)
	case open.Takeover && l.unfinished == 0:
		return wire.Errorf(Conflict, "Job <%d> : Already finished.", s.job)
	}
	inner, cancel := context.WithCancel(ctx)
	read := make(chan struct{})
	go func() { defer close(read); s.read(inner) }()
	err = s.follow(ctx)
	cancel()
	wakeReader(ctx)
	<-read
	return err
}

// read takes the caller's frames until it leaves. The end of its messages is no end of input: that is a frame.
func (s *session) read(ctx context.Context) {
	for {
		m, err := s.stream.Receive()
		if err != nil {
			return
		}
		var f queue.PipeFrame
		switch k := m.GetKind().(type) {
		case *pb.AttachRequest_Data:
			f.Data = k.Data
		case *pb.AttachRequest_Size:
			f.Rows, f.Cols = uint16(k.Size.GetRows()), uint16(k.Size.GetCols())
		case *pb.AttachRequest_Eof:
			f.EOF = true
		case *pb.AttachRequest_Signal:
			f.Signal = k.Signal
		default:
			continue
		}
		select {
		case s.input <- f:
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) follow(ctx context.Context) error {
	changed, cancel := s.engine.Subscribe(s.job)
	defer cancel()
	for told := ""; ; {
		l, err := s.look(s.by, s.job)
		if err != nil {
			return err
		}
		again := time.Duration(0)
		// An attempt that has ended already is tied, too: its node has kept what it wrote.
		if n := int(l.row.Attempts); n > s.tied && len(l.row.Alloc) > 0 && !queue.State(l.row.State).Pending() {
			if l.unfinished > 0 { // the last state comes after the last byte: callers leave at it
				if told, err = s.tell(l, told); err != nil {
					return err
				}
			}
			switch tied, err := s.tie(ctx, l, n); {
			case err != nil:
				return err
			case tied || s.tries >= maxTies:
				s.tied, s.tries = n, 0
				continue // the world has changed meanwhile
			}
			again = tieEvery
		} else if told, err = s.tell(l, told); err != nil || l.unfinished == 0 {
			return err
		}
		if err := wait(ctx, changed, again); err != nil {
			return err
		}
	}
}

// tell sends the state if it is another than the one told last.
func (s *session) tell(l look, told string) (string, error) {
	if m := l.mark(); m != told {
		return m, s.stream.Send(&pb.AttachResponse{Kind: &pb.AttachResponse_State{State: l.row}})
	}
	return told, nil
}

// wait ends at a change, after again (unless 0), or with ctx, which is the only error.
func wait(ctx context.Context, changed <-chan struct{}, again time.Duration) error {
	var retry <-chan time.Time
	if again > 0 {
		t := time.NewTimer(again)
		defer t.Stop()
		retry = t.C
	}
	select {
	case <-changed:
	case <-retry:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// tie opens the pipe to an attempt and carries bytes both ways until the node says that it was all.
// Not tied without an error means: try again.
func (s *session) tie(ctx context.Context, l look, attempt int) (tied bool, err error) {
	s.tries++
	node := nodes.ID(l.row.Alloc[0].Node)
	pipe, err := s.hub.Pipe(ctx, node, queue.PipeOrder{
		Kind: "tty", ID: queue.ElementID{Job: s.job, Index: int(l.row.Index)}, Attempt: attempt, Replay: s.replay, Rows: s.rows, Cols: s.cols})
	if err != nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if l.unfinished > 0 { // the node is away, and may come back as long as it takes
			s.tries = 0
		}
		return false, nil
	}
	defer pipe.Close()
	defer context.AfterFunc(ctx, pipe.Close)()
	ended := make(chan error, 1)
	got := false // read after ended only
	ready := make(chan struct{})
	go func() {
		defer pipe.Close() // wakes a Send to a node that does not read
		ended <- s.output(pipe, ready, &got)
	}()
	var input <-chan queue.PipeFrame // nothing until the node has the attempt: it would be lost
	for {
		select {
		case <-ready:
			ready, input = nil, s.input
		case f := <-input:
			if f.Rows != 0 || f.Cols != 0 {
				s.rows, s.cols = f.Rows, f.Cols
			}
			_ = pipe.Send(f) // output notices that the node has gone, and says so
		case err := <-ended:
			switch {
			case ctx.Err() != nil:
				return false, context.Cause(ctx)
			case err != nil && !got && s.tries < maxTies:
				return false, nil
			}
			return true, err
		}
	}
}

// output carries what the node sends to the caller, until the end. The first message, which may be empty,
// tells that the node has tied the attempt: ready is closed.
func (s *session) output(pipe *Pipe, ready chan<- struct{}, got *bool) error {
	for first := true; ; first = false {
		m, err := pipe.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return wire.Errorf(Unavailable, "Job <%d> : the connection to its node broke.", s.job)
		case m.GetError() != "":
			return wire.Errorf(Conflict, "Job <%d> : %s", s.job, m.GetError())
		}
		if first {
			close(ready)
		}
		out := []*pb.AttachResponse{}
		if len(m.GetData()) > 0 {
			out = append(out, &pb.AttachResponse{Kind: &pb.AttachResponse_Data{Data: m.GetData()}})
		}
		if len(m.GetErr()) > 0 {
			out = append(out, &pb.AttachResponse{Kind: &pb.AttachResponse_Err{Err: m.GetErr()}})
		}
		for _, r := range out {
			*got = true
			if err := s.stream.Send(r); err != nil {
				return err
			}
		}
		if m.GetEnd() {
			return nil
		}
	}
}
