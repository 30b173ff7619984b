package api

import (
	"context"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

// One answer of PolicyLog has at most so many changes, and texts of about so many bytes.
const (
	maxPolicyLog   = 100
	maxPolicyTexts = 8 << 20
)

// admin is user, for what is an administrator's.
func (u *users) admin(ctx context.Context) (queue.Identity, error) {
	by, err := u.user(ctx)
	if err == nil && !by.Admin {
		err = wire.Errorf(Denied, "User permission denied")
	}
	return by, err
}

// Policy is the policy in force. Everybody may see who belongs where, and within what limits.
func (u *users) Policy(ctx context.Context, _ *connect.Request[pb.PolicyRequest]) (*connect.Response[pb.PolicyResponse], error) {
	if _, err := u.user(ctx); err != nil {
		return nil, err
	}
	out := &pb.PolicyResponse{}
	u.engine.View(func(v queue.View) { out.Policy = wire.FromPolicy(v.Book().Policy) })
	return answer(out, nil)
}

// SetPolicy replaces the policy.
func (u *users) SetPolicy(ctx context.Context, req *connect.Request[pb.SetPolicyRequest]) (*connect.Response[pb.SetPolicyResponse], error) {
	by, err := u.admin(ctx)
	if err != nil {
		return nil, err
	}
	out, err := u.engine.SetPolicy(ctx, queue.PolicyChange{Base: req.Msg.GetBase(), Text: req.Msg.GetText(), DryRun: req.Msg.GetDryRun(), By: by})
	return answer(&pb.SetPolicyResponse{Version: out.Version, Diff: out.Diff}, err)
}

// PolicyLog lists what was changed, by whom and when, newest first.
func (u *users) PolicyLog(ctx context.Context, req *connect.Request[pb.PolicyLogRequest]) (*connect.Response[pb.PolicyLogResponse], error) {
	if _, err := u.admin(ctx); err != nil {
		return nil, err
	}
	limit := int(req.Msg.GetLimit())
	if limit <= 0 || limit > maxPolicyLog {
		limit = maxPolicyLog
	}
	list, err := u.engine.PolicyLog(ctx, limit)
	out := &pb.PolicyLogResponse{}
	size := 0
	for _, e := range list {
		if size += len(e.Text); size > maxPolicyTexts && len(out.Entries) > 0 {
			break
		}
		out.Entries = append(out.Entries, &pb.PolicyEntry{Policy: wire.FromPolicy(e.PolicyState), Diff: e.Diff})
	}
	return answer(out, err)
}
