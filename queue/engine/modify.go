package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"fairslice/queue"
	"fairslice/queue/bsub"
)

// moveTarget is btop and bbot: it moves a pending job among the pending jobs of its queue and
// priority; of the same user only, unless an administrator moves it.
func (t *tx) moveTarget(c queue.Control, g target) (string, error) {
	j := g.job
	if j.Ended()+j.Live() == len(j.Elements) {
		return "", refuse("%s", stateText(g, "Job has already started"))
	}
	peers := t.peers(j, c.By)
	rank := clamp(c.Position, 1, len(peers)+1)
	var pos int64
	end := "top"
	if c.Op == queue.OpBottom {
		end = "bottom"
		pos = between(peers, len(peers)-(rank-1), j.Position)
	} else {
		pos = between(peers, rank-1, j.Position)
	}
	body := &queue.Moved{Position: pos, Rank: rank, Bottom: c.Op == queue.OpBottom}
	return fmt.Sprintf("has been moved to position %d from %s.", rank, end), t.emit(j.ID, 0, c.By.User, body)
}

// peers are the other pending jobs that j is ordered among, in order.
func (t *tx) peers(j *queue.Job, by queue.Identity) []*queue.Job {
	var out []*queue.Job
	t.e.book.Each(func(o *queue.Job) bool {
		if o != j && o.Queue == j.Queue && o.Plan.Priority == j.Plan.Priority && o.Ended()+o.Live() < len(o.Elements) &&
			(by.Admin || o.Owner.User == by.User) {
			out = append(out, o)
		}
		return true
	})
	slices.SortFunc(out, func(a, b *queue.Job) int { return cmp.Compare(a.Position, b.Position) })
	return out
}

// between is a position before peers[i] and after peers[i-1], and the present one where there are no
// peers. The step is far below the distance between two submissions, so that a user's job moved before
// his first one does not pass those of others that stand before that.
func between(peers []*queue.Job, i int, present int64) int64 {
	const step = 1 << 10
	switch {
	case len(peers) == 0:
		return present
	case i <= 0:
		return peers[0].Position - step
	case i >= len(peers):
		return peers[len(peers)-1].Position + step
	}
	return peers[i-1].Position + (peers[i].Position-peers[i-1].Position)/2
}

func (t *tx) switchTarget(c queue.Control, g target) (string, error) {
	j := g.job
	if j.Finished() {
		return "", refuse("Job has already finished")
	}
	q := t.e.cfg().queue(c.Queue)
	if err := t.e.usable(q, j.Owner); err != nil {
		return "", err
	}
	if t.e.book.Queues[q.Name].Closed {
		return "", refuse("%s: Queue is closed", q.Name)
	}
	shape, err := t.e.cfg().shape(j.Spec, q)
	if err != nil {
		return "", err
	}
	if shape, err = t.mayBecome(j, j.Spec, q.Name, shape); err != nil {
		return "", err
	}
	if err := t.mayExtend(j, j.Spec, q.Name, shape); err != nil {
		return "", err
	}
	text := fmt.Sprintf("is switched to queue <%s>", q.Name)
	return text, t.emit(j.ID, 0, c.By.User, &queue.Switched{Queue: q.Name, Plan: shape})
}

