package engine

import (
	"fmt"
	"strings"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/nodes"
	"fairslice/queue"
)

// holdings is what waits and runs under each limit of the policy. The writer keeps it with each event, so that a start is
// checked and counted in the transaction that makes it. It is guarded by Engine.mu, and derived: a new one is counted from
// the book after a restart and with each policy.
type holdings struct {
	e       *Engine
	policy  *accounting.Policy
	limited bool // the policy has any limit
	limits  map[accounting.Scope]*accounting.Limit
	counts  map[accounting.Scope]*amounts // each-user counts as the user's own scope

	// known are the bounds of jobs that are alike in all that decides; the writer fills it.
	known map[kindOfJob][]bound

	smallest nodes.Amount // what the smallest GPU of all nodes counts
}

// kindOfJob is what decides which limits a job counts against.
type kindOfJob struct{ user, account, queue, image string }

// maxKinds bounds what is remembered of them: users choose images and, without accounts, -G as they like.
const maxKinds = 10_000

// amounts are what some elements have: integers, in the units of accounting.Limit.
type amounts struct {
	running, pending, slots, memory, fgpu, sessions int64
	returning                                       int64 // of those that run, who will wait again: brequeue was asked for

	recent []time.Time // submissions of the last minute, oldest first; kept where a rate is limited
}

func (a *amounts) add(b amounts, sign int64) {
	a.running += sign * b.running
	a.pending += sign * b.pending
	a.slots += sign * b.slots
	a.memory += sign * b.memory
	a.fgpu += sign * b.fgpu
	a.sessions += sign * b.sessions
	a.returning += sign * b.returning
}

// bound is one limit that a job counts against, and what is counted under it.
type bound struct {
	limit *accounting.Limit
	scope accounting.Scope
	has   *amounts
}

// newHoldings counts the book. The caller holds Engine.mu for writing, or is alone.
func newHoldings(e *Engine, policy *accounting.Policy, now time.Time) *holdings {
	h := &holdings{e: e, policy: policy, limited: len(policy.Limits) > 0,
		limits: map[accounting.Scope]*accounting.Limit{}, counts: map[accounting.Scope]*amounts{}, known: map[kindOfJob][]bound{}}
	for i := range policy.Limits {
		h.limits[policy.Limits[i].Scope] = &policy.Limits[i]
	}
	if !h.limited {
		return h
	}
	h.measureGPUs()
	e.book.Each(func(j *queue.Job) bool {
		h.shift(h.share(j, j.Elements), 1)
		if now.Sub(j.Submitted) < time.Minute {
			h.submitted(j)
		}
		return true
	})
	return h
}

func (h *holdings) measureGPUs() {
	h.smallest = 0
	for _, n := range h.e.book.Nodes {
		for i := range n.GPUs {
			if c := n.GPUs[i].Capacity; h.smallest == 0 || c < h.smallest {
				h.smallest = c
			}
		}
	}
}

// bounds are the limits that j counts against, the widest first. A user with a limit of his own is not under each-user. It
// changes nothing: readers share the lock.
func (h *holdings) bounds(j *queue.Job) []bound {
	if !h.limited {
		return nil
	}
	if known, ok := h.known[kindOf(j)]; ok {
		return known
	}
	return h.find(j)
}

func kindOf(j *queue.Job) kindOfJob {
	return kindOfJob{j.Owner.User, j.Spec.Account, j.Queue, j.Spec.Image}
}

// keep is bounds for the writer, which counts under them.
func (h *holdings) keep(j *queue.Job) []bound {
	if !h.limited {
		return nil
	}
	kind := kindOf(j)
	known, ok := h.known[kind]
	if !ok {
		known = h.find(j)
		for i := range known {
			b := &known[i]
			if h.counts[b.scope] == nil {
				h.counts[b.scope] = b.has
			}
			b.has = h.counts[b.scope]
		}
		if len(h.known) >= maxKinds {
			clear(h.known)
		}
		h.known[kind] = known
	}
	return known
}

func (h *holdings) find(j *queue.Job) []bound {
	var out []bound
	add := func(limit, counted accounting.Scope) bool {
		l := h.limits[limit]
		if l == nil {
			return false
		}
		has := h.counts[counted]
		if has == nil {
			has = &amounts{}
		}
		out = append(out, bound{l, counted, has})
		return true
	}
	same := func(k accounting.ScopeKind, name string) bool {
		s := accounting.Scope{Kind: k, Name: name}
		return add(s, s)
	}
	same(accounting.All, "")
	above := h.policy.Above(accountUnder(h.policy, j))
	for i := len(above) - 1; i >= 0; i-- {
		same(accounting.ForAccount, above[i])
	}
	same(accounting.ForQueue, j.Queue)
	if image := h.e.imageName(j); image != "" && !same(accounting.ForImage, image) {
		if bare, latest := strings.CutSuffix(image, ":latest"); latest {
			same(accounting.ForImage, bare)
		}
	}
	if user := j.Owner.User; !same(accounting.ForUser, user) {
		add(accounting.Scope{Kind: accounting.EachUser}, accounting.Scope{Kind: accounting.ForUser, Name: user})
	}
	return out
}

// imageName is the image that j runs in, with its tag; "" on the bare node.
func (e *Engine) imageName(j *queue.Job) string {
	q := e.cfg().queue(j.Queue)
	if q != nil && q.Container == "never" {
		return ""
	}
	for _, name := range []string{j.Spec.Image, queueImage(q), e.cfg().DefaultImage} {
		if name == "" || strings.HasPrefix(name, "/") || strings.Contains(name, ":") {
			if name != "" {
				return name
			}
			continue
		}
		return name + ":latest"
	}
	return ""
}

