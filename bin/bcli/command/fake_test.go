package command

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"fairslice/accounting"
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/bin/bcli/session"
	"fairslice/queue"
)

// fake is a batchd that answers what it was told to, and remembers what it was asked.
type fake struct {
	ImageUsers
	jobs     []*pb.JobsResponse
	history  []*pb.HistoryResponse
	watch    []*pb.WatchResponse
	peek     []*pb.PeekResponse
	queues   *pb.QueuesResponse
	hosts    *pb.HostsResponse
	cluster  *pb.ClusterResponse
	images   []*pb.Image
	login    *pb.LoginResponse
	apps     *pb.AppsResponse
	why      *pb.WhyResponse
	reserved *pb.ReservationsResponse
	policy   queue.PolicyState
	shares   *pb.SharesResponse
	budgets  *pb.BudgetsResponse
	extended *pb.ExtendResponse
	report   *pb.ReportResponse
	finished []*pb.FinishedResponse
	entries  []queue.PolicyEntry
	outcomes []queue.Outcome
	accepted queue.Accepted
	attach   func() session.Stream
	beside   session.Beside
	archive  fakeArchive
	err      error

	opened    *pb.ExecOpen
	appAsked  *pb.AppsRequest
	asked     *pb.JobsRequest
	selected  queue.Selection
	control   queue.Control
	admin     queue.AdminCommand
	submitted queue.Submission
	peeked    string
	reserve   queue.ReservationRequest
	named     []string
	change    queue.PolicyChange
	reported  *pb.ReportRequest
	sought    *pb.FinishedRequest
	limit     int
	listings  int // how often images were asked for
}

func pages[T any](err error, list []T, f func(T) error) error {
	for _, p := range list {
		if err := f(p); err != nil {
			return err
		}
	}
	return err
}

func (f *fake) Images(context.Context, bool) ([]*pb.Image, error) {
	f.listings++
	return f.images, f.err
}

func (f *fake) Submit(_ context.Context, s queue.Submission) (queue.Accepted, error) {
	f.submitted = s
	return f.accepted, f.err
}

func (f *fake) Control(_ context.Context, c queue.Control) ([]queue.Outcome, error) {
	f.control = c
	return f.outcomes, f.err
}

func (f *fake) Admin(_ context.Context, a queue.AdminCommand) ([]queue.Outcome, error) {
	f.admin = a
	return f.outcomes, f.err
}

func (f *fake) Jobs(_ context.Context, r *pb.JobsRequest, page func(*pb.JobsResponse) error) error {
	f.asked, f.selected = r, wire.ToSelection(r.Select)
	return pages(f.err, f.jobs, page)
}

func (f *fake) History(_ context.Context, s queue.Selection, page func(*pb.HistoryResponse) error) error {
	f.selected = s
	return pages(f.err, f.history, page)
}

func (f *fake) Watch(_ context.Context, _ queue.JobID, change func(*pb.WatchResponse) error) error {
	return pages(f.err, f.watch, change)
}

func (f *fake) Peek(_ context.Context, id string, _ bool, part func(*pb.PeekResponse) error) error {
	f.peeked = id
	return pages(f.err, f.peek, part)
}

func (f *fake) Attach(context.Context, queue.JobID, bool, uint16, uint16) (session.Stream, error) {
	return f.attach(), f.err
}

func (f *fake) Exec(_ context.Context, open *pb.ExecOpen) (session.Beside, error) {
	f.opened = open
	return f.beside, f.err
}

func (f *fake) Queues(context.Context, *pb.QueuesRequest) (*pb.QueuesResponse, error) {
	return f.queues, f.err
}
func (f *fake) Hosts(context.Context, ...string) (*pb.HostsResponse, error) { return f.hosts, f.err }
func (f *fake) Apps(_ context.Context, r *pb.AppsRequest) (*pb.AppsResponse, error) {
	f.appAsked = r
	return f.apps, f.err
}
func (f *fake) Login(context.Context) (*pb.LoginResponse, error)     { return f.login, f.err }
func (f *fake) Cluster(context.Context) (*pb.ClusterResponse, error) { return f.cluster, f.err }
func (f *fake) Why(_ context.Context, s queue.Selection) (*pb.WhyResponse, error) {
	f.selected = s
	return f.why, f.err
}

