package queue

import (
	"time"

	"fairslice/images"
	"fairslice/nodes"
)

// Assignment is all that a node needs to run an attempt. Paths are absolute and expanded.
type Assignment struct {
	ID          ElementID
	Attempt     int
	Owner       Identity
	Spec        *Spec
	Script      []byte
	Env         [][]byte // complete, LSB_ variables included
	Alloc       []nodes.Allocation
	RunLimit    time.Duration
	MemoryLimit int64
	ImageFile   string     // of an image that is no catalogue's; "" for others, and on the bare node
	Image       *NodeImage // of the catalogue; nil for others
	CWD         string
	CreateCWD   bool
	Stdin       string
	Stdout      string
	Stderr      string
	DisplayName string
	Queue       string
	Cluster     string
	Submitted   time.Time
	Report      bool // append LSF's job report to Stdout
	Deadline    time.Time
	Binds       []string // SRC[:DST[:ro]]
	OverlaySize int64    // bytes that the job may change of its image; 0: none
	// Unfenced says that the job may run where nothing can fence its fraction of a GPU, under the watchdog alone.
	Unfenced bool
}

// OrderOp is what an Order does.
type OrderOp string

// Orders. Each is safe to repeat, and to give for an attempt that has ended.
const (
	OrderKill   OrderOp = "kill"
	OrderSignal OrderOp = "signal"
	OrderStop   OrderOp = "stop"
	OrderResume OrderOp = "resume"
	OrderForget OrderOp = "forget" // kill without a report: batchd has ended this attempt already, or never knew it
	OrderLimit  OrderOp = "limit"
	OrderTell   OrderOp = "tell" // said to who is at the session's terminals now; to nobody, if nobody is
)

// Order acts on an attempt at its node.
type Order struct {
	ID          ElementID
	Attempt     int
	Op          OrderOp
	Verdict     Verdict // kill: what to report
	Signal      string
	AtOnce      bool // kill: SIGKILL without INT and TERM first
	RunLimit    time.Duration
	MemoryLimit int64
	Text        string // tell: one line
}

// ReportKind says which part of a Report is set.
type ReportKind string

// Kinds of report.
const (
	ReportBegan   ReportKind = "began"
	ReportEnded   ReportKind = "ended"
	ReportStopped ReportKind = "stopped"
	ReportFailed  ReportKind = "failed" // the command never ran
	ReportNoted   ReportKind = "noted"  // Detail is for the job's history; told once, and never repeated
)

// Report is a durable fact that a node tells about an attempt, repeated until acknowledged.
type Report struct {
	ID      ElementID
	Attempt int
	At      time.Time
	Kind    ReportKind

	// Began belongs to ReportBegan, and to a ReportEnded that comes in its place. Its Attempt field is unused.
	Began *Began

	// Ended.
	Status  int // raw wait status or NoStatus
	Verdict Verdict
	Detail  string
	Usage   Usage
	Ran     time.Time // when the command began; zero if it never ran
	Lost    bool      // by reboot or loss of the shepherd

	// Stopped.
	Stopped bool

	// Failed.
	Code     string // image, cwd, exec, user, fence, internal
	JobFault bool   // the job ends; otherwise it waits again
	ExitCode int
}

// AttemptState is what a node knows of one attempt when it connects.
type AttemptState struct {
	ID      ElementID
	Attempt int
	State   string // accepted, running, stopped, ended
}

// Hello is a node's first word.
type Hello struct {
	Node     nodes.Node
	Version  string
	Attempts []AttemptState
}

// Heartbeat is a node's sign of life with what its attempts consume.
type Heartbeat struct {
	Load1           float64
	MemoryAvailable int64
	Usage           []AttemptUsage
	LostGPUs        []string
	Fetches         []AttemptFetch // all that wait for their image
}

// AttemptFetch is how far the image of an attempt is on its way to the node, in bytes.
type AttemptFetch struct {
	ID          ElementID
	Attempt     int
	Done, Total int64
}

// AttemptUsage is one attempt's consumption so far.
type AttemptUsage struct {
	ID      ElementID
	Attempt int
	Usage   Usage
}

// PipeOrder asks a node to open a byte stream to one of its attempts.
type PipeOrder struct {
	Pipe       string // its id
	Kind       string // tty, peek; beside the job: exec, copy, dial, app, snapshot
	ID         ElementID
	Attempt    int
	Follow     bool
	Tail       int64 // with kind peek: only the last so many bytes of each file, 0 for all
	Replay     bool
	Rows, Cols uint16
	Exec       *ExecOrder       // with kind exec
	Copy       *CopyOrder       // with kind copy
	Dial       *DialOrder       // with kind dial
	App        *images.AppOrder // with kind app; the answer is data
	Snapshot   *SnapshotOrder   // with kind snapshot
}

// ExecOrder is a program to run beside a job, in its container, as its user. With TTY it has a terminal of the PipeOrder's size.
type ExecOrder struct {
	Args [][]byte // none: a shell
	Env  [][]byte // NAME=value, over the job's own
	Dir  []byte   // relative to the job's directory
	TTY  bool
	Term string
}

// CopyOrder sends Paths out of a job's surroundings as one stream (package nodes/session/tree), or, with To, takes such a stream in.
// Relative paths are relative to the job's directory.
type CopyOrder struct {
	Paths     [][]byte
	To        []byte
	Into      bool // To must be a directory
	Recursive bool
}

// DialOrder is a connection to a program beside a job: to a TCP port of 127.0.0.1, or to a Unix socket by its absolute path.
type DialOrder struct {
	Port int
	Path string
	Own  bool // only if it is the job's user who listens at the port
}

// SnapshotOrder sends the root file system of a job's container as a tar archive, without what is mounted in it. Labels come beside those
// that its image has; a newer value counts.
type SnapshotOrder struct {
	Labels map[string]string
}

// MaxArguments bounds the arguments and variables of an ExecOrder together, in bytes.
const MaxArguments = 1 << 20
