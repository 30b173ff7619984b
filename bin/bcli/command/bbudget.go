package command

import (
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

func bbudgetCommand() *command {
	return &command{run: bbudget, Command: option.Command{
		Name: "bbudget", Usage: "[-w] [-json] [account]",
		Summary: "prints budgets over your accounts, of administrators all: spent, reserved, left",
		Example: "bbudget           budgets over your accounts\n" +
			"bbudget physics   its own, and those of the accounts above it",
		Options: []option.Option{optWide, optJSON, optNoHead},
	}}
}

func bbudget(c *call, p *option.Parsed) int {
	if len(p.Operands) > 1 {
		return c.fail("bbudget: want one account, or none for all, as in: bbudget physics")
	}
	account := ""
	if len(p.Operands) == 1 {
		account = p.Operands[0]
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	resp, err := u.Budgets(c.ctx, account)
	if err != nil {
		return c.failErr(err)
	}
	list := resp.GetBudgets()
	if p.Has("json") {
		return c.document("BUDGETS", nil, len(list), func(doc *show.JSON, i int) { show.BudgetRecord(doc, list[i], resp.GetAt(), &c.style) })
	}
	if len(list) == 0 {
		c.say("No budgets found (badmin budget set makes one)")
		return 0
	}
	var b []byte
	if !p.Has("noheader") {
		b = show.BudgetHead(b, resp.GetAt(), &c.style)
	}
	for _, x := range list {
		b = show.BudgetRow(b, x, resp.GetAt(), p.Has("w"), &c.style)
	}
	c.write(b)
	return 0
}
