package api

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

// Extend lets a running job run longer. Its owner may ask, and administrators.
func (u *users) Extend(ctx context.Context, req *connect.Request[pb.ExtendRequest]) (*connect.Response[pb.ExtendResponse], error) {
	by, err := u.user(ctx)
	if err != nil {
		return nil, err
	}
	q := queue.Extend{ID: req.Msg.GetId(), By: by, Add: time.Duration(req.Msg.GetAdd()), RunLimit: time.Duration(req.Msg.GetRunLimit())}
	switch {
	case q.ID == "" || q.ID == "0":
		return nil, wire.Errorf(Invalid, "Job <%s> : name one job", q.ID)
	case (q.Add > 0) == (q.RunLimit > 0) || q.Add < 0 || q.RunLimit < 0:
		return nil, wire.Errorf(Invalid, "Job <%s> : say by how much, or which run limit it is to have", q.ID)
	case q.Add > queue.MaxRunLimit || q.RunLimit > queue.MaxRunLimit:
		return nil, wire.Errorf(Invalid, "Job <%s> : no job may run longer than a year", q.ID)
	}
	x, err := u.engine.Extend(ctx, q)
	return answer(&pb.ExtendResponse{Id: x.ID.String(), Granted: x.Granted, RunLimit: int64(x.RunLimit),
		Ends: wire.Nanos(x.Ends), Longest: int64(x.Longest), Why: x.Why}, err)
}
