package queue

import (
	"time"

	"fairslice/nodes"
)

// Submission is a request to create a job.
type Submission struct {
	Token  string // the client's; the same token of the same user gives the same job
	Spec   *Spec
	Script []byte
	Env    [][]byte // KEY=VALUE
	Owner  Identity
}

// Accepted answers a Submission, once it is durable.
type Accepted struct {
	Job     JobID
	Queue   string
	Default bool     // no queue was named
	Notes   []string // for the submitter's standard error
}

// Selection names elements. Conditions are ANDed. IDs come first: with IDs, User restricts nothing in listings.
type Selection struct {
	IDs     []string // "12", "12[3]", "12[1-4,7]", "0" (all of the caller's)
	User    string   // "" the caller's own, "all" everybody's
	Queue   string
	Name    string // with * wildcards; "name[3]" names one element
	Host    string
	Project string
	Account string
	States  []State
	Scope   Scopes
	// Since and Until leave out what had ended before Since, and what was submitted at Until or later. Zero is no bound.
	Since, Until time.Time
}

// Scopes is which stage of life a Selection covers.
type Scopes string

// Scopes. The empty one is Unfinished without IDs, and All with IDs.
const (
	ScopeDefault    Scopes = ""
	ScopeUnfinished Scopes = "unfinished"
	ScopeAll        Scopes = "all"
	ScopeFinished   Scopes = "done"
	ScopePending    Scopes = "pending"
	ScopeRunning    Scopes = "running"
	ScopeSuspended  Scopes = "suspended"
)

// Op is what a Control does.
type Op string

// Operations on jobs.
const (
	OpKill    Op = "kill"
	OpSignal  Op = "signal"
	OpStop    Op = "stop"
	OpResume  Op = "resume"
	OpRequeue Op = "requeue"
	OpTop     Op = "top"
	OpBottom  Op = "bottom"
	OpSwitch  Op = "switch"
	OpModify  Op = "modify"
)

// Control is a command on the elements of a Selection.
type Control struct {
	Op       Op
	Select   Selection
	By       Identity
	Signal   string
	Queue    string
	Position int
	Force    bool
	AsDone   bool
	Note     string
	Options  []Given
	Latest   bool // only the newest job selected
	Hold     bool
}

// Given is an option as the user gave it, to be applied to a Spec by the same parser as at submission.
type Given struct {
	Name   string
	Values []string
}

// Extend asks that a running element may run longer: by Add, or until it has run for RunLimit; one of them is 0.
type Extend struct {
	ID            string // as listings print it; of one element
	By            Identity
	Add, RunLimit time.Duration
}

// Extension answers an Extend. Without Granted nothing has changed.
type Extension struct {
	ID       ElementID
	Granted  bool
	RunLimit time.Duration // in force
	Ends     time.Time     // at the latest
	Longest  time.Duration // the run limit that could be had now, to the minute; at least the one that was in force
	Why      string        // what bounds it, for people
}

// Outcome is one line of a Control's answer.
type Outcome struct {
	ID   string
	OK   bool
	Text string
}

// AdminCommand changes hosts and queues, and deletes reservations. Only administrators may give one.
type AdminCommand struct {
	Op     string // hopen, hclose, qopen, qclose, qact, qinact, reconfig, rsvdel
	Names  []string
	Reason string
	By     Identity
}

// Reason is why an element does not start. Kind is from the list below, Text is what listings print.
type Reason struct {
	Kind  ReasonKind
	Text  string
	Hosts int        // number of hosts it holds for; 0 when it is not about hosts
	Nodes []nodes.ID // some of those hosts
}

// ReasonKind is a closed list, so that scripts can rely on it.
type ReasonKind string

// Reasons, in the order in which the planner looks: the first one given is the first blocker.
const (
	ReasonNew           ReasonKind = "new"             // no cycle has looked at it yet
	ReasonHeld          ReasonKind = "held"            // PSUSP
	ReasonBegin         ReasonKind = "begin-time"      // -b
	ReasonDependency    ReasonKind = "dependency"      // not yet
	ReasonNever         ReasonKind = "never-satisfied" // the dependency cannot become true
	ReasonQueueInactive ReasonKind = "queue-inactive"
	ReasonArrayLimit    ReasonKind = "array-limit" // -J "a[..]%n"
	ReasonUserLimit     ReasonKind = "user-limit"  // slots of a user in the queue
	ReasonQueueLimit    ReasonKind = "queue-limit"
	ReasonLimit         ReasonKind = "limit"        // of the policy: badmin limit
	ReasonBudget        ReasonKind = "budget"       // of the policy: badmin budget
	ReasonBackoff       ReasonKind = "back-off"     // the last start failed
	ReasonReservation   ReasonKind = "reservation"  // -U: the advance reservation is gone, or not open
	ReasonNoHost        ReasonKind = "no-host"      // no host could ever hold it
	ReasonHostDown      ReasonKind = "host-down"    // hosts that could are down or closed
	ReasonNotSelected   ReasonKind = "not-selected" // select[], -m, the queue's hosts
	ReasonSlots         ReasonKind = "slots"
	ReasonMemory        ReasonKind = "memory"
	ReasonGPU           ReasonKind = "gpu"
	ReasonConsumable    ReasonKind = "consumable"
	ReasonExclusive     ReasonKind = "exclusive"
	ReasonReserved      ReasonKind = "reserved"   // it fits now, but would delay a job before it
	ReasonImage         ReasonKind = "image"      // it is started: its image is on its way to the node
	ReasonNotLooked     ReasonKind = "not-looked" // the cycle's bound was reached before it
)

// View is what readers see while they hold the book: nothing in it may be kept or changed.
type View interface {
	Book() *Book
	// Why gives the reasons of a pending element from the last plan, and when it is expected to start (zero: unknown).
	Why(j *Job, e *Element) (reasons []Reason, expected time.Time)
	// PlannedAt is when the last plan was made.
	PlannedAt() time.Time
	// Ahead counts the pending elements ordered before this one in the last plan.
	Ahead(j *Job, e *Element) int
	// Priority is what decides when the next element of a job that waits is served; false while no plan knows it.
	Priority(j *Job) (Priority, bool)
	// Window is the window of a reservation that is open, or else its next one.
	Window(r *Reservation) (window Period, open bool)
}
