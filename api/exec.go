package api

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// Exec runs a program beside a job, copies, or connects to a port there, and ties the caller to it. Only the owner may, as with Attach: what runs there has
// the owner's rights.
func (u *users) Exec(ctx context.Context, stream *connect.BidiStream[pb.ExecRequest, pb.ExecResponse]) error {
	by, err := u.user(ctx)
	if err != nil {
		return err
	}
	ctx, done := u.streaming(ctx)
	defer done()
	first, err := stream.Receive()
	open := first.GetOpen()
	if err != nil || open == nil {
		return wire.Errorf(Invalid, "the first message must say which job, and what to do there")
	}
	order := queue.PipeOrder{
		Exec: wire.ToExecOrder(open.GetExec()), Copy: wire.ToCopyOrder(open.GetCopy()), Dial: wire.ToDialOrder(open.GetDial()),
		Rows: uint16(open.GetSize().GetRows()), Cols: uint16(open.GetSize().GetCols()),
	}
	if err := checkBeside(&order); err != nil {
		return err
	}
	pipe, err := u.beside(ctx, by, open.GetId(), order)
	if err != nil {
		return err
	}
	defer pipe.Close()
	defer context.AfterFunc(ctx, pipe.Close)()
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer pipe.Close() // the caller has gone: so does what runs there
		passInput(stream, pipe)
	}()
	if err = passOutput(stream, pipe); err == errEnded && order.Dial != nil {
		err = nil // as connections end
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	pipe.Close()
	wakeReader(ctx)
	<-read
	return err
}

// passInput carries the caller's messages to the node, until one of them has gone.
func passInput(stream *connect.BidiStream[pb.ExecRequest, pb.ExecResponse], pipe *Pipe) {
	for {
		m, err := stream.Receive()
		if err != nil {
			return
		}
		var f queue.PipeFrame
		switch k := m.GetKind().(type) {
		case *pb.ExecRequest_Data:
			f.Data = k.Data
		case *pb.ExecRequest_Size:
			f.Rows, f.Cols = uint16(k.Size.GetRows()), uint16(k.Size.GetCols())
		case *pb.ExecRequest_Eof:
			f.EOF = true
		case *pb.ExecRequest_Signal:
			f.Signal = k.Signal
		default:
			continue
		}
		if pipe.Send(f) != nil {
			return
		}
	}
}

// passOutput carries what the node sends to the caller, until the program there has ended.
func passOutput(stream *connect.BidiStream[pb.ExecRequest, pb.ExecResponse], pipe *Pipe) error {
	begun := true // the first message says so
	for {
		m, err := received(pipe)
		if err != nil {
			return err
		}
		r := &pb.ExecResponse{Data: m.GetData(), Err: m.GetErr(), Taken: m.GetTaken(), Begun: begun, Exited: m.GetExited(), Status: m.GetStatus(), Eof: m.GetEof()}
		begun = false
		if err := stream.Send(r); err != nil || r.Exited {
			return err
		}
	}
}

// errEnded is the end of what is beside a job, which a program only has after its status.
var errEnded = wire.Errorf(Unavailable, "it ended without an exit status")

// received waits for what comes from beside a job. Its end is an error, too.
func received(pipe *Pipe) (*pb.PipeUp, error) {
	m, err := pipe.Recv()
	switch {
	case errors.Is(err, io.EOF) || err == nil && m.GetEnd():
		return nil, errEnded
	case err != nil:
		return nil, wire.Errorf(Unavailable, "the connection to the job's node broke")
	case m.GetError() != "":
		return nil, wire.Errorf(Conflict, "%s", m.GetError())
	}
	return m, nil
}

// checkBeside says what is wrong with an order, and gives it its kind.
func checkBeside(o *queue.PipeOrder) error {
	switch {
	case o.Exec != nil:
		o.Kind = "exec"
		size := len(o.Exec.Dir) + len(o.Exec.Term)
		for _, list := range [][][]byte{o.Exec.Args, o.Exec.Env} {
			for _, b := range list {
				size += len(b) + 1
			}
		}
		if size > queue.MaxArguments {
			return wire.Errorf(Invalid, "the command has %d bytes of arguments and variables; %d are allowed", size, queue.MaxArguments)
		}
	case o.Copy != nil:
		o.Kind = "copy"
		size := len(o.Copy.To)
		for _, b := range o.Copy.Paths {
			size += len(b) + 1
		}
		if size > queue.MaxArguments {
			return wire.Errorf(Invalid, "the paths have %d bytes; %d are allowed", size, queue.MaxArguments)
		}
	case o.Dial != nil:
		o.Kind = "dial"
	default:
		return wire.Errorf(Invalid, "the first message must say which job, and what to do there")
	}
	return nil
}

// beside opens a pipe to a running job of by, named as bjobs names it.
func (s *Server) beside(ctx context.Context, by queue.Identity, id string, o queue.PipeOrder) (*Pipe, error) {
	element, attempt, node, err := s.running(id, by)
	if err != nil {
		return nil, err
	}
	o.ID, o.Attempt = element, attempt
	return s.hub.Pipe(ctx, node, o)
}

// running finds the one running element that id names, for its owner.
func (s *Server) running(id string, by queue.Identity) (element queue.ElementID, attempt int, node nodes.ID, err error) {
	if id == "" || id == "0" {
		return element, 0, "", wire.Errorf(Invalid, "Job <%s> : name one job", id)
	}
	s.engine.View(func(v queue.View) {
		var found []Found
		if found, err = s.elements(v, id, by); err != nil {
			return
		}
		switch {
		case found[0].Job.Owner.UID != by.UID: // before anything else is told of it
			err = wire.Errorf(Denied, "Job <%s> : User permission denied", id)
			return
		case len(found) > 1:
			err = wire.Errorf(Invalid, "Job <%s> : names %d jobs; name one, as in %s", id, len(found), found[0].Job.ElementID(found[0].Element.Index))
			return
		}
		j, e := found[0].Job, found[0].Element
		element = j.ElementID(e.Index)
		switch {
		case e.State.Pending(), e.Attempt == nil, len(e.Attempt.Alloc) == 0:
			err = wire.Errorf(Conflict, "Job <%s> : Not yet started.", element)
		case e.State.Final():
			err = wire.Errorf(Conflict, "Job <%s> : Already finished.", element)
		case e.State == queue.USusp || e.State == queue.SSusp:
			err = wire.Errorf(Conflict, "Job <%s> : It is suspended: bresume lets it go on.", element)
		default:
			attempt, node = e.Attempt.Number, e.Attempt.Alloc[0].Node
		}
	})
	return element, attempt, node, err
}
