package accounting

import (
	"slices"
	"time"
)

// BudgetList is what is shown of budgets.
type BudgetList struct {
	At     time.Time
	States []BudgetState // of each the present period; of one that is not in force the first, or the last
}

// List are the budgets over any of these accounts, in the order of the policy; nil are all accounts.
func (b *Budgets) List(accounts []string) BudgetList {
	out := BudgetList{At: b.Now}
	for i := range b.States {
		if accounts == nil || slices.ContainsFunc(accounts, func(a string) bool { return slices.Contains(b.Over(a), i) }) {
			out.States = append(out.States, b.States[i][0])
		}
	}
	return out
}

// InForce says whether a moment lies in the period.
func (s *BudgetState) InForce(now time.Time) bool { return s.Period.holds(now) }

// PeriodText is the period as the policy has it, with the first day where it names one: of one account and unit no two budgets have
// the same.
func (b *Budget) PeriodText() string {
	if b.From == (Date{}) {
		return b.periodText()
	}
	return b.periodText() + " from=" + b.From.String()
}
