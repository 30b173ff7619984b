package engine

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"fairslice/nodes"
	"fairslice/queue"
)

// Submit checks a submission, stores it, and returns when it is durable. The same token of the same
// user gives the job that was made first.
func (e *Engine) Submit(ctx context.Context, sub queue.Submission) (queue.Accepted, error) {
	if mistakes := sub.Spec.Validate(); len(mistakes) > 0 {
		return queue.Accepted{}, Refusal{errors.Join(mistakes...).Error()}
	}
	acc := queue.Accepted{Default: sub.Spec.Queue == ""}
	q, err := e.pickQueue(sub.Spec, sub.Owner)
	if err != nil {
		return acc, err
	}
	spec := *sub.Spec
	spec.Rerunnable = spec.Rerunnable || q.Rerunnable
	if spec.Array != nil && spec.Array.Last() > e.cfg().MaxArray {
		return acc, refuse("Job array index too large")
	}
	if err := e.chooseImage(&spec, sub.Owner); err != nil {
		return acc, err
	}
	if err := e.mayHaveApps(&spec, q); err != nil {
		return acc, err
	}
	shape, err := e.cfg().shape(&spec, q)
	if err != nil {
		return acc, err
	}
	blobs := map[string][]byte{}
	spec.ScriptHash = keep(blobs, sub.Script)
	spec.EnvHash = keep(blobs, packEnv(sub.Env))
	err = e.write(ctx, func(t *tx) error {
		if id, ok := t.e.book.ByToken(sub.Owner.User, sub.Token); ok && sub.Token != "" {
			acc.Job, acc.Queue = id, t.e.book.Jobs[id].Queue
			return nil
		}
		if t.e.book.Queues[q.Name].Closed {
			return refuse("%s: Queue is closed", q.Name)
		}
		final := spec
		if err := t.mayUseImage(&final, &shape); err != nil {
			return err
		}
		if err := t.mayUseReservation(&final, sub.Owner); err != nil {
			return err
		}
		if err := t.e.resolveDependency(&final, sub.Owner.User); err != nil {
			return err
		}
		for _, w := range spec.Hosts {
			if !w.Others && w.Name != "all" && t.e.book.Nodes[nodes.ID(w.Name)] == nil {
				return refuse("%s: Bad host name, host group name or cluster name", w.Name)
			}
		}
		if err := t.chooseAccount(&final, sub.Owner.User); err != nil {
			return err
		}
		would := &queue.Job{Spec: &final, Owner: sub.Owner, Submitted: t.now, Queue: q.Name, Plan: shape}
		if err := t.maySubmit(would, elementsOf(&final)); err != nil {
			return err
		}
		if err := t.mayAfford(would); err != nil {
			return err
		}
		id := t.e.book.LastJob + 1
		owner := sub.Owner
		owner.Admin = false // of this call, not of the job
		body := &queue.Submitted{Spec: &final, Owner: owner, Token: sub.Token, Queue: q.Name, Plan: would.Plan}
		if err := t.emit(id, 0, sub.Owner.User, body); err != nil {
			return err
		}
		t.e.held.submitted(would)
		t.keep(blobs)
		t.e.stats.submitted(q.Name)
		acc.Job, acc.Queue, t.wake = id, q.Name, true
		return nil
	})
	return acc, err
}

func elementsOf(s *queue.Spec) int {
	if s.Array == nil {
		return 1
	}
	return len(s.Array.Indices())
}

// keep adds data to blobs and returns its name; "" for nothing.
func keep(blobs map[string][]byte, data []byte) string {
	if len(data) == 0 {
		return ""
	}
	h := hashOf(data)
	blobs[h] = data
	return h
}

// keep stores blobs, also those that are known to be stored: the store notes that they are in use.
func (t *tx) keep(blobs map[string][]byte) {
	for h, data := range blobs {
		if t.blobs == nil {
			t.blobs = map[string][]byte{}
		}
		t.blobs[h] = data
		t.after = append(t.after, func() { t.e.blobs.put(h, data) })
	}
}

// pickQueue is the first of the queues named (-q "a b") that accepts the job, or the default.
func (e *Engine) pickQueue(s *queue.Spec, owner queue.Identity) (*Queue, error) {
	names := strings.Fields(s.Queue)
	if len(names) == 0 {
		names = []string{e.cfg().DefaultQueue}
	}
	var first error
	for _, name := range names {
		q := e.cfg().queue(name)
		if q == nil {
			return nil, refuse("%s: No such queue", name)
		}
		err := e.usable(q, owner)
		if err == nil && len(names) > 1 {
			_, err = e.cfg().shape(s, q)
		}
		if err == nil {
			return q, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func (e *Engine) usable(q *Queue, owner queue.Identity) error {
	if len(q.Users) > 0 && !slices.Contains(q.Users, owner.User) {
		return refuse("User cannot use the queue")
	}
	return nil
}

// resolveDependency turns the names in -w into job numbers, once: later jobs of the same name do not count.
func (e *Engine) resolveDependency(s *queue.Spec, user string) error {
	if s.Depend == "" {
		return nil
	}
	c, err := queue.ParseCondition(s.Depend)
	if err != nil {
		return Refusal{err.Error()}
	}
	resolved, err := c.Resolve(func(name string) []queue.JobID { return e.named(user, name) })
	if err != nil {
		return Refusal{err.Error()}
	}
	for _, ref := range resolved.Refs() {
		j := e.book.Jobs[ref.Job]
		switch {
		case j == nil || j.Owner.User != user:
			return refuse("%d: No matching job found", ref.Job)
		case ref.Each && !sameIndices(j.Spec.Array, s.Array):
			return refuse("%d[*]: Dependency between arrays needs the same index list in both", ref.Job)
		}
	}
	s.Depend = resolved.String()
	return nil
}

func sameIndices(a, b *queue.Array) bool {
	return a != nil && b != nil && slices.Equal(a.Indices(), b.Indices())
}

// named lists a user's jobs by name, which may end in * (or hold it anywhere).
func (e *Engine) named(user, pattern string) []queue.JobID {
	var out []queue.JobID
	e.book.Each(func(j *queue.Job) bool {
		if j.Owner.User == user && matchName(pattern, j.Spec.Name) {
			out = append(out, j.ID)
		}
		return true
	})
	return out
}

// matchName compares a job's name with a pattern whose only wildcard is *.
func matchName(pattern, name string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == name
	}
	// path.Match would treat [ ] ? and \ and stop at /: they are plain characters in job names.
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	rest := name[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// jobPath makes an absolute path of a job's file: relative ones lie in the submission directory.
func jobPath(s *queue.Spec, file string) string {
	if file == "" || strings.HasPrefix(file, "/") {
		return file
	}
	return path.Join(s.SubCWD, file)
}
