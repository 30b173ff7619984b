package engine

import (
	"context"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/queue"
)

// Shares is the fair-share tree as it is now, and with two to compare why one stands before the other.
func (e *Engine) Shares(_ context.Context, compare []string) (accounting.Shares, error) {
	var leaves []accounting.Leaf
	for _, text := range compare {
		l, err := accounting.ParseLeaf(text)
		if err != nil {
			return accounting.Shares{}, Refusal{err.Error()}
		}
		leaves = append(leaves, l)
	}
	if n := len(leaves); n != 0 && n != 2 {
		return accounting.Shares{}, refuse("Two are compared, as in: bshare ada bob; got %d", n)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	s := e.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range leaves {
		if l.Account != "" && !e.held.policy.Has(l.Account) && !e.held.policy.Flat() {
			return accounting.Shares{}, refuse("%s: No such account", l.Account)
		}
		if l.Account != "" && !e.held.policy.IsMember(l.User, l.Account) {
			return accounting.Shares{}, refuse("%s: User %s is not in this account", l.Account, l.User)
		}
		leaves[i] = e.held.policy.Leaf(l.Account, l.User)
	}
	s.ensureUsage()
	now := e.cfg().Now()
	tree := s.treeAt(now)
	for _, c := range s.feed.charges { // what has ended and the planner was not told of yet
		tree.Commit(accounting.Leaf{Account: c.Account, User: c.User}, accounting.Holding{Slots: c.Slots, FGPU: c.FGPU, Memory: c.Memory}, c.Ended.Sub(c.Began))
	}
	e.book.Each(func(j *queue.Job) bool { // who waits has a place
		if j.Live()+j.Ended() < len(j.Elements) {
			tree.Include(leafOf(s.claimant(j)))
		}
		return true
	})
	out := accounting.Shares{At: now, HalfLife: s.usage.HalfLife(), Weights: s.weights(), Flat: e.held.policy.Flat(),
		Ordered: backfill.Fair(e.cfg().Scheduling.Policy.Order)}
	if len(leaves) == 2 {
		out.Why = tree.Explain(leaves[0], leaves[1])
	}
	out.Tree = tree.Standings()
	return out, nil
}

// priority is what decides when the next element of j is served; false while the planner does not know it.
func (s *schedule) priority(j *queue.Job) (queue.Priority, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planner == nil {
		return queue.Priority{}, false
	}
	return s.planner.Priority(j.ID)
}
