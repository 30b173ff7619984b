package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

// users is the Users service. Each method begins with Server.user: who calls decides.
type users struct{ *Server }

func answer[T any](m *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(m), nil
}

func (u *users) Submit(ctx context.Context, req *connect.Request[pb.SubmitRequest]) (*connect.Response[pb.SubmitResponse], error) {
	by, err := u.user(ctx)
	if err != nil {
		return nil, err
	}
	s := wire.ToSubmission(req.Msg)
	switch {
	case s.Spec == nil:
		return nil, wire.Errorf(Invalid, "No command is specified. Job not submitted.")
	case s.Token == "":
		return nil, wire.Errorf(Invalid, "The submission has no token. Job not submitted.")
	case s.Spec.SubCWD == "":
		return nil, wire.Errorf(Invalid, "The current directory does not exist any more. Job not submitted.")
	}
	s.Owner = by
	accepted, err := u.engine.Submit(ctx, s)
	return answer(wire.FromAccepted(accepted), err)
}

func (u *users) Control(ctx context.Context, req *connect.Request[pb.ControlRequest]) (*connect.Response[pb.ControlResponse], error) {
	by, err := u.user(ctx)
	if err != nil {
		return nil, err
	}
	c := wire.ToControl(req.Msg)
	if !slices.Contains([]queue.Op{queue.OpKill, queue.OpSignal, queue.OpStop, queue.OpResume, queue.OpRequeue, queue.OpTop, queue.OpBottom, queue.OpSwitch, queue.OpModify}, c.Op) {
		return nil, wire.Errorf(Invalid, "%q is not an operation on jobs", c.Op)
	}
	if len(req.Msg.GetOnlyStates()) > 0 && len(c.Select.States) == 0 { // narrowed to nothing, which must not mean "any"
		return answer(&pb.ControlResponse{}, nil)
	}
	c.By = by
	out, err := u.engine.Control(ctx, c)
	return answer(&pb.ControlResponse{Outcomes: outcomes(out)}, err)
}

func (u *users) Admin(ctx context.Context, req *connect.Request[pb.AdminRequest]) (*connect.Response[pb.AdminResponse], error) {
	by, err := u.user(ctx)
	if err != nil {
		return nil, err
	}
	if !by.Admin {
		return nil, wire.Errorf(Denied, "User permission denied")
	}
	a := wire.ToAdmin(req.Msg)
	a.By = by
	if a.Op == "token" || a.Op == "untoken" {
		out, err := u.token(ctx, a)
		return answer(&pb.AdminResponse{Outcomes: outcomes(out)}, err)
	}
	out, err := u.engine.Admin(ctx, a)
	return answer(&pb.AdminResponse{Outcomes: outcomes(out)}, err)
}

// issuer is what Tokens may be able to do besides.
type issuer interface {
	Create(kind TokenKind, name string, life time.Duration) (string, error)
	Revoke(idOrName string) (int, error)
}

// token makes ("token") or removes ("untoken") tokens. A name is a user's, "node" for any node, or
// "node:NAME" for one.
func (u *users) token(ctx context.Context, a queue.AdminCommand) ([]queue.Outcome, error) {
	issue, ok := u.tokens.(issuer)
	if !ok {
		return nil, wire.Errorf(Conflict, "this daemon keeps no tokens: it listens on its Unix socket only")
	}
	if len(a.Names) == 0 {
		return nil, wire.Errorf(Invalid, "name a user, or \"node\", or \"node:NAME\"")
	}
	var out []queue.Outcome
	for _, name := range a.Names {
		kind, who := UserToken, name
		if rest, isNode := strings.CutPrefix(name, "node"); isNode && (rest == "" || rest[0] == ':') {
			kind, who = NodeToken, strings.TrimPrefix(rest, ":")
		}
		if a.Op == "untoken" {
			n, err := issue.Revoke(who)
			if err != nil {
				return nil, err
			}
			out = append(out, queue.Outcome{ID: name, OK: n > 0, Text: fmt.Sprintf("%s: %d tokens removed", name, n)})
			continue
		}
		token, err := issue.Create(kind, who, 0)
		if err != nil {
			return nil, err
		}
		u.log.InfoContext(ctx, "token created", "kind", kind, "name", who, "user", a.By.User)
		out = append(out, queue.Outcome{ID: name, OK: true, Text: token})
	}
	return out, nil
}

func outcomes(in []queue.Outcome) []*pb.Outcome {
	out := make([]*pb.Outcome, len(in))
	for i, o := range in {
		out[i] = wire.FromOutcome(o)
	}
	return out
}

func (u *users) Cluster(ctx context.Context, _ *connect.Request[pb.ClusterRequest]) (*connect.Response[pb.ClusterResponse], error) {
	if _, err := u.user(ctx); err != nil {
		return nil, err
	}
	c := u.engine.Describe()
	m := &pb.ClusterResponse{
		Name: c.Name, Master: c.Master, Version: c.Version, DefaultQueue: c.DefaultQueue, MemoryUnit: c.MemoryUnit,
		MaxArray: int32(c.MaxArray), Consumables: c.Consumables, Images: c.Images, TimeZone: c.TimeZone,
	}
	for _, p := range c.Params {
		m.Params = append(m.Params, &pb.Param{Name: p.Name, Value: p.Value, Help: p.Help, Section: p.Section})
	}
	return answer(m, nil)
}

// History streams in pages, so that no message holds a year.
func (u *users) History(ctx context.Context, req *connect.Request[pb.HistoryRequest], stream *connect.ServerStream[pb.HistoryResponse]) error {
	by, err := u.user(ctx)
	if err != nil {
		return err
	}
	ctx, done := u.streaming(ctx)
	defer done()
	sel := wire.ToSelection(req.Msg.GetSelect())
	jobs, notFound, err := u.engine.History(ctx, sel, by)
	if err != nil {
		return err
	}
	archived, err := u.archivedHistory(ctx, sel, jobs)
	if err != nil {
		return err
	}
	priority := priorities(u.engine.Describe())
	page := &pb.HistoryResponse{NotFound: notFound, Archived: archived}
	held := 0
	for _, h := range jobs {
		var d discretion
		u.engine.View(func(v queue.View) {
			d = discreet(v.Book(), by, h.Job)
			d.addEvents(v.Book().Images, by, h.Events)
		})
		m := &pb.HistoryJob{Job: historyRow(h.Job, priority[h.Job.Queue], d)}
		for _, ev := range h.Events {
			p, err := d.event(ev)
			if err != nil {
				return err
			}
			if p != nil {
				m.Events = append(m.Events, p)
			}
		}
		page.Jobs = append(page.Jobs, m)
		if held += 1 + len(m.Events); held >= pageRows {
			if err := stream.Send(page); err != nil {
				return err
			}
			page, held = &pb.HistoryResponse{}, 0
		}
	}
	return stream.Send(page)
}

func historyRow(j *queue.Job, priority int, d discretion) *pb.Job {
	spec := wire.FromSpec(j.Spec)
	d.spec(spec)
	if j.Spec.Array != nil || len(j.Elements) != 1 {
		return wire.FromArray(j, spec, priority)
	}
	p := wire.FromElement(j, &j.Elements[0], spec, priority)
	d.row(p)
	return p
}

func priorities(c Cluster) map[string]int {
	m := make(map[string]int, len(c.Queues))
	for _, q := range c.Queues {
		m[q.Name] = q.Priority
	}
	return m
}
