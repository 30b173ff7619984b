package engine

import (
	"fmt"
	"slices"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/queue"
)

// settle works out what the budgets have left. What waits of an account that has begun to be overspent, or is no longer, is looked
// at again. The caller holds Engine.mu for reading and mu.
func (s *schedule) settle(now time.Time) {
	s.budgets = s.e.budgetsAt(now)
	var over []string
	for i := range s.budgets.States {
		if b := s.budgets.Present(i); b != nil && !b.Budget.Hard && b.Gone() {
			over = append(over, b.Budget.Account)
		}
	}
	if !slices.Equal(over, s.over) {
		changed := slices.Concat(over, s.over)
		s.e.book.Each(func(j *queue.Job) bool {
			if j.Live()+j.Ended() < len(j.Elements) && s.under(j, changed) {
				s.feed.jobs[j.ID] = struct{}{}
			}
			return true
		})
		s.over = over
	}
}

func (s *schedule) under(j *queue.Job, accounts []string) bool {
	return slices.ContainsFunc(s.e.held.policy.Above(s.e.budgetAccount(j)), func(a string) bool { return slices.Contains(accounts, a) })
}

// priorityOf is the priority of j's shape as the planner is to see it.
func (s *schedule) priorityOf(j *queue.Job) int {
	if len(s.over) > 0 && s.under(j, s.over) {
		return queue.OverBudget(j.Plan.Priority)
	}
	return j.Plan.Priority
}

// budgetLimits are the hard budgets that j counts in, as limits of the planner. What of a GPU is whole is known with its
// allocation only, so all that use GPUs are under those.
func (s *schedule) budgetLimits(j *queue.Job) []*backfill.Limit {
	p := s.e.held.policy
	if len(p.Budgets) == 0 || j.Plan.Host.GPU.Zero() {
		return nil
	}
	var out []*backfill.Limit
	for _, i := range p.BudgetsOver(s.e.budgetAccount(j)) {
		b := &p.Budgets[i]
		if !b.Hard {
			continue
		}
		key := budgetKey(i)
		if s.limits[key] == nil {
			of := backfill.OfFGPU
			if b.Unit == accounting.GPUHours {
				of = backfill.OfGPUs
			}
			s.limits[key] = &backfill.Limit{Of: of, Name: b.Name()}
		}
		out = append(out, s.limits[key])
	}
	return out
}

func budgetKey(i int) string { return fmt.Sprint("budget ", i) }

// allow tells the planner what hard budgets have left.
func (s *schedule) allow() {
	for i, states := range s.budgets.States {
		l := s.limits[budgetKey(i)]
		if l == nil {
			continue
		}
		var list []backfill.Allowance
		for k := range states {
			b := &states[k]
			list = append(list, backfill.Allowance{From: b.Period.From, To: b.Period.To, Left: int(b.Left().Int())})
		}
		s.planner.Allow(l, list)
	}
}
