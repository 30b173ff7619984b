package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fairslice/accounting"
	"fairslice/bin/bcli/show"
)

// given reads KEY=VALUE words, and those without a value where flags names them.
func given(words []string, keys string, flags ...string) (map[string]string, error) {
	allowed := strings.Fields(keys)
	out := map[string]string{}
	for _, w := range words {
		key, value, hasValue := strings.Cut(w, "=")
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%s: it is given twice", show.Clean(key))
		}
		if !(hasValue && slices.Contains(allowed, key)) && !(!hasValue && slices.Contains(flags, w)) {
			want := strings.Join(append(allowedForms(allowed), flags...), " ")
			if want == "" {
				want = "nothing more"
			}
			return nil, fmt.Errorf("%s: not understood; want %s", show.Clean(w), want)
		}
		out[key] = value
	}
	return out, nil
}

func allowedForms(keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k + "=…"
	}
	return out
}

// named takes the first word as a name.
func named(words []string, what string) (string, []string, error) {
	if len(words) == 0 || strings.Contains(words[0], "=") {
		return "", nil, errors.New(what + ": want a name first")
	}
	return words[0], words[1:], nil
}

// sharesOf reads shares=N, 1 where it is not given.
func sharesOf(g map[string]string) (int64, error) {
	text, ok := g["shares"]
	if !ok {
		return 1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > accounting.MaxShares {
		return 0, fmt.Errorf("shares=%s: want a number from 0 to %d", show.Clean(text), accounting.MaxShares)
	}
	return n, nil
}

func addAccount(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	name, words, err := named(words, "account add")
	if err != nil {
		return nil, err
	}
	g, err := given(words, "parent shares description")
	if err != nil {
		return nil, err
	}
	shares, err := sharesOf(g)
	if err != nil {
		return nil, err
	}
	return p.AddAccount(accounting.Account{Name: name, Parent: g["parent"], Shares: shares, Description: g["description"]})
}

func modAccount(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	name, words, err := named(words, "account mod")
	if err != nil {
		return nil, err
	}
	g, err := given(words, "name parent shares description")
	if err != nil {
		return nil, err
	}
	if len(g) == 0 {
		return nil, errors.New("account mod: want what to change: name=… parent=… shares=… description=…")
	}
	shares, err := sharesOf(g)
	if err != nil {
		return nil, err
	}
	return p.ChangeAccount(name, func(a *accounting.Account) {
		for key, value := range g {
			switch key {
			case "name":
				a.Name = value
			case "parent":
				a.Parent = value
			case "shares":
				a.Shares = shares
			case "description":
				a.Description = value
			}
		}
	})
}

func removeAccount(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	name, rest, err := named(words, "account rm")
	if err == nil {
		_, err = given(rest, "")
	}
	if err != nil {
		return nil, err
	}
	return p.RemoveAccount(name)
}

func addMember(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	user, words, err := named(words, "user add")
	if err != nil {
		return nil, err
	}
	g, err := given(words, "account shares", "default")
	if err != nil {
		return nil, err
	}
	if g["account"] == "" {
		return nil, errors.New("user add: want account=NAME; a user who was never added is in the account default")
	}
	shares, err := sharesOf(g)
	if err != nil {
		return nil, err
	}
	_, isDefault := g["default"]
	return p.AddMember(accounting.Member{User: user, Account: g["account"], Shares: shares, Default: isDefault})
}

func removeMember(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	user, words, err := named(words, "user rm")
	if err != nil {
		return nil, err
	}
	g, err := given(words, "account")
	if err != nil {
		return nil, err
	}
	return p.RemoveMember(user, g["account"])
}

func setDefault(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	user, words, err := named(words, "user default")
	if err != nil {
		return nil, err
	}
	g, err := given(words, "account")
	if err != nil {
		return nil, err
	}
	return p.SetDefault(user, g["account"])
}

func setShares(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	g, err := given(words, "account user shares")
	if err != nil {
		return nil, err
	}
	if _, ok := g["shares"]; !ok || g["account"] == "" {
		return nil, errors.New("share set: want account=NAME, shares=N, and for a user's share in it user=NAME")
	}
	shares, err := sharesOf(g)
	if err != nil {
		return nil, err
	}
	return p.SetShares(g["account"], g["user"], shares)
}

func setLimit(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	l, err := accounting.ParseLimit(strings.Join(words, " "))
	if err != nil {
		return nil, err
	}
	return p.SetLimit(l)
}

func removeLimit(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	s, err := accounting.ParseScope(strings.Join(words, " "))
	if err != nil {
		return nil, err
	}
	return p.RemoveLimit(s)
}

func setBudget(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	b, err := accounting.ParseBudget(strings.Join(words, " "))
	if err != nil {
		return nil, err
	}
	return p.SetBudget(b)
}

func removeBudget(p *accounting.Policy, words []string) (*accounting.Policy, error) {
	g, err := given(words, "account", string(accounting.FGPUHours), string(accounting.GPUHours))
	if err != nil {
		return nil, err
	}
	if g["account"] == "" {
		return nil, errors.New("budget rm: want account=NAME")
	}
	unit := accounting.BudgetUnit("")
	for _, u := range []accounting.BudgetUnit{accounting.FGPUHours, accounting.GPUHours} {
		if _, ok := g[string(u)]; ok {
			unit = u
		}
	}
	return p.RemoveBudget(g["account"], unit)
}
