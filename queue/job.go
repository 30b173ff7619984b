package queue

import (
	"time"

	"fairslice/nodes"
)

// Job is one submission. Its elements carry the states.
type Job struct {
	ID        JobID     `json:"id"`
	Spec      *Spec     `json:"spec"`
	Owner     Identity  `json:"owner"`
	Submitted time.Time `json:"submitted"`
	Token     string    `json:"token,omitempty"` // the client's, see Book.ByToken

	Queue string `json:"queue"` // where it is now; bswitch changes it
	// Position orders jobs of one queue and priority: the submission number, or what btop and bbot made of it.
	Position int64 `json:"position"`
	// Plan is what a run of one element needs, worked out from Spec and the queue when either changes.
	Plan Shape `json:"plan"`

	// Elements are in index order; a job that is no array has exactly one, with index 0.
	Elements []Element `json:"-"`

	depend Condition // parsed Spec.Depend; nil without one
	live   int       // elements with an attempt
	ended  int       // elements in a final state
}

// Element is the unit that waits, runs and ends.
type Element struct {
	Index    int       `json:"index"`
	State    State     `json:"state"`
	Attempts int       `json:"attempts"` // how many were started; the present one's number while live
	Attempt  *Attempt  `json:"attempt,omitempty"`
	Result   *Result   `json:"result,omitempty"` // set with a final state
	Since    time.Time `json:"since,omitzero"`   // of the present state
	// KillAs is the verdict that a kill under way will give; empty while none is.
	KillAs  Verdict   `json:"kill_as,omitempty"`
	KillAt  time.Time `json:"kill_at,omitzero"`
	Requeue bool      `json:"requeue,omitempty"` // when this attempt has ended, wait again (brequeue)
	Hold    bool      `json:"hold,omitempty"`    // with Requeue: as PSUSP (brequeue -H)
	AsDone  bool      `json:"as_done,omitempty"` // bkill -d: ends as DONE
	Note    string    `json:"note,omitempty"`    // bkill -C's text, or why the last attempt could not start
	Retry   time.Time `json:"retry,omitzero"`    // not before: back-off after a failed start
	Failed  int       `json:"failed,omitempty"`  // starts that failed in a row
	// Waited is the part of its wait that is over, see Attempt.Waited: it grows when a waiting element is held.
	Waited time.Duration `json:"waited,omitempty"`
}

// Attempt is one run of an element on nodes.
type Attempt struct {
	Number     int                `json:"number"`
	Alloc      []nodes.Allocation `json:"alloc"` // the first is where the job's command runs
	Dispatched time.Time          `json:"dispatched"`
	Account    string             `json:"account,omitempty"` // that is charged; empty in what older versions started
	// Waited is how long the element was PEND before the dispatch, since its submission or its last requeue. Time before
	// -b's begin and time as PSUSP are left out; back-off, dependencies and limits are waited for like resources.
	Waited   time.Duration `json:"waited,omitempty"`
	Began    time.Time     `json:"began,omitzero"` // the command runs since
	Pid      int           `json:"pid,omitempty"`
	RunLimit time.Duration `json:"run_limit,omitempty"`
	Changed  time.Duration `json:"changed,omitempty"` // by bextend or bmod -W: RunLimit less the one that it was started with
	Stopped  time.Duration `json:"stopped,omitempty"` // time spent suspended, not counted against RunLimit
	Was      State         `json:"was,omitempty"`     // the state before UNKWN, while that is the state
	Home     string        `json:"home,omitempty"`
	CWD      string        `json:"cwd,omitempty"`
	Stdout   string        `json:"stdout,omitempty"` // files actually used
	Stderr   string        `json:"stderr,omitempty"`
	Image    string        `json:"image,omitempty"` // the SIF file, "" on the bare node
	Usage    Usage         `json:"usage,omitzero"`
}

