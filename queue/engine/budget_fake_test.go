package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairslice/accounting"
	"fairslice/nodes"
	"fairslice/queue"
)

// Spending sums up the charges of the stored events.
func (m *memory) Spending(_ context.Context, cuts []time.Time) (*accounting.Spending, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := accounting.NewSpending(cuts)
	for _, ev := range m.events {
		if c := chargeOf(ev.Body); c != nil {
			s.Add(accounting.Leaf{Account: c.Account, User: c.User}, c.Queue, c.FGPU, c.GPUs, c.Began, c.Ended)
		}
	}
	return s, int64(len(m.events)), nil
}

func chargeOf(body queue.Body) *queue.Charge {
	switch body := body.(type) {
	case *queue.Ended:
		return body.Charge
	case *queue.Requeued:
		return body.Charge
	}
	return nil
}

// budget is what bbudget tells somebody.
func (s *site) budget(args []string) (string, bool) {
	account := ""
	if len(args) > 1 {
		account = args[1]
	}
	list, err := s.e.Budgets(context.Background(), account, identity(args[0]))
	if err != nil {
		return err.Error(), false
	}
	var out []string
	for i := range list.States {
		x := &list.States[i]
		out = append(out, fmt.Sprintf("%s %s spent %s reserved %s left of %s", x.Budget.Account, x.Spent.HoursText(), x.Reserved.HoursText(), x.Left().HoursText(), x.Budget.Total().HoursText()))
	}
	return strings.Join(out, "; "), true
}

// states are those of all elements, in order.
func (s *site) states() string {
	var out []string
	s.e.View(func(v queue.View) {
		v.Book().Each(func(j *queue.Job) bool {
			for i := range j.Elements {
				el := &j.Elements[i]
				out = append(out, fmt.Sprintf("%s:%s", j.ElementID(el.Index), el.State))
			}
			return true
		})
	})
	slices.Sort(out)
	return strings.Join(out, " ")
}

// keptBudgets replays stored events beside a count of its own, and says which start took a hard budget over its total.
func keptBudgets(events []queue.Event) error {
	policy := &accounting.Policy{}
	book := queue.NewBook()
	var charges []*queue.Charge
	for _, ev := range events {
		if err := book.Apply(ev); err != nil {
			return err
		}
		switch body := ev.Body.(type) {
		case *queue.PolicySet:
			p, err := accounting.ParsePolicy(body.Text)
			if err != nil {
				return err
			}
			policy = p
		case *queue.Started:
			if err := overspent(policy, book, charges, ev, body.Alloc); err != nil {
				return err
			}
		}
		if c := chargeOf(ev.Body); c != nil {
			charges = append(charges, c)
		}
	}
	return nil
}

// overspent says that a budget that counts what has started is more than spent and reserved: by products of whole numbers that
// know nothing of Spending and Budgets. It looks at the present period.
func overspent(policy *accounting.Policy, book *queue.Book, charges []*queue.Charge, ev queue.Event, alloc []nodes.Allocation) error {
	in := func(b *accounting.Budget, account, user string) bool {
		if !policy.Has(account) {
			account = policy.DefaultOf(user)
		}
		return slices.Contains(policy.Above(account), b.Account)
	}
	amount := func(b *accounting.Budget, alloc []nodes.Allocation) (n int64) {
		for _, a := range alloc {
			for _, s := range a.Slices {
				switch {
				case b.Unit == accounting.FGPUHours:
					n += int64(s.Amount)
				case s.SMShare == 10_000 && s.Mode != nodes.ModeMIG:
					n += 100
				}
			}
		}
		return n
	}
	started, _ := book.Find(queue.ElementID{Job: ev.Job, Index: ev.Index})
	for i := range policy.Budgets {
		b := &policy.Budgets[i]
		period, ok := b.PeriodAt(ev.At, time.UTC)
		if !ok || !b.Hard || amount(b, alloc) == 0 || !in(b, started.Element(ev.Index).Attempt.Account, started.Owner.User) {
			continue
		}
		within := func(from, to time.Time) int64 {
			return max(min(to.UnixMilli(), period.To.UnixMilli())-max(from.UnixMilli(), period.From.UnixMilli()), 0)
		}
		var sum int64
		for _, c := range charges {
			if in(b, c.Account, c.User) {
				n := int64(c.FGPU)
				if b.Unit == accounting.GPUHours {
					n = 100 * int64(c.GPUs)
				}
				sum += n * within(c.Began, c.Ended)
			}
		}
		book.Each(func(j *queue.Job) bool {
			for k := range j.Elements {
				el := &j.Elements[k]
				if !el.State.Live() || !in(b, el.Attempt.Account, j.Owner.User) {
					continue
				}
				from := el.Attempt.Dispatched
				ends := from
				if !el.Attempt.Began.IsZero() {
					ends = el.Attempt.Began
				}
				ends = ends.Add(el.Attempt.RunLimit + el.Attempt.Stopped)
				if el.State.Suspended() {
					ends = ends.Add(ev.At.Sub(el.Since))
				}
				if el.Attempt.RunLimit == 0 {
					ends = period.To
				}
				if ends.Before(ev.At) {
					ends = ev.At
				}
				sum += amount(b, el.Attempt.Alloc) * within(from, ends)
			}
			return true
		})
		if total := b.Hours * 3_600_000; sum > total {
			return fmt.Errorf("%s: the start of %d[%d] makes %d of %d", b, ev.Job, ev.Index, sum, total)
		}
	}
	return nil
}
