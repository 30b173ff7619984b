package accounting

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// edited is a changed copy of the policy, if it is one that ParsePolicy would take: no edit makes what a file could not say.
func (p *Policy) edited(change func(*Policy) error) (*Policy, error) {
	var q Policy
	if p != nil {
		q = Policy{slices.Clone(p.Accounts), slices.Clone(p.Members), slices.Clone(p.Limits), slices.Clone(p.Budgets)}
	}
	if err := change(&q); err != nil {
		return nil, err
	}
	q.sort()
	r := parse(q.lines())
	if len(r.mistakes) > 0 {
		return nil, r.err(func(m mistake) string { return m.text }) // its lines are nobody's
	}
	r.policy.sort()
	if !r.policy.equal(&q) { // a name that is more than one word
		return nil, errors.New("a name or a description has characters that a policy cannot have; want letters, digits and _, and after the first also . - @ + $")
	}
	return r.policy, nil
}

func (p *Policy) equal(q *Policy) bool {
	return slices.Equal(p.Accounts, q.Accounts) && slices.Equal(p.Members, q.Members) && slices.Equal(p.Limits, q.Limits) && slices.Equal(p.Budgets, q.Budgets)
}

// lines is the text of what may not be a tree yet.
func (p *Policy) lines() string {
	var b strings.Builder
	for i := range p.Accounts {
		b.WriteString(p.Accounts[i].String() + "\n")
	}
	places := map[string]int{}
	for i := range p.Members {
		places[p.Members[i].User]++
	}
	for i := range p.Members {
		b.WriteString(p.Members[i].text(places[p.Members[i].User] > 1) + "\n")
	}
	for i := range p.Limits {
		b.WriteString(p.Limits[i].String() + "\n")
	}
	for i := range p.Budgets {
		b.WriteString(p.Budgets[i].String() + "\n")
	}
	return b.String()
}

// AddAccount adds an account; one of the same name is an error. An empty parent is root.
func (p *Policy) AddAccount(a Account) (*Policy, error) {
	if a.Parent == "" {
		a.Parent = Root
	}
	return p.edited(func(q *Policy) error {
		if _, there := q.Account(a.Name); there {
			return fmt.Errorf("account %s: there is one already", shown(a.Name))
		}
		q.Accounts = append(q.Accounts, a)
		return nil
	})
}

// ChangeAccount changes what the function changes of an account. A new name is taken over wherever the account is named;
// what was charged under the old one then counts where its users have their default.
func (p *Policy) ChangeAccount(name string, change func(*Account)) (*Policy, error) {
	return p.edited(func(q *Policy) error {
		i := slices.IndexFunc(q.Accounts, func(a Account) bool { return a.Name == name })
		if i < 0 {
			return noAccount(name)
		}
		change(&q.Accounts[i])
		if now := q.Accounts[i].Name; now != name {
			q.rename(name, now)
		}
		return nil
	})
}

func noAccount(name string) error { return fmt.Errorf("account %s: there is none", shown(name)) }

func (p *Policy) rename(old, name string) {
	for i := range p.Accounts {
		if p.Accounts[i].Parent == old {
			p.Accounts[i].Parent = name
		}
	}
	for i := range p.Members {
		if p.Members[i].Account == old {
			p.Members[i].Account = name
		}
	}
	for i := range p.Limits {
		if s := &p.Limits[i].Scope; s.Kind == ForAccount && s.Name == old {
			s.Name = name
		}
	}
	for i := range p.Budgets {
		if p.Budgets[i].Account == old {
			p.Budgets[i].Account = name
		}
	}
}

// RemoveAccount removes an account that nothing names any more: no user, no account below it, no limit, no budget.
func (p *Policy) RemoveAccount(name string) (*Policy, error) {
	return p.edited(func(q *Policy) error {
		i := slices.IndexFunc(q.Accounts, func(a Account) bool { return a.Name == name })
		if i < 0 {
			return noAccount(name)
		}
		q.Accounts = slices.Delete(q.Accounts, i, i+1)
		if name == DefaultAccount { // it stays, as one without a line
			return nil
		}
		for _, a := range q.Accounts {
			if a.Parent == name {
				return fmt.Errorf("account %s: account %s is in it; move or remove that first", name, a.Name)
			}
		}
		for _, m := range q.Members {
			if m.Account == name {
				return fmt.Errorf("account %s: user %s is in it; move or remove all its users first", name, m.User)
			}
		}
		for _, l := range q.Limits {
			if l.Scope == (Scope{ForAccount, name}) {
				return fmt.Errorf("account %s: it has a limit; remove that first", name)
			}
		}
		for _, b := range q.Budgets {
			if b.Account == name {
				return fmt.Errorf("account %s: it has a budget; remove that first", name)
			}
		}
		return nil
	})
}

