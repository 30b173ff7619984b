package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"fairslice/api/pb"
	"fairslice/api/pb/pbconnect"
	"fairslice/api/wire"
	"fairslice/queue"
)

// Users speaks the Users service for a command. Errors are *wire.Error with a text to print, the
// context's, or what the caller's own function returned. Methods may be called at once.
type Users struct {
	config Config
	socket string
	base   string
	call   exchange

	mu  sync.Mutex
	web *http.Client // made when first needed
}

// NewUsers checks the configuration; it does not dial.
func NewUsers(c Config) (*Users, error) {
	u := &Users{config: c}
	var err error
	if u.socket, u.base, err = u.config.resolve(); err != nil {
		return nil, err
	}
	if u.socket != "" {
		u.call = bare(u.socket)
		return u, nil
	}
	client, err := u.client()
	if err != nil {
		return nil, err
	}
	u.call = web(client, u.base)
	return u, nil
}

// Close gives idle connections back. A command that exits need not.
func (u *Users) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.web != nil {
		u.web.CloseIdleConnections()
	}
}

func (u *Users) client() (*http.Client, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.web == nil {
		client, err := u.config.client(u.socket)
		if err != nil {
			return nil, err
		}
		u.web = client
	}
	return u.web, nil
}

func (u *Users) unary(ctx context.Context, when again, procedure string, req, res proto.Message) error {
	return u.config.retry(ctx, when, func() error { return u.call.unary(ctx, procedure, req, res) })
}

// listen calls a server stream. It is tried again only as long as nothing has come.
func listen[T any, P interface {
	*T
	proto.Message
}](ctx context.Context, u *Users, when again, procedure string, req proto.Message, each func(P) error) error {
	got := false
	return u.config.retry(ctx, when, func() error {
		err := u.call.stream(ctx, procedure, req, func() proto.Message { return P(new(T)) }, func(m proto.Message) error {
			got = true
			return each(m.(P))
		})
		var own *stop
		var said *wire.Error
		switch {
		case err == nil || !got || errors.As(err, &own) || ctx.Err() != nil:
			return err
		case errors.As(err, &said):
			return &stop{said}
		}
		return &stop{wire.Errorf(wire.Unavailable, "the connection to the batch daemon broke: %v", err)}
	})
}

// Submit submits a job. Trying again is safe because of s.Token, so it is tried again whatever breaks.
func (u *Users) Submit(ctx context.Context, s queue.Submission) (queue.Accepted, error) {
	var res pb.SubmitResponse
	err := u.unary(ctx, always, pbconnect.UsersSubmitProcedure, wire.FromSubmission(s), &res)
	return wire.ToAccepted(&res), err
}

// Control acts on jobs: one outcome for each thing named.
func (u *Users) Control(ctx context.Context, c queue.Control) ([]queue.Outcome, error) {
	when := always
	if c.Op == queue.OpTop || c.Op == queue.OpBottom || c.Op == queue.OpRequeue { // twice is not once
		when = ifUnavailable
	}
	var res pb.ControlResponse
	err := u.unary(ctx, when, pbconnect.UsersControlProcedure, wire.FromControl(c), &res)
	return outcomes(res.Outcomes), err
}

// Admin changes hosts and queues, deletes reservations, and makes tokens.
func (u *Users) Admin(ctx context.Context, a queue.AdminCommand) ([]queue.Outcome, error) {
	var res pb.AdminResponse
	err := u.unary(ctx, ifUnavailable, pbconnect.UsersAdminProcedure, wire.FromAdmin(a), &res)
	return outcomes(res.Outcomes), err
}

// AddReservation makes an advance reservation and returns its ID.
func (u *Users) AddReservation(ctx context.Context, q queue.ReservationRequest) (string, error) {
	var res pb.AddReservationResponse
	err := u.unary(ctx, ifUnavailable, pbconnect.UsersAddReservationProcedure, wire.FromReservationRequest(q), &res)
	return res.Id, err
}

// Policy is the policy in force.
func (u *Users) Policy(ctx context.Context) (queue.PolicyState, error) {
	var res pb.PolicyResponse
	err := u.unary(ctx, always, pbconnect.UsersPolicyProcedure, &pb.PolicyRequest{}, &res)
	return wire.ToPolicy(res.Policy), err
}

// SetPolicy replaces the policy; c.By is left out: the connection says it. Sent again after a lost answer it would find a
// newer version, its own.
func (u *Users) SetPolicy(ctx context.Context, c queue.PolicyChange) (queue.PolicyOutcome, error) {
	var res pb.SetPolicyResponse
	err := u.unary(ctx, ifUnavailable, pbconnect.UsersSetPolicyProcedure, &pb.SetPolicyRequest{Base: c.Base, Text: c.Text, DryRun: c.DryRun}, &res)
	return queue.PolicyOutcome{Version: res.Version, Diff: res.Diff}, err
}

// PolicyLog lists the newest changes of the policy; limit 0 is as many as one answer holds.
func (u *Users) PolicyLog(ctx context.Context, limit int) ([]queue.PolicyEntry, error) {
	var res pb.PolicyLogResponse
	err := u.unary(ctx, always, pbconnect.UsersPolicyLogProcedure, &pb.PolicyLogRequest{Limit: int32(limit)}, &res)
	var out []queue.PolicyEntry
	for _, e := range res.Entries {
		out = append(out, queue.PolicyEntry{PolicyState: wire.ToPolicy(e.Policy), Diff: e.Diff})
	}
	return out, err
}

