package engine

import (
	"context"

	"fairslice/images"
	"fairslice/queue"
)

// RequestCommit asks for an image of a running session. Where the site has it decided by an administrator the request waits;
// else it is approved at once. Of one session only one request is open.
func (e *Engine) RequestCommit(ctx context.Context, by queue.Identity, id queue.ElementID, ref images.Ref, description string, replace bool) (out *images.Commit, err error) {
	err = e.write(ctx, func(t *tx) error {
		j, el := t.e.book.Find(id)
		if j == nil || j.Owner.User != by.User {
			return refuse("%s: No matching job found", id)
		}
		if ref.Owner == "" {
			ref.Owner = by.User
		}
		switch {
		case ref.Owner != by.User:
			return refuse("%s: A session becomes an image of its owner (%s/%s)", ref, by.User, ref.Short())
		case !el.State.Live():
			return refuse("%s: The session does not run", id)
		case !j.Spec.Writable:
			return refuse("%s: The session cannot change its image: it was not submitted with -writable", id)
		}
		for _, c := range t.e.book.Images.Commits(by.User) {
			if c.State.Open() && c.Job == int64(id.Job) && c.Index == id.Index {
				return refuse("%s: Commit request %d for this session is open already", id, c.ID)
			}
		}
		if _, err := t.e.mayAdd(by, ref, 0, replace); err != nil {
			return err
		}
		c := &images.Commit{ID: t.e.book.Images.NextCommit(), Ref: ref, Job: int64(id.Job), Index: id.Index, Attempt: el.Attempt.Number,
			State: images.CommitAsked, Asked: t.now, Description: description, Replace: replace}
		if err := t.emit(0, 0, by.User, &queue.CommitPut{Commit: c}); err != nil {
			return err
		}
		if out = c; t.e.cfg().ApproveCommits {
			return nil
		}
		out, err = t.decide(c, "", true, "")
		return err
	})
	return out, err
}

// DecideCommit approves or refuses a request; administrators may.
func (e *Engine) DecideCommit(ctx context.Context, by queue.Identity, id images.CommitID, approve bool, reason string) (out *images.Commit, err error) {
	if !by.Admin {
		return nil, refuse("User permission denied")
	}
	err = e.write(ctx, func(t *tx) (err error) {
		c := t.e.book.Images.Commit(id)
		switch {
		case c == nil:
			return refuse("%d: No such commit request", id)
		case c.State != images.CommitAsked:
			return refuse("Commit request %d is %s already", id, c.State)
		}
		out, err = t.decide(c, by.User, approve, reason)
		return err
	})
	return out, err
}

func (t *tx) decide(c *images.Commit, by string, approve bool, reason string) (*images.Commit, error) {
	next := *c
	next.State, next.Reason, next.Decided, next.DecidedBy = images.CommitRefused, reason, t.now, by
	if approve {
		next.State = images.CommitApproved
	} else {
		next.Ended = t.now
	}
	if err := t.emit(0, 0, by, &queue.CommitPut{Commit: &next}); err != nil {
		return nil, err
	}
	return &next, t.tell(&next)
}

// CompleteCommit adds the image that came of an approved request, and ends it, in one transaction. Of one that was over
// meanwhile nothing comes: the file is not needed.
func (e *Engine) CompleteCommit(ctx context.Context, id images.CommitID, i images.Image) (out *images.Image, err error) {
	err = e.write(ctx, func(t *tx) error {
		c := t.e.book.Images.Commit(id)
		if c == nil || c.State != images.CommitApproved {
			return refuse("Commit request %d is not being worked on", id)
		}
		i.Ref, i.Visibility, i.Description = c.Ref, images.Private, c.Description
		if out, err = t.putImage(queue.Identity{User: c.Ref.Owner}, i, c.Replace); err != nil {
			return err
		}
		next := *c
		next.State, next.Image, next.Ended = images.CommitDone, out.ID, t.now
		if err := t.emit(0, 0, "", &queue.CommitPut{Commit: &next}); err != nil {
			return err
		}
		return t.tell(&next)
	})
	return out, err
}

// KeepCommit says whether a request needs its session no more, as all of it was read: then the session may end. It is forgotten
// when the engine ends.
func (e *Engine) KeepCommit(id images.CommitID, kept bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.committing == nil {
		e.committing = map[images.CommitID]bool{}
	}
	if kept {
		e.committing[id] = true
	} else {
		delete(e.committing, id)
	}
}

// FailCommit ends a request of which nothing can come.
func (e *Engine) FailCommit(ctx context.Context, id images.CommitID, why string) error {
	return e.write(ctx, func(t *tx) error {
		if c := t.e.book.Images.Commit(id); c != nil && c.State.Open() {
			return t.failCommit(c, why)
		}
		return nil
	})
}

func (t *tx) failCommit(c *images.Commit, why string) error {
	next := *c
	next.State, next.Reason, next.Ended = images.CommitFailed, why, t.now
	if err := t.emit(0, 0, "", &queue.CommitPut{Commit: &next}); err != nil {
		return err
	}
	return t.tell(&next)
}

// Commits lists requests, newest first: the caller's, or with all everybody's, which administrators may.
func (e *Engine) Commits(by queue.Identity, all bool) ([]*images.Commit, error) {
	if all && !by.Admin {
		return nil, refuse("User permission denied")
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	owner := by.User
	if all {
		owner = ""
	}
	return e.book.Images.Commits(owner), nil
}

// sweepCommits fails the requests whose session is over.
func (t *tx) sweepCommits() error {
	for _, c := range t.e.book.Images.Commits("") {
		if !c.State.Open() || t.e.committing[c.ID] {
			continue
		}
		_, el := t.e.book.Find(queue.ElementID{Job: queue.JobID(c.Job), Index: c.Index})
		if el == nil || el.Attempt == nil || el.Attempt.Number != c.Attempt || !el.State.Live() {
			if err := t.failCommit(c, "the session has ended before it became an image"); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell notes in the session's history what became of a request for it: its people see that in bjobs -l and bhist.
func (t *tx) tell(c *images.Commit) error {
	id := queue.ElementID{Job: queue.JobID(c.Job), Index: c.Index}
	_, el := t.e.book.Find(id)
	if el == nil || el.Attempt == nil || el.Attempt.Number != c.Attempt || !el.State.Live() {
		return nil
	}
	return t.emit(id.Job, id.Index, c.DecidedBy, &queue.Noted{Attempt: c.Attempt, Text: c.Words()})
}
