package shepherd

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Start says what to run. Relative paths are relative to Dir.
type Start struct {
	Key    string   // the attempt, of [0-9A-Za-z._-]
	Argv   []string // Argv[0] without a slash is looked up in Env's PATH
	Env    []string // the whole environment; FAIRSLICE_ATTEMPT=Key is added when it is not there
	Dir    string   // empty means /
	UID    int
	GID    int
	Groups []int
	Setuid bool // take on UID, GID and Groups; needs root
	Umask  int

	Stdin          string // path; empty means /dev/null, or the terminal or stream where there is one
	Stdout, Stderr Output
	Fallback       string // directory for KEY.out and KEY.err where an output cannot be opened; made when missing; empty: none

	Cgroup string // what the Enter function given to Main understands; empty: none

	TTY        bool // a terminal is the job's controlling one, and stands for what of stdin, stdout, stderr has no path
	Rows, Cols uint16
	Pipe       bool // streams, reached with Attach, stand for what has no path; at most one of TTY and Pipe
}

// Output is where stdout or stderr goes. An empty Stdout.Path is /dev/null (or terminal, or stream). Stderr with an empty
// Path, or that of Stdout, is the same descriptor as stdout. Files are appended to, unless Truncate.
type Output struct {
	Path     string
	Truncate bool
}

// Started describes a job that has been executed.
type Started struct {
	Pid                    int    // also its session and process group
	Ticks                  uint64 // start time of Pid in clock ticks since boot: with it, Pid names one process for ever
	Began                  time.Time
	StdoutPath, StderrPath string // absolute, as opened; empty when not a file that was asked for
	Fallback               string // why they are not the ones asked for; else empty
}

// Exited says how a job ended.
type Exited struct {
	Key          string
	WaitStatus   uint32        // as of wait(2); see syscall.WaitStatus
	Utime, Stime time.Duration // of the job and the descendants it waited for
	MaxRSS       int64         // bytes, of the largest of these; not below the shepherd's own size, a trait of Linux
	Began, Ended time.Time
}

// Job is an entry of Client.List.
type Job struct {
	Key    string
	Pid    int     // 0 while it is being started
	Exited *Exited // nil while it runs
}

// Code classifies a StartError.
type Code string

// The codes.
const (
	BadCwd    Code = "cwd"      // Dir cannot be entered
	BadExec   Code = "exec"     // the program cannot be executed; see Errno
	BadStdin  Code = "stdin"    // Stdin cannot be opened
	BadOutput Code = "output"   // neither the outputs nor Fallback can be opened
	BadUser   Code = "user"     // the user's rights cannot be taken on
	Exists    Code = "exists"   // this key was started before
	Canceled  Code = "canceled" // the caller's context ended first
	Internal  Code = "internal" // anything else: a cgroup, a terminal, a mistake in Start
)

// StartError says why a job was not started. When Client.Start returns one, nothing runs.
type StartError struct {
	Code  Code
	Errno syscall.Errno // 0 when no system call failed
	Msg   string
}

func (e *StartError) Error() string { return e.Msg }

// Unwrap lets errors.Is find the errno.
func (e *StartError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

func startError(code Code, doing string, err error) *StartError {
	var errno syscall.Errno
	errors.As(err, &errno)
	return &StartError{Code: code, Errno: errno, Msg: fmt.Sprintf("%s: %v", doing, err)}
}

// Errors that callers tell apart.
var (
	// ErrLost: the exit status of this attempt can no longer be known.
	ErrLost = errors.New("exit status lost")
	// ErrNoTrace: the shepherd was killed around the job's fork, and there is no process of it.
	ErrNoTrace = errors.New("no trace of a process")
	// ErrGone: nobody serves this socket; its shepherd has ended or was killed.
	ErrGone = errors.New("shepherd is gone")
	// ErrUnknown: the shepherd has no such job, or it has no terminal.
	ErrUnknown = errors.New("no such job")
)
