package accounting

import (
	"fmt"
	"strconv"
	"time"
)

// Name is how people know a budget: its line without hard or soft.
func (b *Budget) Name() string {
	return fmt.Sprintf("budget account=%s %s=%s period=%s", b.Account, b.Unit, hundredths(b.Hours), b.periodText())
}

// HoursText is a cost in hours, with two decimals; what is little is not told as nothing.
func (c Cost) HoursText() string {
	h := c.Hours()
	if h > 0 && h < 0.01 {
		return "less than 0.01"
	}
	return strconv.FormatFloat(h, 'f', 2, 64)
}

// Why says why a budget has not enough left for somebody who needs so much of a period.
func (s *BudgetState) Why(need Cost, now time.Time, place *time.Location) string {
	text := fmt.Sprintf("%s: %s spent and %s reserved of %s", s.Budget.Name(), s.Spent.HoursText(), s.Reserved.HoursText(), hundredths(s.Budget.Hours))
	if now.Before(s.Period.From) {
		text += " in the period from " + s.Period.From.In(place).Format(stamp)
	}
	text += ", and it would take " + need.HoursText()
	if s.Budget.Period == UntilDate {
		return text + "; it ends " + s.Period.To.In(place).Format(stamp)
	}
	return text + "; it begins anew " + s.Period.To.In(place).Format(stamp)
}

// stamp is LSF's format for a moment that may be in another year.
const stamp = "Jan _2 15:04:05 2006"

// Needs is what work would take of the period that a start or a longer run limit was refused for.
func (s *BudgetState) Needs(w *Work) Cost { return s.takes(w.FGPU, w.GPUs, w.Now, w.Ends) }
