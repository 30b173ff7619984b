package wire

import (
	"fairslice/accounting"
	"fairslice/api/pb"
)

// FromBudgets makes the message.
func FromBudgets(l accounting.BudgetList) *pb.BudgetsResponse {
	out := &pb.BudgetsResponse{At: Nanos(l.At)}
	for i := range l.States {
		s := &l.States[i]
		total, left := s.Budget.Total(), s.Left()
		m := &pb.Budget{Account: s.Budget.Account, Unit: string(s.Budget.Unit), Period: s.Budget.PeriodText(), Hard: s.Budget.Hard,
			From: Nanos(s.Period.From), To: Nanos(s.Period.To), Hours: total.Hours(), Spent: s.Spent.Hours(), Reserved: s.Reserved.Hours(),
			Left: left.Hours(), InForce: s.InForce(l.At)}
		if at, ok := s.Out(l.At); ok && m.InForce {
			m.Out = Nanos(at)
		}
		out.Budgets = append(out.Budgets, m)
	}
	return out
}
