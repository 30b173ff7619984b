package api

import (
	"context"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/images"
	"fairslice/queue"
)

func (s imageService) RequestCommit(ctx context.Context, req *connect.Request[pb.CommitRequest]) (*connect.Response[pb.CommitResponse], error) {
	by, err := s.user(ctx)
	if err != nil {
		return nil, err
	}
	id, err := s.session(by, req.Msg.GetJob())
	if err != nil {
		return nil, err
	}
	ref, err := images.ParseRef(req.Msg.GetName())
	if err != nil {
		return nil, wire.Errorf(Invalid, "%v", err)
	}
	c, err := s.engine.RequestCommit(ctx, by, id, ref, req.Msg.GetDescription(), req.Msg.GetReplace())
	return s.commitAnswer(c, err)
}

// session finds the one element that a caller names.
func (s imageService) session(by queue.Identity, id string) (out queue.ElementID, err error) {
	s.engine.View(func(v queue.View) {
		var found []Found
		found, err = s.elements(v, id, by)
		switch {
		case err != nil:
		case len(found) != 1:
			err = wire.Errorf(Invalid, "%s: want one job, or one element of an array", id)
		default:
			out = found[0].Job.ElementID(found[0].Element.Index)
		}
	})
	return out, err
}

func (s imageService) commitAnswer(c *images.Commit, err error) (*connect.Response[pb.CommitResponse], error) {
	if err != nil {
		return nil, err
	}
	return answer(&pb.CommitResponse{Commit: s.commit(c)}, nil)
}

// commitProgress is what a Committer may know besides: how many bytes of a session were read for a request that is worked on.
type commitProgress interface {
	CommitBytes(images.CommitID) int64
}

func (s imageService) commit(c *images.Commit) *pb.Commit {
	m := wire.FromCommit(c)
	if p, ok := s.engine.(commitProgress); ok && c.State == images.CommitApproved {
		m.Bytes = p.CommitBytes(c.ID)
	}
	return m
}

func (s imageService) ListCommits(ctx context.Context, req *connect.Request[pb.ListCommitsRequest]) (*connect.Response[pb.ListCommitsResponse], error) {
	by, err := s.user(ctx)
	if err != nil {
		return nil, err
	}
	list, err := s.engine.Commits(by, req.Msg.GetAll())
	if err != nil {
		return nil, err
	}
	res := &pb.ListCommitsResponse{}
	for _, c := range list {
		res.Commits = append(res.Commits, s.commit(c))
	}
	return answer(res, nil)
}

func (s imageService) DecideCommit(ctx context.Context, req *connect.Request[pb.DecideCommitRequest]) (*connect.Response[pb.CommitResponse], error) {
	by, err := s.user(ctx)
	if err != nil {
		return nil, err
	}
	c, err := s.engine.DecideCommit(ctx, by, images.CommitID(req.Msg.GetId()), req.Msg.GetApprove(), req.Msg.GetReason())
	return s.commitAnswer(c, err)
}
