package accounting

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxPolicyText bounds the text of a policy, in bytes.
const MaxPolicyText = 4 << 20

// maxMistakes bounds how many mistakes are listed.
const maxMistakes = 20

// ParsePolicy reads a policy: one item a line, in any order, # begins a comment.
//
//	account NAME [parent=NAME] [shares=N] [description="…"]
//	user NAME account=NAME [shares=N] [default]
//	limit SCOPE [running=N] [pending=N] [slots=N] [memory=SIZE] [fgpu=X] [sessions=N] [wall=DURATION] [rate=N/m]
//	budget account=NAME fgpu_hours=X|gpu_hours=X period=month|quarter|until:YYYY-MM-DD [from=YYYY-MM-DD] hard|soft
//
// A SCOPE is user=NAME, account=NAME, queue=NAME, image=REF, all or each-user. Accounts may be used before their line. An
// account's parent is root unless it says otherwise; shares are 1. A user may be in several accounts, one line each, of which
// one says default.
//
// The error lists every mistake, one a line, each with its line, what is wrong and what is allowed.
func ParsePolicy(text string) (*Policy, error) {
	if len(text) > MaxPolicyText {
		return nil, fmt.Errorf("the policy has %d bytes; at most %d are read", len(text), MaxPolicyText)
	}
	p := parse(text)
	if len(p.mistakes) > 0 {
		return nil, p.err(func(m mistake) string { return fmt.Sprintf("line %d: %s", m.line, m.text) })
	}
	p.policy.sort()
	return p.policy, nil
}

// parse reads a text; its result holds when there are no mistakes.
func parse(text string) *parser {
	p := newParser()
	for i, line := range strings.Split(text, "\n") {
		p.line = i + 1
		p.parseLine(strings.TrimSuffix(line, "\r"))
	}
	p.checkTree()
	p.checkPlaces()
	p.checkNames()
	return p
}

// ParseLimit reads a limit as its line says it, with or without the word limit: "user=ada running=5 wall=2d".
func ParseLimit(text string) (Limit, error) {
	words, err := split(strings.TrimPrefix(text, "limit "))
	if err != nil {
		return Limit{}, err
	}
	p := newParser()
	if err := p.parseLimit(words); err != nil {
		return Limit{}, err
	}
	return p.policy.Limits[0], nil
}

// ParseScope reads whom a limit is for: "user=ada", "all".
func ParseScope(text string) (Scope, error) {
	words, err := split(text)
	if err != nil || len(words) != 1 {
		return Scope{}, errors.Join(fmt.Errorf("%s: want user=NAME, account=NAME, queue=NAME, image=REF, all or each-user", shown(text)), err)
	}
	return parseScope(words[0])
}

// ParseBudget reads a budget as its line says it, with or without the word budget.
func ParseBudget(text string) (Budget, error) {
	words, err := split(strings.TrimPrefix(text, "budget "))
	if err != nil {
		return Budget{}, err
	}
	p := newParser()
	if err := p.parseBudget(words); err != nil {
		return Budget{}, err
	}
	return p.policy.Budgets[0], nil
}

func newParser() *parser {
	return &parser{policy: &Policy{}, accounts: map[string]int{}, places: map[Leaf]int{}, users: map[string][]int{}, scopes: map[Scope]int{}}
}

// parser is the state of reading one text. The lines of items are kept beside them until all is checked.
type parser struct {
	policy   *Policy
	line     int
	mistakes []mistake

	accounts map[string]int   // the line of each account
	places   map[Leaf]int     // the line of each member
	users    map[string][]int // indexes into policy.Members
	scopes   map[Scope]int    // the line of each limit
	named    []reference      // accounts that limits and budgets name
	budgets  []int            // the line of each budget
}

type mistake struct {
	line int
	text string
}

type reference struct {
	account string
	line    int
}

func (p *parser) fail(line int, format string, args ...any) {
	p.mistakes = append(p.mistakes, mistake{line, fmt.Sprintf(format, args...)})
}

// err lists the mistakes in the order of their lines.
func (p *parser) err(text func(mistake) string) error {
	slices.SortStableFunc(p.mistakes, func(a, b mistake) int { return a.line - b.line })
	var all []error
	for i, m := range p.mistakes {
		if i == maxMistakes {
			all = append(all, fmt.Errorf("and %d mistakes more", len(p.mistakes)-i))
			break
		}
		all = append(all, errors.New(text(m)))
	}
	return errors.Join(all...)
}

func (p *parser) parseLine(line string) {
	words, err := split(line)
	if err != nil {
		p.fail(p.line, "%v", err)
		return
	}
	if len(words) == 0 {
		return
	}
	item, rest := words[0], words[1:]
	switch item.String() {
	case "account":
		err = p.parseAccount(rest)
	case "user":
		err = p.parseMember(rest)
	case "limit":
		err = p.parseLimit(rest)
	case "budget":
		err = p.parseBudget(rest)
	default:
		err = fmt.Errorf("%s: want account, user, limit or budget", shown(item.String()))
	}
	if err != nil {
		p.fail(p.line, "%v", err)
	}
}