func (t *tx) modifyTarget(c queue.Control, g target) (string, error) {
	j := g.job
	if j.Finished() {
		return "", refuse("Job has already finished")
	}
	if j.Live() > 0 && !bsub.RunningOK(withoutArrayLimit(c.Options)) {
		return "", refuse("Job has already started")
	}
	var words []string
	for _, o := range c.Options {
		words = append(words, "-"+o.Name)
		words = append(words, o.Values...)
	}
	spec := cloneSpec(j.Spec)
	if err := bsub.Apply(spec, c.Options, t.e.parseInput(t, j)); err != nil {
		return "", Refusal{strings.TrimSuffix(strings.TrimSuffix(err.Error(), " Job not submitted."), ".")}
	}
	blobs := map[string][]byte{}
	for _, o := range c.Options {
		if o.Name == "Z" && len(o.Values) > 0 { // another command is another script
			spec.ScriptHash = keep(blobs, []byte(o.Values[len(o.Values)-1]+"\n"))
		}
	}
	if spec.Image != j.Spec.Image {
		spec.ImageID = 0
		if err := t.e.findImage(spec, j.Owner); err != nil {
			return "", err
		}
	}
	q := t.e.cfg().queue(j.Queue)
	if spec.Queue != "" && spec.Queue != j.Spec.Queue {
		var err error
		if q, err = t.e.pickQueue(spec, j.Owner); err != nil {
			return "", err
		}
	}
	if q == nil {
		return "", refuse("%s: No such queue", j.Queue)
	}
	if spec.Depend != j.Spec.Depend {
		if err := t.e.resolveDependency(spec, j.Owner.User); err != nil {
			return "", err
		}
	}
	if (spec.Array == nil) != (j.Spec.Array == nil) || spec.Array != nil && !slices.Equal(spec.Array.Ranges, j.Spec.Array.Ranges) {
		return "", refuse("The index list of a job array cannot be changed")
	}
	if mistakes := spec.Validate(); len(mistakes) > 0 {
		return "", Refusal{mistakes[0].Error()}
	}
	if spec.Reservation != j.Spec.Reservation || !slices.Equal(spec.Hosts, j.Spec.Hosts) {
		if err := t.mayUseReservation(spec, j.Owner); err != nil {
			return "", err
		}
	}
	if !slices.Equal(spec.Apps, j.Spec.Apps) || spec.Image != j.Spec.Image {
		if err := t.mayHaveApps(spec, q); err != nil {
			return "", err
		}
	}
	shape, err := t.e.cfg().shape(spec, q)
	if err != nil {
		return "", err
	}
	if spec.Image != j.Spec.Image {
		if err := t.mayUseImage(spec, &shape); err != nil {
			return "", err
		}
	}
	if spec.Account != j.Spec.Account {
		if err := t.chooseAccount(spec, j.Owner.User); err != nil {
			return "", err
		}
	}
	if shape, err = t.mayBecome(j, spec, q.Name, shape); err != nil {
		return "", err
	}
	if err := t.mayExtend(j, spec, q.Name, shape); err != nil {
		return "", err
	}
	if shape.RunLimit != j.Plan.RunLimit {
		if err := t.mayRunLonger(j, shape.RunLimit, c.By); err != nil {
			return "", err
		}
	}
	if q.Name != j.Queue {
		if err := t.emit(j.ID, 0, c.By.User, &queue.Switched{Queue: q.Name, Plan: shape}); err != nil {
			return "", err
		}
	}
	text := "are being changed"
	if err := t.emit(j.ID, 0, c.By.User, &queue.Modified{Spec: spec, Plan: shape, Words: strings.Join(words, " ")}); err != nil {
		return "", err
	}
	t.keep(blobs)
	t.changeRunning(j)
	return text, nil
}

// withoutArrayLimit leaves out -J "%n": how many elements run at once can change at any time.
func withoutArrayLimit(options []queue.Given) []queue.Given {
	return slices.DeleteFunc(slices.Clone(options), func(o queue.Given) bool {
		return o.Name == "J" && !slices.ContainsFunc(o.Values, func(v string) bool { return !strings.HasPrefix(v, "%") })
	})
}

// changeRunning tells the nodes of live elements the new limits.
func (t *tx) changeRunning(j *queue.Job) {
	for i := range j.Elements {
		if el := &j.Elements[i]; el.State.Live() {
			t.orderLimit(j, el)
		}
	}
}

// orderLimit tells the node of a live element its limits.
func (t *tx) orderLimit(j *queue.Job, el *queue.Element) {
	t.order(el.Attempt.Alloc[0].Node, queue.Order{ID: j.ElementID(el.Index), Attempt: el.Attempt.Number,
		Op: queue.OrderLimit, RunLimit: el.Attempt.RunLimit, MemoryLimit: j.Plan.MemoryMax})
}

func cloneSpec(s *queue.Spec) *queue.Spec {
	c := *s
	if s.Array != nil {
		a := *s.Array
		c.Array = &a
	}
	return &c
}

// Admin changes hosts and queues, and deletes reservations. The caller has checked that by is an administrator.
func (e *Engine) Admin(ctx context.Context, c queue.AdminCommand) ([]queue.Outcome, error) {
	if !c.By.Admin {
		return nil, refuse("User permission denied")
	}
	var out []queue.Outcome
	err := e.write(ctx, func(t *tx) error {
		t.wake = true
		for _, name := range t.adminNames(c) {
			body, text := t.adminEvent(c, name)
			if body == nil {
				out = append(out, queue.Outcome{ID: name, Text: text})
				continue
			}
			if err := t.emit(0, 0, c.By.User, body); err != nil {
				return err
			}
			out = append(out, queue.Outcome{ID: name, OK: true, Text: text})
		}
		return nil
	})
	return out, err
}

// adminNames spells out "all".
func (t *tx) adminNames(c queue.AdminCommand) []string {
	if len(c.Names) != 1 || c.Names[0] != "all" || c.Op == "rsvdel" {
		return c.Names
	}
	var out []string
	if strings.HasPrefix(c.Op, "h") {
		for id := range t.e.book.Nodes {
			out = append(out, string(id))
		}
		slices.Sort(out)
		return out
	}
	for _, q := range t.e.cfg().Queues {
		out = append(out, q.Name)
	}
	return out
}
