package accounting

import (
	"fmt"
	"strings"
)

// Diff says in words what is different in b, one change each, in the order of the policy's items. Nothing for equal ones.
func Diff(a, b *Policy) []string {
	if a == nil {
		a = &Policy{}
	}
	if b == nil {
		b = &Policy{}
	}
	out := differences(a.Accounts, b.Accounts, func(a Account) string { return "account " + a.Name }, changeOfAccount)
	out = append(out, differences(a.Members, b.Members, func(m Member) string { return "user " + m.User + " in account " + m.Account }, changeOfMember)...)
	out = append(out, differences(a.Limits, b.Limits, func(l Limit) string { return "limit " + l.Scope.String() }, changeOfLimit)...)
	return append(out, differences(a.Budgets, b.Budgets, func(b Budget) string {
		b.Hours, b.Hard = 0, false
		return strings.TrimSuffix(strings.Replace(b.String(), "=0 ", " ", 1), " soft")
	}, changeOfBudget)...)
}

// differences compares two lists of items by their names.
func differences[T any](a, b []T, name func(T) string, change func(x, y T) []string) []string {
	was, is := map[string]T{}, map[string]bool{}
	for _, x := range a {
		was[name(x)] = x
	}
	var out []string
	for _, y := range b {
		is[name(y)] = true
		x, known := was[name(y)]
		if !known {
			out = append(out, fmt.Sprintf("%s: added: %s", name(y), any(y)))
			continue
		}
		if c := change(x, y); len(c) > 0 {
			out = append(out, name(y)+": "+strings.Join(c, "; "))
		}
	}
	for _, x := range a {
		if !is[name(x)] {
			out = append(out, fmt.Sprintf("%s: removed: %s", name(x), any(x)))
		}
	}
	return out
}

// became says that a field is another one.
func became(field string, x, y any) []string {
	if x == y {
		return nil
	}
	return []string{fmt.Sprintf("%s %v becomes %v", field, x, y)}
}

func changeOfAccount(x, y Account) []string {
	c := append(became("shares", x.Shares, y.Shares), became("parent", x.Parent, y.Parent)...)
	return append(c, became("description", quote(x.Description), quote(y.Description))...)
}

func changeOfMember(x, y Member) []string {
	c := became("shares", x.Shares, y.Shares)
	switch {
	case x.Default && !y.Default:
		c = append(c, "no longer the default")
	case y.Default && !x.Default:
		c = append(c, "becomes the default")
	}
	return c
}

func changeOfLimit(x, y Limit) []string {
	var c []string
	for _, n := range numbers {
		c = append(c, became(n.name, orNone(n.text(&x)), orNone(n.text(&y)))...)
	}
	return c
}

func orNone(s string) string {
	if s == "" {
		return "unlimited"
	}
	return s
}

func changeOfBudget(x, y Budget) []string {
	c := became("hours", hundredths(x.Hours), hundredths(y.Hours))
	kind := map[bool]string{true: "hard", false: "soft"}
	return append(c, became("kind", kind[x.Hard], kind[y.Hard])...)
}
