package api_test

import (
	"context"
	"time"

	"fairslice/accounting"
	"fairslice/api"
	"fairslice/queue"
)

// Budgets answers with one budget, whose account says who asked for what.
func (e *engine) Budgets(_ context.Context, account string, by queue.Identity) (accounting.BudgetList, error) {
	if account == "nosuch" {
		return accounting.BudgetList{}, &api.Error{Code: api.Invalid, Msg: "nosuch: No such account"}
	}
	asked := account + " by " + by.User
	if by.Admin {
		asked += ", admin"
	}
	return accounting.BudgetList{At: time.Unix(3600, 0), States: []accounting.BudgetState{{
		Budget: accounting.Budget{Account: asked, Unit: accounting.GPUHours, Hours: 1050, Period: accounting.Month, From: accounting.Date{Year: 1970, Month: 1, Day: 1}, Hard: true},
		Period: accounting.Span{From: time.Unix(0, 0), To: time.Unix(36000, 0)},
		Spent:  accounting.CostOf(100, 8*3_600_000), Reserved: accounting.CostOf(50, 3_600_000),
	}}}, nil
}
