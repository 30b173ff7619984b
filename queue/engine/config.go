package engine

import (
	"context"
	"log/slog"
	"time"

	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
)

// Config is what the site has decided. Required: Cluster, Queues, DefaultQueue, Logger, Now.
type Config struct {
	Cluster      string
	Queues       []Queue
	DefaultQueue string
	Images       map[string]string                             // name:tag → SIF file
	Apps         []string                                      // names of the site's own, which any image may have
	FileApps     func(file string) (apps []string, known bool) // those of an image's file; nil: none are known
	DefaultImage string
	// Of the images of one user, 0 for no limit. UsersPublish lets users make theirs public.
	MaxUserImages     int
	MaxUserImageBytes int64
	UsersPublish      bool
	// ApproveCommits says that an administrator decides whether a session may become an image.
	ApproveCommits bool

	Binds       []string // of every container, SRC[:DST[:ro]]
	MaxArray    int      // greatest array index
	CleanPeriod time.Duration
	MemoryUnit  int64 // bytes of a bare -M number
	Consumables []string
	GPUCapacity func(model string) nodes.Amount
	NodeSupply  func(nodes.ID) nodes.Consumables // custom resources of a node
	JobReport   bool
	// RerunAfter is how long a rerunnable job whose node is gone stays UNKWN before it waits to be run again: a
	// node daemon that is only restarted comes back with its jobs.
	RerunAfter time.Duration
	MaxStarts  int // of one cycle; 0 means 2,000
	Scheduling Scheduling
	Location   *time.Location
	Logger     *slog.Logger
	Now        func() time.Time
	// IdleWarned is told of each warning, when it is durable; nil: nobody is. It must not block.
	IdleWarned func(IdleWarning)
	// Pause waits between tries to commit, while the book is locked; nil waits by the clock.
	Pause func(context.Context, time.Duration)
}

// Queue is a queue's configuration.
type Queue struct {
	Name            string
	Description     string
	Priority        int
	Hosts           []string // empty: all
	Users           []string // empty: all
	DefaultRunLimit time.Duration
	MaxRunLimit     time.Duration
	DefaultMemory   int64
	MaxMemory       int64
	MaxSlots        int
	UserSlots       int
	Exclusive       bool // accepts -x
	Interactive     bool
	Rerunnable      bool
	Container       string // required, allowed, never
	Image           string
	// Unfenced lets fractions of GPUs run where they cannot be fenced, under the watchdog alone.
	Unfenced bool
	// OverlaySize is how many bytes of its image a job may change (-writable); 0: the queue takes no such jobs.
	OverlaySize int64
	Idle        IdleRule // for its sessions
}

// Batch is what one commit makes durable. Its rows are the state after its events.
type Batch struct {
	Events    []queue.Event
	Jobs      []*queue.Job
	Elements  []ElementRow
	Nodes     []*nodes.Node
	Queues    map[string]queue.QueueState
	Forgotten []queue.JobID
	Blobs     map[string][]byte

	Reservations map[string]*queue.Reservation // by ID; nil for one that was deleted
	Policy       *queue.PolicyState            // nil: unchanged

	Images  map[images.ID]*images.Image // nil for one that is forgotten
	Commits []*images.Commit

	GPUHours []GPUHour // instead of what was stored of these hours under the same term
}

// ElementRow is an element with its job.
type ElementRow struct {
	Job     queue.JobID
	Element *queue.Element
}

// Store makes batches durable. Commit is safe to repeat with the same batch.
type Store interface {
	// Commit returns ErrStale (wrapped) when another leader has taken over. An error with a method
	// Temporary() bool that says true may pass, and the same batch is committed again.
	Commit(ctx context.Context, b *Batch) error
	Blob(ctx context.Context, hash string) ([]byte, error)
	EventsOf(ctx context.Context, jobs []queue.JobID) ([]queue.Event, error)
	// PolicyEvents lists the PolicySet events, newest first, at most limit of them.
	PolicyEvents(ctx context.Context, limit int) ([]queue.Event, error)
	// FindHistory lists jobs that are no longer in the book.
	FindHistory(ctx context.Context, sel queue.Selection, user string) ([]queue.JobID, error)
}

// Nodes sends to the nodes. Neither call waits; an error means that the node is not connected, and
// what was to be said is said again when it connects.
type Nodes interface {
	Assign(node nodes.ID, a queue.Assignment) error
	Order(node nodes.ID, o queue.Order) error
}

func (c *Config) queue(name string) *Queue {
	for i := range c.Queues {
		if c.Queues[i].Name == name {
			return &c.Queues[i]
		}
	}
	return nil
}
