package queue

import (
	"encoding/json"
	"fmt"
	"time"

	"fairslice/images"
	"fairslice/nodes"
)

// Event is one thing that happened. Events are the history: never rewritten, and their fold (Book.Apply) is the state.
type Event struct {
	Seq   int64 // position in the history, from 1 without gaps
	At    time.Time
	Job   JobID  // 0 for events of nodes, queues, reservations and images
	Index int    // the element; 0 also for events of the whole job
	By    string // the user who caused it, "" for the system
	Body  Body
}

// Body is what happened: exactly one of the types of this file.
type Body interface{ Kind() Kind }

// Kind is the stored name of a Body's type.
type Kind string

type (
	// Submitted creates a job and its elements, PEND or (with Spec.Hold) PSUSP.
	Submitted struct {
		Spec  *Spec    `json:"spec"`
		Owner Identity `json:"owner"`
		Token string   `json:"token,omitempty"`
		Queue string   `json:"queue"`
		Plan  Shape    `json:"plan"`
	}
	// Started takes an allocation and gives it to a new attempt: PEND → RUN.
	Started struct {
		Attempt  int                `json:"attempt"`
		Alloc    []nodes.Allocation `json:"alloc"`
		RunLimit time.Duration      `json:"run_limit,omitempty"`
		Account  string             `json:"account,omitempty"` // that the attempt will be charged to, whatever becomes of the policy
	}
	// Began is the node's word that the command runs.
	Began struct {
		Attempt int       `json:"attempt"`
		Ran     time.Time `json:"ran"` // by the node's clock
		Pid     int       `json:"pid"`
		Home    string    `json:"home,omitempty"`
		CWD     string    `json:"cwd,omitempty"`
		Stdout  string    `json:"stdout,omitempty"`
		Stderr  string    `json:"stderr,omitempty"`
		Image   string    `json:"image,omitempty"`
		Note    string    `json:"note,omitempty"` // e.g. that output went to the fallback
	}
	// Ended releases the attempt and is final: → DONE or EXIT. With Attempt 0 the element had none (killed while pending).
	Ended struct {
		Attempt int     `json:"attempt,omitempty"`
		Result  Result  `json:"result"`
		Done    bool    `json:"done,omitempty"`
		Usage   Usage   `json:"usage,omitzero"`
		Charge  *Charge `json:"charge,omitempty"`
	}
	// Requeued releases the attempt and lets the element wait again: → PEND or PSUSP.
	Requeued struct {
		Attempt int       `json:"attempt"`
		Why     string    `json:"why"`
		Verdict Verdict   `json:"verdict,omitempty"`
		Failed  bool      `json:"failed,omitempty"` // the start failed; counted
		NotYet  time.Time `json:"not_yet,omitzero"` // not before: back-off
		Hold    bool      `json:"hold,omitempty"`
		Usage   Usage     `json:"usage,omitzero"`
		Charge  *Charge   `json:"charge,omitempty"`
	}
	// KillRequested records that a kill was asked for and what verdict it will give. The end comes as Ended.
	KillRequested struct {
		Verdict Verdict `json:"verdict"`
		Requeue bool    `json:"requeue,omitempty"`
		Hold    bool    `json:"hold,omitempty"`
		AsDone  bool    `json:"as_done,omitempty"`
		Force   bool    `json:"force,omitempty"`
		Note    string  `json:"note,omitempty"`
	}
	// Signalled records bkill -s: the job may live on.
	Signalled struct {
		Signal string `json:"signal"`
	}
	// Noted is something that the job's people should know while it runs, such as that it holds too much GPU memory.
	Noted struct {
		Attempt int    `json:"attempt"`
		Text    string `json:"text"`
		Keep    bool   `json:"keep,omitempty"` // listings show it, until something else is to be shown there
	}
	// Extended lets an attempt run longer than its job says: bextend. Other elements, and a later attempt, have the job's run limit.
	Extended struct {
		Attempt  int           `json:"attempt"`
		RunLimit time.Duration `json:"run_limit"` // from now on
	}
	// Suspended: PEND → PSUSP, RUN → USUSP (or SSUSP by the system).
	Suspended struct {
		System bool `json:"system,omitempty"`
	}
	// Resumed: PSUSP → PEND, USUSP or SSUSP → RUN.
	Resumed struct{}
	// Lost: the node does not answer: live → UNKWN.
	Lost struct{}
	// Found: the node is back and still has the attempt: UNKWN → what it was.
	Found struct {
		State State `json:"state"`
	}
	// Modified replaces the parts of a job that bmod changed.
	Modified struct {
		Spec  *Spec  `json:"spec"`
		Plan  Shape  `json:"plan"`
		Words string `json:"words"` // the options as given, for bhist
	}
	// Switched moves a job to another queue.
	Switched struct {
		Queue string `json:"queue"`
		Plan  Shape  `json:"plan"`
	}
	// Moved is btop or bbot.
	Moved struct {
		Position int64 `json:"position"`
		Rank     int   `json:"rank"` // as asked: 1 is first
		Bottom   bool  `json:"bottom,omitempty"`
	}
	// ArrayLimited changes how many elements may run at once (bmod -J "%n").
	ArrayLimited struct {
		Limit int `json:"limit"`
	}
	// Forgotten removes a finished job from the Book after the clean period; its events stay.
	Forgotten struct{}

	// NodeJoined registers a node, new or back, with its inventory.
	NodeJoined struct {
		Node nodes.Node `json:"node"`
	}
	// NodeLost: heartbeats stopped.
	NodeLost struct {
		Node nodes.ID `json:"node"`
		Why  string   `json:"why,omitempty"`
	}
	// NodeClosed and NodeOpened are an administrator's badmin hclose and hopen.
	NodeClosed struct {
		Node   nodes.ID `json:"node"`
		Reason string   `json:"reason,omitempty"`
	}
	// NodeOpened ends NodeClosed.
	NodeOpened struct {
		Node nodes.ID `json:"node"`
	}
	// QueueSet is badmin qopen, qclose, qact, qinact.
	QueueSet struct {
		Queue  string `json:"queue"`
		Closed bool   `json:"closed"`   // accepts no jobs
		Inact  bool   `json:"inactive"` // starts no jobs
		Reason string `json:"reason,omitempty"`
	}

	// PolicySet replaces the policy of accounts, shares, limits and budgets as a whole. Who changed what is in the events:
	// this one's By and At, and as the text before it the PolicySet before.
	PolicySet struct {
		Version int64  `json:"version"` // from 1, each one more than the one before
		Text    string `json:"text"`    // canonical text of accounting.Policy; opaque here
	}

	// ImagePut adds an image to the catalogue, or puts another state of it in its place.
	ImagePut struct {
		Image *images.Image `json:"image"`
	}
	// ImageForgotten drops an image that was removed, and that no job needs any more.
	ImageForgotten struct {
		ID images.ID `json:"id"`
	}
	// CommitPut adds a request to make an image of a session, or says how far one is.
	CommitPut struct {
		Commit *images.Commit `json:"commit"`
	}

	// ReservationAdded is brsvadd, with the shares that were found for it.
	ReservationAdded struct {
		Reservation *Reservation `json:"reservation"`
	}
	// ReservationDeleted is brsvdel, or (by the system) the end of one that happened once.
	ReservationDeleted struct {
		ID string `json:"id"`
	}
)