func (p *parser) parseAccount(words []word) error {
	if len(words) == 0 || words[0].key != "" {
		return errors.New("account: want a name after it, as in: account physics shares=3")
	}
	a := Account{Name: words[0].value, Parent: Root, Shares: 1}
	if err := checkName("account", a.Name); err != nil {
		return err
	}
	if a.Name == Root {
		return errors.New("account root: it is always there, has no parent and no shares; leave the line out")
	}
	err := eachOption(words[1:], "account "+a.Name, map[string]func(string) error{
		"parent":      func(v string) (err error) { a.Parent = v; return checkName("parent", v) },
		"shares":      func(v string) (err error) { a.Shares, err = parseShares(v); return err },
		"description": func(v string) error { a.Description = v; return checkDescription(v) },
	})
	if first, twice := p.accounts[a.Name]; twice {
		return fmt.Errorf("account %s: it has a line already, line %d; want one", a.Name, first)
	}
	p.accounts[a.Name] = p.line // also with a mistake: whoever names it makes none
	if err != nil {
		return err
	}
	p.policy.Accounts = append(p.policy.Accounts, a)
	return nil
}

func (p *parser) parseMember(words []word) error {
	if len(words) == 0 || words[0].key != "" {
		return errors.New("user: want a name after it, as in: user ada account=physics")
	}
	m := Member{User: words[0].value, Shares: 1}
	if err := checkName("user", m.User); err != nil {
		return err
	}
	err := eachOption(words[1:], "user "+m.User, map[string]func(string) error{
		"account": func(v string) error { m.Account = v; return checkName("account", v) },
		"shares":  func(v string) (err error) { m.Shares, err = parseShares(v); return err },
		"default": flag(&m.Default),
	})
	if err != nil {
		return err
	}
	if m.Account == "" {
		return fmt.Errorf("user %s: want account=NAME; a user without a line is in the account default", m.User)
	}
	at := Leaf{m.Account, m.User}
	if first, twice := p.places[at]; twice {
		return fmt.Errorf("user %s account=%s: it has a line already, line %d; want one for each account", m.User, m.Account, first)
	}
	p.places[at] = p.line
	p.users[m.User] = append(p.users[m.User], len(p.policy.Members))
	p.policy.Members = append(p.policy.Members, m)
	return nil
}

func (p *parser) parseLimit(words []word) error {
	if len(words) == 0 {
		return errors.New("limit: want whom it is for: user=NAME, account=NAME, queue=NAME, image=REF, all or each-user")
	}
	l := newLimit(Scope{})
	var err error
	if l.Scope, err = parseScope(words[0]); err != nil {
		return err
	}
	if len(words) == 1 {
		return fmt.Errorf("limit %s: want at least one of running=N pending=N slots=N memory=SIZE fgpu=X sessions=N wall=DURATION rate=N/m", l.Scope)
	}
	set := map[string]func(string) error{}
	for _, n := range numbers {
		set[n.name] = func(v string) error { return n.parse(&l, v) }
	}
	if err := eachOption(words[1:], "limit "+l.Scope.String(), set); err != nil {
		return err
	}
	if first, twice := p.scopes[l.Scope]; twice {
		return fmt.Errorf("limit %s: it has a line already, line %d; want one with all numbers", l.Scope, first)
	}
	p.scopes[l.Scope] = p.line
	if l.Scope.Kind == ForAccount {
		p.named = append(p.named, reference{l.Scope.Name, p.line})
	}
	p.policy.Limits = append(p.policy.Limits, l)
	return nil
}

func parseScope(w word) (s Scope, err error) {
	kind, name := w.key, w.value
	if kind == "" {
		kind, name = name, ""
	}
	s = Scope{ScopeKind(kind), name}
	plain := s.Kind == All || s.Kind == EachUser
	switch {
	case !slices.Contains(scopeKinds, s.Kind):
		err = fmt.Errorf("limit %s: want user=NAME, account=NAME, queue=NAME, image=REF, all or each-user", shown(w.String()))
	case plain && w.key != "":
		err = fmt.Errorf("limit %s: want just %s", shown(w.String()), kind)
	case !plain && name == "":
		err = fmt.Errorf("limit %s: want %s=NAME", shown(w.String()), kind)
	case s.Kind == ForImage:
		err = checkImage(name)
	case !plain:
		err = checkName(kind, name)
	}
	return s, err
}

