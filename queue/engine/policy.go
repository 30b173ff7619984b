package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	spent, done, err := e.read(ctx, policy)
	if err != nil {
		return out, err
	}
	defer done()
	err = e.write(ctx, func(t *tx) error {
		now := &t.e.book.Policy
		if c.Base != now.Version {
			return refuse("The policy was changed meanwhile: version %d is in force, set by %s at %s, and yours was made from version %d. "+
				"Look at it (badmin policy show) and make your change again", now.Version, orSystem(now.By),
				now.At.In(t.e.location()).Format("Jan _2 15:04:05"), c.Base)
		}
		if err := t.e.knows(policy); err != nil {
			return err
		}
		out = queue.PolicyOutcome{Version: now.Version, Diff: accounting.Diff(t.e.held.policy, policy)}
		if c.DryRun || len(out.Diff) == 0 {
			return nil
		}
		if err := t.emit(0, 0, c.By.User, &queue.PolicySet{Version: now.Version + 1, Text: policy.String()}); err != nil {
			return err
		}
		t.e.held = newHoldings(t.e, policy, t.now)
		t.e.budgets.take(spent)
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

// knows refuses limits of queues and images that the configuration does not have. What is in force already stays: a queue
// that was taken out of the configuration must not keep administrators from changing anything else.
func (e *Engine) knows(policy *accounting.Policy) error {
	queues, images := e.known()
	var mistakes []error
	for _, s := range policy.Unknown(queues, images) {
		if _, old := e.held.policy.LimitOf(s); old {
			continue
		}
		known := images
		if s.Kind == accounting.ForQueue {
			known = queues
		}
		mistakes = append(mistakes, fmt.Errorf("limit %s: there is no such %s; there are: %s", s, s.Kind, orNone(known)))
	}
	if len(mistakes) == 0 {
		return nil
	}
	if more := len(mistakes) - maxUnknown; more > 0 {
		mistakes = append(mistakes[:maxUnknown], fmt.Errorf("and %d mistakes more", more))
	}
	return Refusal{errors.Join(mistakes...).Error()}
}

// maxUnknown bounds the mistakes that are told at once, and the names in each.
const maxUnknown = 20

// known are the names of the queues, in their order, and of the images, sorted: the configuration's and the catalogue's.
func (e *Engine) known() (queues, images []string) {
	for i := range e.cfg().Queues {
		queues = append(queues, e.cfg().Queues[i].Name)
	}
	images = slices.Collect(maps.Keys(e.cfg().Images))
	for _, i := range e.book.Images.All() {
		images = append(images, i.Ref.String())
	}
	slices.Sort(images)
	return queues, slices.Compact(images)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	if more := len(names) - maxUnknown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxUnknown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// warnOfUnknown logs the limits of queues and images that the configuration does not have any more: nothing counts
// against them, and badmin limit show marks them.
func (e *Engine) warnOfUnknown() {
	for _, s := range e.held.policy.Unknown(e.known()) {
		e.cfg().Logger.Warn("a limit of the policy names what the configuration does not have", "limit", s.String())
	}
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
	return p.AccountOf(j.Spec.Account, j.Owner.User)
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
