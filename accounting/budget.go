package accounting

import (
	"time"

	"fairslice/nodes"
)

// Span is a stretch of time: from From on, and before To.
type Span struct{ From, To time.Time }

// PeriodAt is the period of b in which a moment lies, by the calendar of a place. ok is false while the budget is not in force:
// before its first day, and after its last.
func (b *Budget) PeriodAt(at time.Time, place *time.Location) (s Span, ok bool) {
	t := at.In(place)
	first := Date{t.Year(), int(t.Month()), 1}
	switch b.Period {
	case Month:
		s = Span{first.In(place), Date{first.Year, first.Month + 1, 1}.In(place)}
	case Quarter:
		first.Month -= (first.Month - 1) % 3
		s = Span{first.In(place), Date{first.Year, first.Month + 3, 1}.In(place)}
	default:
		s = Span{time.Unix(0, 0), Date{b.Until.Year, b.Until.Month, b.Until.Day + 1}.In(place)}
	}
	if b.From != (Date{}) {
		if from := b.From.In(place); from.After(s.From) {
			s.From = from
		}
	}
	return s, s.holds(at)
}

// budgetsAhead is how far ahead what runs is reserved in the periods to come. What a run limit of more than that takes later
// is not.
const budgetsAhead = 366 * 24 * time.Hour

// periods are those from a moment to budgetsAhead, in order, at least one. The first has not begun when the budget has not, and
// is over when the budget is.
func (b *Budget) periods(now time.Time, place *time.Location) []Span {
	var out []Span
	at := now
	if b.From != (Date{}) {
		if from := b.From.In(place); from.After(at) {
			at = from
		}
	}
	for len(out) == 0 || at.Before(now.Add(budgetsAhead)) {
		s, ok := b.PeriodAt(at, place)
		if ok || len(out) == 0 {
			out = append(out, s)
		}
		if !ok {
			break
		}
		at = s.To
	}
	return out
}

// Total is all of the budget.
func (b *Budget) Total() Cost { return CostOf(b.Hours, hourCost) }

// Cuts are the moments at which spending must be told apart for the budgets of p: the beginnings and ends of the periods from
// the one before the present (a clock that is set back asks for it) to those in which something may be reserved. They are in no
// order.
func (p *Policy) Cuts(now time.Time, place *time.Location) []time.Time {
	var out []time.Time
	if p == nil {
		return nil
	}
	for i := range p.Budgets {
		b := &p.Budgets[i]
		spans := b.periods(now, place)
		if s, ok := b.PeriodAt(now, place); ok && b.Period != UntilDate {
			if before, ok := b.PeriodAt(s.From.Add(-1), place); ok {
				spans = append(spans, before)
			}
		}
		for _, s := range spans {
			out = append(out, s.From, s.To)
		}
	}
	return out
}

// Work is what an attempt holds that runs.
type Work struct {
	At    Leaf // the account that it is charged to, and its user
	FGPU  nodes.Amount
	GPUs  int // whole ones
	Began time.Time
	Now   time.Time // until when it has been spent: never before Began
	Ends  time.Time // by its run limit; the zero time for none
}

// amount is what w holds of what a budget counts, in hundredths.
func (u BudgetUnit) amount(fgpu nodes.Amount, gpus int) int64 {
	if u == GPUHours {
		return int64(gpus) * 100
	}
	return int64(fgpu)
}

// within is how many milliseconds of a time lie in s.
func (s Span) within(from, to time.Time) int64 {
	a, b := max(from.UnixMilli(), s.From.UnixMilli()), min(to.UnixMilli(), s.To.UnixMilli())
	return max(b-a, 0)
}

// BudgetState is a budget in one of its periods.
type BudgetState struct {
	Budget Budget
	Period Span
	Spent  Cost // by what has ended, and by what runs up to now
	// Reserved is what may be spent yet by what runs: until its run limit, or without one until the end of the period that it is
	// in.
	Reserved Cost
}

