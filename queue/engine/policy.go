package engine

import (
	"context"
	"strings"

	"fairslice/accounting"
	"fairslice/queue"
)

// SetPolicy replaces the policy of accounts, shares, limits and budgets. Of two who change the same version the second is
// told. A text with mistakes changes nothing, and all of them are told.
func (e *Engine) SetPolicy(ctx context.Context, c queue.PolicyChange) (out queue.PolicyOutcome, err error) {
	if !c.By.Admin {
		return out, refuse("User permission denied")
	}
	policy, err := accounting.ParsePolicy(c.Text)
	if err != nil {
		return out, Refusal{err.Error()}
	}
	err = e.write(ctx, func(t *tx) error {
		now := &t.e.book.Policy
		if c.Base != now.Version {
			return refuse("The policy was changed meanwhile: version %d is in force, set by %s at %s, and yours was made from version %d. "+
				"Look at it (badmin policy show) and make your change again", now.Version, orSystem(now.By),
				now.At.In(t.e.location()).Format("Jan _2 15:04:05"), c.Base)
		}
		out = queue.PolicyOutcome{Version: now.Version, Diff: accounting.Diff(t.e.held.policy, policy)}
		if c.DryRun || len(out.Diff) == 0 {
			return nil
		}
		if err := t.emit(0, 0, c.By.User, &queue.PolicySet{Version: now.Version + 1, Text: policy.String()}); err != nil {
			return err
		}
		t.e.held = newHoldings(t.e, policy, t.now)
		out.Version, t.wake = now.Version, true
		return nil
	})
	return out, err
}

func orSystem(user string) string {
	if user == "" {
		return "the system"
	}
	return user
}

// PolicyLog lists the changes of the policy, newest first, at most limit of them.
func (e *Engine) PolicyLog(ctx context.Context, limit int) ([]queue.PolicyEntry, error) {
	events, err := e.store.PolicyEvents(ctx, limit+1) // one more, to compare the oldest with
	if err != nil {
		return nil, err
	}
	var out []queue.PolicyEntry
	for i, ev := range events[:min(limit, len(events))] {
		set := ev.Body.(*queue.PolicySet)
		before := &accounting.Policy{}
		if i+1 < len(events) {
			before = lenient(events[i+1].Body.(*queue.PolicySet).Text)
		}
		out = append(out, queue.PolicyEntry{
			PolicyState: queue.PolicyState{Version: set.Version, Text: set.Text, By: ev.By, At: ev.At},
			Diff:        accounting.Diff(before, lenient(set.Text)),
		})
	}
	return out, nil
}

// lenient reads a text of the past, which an older version may have accepted and this one does not: that is none.
func lenient(text string) *accounting.Policy {
	p, err := accounting.ParsePolicy(text)
	if err != nil {
		return &accounting.Policy{}
	}
	return p
}

// accountOf is the account that j counts in, and that an attempt which starts now is charged to: the one it was submitted
// under, while there is one of that name, and else its user's default. The caller holds Engine.mu.
func (e *Engine) accountOf(j *queue.Job) string { return accountUnder(e.held.policy, j) }

func accountUnder(p *accounting.Policy, j *queue.Job) string {
	if a := j.Spec.Account; a != "" && (p.Flat() || p.Has(a)) {
		return a
	}
	return p.DefaultOf(j.Owner.User)
}

// chooseAccount checks -G, or gives a submission without it the user's default account. Where the policy has no accounts,
// -G is a word that anybody may use.
func (t *tx) chooseAccount(s *queue.Spec, user string) error {
	p := t.e.held.policy
	switch {
	case p.Flat():
	case s.Account == "":
		s.Account = p.DefaultOf(user)
	case !p.Has(s.Account):
		return refuse("%s: No such account; yours: %s", s.Account, placesOf(p, user))
	case !p.IsMember(user, s.Account):
		return refuse("%s: You are not in this account; yours: %s", s.Account, placesOf(p, user))
	}
	return nil
}

func placesOf(p *accounting.Policy, user string) string {
	var names []string
	for _, m := range p.Places(user) {
		names = append(names, m.Account)
	}
	return strings.Join(names, ", ")
}
