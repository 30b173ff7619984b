package api

import (
	"context"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
)

// Shares is for everybody: who is compared with whom should be seen by both.
func (u *users) Shares(ctx context.Context, req *connect.Request[pb.SharesRequest]) (*connect.Response[pb.SharesResponse], error) {
	if _, err := u.user(ctx); err != nil {
		return nil, err
	}
	s, err := u.engine.Shares(ctx, req.Msg.GetCompare())
	return answer(wire.FromShares(s), err)
}