func (p *parser) parseBudget(words []word) error {
	var b Budget
	var soft bool
	hours := func(unit BudgetUnit) func(string) error {
		return func(v string) (err error) {
			if b.Unit != "" {
				return errors.New("want one of fgpu_hours and gpu_hours, not both")
			}
			b.Unit = unit
			b.Hours, err = parseHours(v)
			return err
		}
	}
	err := eachOption(words, "budget", map[string]func(string) error{
		"account":    func(v string) error { b.Account = v; return checkName("account", v) },
		"fgpu_hours": hours(FGPUHours),
		"gpu_hours":  hours(GPUHours),
		"period":     func(v string) (err error) { b.Period, b.Until, err = parsePeriod(v); return err },
		"from":       func(v string) (err error) { b.From, err = parseDate(v); return err },
		"hard":       flag(&b.Hard),
		"soft":       flag(&soft),
	})
	switch {
	case err != nil:
		return err
	case b.Account == "":
		return errors.New("budget: want account=NAME")
	case b.Unit == "":
		return fmt.Errorf("budget account=%s: want fgpu_hours=X or gpu_hours=X", b.Account)
	case b.Period == "":
		return fmt.Errorf("budget account=%s: want period=month, period=quarter or period=until:YYYY-MM-DD", b.Account)
	case b.Hard == soft:
		return fmt.Errorf("budget account=%s: want one of hard and soft", b.Account)
	case b.Period == UntilDate && b.From.compare(b.Until) > 0:
		return fmt.Errorf("budget account=%s: from=%s is after until:%s; want a day before it", b.Account, b.From, b.Until)
	}
	p.named = append(p.named, reference{b.Account, p.line})
	for i := range p.policy.Budgets {
		if p.policy.Budgets[i].sameAs(&b) {
			return fmt.Errorf("budget account=%s %s period=%s: it has a line already, line %d; want one", b.Account, b.Unit, b.periodText(), p.budgets[i])
		}
	}
	p.policy.Budgets, p.budgets = append(p.policy.Budgets, b), append(p.budgets, p.line)
	return nil
}

// sameAs says that two budgets are about the same.
func (b *Budget) sameAs(c *Budget) bool {
	return b.Account == c.Account && b.Unit == c.Unit && b.Period == c.Period && b.Until == c.Until && b.From == c.From
}

// maxDepth bounds how deep accounts nest.
const maxDepth = 32

// checkTree finds parents that do not exist, accounts that are in themselves, and those that are too deep.
func (p *parser) checkTree() {
	parent := map[string]string{}
	for _, a := range p.policy.Accounts {
		parent[a.Name] = a.Parent
		if !p.exists(a.Parent) {
			p.fail(p.accounts[a.Name], "account %s: its parent %s has no line; want root, default or an account that has one", a.Name, shown(a.Parent))
		}
	}
	depth := map[string]int{} // of those that have been looked at
	for _, a := range p.policy.Accounts {
		var path []string
		at := a.Name
		for depth[at] == 0 && parent[at] != "" {
			path, depth[at] = append(path, at), -1
			at = parent[at]
		}
		if depth[at] == -1 && slices.Contains(path, at) { // it came back
			round := path[slices.Index(path, at):]
			p.fail(p.accounts[at], "account %s: it is in itself: %s in %s; want a tree below root", at, strings.Join(round[:min(len(round), maxDepth)], " in "), at)
		}
		above := max(depth[at], 0)
		for _, name := range slices.Backward(path) {
			above++
			if depth[name] = above; above == maxDepth+1 {
				p.fail(p.accounts[name], "account %s: it is %d accounts below root; want at most %d", name, above, maxDepth)
			}
		}
	}
}

// exists says whether an account has a line or needs none.
func (p *parser) exists(account string) bool {
	_, ok := p.accounts[account]
	return ok || account == Root || account == DefaultAccount
}

// checkPlaces sees to it that each user has exactly one default.
func (p *parser) checkPlaces() {
	for user, at := range p.users {
		var defaults []int
		for _, i := range at {
			m := &p.policy.Members[i]
			line := p.places[Leaf{m.Account, user}]
			if !p.exists(m.Account) {
				p.fail(line, "user %s: account %s has no line; want root, default or an account that has one", user, m.Account)
			}
			if m.Default {
				defaults = append(defaults, line)
			}
		}
		first := &p.policy.Members[at[0]]
		line := p.places[Leaf{first.Account, user}]
		switch {
		case len(at) == 1:
			first.Default = true
		case len(defaults) == 0:
			p.fail(line, "user %s: is in %d accounts, and none is the default; want the word default on one of the lines", user, len(at))
		case len(defaults) > 1:
			p.fail(defaults[1], "user %s: line %d is the default already; want the word on one of the lines", user, defaults[0])
		}
	}
}

func (p *parser) checkNames() {
	for _, r := range p.named {
		if !p.exists(r.account) {
			p.fail(r.line, "account %s has no line; want root, default or an account that has one", r.account)
		}
	}
}