func (*Submitted) Kind() Kind     { return "submitted" }
func (*Started) Kind() Kind       { return "started" }
func (*Began) Kind() Kind         { return "began" }
func (*Ended) Kind() Kind         { return "ended" }
func (*Requeued) Kind() Kind      { return "requeued" }
func (*KillRequested) Kind() Kind { return "kill-requested" }
func (*Signalled) Kind() Kind     { return "signalled" }
func (*Noted) Kind() Kind         { return "noted" }
func (*Extended) Kind() Kind      { return "extended" }
func (*Suspended) Kind() Kind     { return "suspended" }
func (*Resumed) Kind() Kind       { return "resumed" }
func (*Lost) Kind() Kind          { return "lost" }
func (*Found) Kind() Kind         { return "found" }
func (*Modified) Kind() Kind      { return "modified" }
func (*Switched) Kind() Kind      { return "switched" }
func (*Moved) Kind() Kind         { return "moved" }
func (*ArrayLimited) Kind() Kind  { return "array-limited" }
func (*Forgotten) Kind() Kind     { return "forgotten" }
func (*NodeJoined) Kind() Kind    { return "node-joined" }
func (*NodeLost) Kind() Kind      { return "node-lost" }
func (*NodeClosed) Kind() Kind    { return "node-closed" }
func (*NodeOpened) Kind() Kind    { return "node-opened" }
func (*QueueSet) Kind() Kind      { return "queue-set" }

func (*PolicySet) Kind() Kind { return "policy-set" }

func (*ImagePut) Kind() Kind       { return "image-put" }
func (*ImageForgotten) Kind() Kind { return "image-forgotten" }
func (*CommitPut) Kind() Kind      { return "commit-put" }

func (*ReservationAdded) Kind() Kind   { return "reservation-added" }
func (*ReservationDeleted) Kind() Kind { return "reservation-deleted" }

// bodies makes an empty Body for each stored kind.
var bodies = map[Kind]func() Body{
	"submitted": func() Body { return new(Submitted) }, "started": func() Body { return new(Started) },
	"began": func() Body { return new(Began) }, "ended": func() Body { return new(Ended) },
	"requeued": func() Body { return new(Requeued) }, "kill-requested": func() Body { return new(KillRequested) },
	"signalled": func() Body { return new(Signalled) }, "noted": func() Body { return new(Noted) }, "extended": func() Body { return new(Extended) }, "suspended": func() Body { return new(Suspended) },
	"resumed": func() Body { return new(Resumed) }, "lost": func() Body { return new(Lost) },
	"found":    func() Body { return new(Found) },
	"modified": func() Body { return new(Modified) }, "switched": func() Body { return new(Switched) },
	"moved": func() Body { return new(Moved) }, "array-limited": func() Body { return new(ArrayLimited) },
	"forgotten": func() Body { return new(Forgotten) }, "node-joined": func() Body { return new(NodeJoined) },
	"node-lost": func() Body { return new(NodeLost) }, "node-closed": func() Body { return new(NodeClosed) },
	"node-opened": func() Body { return new(NodeOpened) }, "queue-set": func() Body { return new(QueueSet) },
	"policy-set": func() Body { return new(PolicySet) }, "image-put": func() Body { return new(ImagePut) },
	"image-forgotten": func() Body { return new(ImageForgotten) }, "commit-put": func() Body { return new(CommitPut) },
	"reservation-added": func() Body { return new(ReservationAdded) }, "reservation-deleted": func() Body { return new(ReservationDeleted) },
}

// DecodeBody reads a stored body. A kind of a newer version is an error, never skipped: replaying
// without it would give another state.
func DecodeBody(k Kind, data []byte) (Body, error) {
	mk, ok := bodies[k]
	if !ok {
		return nil, fmt.Errorf("event kind %q is not known to this version", k)
	}
	b := mk()
	if err := json.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("event kind %q: %w", k, err)
	}
	return b, nil
}