// share is a part of what is counted: of one job, under its limits.
type share struct {
	under []bound
	amounts
}

// share is what waits of j, and what these of its elements hold.
func (h *holdings) share(j *queue.Job, elements []queue.Element) share {
	s := share{under: h.keep(j)}
	if len(s.under) == 0 {
		return s
	}
	s.pending = int64(len(j.Elements) - j.Live() - j.Ended())
	for i := range elements {
		if el := &elements[i]; el.State.Live() && el.Attempt != nil {
			s.add(held(j, el.Attempt.Alloc), 1)
			if el.Requeue {
				s.returning++
			}
		}
	}
	return s
}

// held is what one element of j holds with this allocation.
func held(j *queue.Job, alloc []nodes.Allocation) amounts {
	a := amounts{running: 1, slots: int64(backfill.OfSlots.Sum(alloc)), memory: int64(backfill.OfMemory.Sum(alloc)), fgpu: int64(backfill.OfFGPU.Sum(alloc))}
	if j.Spec.Interactive.Session() {
		a.sessions = 1
	}
	return a
}

func (h *holdings) shift(s share, sign int64) {
	for i := range s.under {
		s.under[i].has.add(s.amounts, sign)
	}
}

// touched is what an event may change: compared before and after it.
func (h *holdings) touched(ev *queue.Event) share {
	if !h.limited {
		return share{}
	}
	j := h.e.book.Jobs[ev.Job]
	if j == nil {
		return share{}
	}
	switch ev.Body.(type) {
	case *queue.Submitted:
		return h.share(j, nil)
	case *queue.Started, *queue.KillRequested, *queue.Ended, *queue.Requeued:
		if el := j.Element(ev.Index); el != nil {
			return h.share(j, []queue.Element{*el})
		}
	case *queue.Modified, *queue.Switched:
		return h.share(j, j.Elements)
	}
	return share{}
}

// follow counts what an event has changed; before is what touched said before it.
func (h *holdings) follow(ev *queue.Event, before share) {
	if _, joined := ev.Body.(*queue.NodeJoined); joined && h.limited {
		h.measureGPUs()
	}
	h.shift(before, -1)
	h.shift(h.touched(ev), 1)
}

// submitted counts a submission for limits of rates.
func (h *holdings) submitted(j *queue.Job) {
	for _, b := range h.keep(j) {
		if b.limit.Rate != accounting.NoLimit {
			b.has.recent = append(b.has.recent, j.Submitted)
		}
	}
}

// least is what one element of j holds at least.
func (h *holdings) least(j *queue.Job) amounts {
	a := amounts{running: 1, slots: int64(j.Plan.Slots), memory: int64(backfill.OfMemory.Least(&j.Plan, 0))}
	a.fgpu = int64(backfill.OfFGPU.Least(&j.Plan, h.smallest))
	if j.Spec.Interactive.Session() {
		a.sessions = 1
	}
	return a
}

// rule is one number of a limit for what runs, beside what is used of it and what one more element needs.
type rule struct {
	word             string
	of               backfill.Measure
	most, used, need int64
}

// rules are those of a limit that count for an element that needs so much.
func (b *bound) rules(need *amounts) []rule {
	all := [...]rule{
		{"running", backfill.OfElements, b.limit.Running, b.has.running, need.running},
		{"slots", backfill.OfSlots, b.limit.Slots, b.has.slots, need.slots},
		{"memory", backfill.OfMemory, b.limit.Memory, b.has.memory, need.memory},
		{"fgpu", backfill.OfFGPU, int64(b.limit.FGPU), b.has.fgpu, need.fgpu},
		{"sessions", backfill.OfElements, b.limit.Sessions, b.has.sessions, need.sessions},
	}
	var out []rule
	for _, r := range all {
		if r.most != accounting.NoLimit && r.need > 0 {
			out = append(out, r)
		}
	}
	return out
}

// nameOf is how people know one number of a limit: as its line has it, "limit account=physics memory=4G".
func nameOf(l *accounting.Limit, word string) string {
	for _, w := range strings.Fields(l.String()) {
		if strings.HasPrefix(w, word+"=") {
			return fmt.Sprintf("limit %s %s", l.Scope, w)
		}
	}
	return fmt.Sprintf("limit %s %s", l.Scope, word)
}

func (r *rule) full() bool { return r.need > r.most-r.used }

// reasons says which limits of the policy keep one more element of j out now.
func (h *holdings) reasons(j *queue.Job) []queue.Reason {
	bounds := h.bounds(j)
	if len(bounds) == 0 {
		return nil
	}
	need := h.least(j)
	var out []queue.Reason
	for i := range bounds {
		for _, r := range bounds[i].rules(&need) {
			if !r.full() {
				continue
			}
			text := fmt.Sprintf("%s: %s in use, and it needs %s", nameOf(bounds[i].limit, r.word), r.of.Words(int(r.used)), r.of.Words(int(r.need)))
			if r.of == backfill.OfElements {
				text = fmt.Sprintf("%s: %d run", nameOf(bounds[i].limit, r.word), r.used)
			}
			out = append(out, queue.Reason{Kind: queue.ReasonLimit, Text: text})
		}
	}
	return out
}

// admits says whether the limits of the policy let an element of j start on this allocation.
func (h *holdings) admits(j *queue.Job, alloc []nodes.Allocation) bool {
	bounds := h.bounds(j)
	if len(bounds) == 0 {
		return true
	}
	need := held(j, alloc)
	for i := range bounds {
		for _, r := range bounds[i].rules(&need) {
			if r.full() {
				return false
			}
		}
	}
	return true
}
