package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// look is a job at one moment.
type look struct {
	row        *pb.Job // of the element, or of the whole array
	unfinished int32
	failed     int32
	owner      queue.Identity
	kind       queue.Interactive
}

// look reads job as by may see it, or fails with NotFound.
func (s *Server) look(by queue.Identity, job queue.JobID) (look, error) {
	var l look
	priority := priorities(s.engine.Describe())
	s.engine.View(func(v queue.View) {
		j := v.Book().Jobs[job]
		if j == nil {
			return
		}
		l.row, l.owner, l.kind = historyRow(j, priority[j.Queue], discreet(v.Book(), by, j)), j.Owner, j.Spec.Interactive
		for i := range j.Elements {
			switch st := j.Elements[i].State; {
			case !st.Final():
				l.unfinished++
			case st == queue.Exit:
				l.failed++
			}
		}
	})
	if l.row == nil {
		return l, wire.Errorf(NotFound, "Job <%d> is not found", job)
	}
	return l, nil
}

// mark is what makes a look worth telling again.
func (l look) mark() string {
	return fmt.Sprintf("%s/%d/%d/%d/%d/%v", l.row.State, l.row.Attempts, l.row.Began, l.unfinished, l.failed, l.row.Counts)
}

// Watch tells each change of a job, until it has ended. Changes in quick succession may be told as one.
func (u *users) Watch(ctx context.Context, req *connect.Request[pb.WatchRequest], stream *connect.ServerStream[pb.WatchResponse]) error {
	by, err := u.user(ctx)
	if err != nil {
		return err
	}
	ctx, done := u.streaming(ctx)
	defer done()
	job := queue.JobID(req.Msg.GetJob())
	changed, cancel := u.engine.Subscribe(job)
	defer cancel()
	for told := ""; ; {
		l, err := u.look(by, job)
		if err != nil {
			return err
		}
		if m := l.mark(); m != told {
			told = m
			if err := stream.Send(&pb.WatchResponse{Job: l.row, Unfinished: l.unfinished, Failed: l.failed}); err != nil {
				return err
			}
		}
		if l.unfinished == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Peek reads what a running job has written, as its owner, through its node.
func (u *users) Peek(ctx context.Context, req *connect.Request[pb.PeekRequest], stream *connect.ServerStream[pb.PeekResponse]) error {
	by, err := u.user(ctx)
	if err != nil {
		return err
	}
	ctx, done := u.streaming(ctx)
	defer done()
	order, node, hasErr, err := u.peekable(req.Msg.GetId(), by)
	if err != nil {
		return err
	}
	order.Follow = req.Msg.GetFollow()
	pipe, err := u.hub.Pipe(ctx, node, order)
	if err != nil {
		return err
	}
	defer pipe.Close()
	defer context.AfterFunc(ctx, pipe.Close)()
	if err := stream.Send(&pb.PeekResponse{HasStderr: hasErr}); err != nil {
		return err
	}
	for {
		m, err := pipe.Recv()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return wire.Errorf(Unavailable, "node %s left while its output was read", node)
		case m.GetError() != "":
			return wire.Errorf(Conflict, "Job <%s> : %s", order.ID, m.GetError())
		case m.GetEnd():
			return nil
		}
		if err := stream.Send(&pb.PeekResponse{Stdout: m.GetData(), Stderr: m.GetErr(), HasStderr: hasErr}); err != nil {
			return err
		}
	}
}

func (u *users) peekable(id string, by queue.Identity) (order queue.PipeOrder, node nodes.ID, hasErr bool, err error) {
	u.engine.View(func(v queue.View) {
		var found []Found
		if found, err = u.elements(v, id, by); err != nil {
			return
		}
		j, e := found[0].Job, found[0].Element
		name := j.ElementID(e.Index)
		switch {
		case j.Owner.UID != by.UID && !by.Admin:
			err = wire.Errorf(Denied, "Job <%s> : User permission denied", name)
		case e.State.Pending():
			err = wire.Errorf(Conflict, "Job <%s> : Not yet started.", name)
		case e.State.Final():
			err = wire.Errorf(Conflict, "Job <%s> : Already finished.", name)
		case j.Spec.Interactive.Session():
			err = wire.Errorf(Conflict, "Job <%s> : Cannot bpeek an interactive job.", name)
		case e.Attempt == nil || len(e.Attempt.Alloc) == 0:
			err = wire.Errorf(Conflict, "Job <%s> : Not yet started.", name)
		default:
			order = queue.PipeOrder{Kind: "peek", ID: name, Attempt: e.Attempt.Number}
			node, hasErr = e.Attempt.Alloc[0].Node, e.Attempt.Stderr != "" && e.Attempt.Stderr != e.Attempt.Stdout
		}
	})
	return order, node, hasErr, err
}

// elements are those that one ID names, at least one.
func (s *Server) elements(v queue.View, id string, by queue.Identity) ([]Found, error) {
	found, notFound, err := s.engine.Select(v, queue.Selection{IDs: []string{id}}, by)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0 && len(notFound) > 0:
		return nil, wire.Errorf(NotFound, "%s", notFound[0])
	case len(found) == 0:
		return nil, wire.Errorf(NotFound, "Job <%s> is not found", id)
	}
	return found, nil
}