// Shares is the fair-share tree, and with two to compare why one stands before the other.
func (u *Users) Shares(ctx context.Context, compare ...string) (*pb.SharesResponse, error) {
	res := new(pb.SharesResponse)
	err := u.unary(ctx, always, pbconnect.UsersSharesProcedure, &pb.SharesRequest{Compare: compare}, res)
	return res, err
}

// Extend lets a running job run longer by add, or until it has run for limit; one of them is 0.
func (u *Users) Extend(ctx context.Context, id string, add, limit time.Duration) (*pb.ExtendResponse, error) {
	res := new(pb.ExtendResponse)
	req := &pb.ExtendRequest{Id: id, Add: int64(add), RunLimit: int64(limit)}
	return res, u.unary(ctx, ifNotSent, pbconnect.UsersExtendProcedure, req, res)
}

// Budgets are those over an account, or with "" all that the caller may see.
func (u *Users) Budgets(ctx context.Context, account string) (*pb.BudgetsResponse, error) {
	res := new(pb.BudgetsResponse)
	return res, u.unary(ctx, always, pbconnect.UsersBudgetsProcedure, &pb.BudgetsRequest{Account: account}, res)
}

// Reservations lists advance reservations; none named are all.
func (u *Users) Reservations(ctx context.Context, ids ...string) (*pb.ReservationsResponse, error) {
	res := new(pb.ReservationsResponse)
	return res, u.unary(ctx, always, pbconnect.UsersReservationsProcedure, &pb.ReservationsRequest{Ids: ids}, res)
}

func outcomes(in []*pb.Outcome) []queue.Outcome {
	var out []queue.Outcome
	for _, o := range in {
		out = append(out, wire.ToOutcome(o))
	}
	return out
}

// Jobs lists jobs, page by page. Each page's NotFound are lines for standard error.
func (u *Users) Jobs(ctx context.Context, req *pb.JobsRequest, page func(*pb.JobsResponse) error) error {
	return listen(ctx, u, always, pbconnect.UsersJobsProcedure, req, page)
}

// Watch tells each change of a job until it has ended.
func (u *Users) Watch(ctx context.Context, job queue.JobID, change func(*pb.WatchResponse) error) error {
	return listen(ctx, u, always, pbconnect.UsersWatchProcedure, &pb.WatchRequest{Job: int64(job)}, change)
}

// Peek reads the output of a running job.
func (u *Users) Peek(ctx context.Context, id string, follow bool, part func(*pb.PeekResponse) error) error {
	return listen(ctx, u, ifNotSent, pbconnect.UsersPeekProcedure, &pb.PeekRequest{Id: id, Follow: follow}, part)
}

// History gives jobs with their events, page by page; wire.ToEvent reads those.
func (u *Users) History(ctx context.Context, s queue.Selection, page func(*pb.HistoryResponse) error) error {
	return listen(ctx, u, always, pbconnect.UsersHistoryProcedure, &pb.HistoryRequest{Select: wire.FromSelection(s)}, page)
}

// Queues lists queues.
func (u *Users) Queues(ctx context.Context, req *pb.QueuesRequest) (*pb.QueuesResponse, error) {
	res := new(pb.QueuesResponse)
	return res, u.unary(ctx, always, pbconnect.UsersQueuesProcedure, req, res)
}

// Hosts lists hosts; none named are all.
func (u *Users) Hosts(ctx context.Context, names ...string) (*pb.HostsResponse, error) {
	res := new(pb.HostsResponse)
	return res, u.unary(ctx, always, pbconnect.UsersHostsProcedure, &pb.HostsRequest{Names: names}, res)
}

// Login makes a link that logs in to the web page, once. Each call makes another.
func (u *Users) Login(ctx context.Context) (*pb.LoginResponse, error) {
	res := new(pb.LoginResponse)
	return res, u.unary(ctx, always, pbconnect.UsersLoginProcedure, &pb.LoginRequest{}, res)
}

// Apps lists the apps of a running job, or opens one: that may take as long as the app takes to start. Opened twice, it is
// started once.
func (u *Users) Apps(ctx context.Context, req *pb.AppsRequest) (*pb.AppsResponse, error) {
	res := new(pb.AppsResponse)
	return res, u.unary(ctx, always, pbconnect.UsersAppsProcedure, req, res)
}

// Cluster describes the cluster.
func (u *Users) Cluster(ctx context.Context) (*pb.ClusterResponse, error) {
	res := new(pb.ClusterResponse)
	return res, u.unary(ctx, always, pbconnect.UsersClusterProcedure, &pb.ClusterRequest{}, res)
}

// Why explains why jobs wait.
func (u *Users) Why(ctx context.Context, s queue.Selection) (*pb.WhyResponse, error) {
	res := new(pb.WhyResponse)
	return res, u.unary(ctx, always, pbconnect.UsersWhyProcedure, &pb.WhyRequest{Select: wire.FromSelection(s)}, res)
}