// AddMember puts a user into an account. The user's first account is the default; with Default in m this one becomes it.
func (p *Policy) AddMember(m Member) (*Policy, error) {
	return p.edited(func(q *Policy) error {
		first := true
		for i := range q.Members {
			if o := &q.Members[i]; o.User == m.User {
				if o.Account == m.Account {
					return fmt.Errorf("user %s: is in account %s already", shown(m.User), shown(m.Account))
				}
				first = false
				o.Default = o.Default && !m.Default
			}
		}
		m.Default = m.Default || first
		q.Members = append(q.Members, m)
		return nil
	})
}

// SetDefault makes one of a user's accounts the default.
func (p *Policy) SetDefault(user, account string) (*Policy, error) {
	return p.edited(func(q *Policy) error {
		found := false
		for i := range q.Members {
			if m := &q.Members[i]; m.User == user {
				m.Default = m.Account == account
				found = found || m.Default
			}
		}
		if !found {
			return noPlace(user, account)
		}
		return nil
	})
}

func noPlace(user, account string) error {
	return fmt.Errorf("user %s: has no line in account %s", shown(user), shown(account))
}

// RemoveMember takes a user out of an account, or out of all with account "". Jobs go on; see Policy.Leaf for where they
// count. The user's default cannot go before another is: see SetDefault.
func (p *Policy) RemoveMember(user, account string) (*Policy, error) {
	return p.edited(func(q *Policy) error {
		gone, rest := false, 0
		removed := func(m Member) bool { return m.User == user && (account == "" || m.Account == account) }
		for _, m := range q.Members {
			gone = gone || removed(m)
			if m.User == user && !removed(m) {
				rest++
			}
		}
		if !gone {
			if account == "" {
				return fmt.Errorf("user %s: has no line", shown(user))
			}
			return noPlace(user, account)
		}
		if rest > 0 && p.DefaultOf(user) == account {
			return fmt.Errorf("user %s: account %s is the default; make another the default first", user, account)
		}
		q.Members = slices.DeleteFunc(q.Members, removed)
		return nil
	})
}

// SetShares gives an account, or with a user that user's place in it, other shares. Account default may have no line yet.
func (p *Policy) SetShares(account, user string, shares int64) (*Policy, error) {
	return p.edited(func(q *Policy) error {
		if user != "" {
			i := slices.IndexFunc(q.Members, func(m Member) bool { return m.User == user && m.Account == account })
			if i < 0 {
				return noPlace(user, account)
			}
			q.Members[i].Shares = shares
			return nil
		}
		i := slices.IndexFunc(q.Accounts, func(a Account) bool { return a.Name == account })
		switch {
		case i >= 0:
			q.Accounts[i].Shares = shares
		case account == DefaultAccount:
			q.Accounts = append(q.Accounts, Account{Name: account, Parent: Root, Shares: shares})
		default:
			return noAccount(account)
		}
		return nil
	})
}

// SetLimit adds a limit, or changes the numbers that l gives in the one of its scope.
func (p *Policy) SetLimit(l Limit) (*Policy, error) {
	return p.edited(func(q *Policy) error {
		i := slices.IndexFunc(q.Limits, func(o Limit) bool { return o.Scope == l.Scope })
		if i < 0 {
			q.Limits = append(q.Limits, l)
			return nil
		}
		for _, n := range numbers {
			if text := n.text(&l); text != "" {
				if err := n.parse(&q.Limits[i], text); err != nil {
					return fmt.Errorf("limit %s: %s: %w", l.Scope, n.name, err)
				}
			}
		}
		return nil
	})
}

// RemoveLimit removes a scope's limit.
func (p *Policy) RemoveLimit(s Scope) (*Policy, error) {
	return p.edited(func(q *Policy) error {
		n := len(q.Limits)
		if q.Limits = slices.DeleteFunc(q.Limits, func(l Limit) bool { return l.Scope == s }); len(q.Limits) == n {
			return fmt.Errorf("limit %s: there is none", s)
		}
		return nil
	})
}

// SetBudget adds a budget, or replaces the one of the same account, unit, period and days.
func (p *Policy) SetBudget(b Budget) (*Policy, error) {
	return p.edited(func(q *Policy) error {
		q.Budgets = append(slices.DeleteFunc(q.Budgets, func(o Budget) bool { return o.sameAs(&b) }), b)
		return nil
	})
}

// RemoveBudget removes an account's budgets of a unit, or all with unit "".
func (p *Policy) RemoveBudget(account string, unit BudgetUnit) (*Policy, error) {
	return p.edited(func(q *Policy) error {
		n := len(q.Budgets)
		q.Budgets = slices.DeleteFunc(q.Budgets, func(b Budget) bool { return b.Account == account && (unit == "" || b.Unit == unit) })
		if len(q.Budgets) == n {
			return fmt.Errorf("budget account=%s: there is none", strings.TrimSpace(shown(account)+" "+string(unit)))
		}
		return nil
	})
}