func (f *fake) AddReservation(_ context.Context, q queue.ReservationRequest) (string, error) {
	f.reserve = q
	return "alice#0", f.err
}
func (f *fake) Policy(context.Context) (queue.PolicyState, error) { return f.policy, f.err }
func (f *fake) SetPolicy(_ context.Context, c queue.PolicyChange) (queue.PolicyOutcome, error) {
	f.change = c
	if c.Base != f.policy.Version {
		return queue.PolicyOutcome{}, wire.Errorf(wire.Invalid, "The policy was changed meanwhile: version %d is in force", f.policy.Version)
	}
	was, err := accounting.ParsePolicy(f.policy.Text)
	if err != nil {
		return queue.PolicyOutcome{}, err
	}
	is, err := accounting.ParsePolicy(c.Text)
	if err != nil {
		return queue.PolicyOutcome{}, err
	}
	out := queue.PolicyOutcome{Version: f.policy.Version, Diff: accounting.Diff(was, is)}
	if !c.DryRun && len(out.Diff) > 0 {
		out.Version++
		f.policy.Version, f.policy.Text = out.Version, is.String()
	}
	return out, f.err
}
func (f *fake) PolicyLog(_ context.Context, limit int) ([]queue.PolicyEntry, error) {
	f.limit = limit
	return f.entries, f.err
}
func (f *fake) Shares(_ context.Context, compare ...string) (*pb.SharesResponse, error) {
	f.named = compare
	return f.shares, f.err
}
func (f *fake) Extend(_ context.Context, id string, add, limit time.Duration) (*pb.ExtendResponse, error) {
	f.named = []string{id, add.String(), limit.String()}
	return f.extended, f.err
}
func (f *fake) Budgets(_ context.Context, account string) (*pb.BudgetsResponse, error) {
	f.named = []string{account}
	return f.budgets, f.err
}
func (f *fake) Reservations(_ context.Context, ids ...string) (*pb.ReservationsResponse, error) {
	f.named = ids
	return f.reserved, f.err
}

func (f *fake) Report(_ context.Context, r *pb.ReportRequest) (*pb.ReportResponse, error) {
	f.reported = r
	return f.report, f.err
}
func (f *fake) Finished(_ context.Context, r *pb.FinishedRequest, page func(*pb.FinishedResponse) error) error {
	f.sought = r
	return pages(f.err, f.finished, page)
}

// result is what a command left behind.
type result struct {
	code        int
	out, errors string
}

// do runs a command line as a shell would pass it; words are separated by blanks.
func (f *fake) do(line string, environ ...string) result {
	return f.run(strings.Fields(line), "", environ...)
}

func (f *fake) run(args []string, stdin string, environ ...string) result {
	var out, errors bytes.Buffer
	env := Env{
		Environ: environ, Dir: "/home/alice", Host: "sub01", Umask: 0o22, Loc: time.UTC,
		Now: func() time.Time { return time.Date(2026, 3, 18, 2, 10, 0, 0, time.UTC) },
	}
	code := Run(args, strings.NewReader(stdin), &out, &errors, env, func(*Env, func(string)) (Users, error) { return f, nil })
	return result{code, out.String(), errors.String()}
}

func (r result) want(t *testing.T, code int, out, errors string) {
	t.Helper()
	if r.code != code || r.out != out || r.errors != errors {
		t.Errorf("got %d\nout: %q\nerr: %q\nwant %d\nout: %q\nerr: %q", r.code, r.out, r.errors, code, out, errors)
	}
}

// has checks parts of both outputs; an empty one must be empty.
func (r result) has(t *testing.T, code int, out, errors string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.out, out) || out == "" && r.out != "" || !strings.Contains(r.errors, errors) || errors == "" && r.errors != "" {
		t.Errorf("got %d\nout: %q\nerr: %q\nwant %d\nout: … %q …\nerr: … %q …", r.code, r.out, r.errors, code, out, errors)
	}
}

func job(id int64, state string) *pb.Job {
	return &pb.Job{
		Id: id, State: state, Queue: "normal", Owner: &pb.Identity{User: "alice"}, Spec: &pb.Spec{Name: "train", SubHost: "sub01"},
		Submitted: time.Date(2026, 3, 18, 2, 6, 0, 0, time.UTC).UnixNano(), Status: queue.NoStatus,
	}
}
