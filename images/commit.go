package images

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// CommitID numbers a request, from 1.
type CommitID int64

// Commit is a request to make an image of a running session.
type Commit struct {
	ID    CommitID `json:"id"`
	Ref   Ref      `json:"ref"` // of the image to be, with its owner
	Job   int64    `json:"job"`
	Index int      `json:"index,omitempty"`
	// Attempt is the run of the session that was meant: if it ends before the image is made, the request fails.
	Attempt     int         `json:"attempt"`
	State       CommitState `json:"state"`
	Reason      string      `json:"reason,omitempty"` // why it was refused or has failed
	Asked       time.Time   `json:"asked"`
	Decided     time.Time   `json:"decided,omitzero"`
	DecidedBy   string      `json:"decided_by,omitempty"` // "" by the site's policy
	Ended       time.Time   `json:"ended,omitzero"`
	Image       ID          `json:"image,omitempty"` // what came of it
	Description string      `json:"description,omitempty"`
	Replace     bool        `json:"replace,omitempty"` // an image of the same name
}

// CommitState is how far a request is.
type CommitState string

// The states: asked → approved → done or failed, or asked → refused or failed.
const (
	CommitAsked    CommitState = "asked"
	CommitApproved CommitState = "approved" // being made
	CommitRefused  CommitState = "refused"
	CommitDone     CommitState = "done"
	CommitFailed   CommitState = "failed"
)

// Open says that something is still to come of it.
func (s CommitState) Open() bool { return s == CommitAsked || s == CommitApproved }

// Words says how far a request is, for its owner.
func (r *Commit) Words() string {
	by := ""
	if r.DecidedBy != "" {
		by = " by " + r.DecidedBy
	}
	why := ""
	if r.Reason != "" {
		why = ": " + r.Reason
	}
	switch r.State {
	case CommitApproved:
		return fmt.Sprintf("commit request %d was approved%s: image %s is being made", r.ID, by, r.Ref)
	case CommitRefused:
		return fmt.Sprintf("commit request %d was refused%s%s", r.ID, by, why)
	case CommitDone:
		return fmt.Sprintf("the session has become image %s", r.Ref)
	case CommitFailed:
		return fmt.Sprintf("image %s was not made%s", r.Ref, why)
	}
	return fmt.Sprintf("commit request %d for image %s waits for an administrator", r.ID, r.Ref)
}

// NextCommit is the number of the next request.
func (c *Catalogue) NextCommit() CommitID { return c.lastReq + 1 }

// PutCommit adds a request under the next number, or puts another state in the place of one; one that is over stays so.
func (c *Catalogue) PutCommit(r *Commit) error {
	old := c.commits[r.ID]
	switch {
	case old == nil && r.ID != c.lastReq+1:
		return fmt.Errorf("commit request %d does not follow %d", r.ID, c.lastReq)
	case old == nil && r.State != CommitAsked:
		return fmt.Errorf("commit request %d begins as %s", r.ID, r.State)
	case old != nil && !old.State.Open():
		return fmt.Errorf("commit request %d is %s", r.ID, old.State)
	case old != nil && (old.Ref != r.Ref || old.Job != r.Job || old.Index != r.Index || old.Attempt != r.Attempt):
		return fmt.Errorf("commit request %d is for another session or name", r.ID)
	}
	c.commits[r.ID] = r
	c.lastReq = max(c.lastReq, r.ID)
	if !r.State.Open() {
		c.dropCommits()
	}
	return nil
}

// KeptCommits is how many requests of one owner that are over a Catalogue knows, the latest by their numbers. The store keeps all.
const KeptCommits = 50

// dropCommits forgets the other requests that are over.
func (c *Catalogue) dropCommits() {
	over := map[string]int{}
	for _, r := range c.Commits("") { // the newest first
		if r.State.Open() {
			continue
		}
		if over[r.Ref.Owner]++; over[r.Ref.Owner] > KeptCommits {
			delete(c.commits, r.ID)
		}
	}
}

// Commit is a request by its number; nil for none, or for one that is long over.
func (c *Catalogue) Commit(id CommitID) *Commit { return c.commits[id] }

// Commits are the requests of an owner, or all for "", the newest first.
func (c *Catalogue) Commits(owner string) []*Commit {
	var out []*Commit
	for _, r := range c.commits {
		if owner == "" || r.Ref.Owner == owner {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Commit) int { return cmp.Compare(b.ID, a.ID) })
	return out
}

// Requested says that some request is open.
func (c *Catalogue) Requested() bool {
	for _, r := range c.commits {
		if r.State.Open() {
			return true
		}
	}
	return false
}