// Left is what may still be promised to new work: nothing where more is spent and reserved than there is.
func (s *BudgetState) Left() Cost { return s.Budget.Total().Minus(s.Spent).Minus(s.Reserved) }

// Gone says that all of the budget is spent.
func (s *BudgetState) Gone() bool { return s.Spent.Compare(s.Budget.Total()) >= 0 }

// Out is when all will be spent if it goes on as it did in the mean of the period so far; false if that is not before its end,
// or cannot be said because nothing was spent.
func (s *BudgetState) Out(now time.Time) (time.Time, bool) {
	past := now.Sub(s.Period.From)
	total, spent := s.Budget.Total().Hours(), s.Spent.Hours()
	if s.Gone() {
		return now, true
	}
	if spent <= 0 || past <= 0 {
		return time.Time{}, false
	}
	need := float64(past) * (total - spent) / spent
	if need >= float64(s.Period.To.Sub(now)) {
		return time.Time{}, false
	}
	return now.Add(time.Duration(need)), true
}

// takes is what work would spend in the period from one moment to another, of what the budget counts.
func (s *BudgetState) takes(fgpu nodes.Amount, gpus int, from, to time.Time) Cost {
	return CostOf(s.Budget.Unit.amount(fgpu, gpus), s.Period.within(from, to))
}

// Budgets are the states of all budgets of a policy at one moment: of each, the present period and those to come, in which
// what runs has reserved something, or may.
type Budgets struct {
	policy *Policy
	Now    time.Time
	States [][]BudgetState // as Policy.Budgets, at least one of each
	over   map[string][]int
}

// BudgetsAt works out the states. Work counts in the account that it was charged to and in all above that, as the policy is
// now; what was charged to an account that is gone, or has another name now, counts for the default account of its user.
func (p *Policy) BudgetsAt(now time.Time, place *time.Location, spent *Spending, running []Work) *Budgets {
	b := &Budgets{policy: p, Now: now, States: make([][]BudgetState, len(p.Budgets)), over: map[string][]int{}}
	if len(p.Budgets) == 0 {
		return b
	}
	for i := range p.Budgets {
		for _, s := range p.Budgets[i].periods(now, place) {
			b.States[i] = append(b.States[i], BudgetState{Budget: p.Budgets[i], Period: s})
		}
	}
	spent.each(func(at Leaf, parts []Spent) {
		for _, i := range b.Over(p.PlaceOf(at)) {
			for k := range b.States[i] {
				s := &b.States[i][k]
				if k == 0 || !spent.empty(s.Period.From) {
					s.Spent = s.Spent.Plus(spent.in(parts, s.Period).Of(s.Budget.Unit))
				}
			}
		}
	})
	for i := range running {
		b.Run(&running[i])
	}
	return b
}

// Run counts an attempt that runs.
func (b *Budgets) Run(w *Work) {
	for _, i := range b.Over(b.policy.PlaceOf(w.At)) {
		for k := range b.States[i] {
			s := &b.States[i][k]
			if k > 0 && !s.Period.From.Before(w.Ends) && s.Period.From.After(w.Now) {
				break // periods are in order
			}
			s.Spent = s.Spent.Plus(s.takes(w.FGPU, w.GPUs, w.Began, w.Now))
			ends := w.Ends
			if ends.IsZero() && s.Period.holds(w.Now) {
				ends = s.Period.To
			}
			if ends.After(w.Now) {
				s.Reserved = s.Reserved.Plus(s.takes(w.FGPU, w.GPUs, w.Now, ends))
			}
		}
	}
}

// PlaceOf is the account in which work counts for budgets that was done by a user for an account: that one, while there is one of
// that name; else the default account of the user.
func (p *Policy) PlaceOf(at Leaf) string {
	if p.Has(at.Account) {
		return at.Account
	}
	return p.DefaultOf(at.User)
}