// Usage is what an attempt has consumed so far.
type Usage struct {
	CPU       time.Duration `json:"cpu,omitempty"`
	UserCPU   time.Duration `json:"user_cpu,omitempty"`
	SysCPU    time.Duration `json:"sys_cpu,omitempty"`
	Memory    int64         `json:"memory,omitempty"`     // bytes, now
	MaxMemory int64         `json:"max_memory,omitempty"` // bytes, peak
	AvgMemory int64         `json:"avg_memory,omitempty"` // bytes, mean of the samples
	Processes int           `json:"processes,omitempty"`
	MaxProcs  int           `json:"max_procs,omitempty"`
	Threads   int           `json:"threads,omitempty"`
	MaxThrds  int           `json:"max_threads,omitempty"`
	Pids      []int         `json:"pids,omitempty"`
	PGID      int           `json:"pgid,omitempty"`
	GPUs      []GPUUsage    `json:"gpus,omitempty"` // of the slices on the node that runs the command
}

// Result is how an element ended.
type Result struct {
	// Status is the raw wait status as the kernel gave it (wait(2)); -1 when it was lost or nothing ran.
	Status  int       `json:"status"`
	Verdict Verdict   `json:"verdict,omitempty"`
	Detail  string    `json:"detail,omitempty"` // for people: why a start failed, which limit
	At      time.Time `json:"at"`
	// PostFailed says that the post-execution command (-Ep) ended with a status other than 0.
	PostFailed bool `json:"post_failed,omitempty"`
}

// NoStatus is Result.Status when there is no wait status.
const NoStatus = -1

// ExitCode is LSF's: the program's own, or 128 + the signal's number; 0 without a status. A job that
// lost a process to its memory limit never shows success: the kernel used SIGKILL, so it is 137.
func (r *Result) ExitCode() int {
	switch {
	case r == nil || r.Status == NoStatus:
		return 0
	case (r.Verdict == TermMemLimit || r.Verdict == TermGPUMemLimit) && r.Status == 0:
		return 128 + 9
	case r.Status&0x7f != 0:
		return 128 + r.Status&0x7f
	}
	return r.Status >> 8 & 0xff
}

// Signal is the signal that ended the program, or 0.
func (r *Result) Signal() int {
	if r == nil || r.Status == NoStatus {
		return 0
	}
	return r.Status & 0x7f
}

// Shape is all that the planner needs to know of an element: equal shapes can be planned as one
// class, so it is comparable.
type Shape struct {
	Queue     string        `json:"queue"`
	Priority  int           `json:"priority"` // queue's, then the user's own
	Slots     int           `json:"slots"`
	MaxSlots  int           `json:"max_slots"`
	OneHost   bool          `json:"one_host,omitempty"`
	PerHost   int           `json:"per_host,omitempty"` // span[ptile]
	Host      nodes.Request `json:"host"`               // of each host; its Slots are for one host and set by the planner when spread
	RunLimit  time.Duration `json:"run_limit"`
	Select    string        `json:"select,omitempty"`     // canonical text of select[…]
	Hosts     string        `json:"hosts,omitempty"`      // -m, canonical
	MemoryMax int64         `json:"memory_max,omitempty"` // bytes at which the job is killed, 0 = no limit
	// Reservation is the ID of the advance reservation to run in, and only there; "" is outside of all.
	Reservation string `json:"reservation,omitempty"`
}

// ElementID is the name of the element with this index.
func (j *Job) ElementID(index int) ElementID { return ElementID{j.ID, index} }

// Element finds an element by its index.
func (j *Job) Element(index int) *Element {
	lo, hi := 0, len(j.Elements)
	for lo < hi {
		if mid := (lo + hi) / 2; j.Elements[mid].Index < index {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(j.Elements) && j.Elements[lo].Index == index {
		return &j.Elements[lo]
	}
	return nil
}

// DisplayName is the name with the index of an element, as listings show it: "train[3]".
func (j *Job) DisplayName(index int) string {
	name := j.Spec.Name
	if name == "" {
		name = j.Spec.Command
	}
	if index > 0 {
		return name + ElementID{Index: index}.String()[1:]
	}
	return name
}
