package api

import (
	"context"
	"time"

	"fairslice/accounting"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// Error and Code are what users see of a failure; see package wire for the codes. An engine returns
// *Error where the user should read the text, and anything else where only the log should.
type (
	Error = wire.Error
	Code  = wire.Code
)

// The codes, so that an engine needs no second import.
const (
	Invalid     = wire.Invalid
	NotFound    = wire.NotFound
	Conflict    = wire.Conflict
	Denied      = wire.Denied
	Unavailable = wire.Unavailable
	Internal    = wire.Internal
)

// Commands change jobs, hosts, queues and reservations. Each returns when its effect is durable.
type Commands interface {
	Submit(ctx context.Context, s queue.Submission) (queue.Accepted, error)
	Control(ctx context.Context, c queue.Control) ([]queue.Outcome, error)
	// Extend lets a running element run longer; that it may not is an answer.
	Extend(ctx context.Context, q queue.Extend) (queue.Extension, error)
	Admin(ctx context.Context, a queue.AdminCommand) ([]queue.Outcome, error)
	// AddReservation returns the new reservation's ID.
	AddReservation(ctx context.Context, q queue.ReservationRequest) (id string, err error)
	// SetPolicy replaces the policy, if nobody has changed it since c.Base.
	SetPolicy(ctx context.Context, c queue.PolicyChange) (queue.PolicyOutcome, error)
}

// Reader looks at the present and the past.
type Reader interface {
	// View calls f with the book held: f must be quick, and keep nothing.
	View(f func(queue.View))
	// Select resolves ids, names and users, in the order of submission. notFound are lines to print. The pointers are v's.
	Select(v queue.View, s queue.Selection, by queue.Identity) (found []Found, notFound []string, err error)
	// Subscribe wakes whenever the job changes; several changes may give one wake-up. cancel must be called.
	Subscribe(job queue.JobID) (changed <-chan struct{}, cancel func())
	// History reads jobs, forgotten ones too, with their events. The caller owns the result.
	History(ctx context.Context, s queue.Selection, by queue.Identity) (jobs []HistoryJob, notFound []string, err error)
	// PolicyLog lists changes of the policy, newest first.
	PolicyLog(ctx context.Context, limit int) ([]queue.PolicyEntry, error)
	// Shares is the fair-share tree; with two to compare also why one stands before the other.
	Shares(ctx context.Context, compare []string) (accounting.Shares, error)
	// Budgets are those over an account, or all that by may see with "".
	Budgets(ctx context.Context, account string, by queue.Identity) (accounting.BudgetList, error)
	// Describe gives the cluster's configuration. The caller must not change the result.
	Describe() Cluster
}

// Members is told of nodes. All but NodeHeartbeat return when durable.
type Members interface {
	// NodeJoined is called once for each connection, before anything else of it. Hub.Assign and
	// Hub.Order already work for the node while it runs.
	NodeJoined(ctx context.Context, h queue.Hello) error
	// NodeGone is called once when a node that joined has no connection any more.
	NodeGone(ctx context.Context, id nodes.ID, why string) error
	// NodeReport is called from several goroutines at once, for one attempt in the node's order. Nil
	// means "need not be repeated", also for a report that changes nothing.
	NodeReport(ctx context.Context, id nodes.ID, r queue.Report) error
	NodeHeartbeat(id nodes.ID, h queue.Heartbeat)
	// Attended says that somebody is connected to an attempt until left is called, once. At a terminal only what is typed counts:
	// used says that something was. It must be quick.
	Attended(id queue.ElementID, attempt int, terminal bool) (used, left func())
}

// Engine is all that the server needs behind it.
type Engine interface {
	Commands
	Reader
	Members
	Reporter
	Archivist
	Catalogue
	Depot
	Committer
}

// Found is one element that a Selection names.
type Found struct {
	Job     *queue.Job
	Element *queue.Element
}

// HistoryJob is a job and what happened to it, oldest first.
type HistoryJob struct {
	Job    *queue.Job
	Events []queue.Event
}

// Cluster is the site's configuration as users may see it.
type Cluster struct {
	Name         string
	Master       string // host name
	Version      string
	DefaultQueue string
	Params       []Param
	MemoryUnit   int64 // bytes; LSF_UNIT_FOR_LIMITS
	MaxArray     int
	Consumables  []string
	Images       []string
	TimeZone     string
	Queues       []QueueInfo // in the order of bqueues
}

// Param is one line of bparams -a ("params") or badmin showconf ("conf").
type Param struct {
	Name, Value, Help, Section string
}

// QueueInfo is a queue's configuration. Zero limits are none; empty Hosts and Users are all.
type QueueInfo struct {
	Name            string
	Description     string
	Priority        int
	MaxSlots        int
	UserSlots       int
	DefaultRunLimit time.Duration
	MaxRunLimit     time.Duration
	MaxMemory       int64
	Hosts           []string
	Users           []string
	Exclusive       bool
	Rerunnable      bool
	Container       string
	Image           string
	OverlaySize     int64         // bytes that a job with -writable may change of its image; 0: it takes none
	IdleAfter       time.Duration // without use, a session is warned; 0 for never, and then what follows is 0, too
	IdleWarn        time.Duration // after the warning, it is ended
	IdleGPUBelow    int           // percent of its share
	IdleCPUBelow    int           // percent of its slots
}