// Over lists the budgets that what an account does counts in: its own and those of all above it, as indices of
// Policy.Budgets.
func (b *Budgets) Over(account string) []int {
	if known, ok := b.over[account]; ok {
		return known
	}
	list := b.policy.BudgetsOver(account)
	b.over[account] = list
	return list
}

// BudgetsOver is Budgets.Over.
func (p *Policy) BudgetsOver(account string) []int {
	if p == nil || len(p.Budgets) == 0 {
		return nil
	}
	var out []int
	for _, above := range p.Above(account) {
		for i := range p.Budgets {
			if p.Budgets[i].Account == above {
				out = append(out, i)
			}
		}
	}
	return out
}

// Reserve counts what is to be spent later than was reserved.
func (b *Budgets) Reserve(account string, fgpu nodes.Amount, gpus int, was, ends time.Time) {
	for _, i := range b.Over(account) {
		for k := range b.States[i] {
			s := &b.States[i][k]
			s.Reserved = s.Reserved.Plus(s.takes(fgpu, gpus, was, ends))
		}
	}
}

// Refuses is the first hard budget over an account that has not enough left for work that begins now and ends then, in the
// period in which it has not; nil if all have.
func (b *Budgets) Refuses(account string, fgpu nodes.Amount, gpus int, ends time.Time) *BudgetState {
	return b.lacks(account, fgpu, gpus, b.Now, ends)
}

// Extends is Refuses for an attempt that runs, and is to end later than it was reserved for.
func (b *Budgets) Extends(account string, fgpu nodes.Amount, gpus int, was, ends time.Time) *BudgetState {
	return b.lacks(account, fgpu, gpus, was, ends)
}

func (b *Budgets) lacks(account string, fgpu nodes.Amount, gpus int, from, to time.Time) *BudgetState {
	for _, i := range b.Over(account) {
		if !b.policy.Budgets[i].Hard {
			continue
		}
		for k := range b.States[i] {
			s := &b.States[i][k]
			if need := s.takes(fgpu, gpus, from, to); need.Compare(s.Left()) > 0 {
				return s
			}
		}
	}
	return nil
}

// TooMuch is the first hard budget over an account of which there is not enough in a whole period for one attempt of a run
// limit, and what that needs; nil if all have. Of a budget until a date only the time that is left of it counts.
func (p *Policy) TooMuch(account string, fgpu nodes.Amount, gpus int, limit time.Duration, now time.Time, place *time.Location) (*Budget, Cost) {
	for _, i := range p.BudgetsOver(account) {
		b := &p.Budgets[i]
		if !b.Hard {
			continue
		}
		s := b.periods(now, place)[0]
		if b.Period == UntilDate && now.After(s.From) {
			s.From = now
		}
		need := CostOf(b.Unit.amount(fgpu, gpus), min(limit, s.To.Sub(s.From)).Milliseconds())
		if need.Compare(b.Total()) > 0 {
			return b, need
		}
	}
	return nil, Cost{}
}

// Overspent is the first soft budget over an account that is spent in the present period: what the account does comes after
// all others. nil if there is none.
func (b *Budgets) Overspent(account string) *BudgetState {
	for _, i := range b.Over(account) {
		if b.policy.Budgets[i].Hard {
			continue
		}
		if s := b.Present(i); s != nil && s.Gone() {
			return s
		}
	}
	return nil
}

// Present is the state of a budget in the present period; nil while it is not in force.
func (b *Budgets) Present(i int) *BudgetState {
	if s := &b.States[i][0]; s.Period.holds(b.Now) {
		return s
	}
	return nil
}

func (s Span) holds(at time.Time) bool { return !at.Before(s.From) && at.Before(s.To) }

// HardOver is the first hard budget over an account, nil without one.
func (p *Policy) HardOver(account string) *Budget {
	for _, i := range p.BudgetsOver(account) {
		if p.Budgets[i].Hard {
			return &p.Budgets[i]
		}
	}
	return nil
}
