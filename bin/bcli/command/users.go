package command

import (
	"context"
	"io"
	"time"

	"fairslice/api/client"
	"fairslice/api/pb"
	"fairslice/bin/bcli/session"
	"fairslice/queue"
)

// Users is what the commands need of batchd: client.Users has it, and tests have their own. Errors
// carry a text to print.
type Users interface {
	Submit(context.Context, queue.Submission) (queue.Accepted, error)
	Control(context.Context, queue.Control) ([]queue.Outcome, error)
	Admin(context.Context, queue.AdminCommand) ([]queue.Outcome, error)
	Jobs(context.Context, *pb.JobsRequest, func(*pb.JobsResponse) error) error
	History(context.Context, queue.Selection, func(*pb.HistoryResponse) error) error
	Watch(context.Context, queue.JobID, func(*pb.WatchResponse) error) error
	Peek(ctx context.Context, id string, follow bool, part func(*pb.PeekResponse) error) error
	Attach(ctx context.Context, job queue.JobID, takeover bool, rows, cols uint16) (session.Stream, error)
	Exec(ctx context.Context, open *pb.ExecOpen) (session.Beside, error)
	Queues(context.Context, *pb.QueuesRequest) (*pb.QueuesResponse, error)
	Hosts(ctx context.Context, names ...string) (*pb.HostsResponse, error)
	Cluster(context.Context) (*pb.ClusterResponse, error)
	Login(context.Context) (*pb.LoginResponse, error)
	Apps(context.Context, *pb.AppsRequest) (*pb.AppsResponse, error)
	Why(context.Context, queue.Selection) (*pb.WhyResponse, error)
	AddReservation(context.Context, queue.ReservationRequest) (id string, err error)
	Policy(context.Context) (queue.PolicyState, error)
	SetPolicy(context.Context, queue.PolicyChange) (queue.PolicyOutcome, error)
	PolicyLog(ctx context.Context, limit int) ([]queue.PolicyEntry, error)
	Shares(ctx context.Context, compare ...string) (*pb.SharesResponse, error)
	Extend(ctx context.Context, id string, add, limit time.Duration) (*pb.ExtendResponse, error)
	Budgets(ctx context.Context, account string) (*pb.BudgetsResponse, error)
	Reservations(ctx context.Context, ids ...string) (*pb.ReservationsResponse, error)
	Report(context.Context, *pb.ReportRequest) (*pb.ReportResponse, error)
	Finished(context.Context, *pb.FinishedRequest, func(*pb.FinishedResponse) error) error
	Export(ctx context.Context, before string, keep bool, w io.Writer) error
	Purge(ctx context.Context, before, sum string) (*pb.ArchiveResponse, error)
	Restore(ctx context.Context, sum string, from io.Reader) (*pb.ArchiveResponse, error)
	ImageUsers
}

// Dial makes the way to batchd. It is called once, by commands that need it, when their options are
// right. waiting is told a line for standard error whenever batchd does not answer and is tried again.
type Dial func(env *Env, waiting func(line string)) (Users, error)

// Network is the Dial of the programs: FAIRSLICE_ADDR and the other variables of package client say where.
func Network(env *Env, waiting func(line string)) (Users, error) {
	cfg := client.FromEnv(env.Get)
	cfg.Waiting = waiting
	u, err := client.NewUsers(cfg)
	if err != nil {
		return nil, err
	}
	return network{u}, nil
}

// network is a client.Users whose Attach and Exec give interfaces.
type network struct{ *client.Users }

func (n network) Attach(ctx context.Context, job queue.JobID, takeover bool, rows, cols uint16) (session.Stream, error) {
	s, err := n.Users.Attach(ctx, job, takeover, rows, cols)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (n network) Exec(ctx context.Context, open *pb.ExecOpen) (session.Beside, error) {
	b, err := n.Users.Exec(ctx, open)
	if err != nil {
		return nil, err
	}
	return b, nil
}
