package show

import (
	"strconv"

	"fairslice/api/pb"
)

// BudgetHead says what bbudget's numbers mean.
func BudgetHead(b []byte, at int64, st *Style) []byte {
	b = append(b, "Budgets at "+st.CTime(at)+", in hours of the unit. Reserved is what running jobs may spend yet, to their run limits. Gone is when\n"+
		"all is spent at the mean pace of the period so far, - for not before it ends\n"...)
	return append(b, "ACCOUNT         UNIT  PERIOD            KIND     BUDGET      SPENT   RESERVED       LEFT  SPENT% ENDS                 GONE\n"...)
}

// BudgetRow is one line of bbudget.
func BudgetRow(b []byte, x *pb.Budget, at int64, wide bool, st *Style) []byte {
	left := Left
	if wide {
		left = LeftLong
	}
	b = append(left(b, x.Account, 15), ' ')
	b = append(Left(b, unitName(x.Unit), 5), ' ')
	b = append(left(b, x.Period, 17), ' ')
	b = Left(b, budgetKind(x), 4)
	for _, v := range []float64{x.Hours, x.Spent, x.Reserved, x.Left} {
		b = Right(append(b, ' '), strconv.FormatFloat(v, 'f', 2, 64), 10)
	}
	b = Right(append(b, ' '), strconv.FormatFloat(spentPercent(x), 'f', 1, 64), 7)
	b = append(Left(append(b, ' '), st.at(x.To).Format(yearTime), 20), ' ')
	return append(append(b, budgetGone(x, at, st)...), '\n')
}

func unitName(unit string) string {
	if unit == "gpu_hours" {
		return "GPU"
	}
	return "fGPU"
}

func budgetKind(x *pb.Budget) string {
	if x.Hard {
		return "hard"
	}
	return "soft"
}

func spentPercent(x *pb.Budget) float64 {
	if x.Hours <= 0 {
		return 0
	}
	return 100 * x.Spent / x.Hours
}

// budgetGone is when all is spent, in a word.
func budgetGone(x *pb.Budget, at int64, st *Style) string {
	switch {
	case !x.InForce && at < x.From:
		return "begins " + st.at(x.From).Format(yearTime)
	case !x.InForce:
		return "over"
	case x.Out == 0:
		return "-"
	case x.Out <= at:
		return "gone"
	}
	return st.at(x.Out).Format(yearTime)
}

// BudgetRecord adds a line to bbudget's document. Times are RFC 3339; GONE is "" where all is not spent before the period ends.
func BudgetRecord(d *JSON, x *pb.Budget, at int64, st *Style) {
	d.Open()
	d.String("ACCOUNT", x.Account)
	d.String("UNIT", x.Unit)
	d.String("PERIOD", x.Period)
	d.String("KIND", budgetKind(x))
	d.String("FROM", st.RFC3339(x.From))
	d.String("TO", st.RFC3339(x.To))
	d.Int("IN_FORCE", bit(x.InForce))
	d.Raw("HOURS", exact(x.Hours))
	d.Raw("SPENT", exact(x.Spent))
	d.Raw("RESERVED", exact(x.Reserved))
	d.Raw("LEFT", exact(x.Left))
	d.Raw("SPENT_PERCENT", exact(spentPercent(x)))
	gone := ""
	if x.Out != 0 {
		gone = st.RFC3339(x.Out)
	}
	d.String("GONE", gone)
	d.Close()
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
