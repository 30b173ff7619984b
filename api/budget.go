package api

import (
	"context"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
)

// Budgets are those over the caller's accounts; an administrator sees all.
func (u *users) Budgets(ctx context.Context, req *connect.Request[pb.BudgetsRequest]) (*connect.Response[pb.BudgetsResponse], error) {
	by, err := u.user(ctx)
	if err != nil {
		return nil, err
	}
	list, err := u.engine.Budgets(ctx, req.Msg.GetAccount(), by)
	return answer(wire.FromBudgets(list), err)
}
