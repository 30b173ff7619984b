package accounting

import (
	"cmp"
	"slices"
	"time"

	"fairslice/nodes"
)

// Policy is what a site has decided about who may use how much: accounts and their shares, who is in them, limits and
// budgets. It is written as text, one item a line, see ParsePolicy; that text is its only form outside of a process.
//
// A Policy never changes: With… and Without… return another one. The zero Policy, like the empty text, has no accounts:
// all users are equal.
type Policy struct {
	Accounts []Account // sorted by name, without the implied root and default
	Members  []Member  // sorted by user, then account
	Limits   []Limit   // sorted by scope, at most one for each
	Budgets  []Budget  // sorted by account, then unit, period and beginning
}

// The names of the accounts that are always there. Root has no parent and no line. DefaultAccount holds every user who
// has no line; a line may give it other shares or another parent.
const (
	Root           = "root"
	DefaultAccount = "default"
)

// Account is an inner node of the tree.
type Account struct {
	Name        string
	Parent      string // Root or the name of another account
	Shares      int64  // among its siblings, 0 to MaxShares
	Description string
}

// Member is a user's place in an account: a leaf of the tree.
type Member struct {
	User    string
	Account string
	Shares  int64 // among its siblings, 0 to MaxShares
	// Default says that jobs for which no account is named count here. Exactly one of a user's places has it.
	Default bool
}

// MaxShares bounds shares, so that products and sums of them are exact.
const MaxShares = 1_000_000

// NoLimit stands for a number that a limit does not give. 0 is a limit: of nothing at all.
const NoLimit = -1

// Limit bounds what a scope may have at once. Each number is NoLimit or 0 and more.
type Limit struct {
	Scope    Scope
	Running  int64         // elements that run
	Pending  int64         // elements that wait
	Slots    int64         // of all that runs
	Memory   int64         // bytes, of all that runs
	FGPU     nodes.Amount  // of all that runs
	Sessions int64         // interactive ones
	Wall     time.Duration // the longest run limit of a job
	Rate     int64         // submissions in a minute
}

// Scope is what a limit is about.
type Scope struct {
	Kind ScopeKind
	Name string // "" for All and EachUser
}

// ScopeKind is one of the words that a limit's line may name first.
type ScopeKind string

// The kinds, in the order in which they are printed.
const (
	All        ScopeKind = "all"       // everything together
	EachUser   ScopeKind = "each-user" // any user who has no limit of his own
	ForUser    ScopeKind = "user"
	ForAccount ScopeKind = "account" // with all accounts below it
	ForQueue   ScopeKind = "queue"
	ForImage   ScopeKind = "image"
)

var scopeKinds = []ScopeKind{All, EachUser, ForUser, ForAccount, ForQueue, ForImage}

// String is the scope as it is written: "user=ada", "all".
func (s Scope) String() string {
	if s.Name == "" {
		return string(s.Kind)
	}
	return string(s.Kind) + "=" + quoteIfNeeded(s.Name)
}

// Budget is how much an account, with all accounts below it, may spend in a period.
type Budget struct {
	Account string
	Unit    BudgetUnit
	Hours   int64 // hundredths of an hour of the unit, more than 0
	Period  Period
	Until   Date // the last day, for UntilDate
	From    Date // the first day that counts, the zero Date for none
	Hard    bool // jobs wait when it is spent; else they only lose priority
}

// BudgetUnit is what a budget counts.
type BudgetUnit string

// The units of budgets.
const (
	FGPUHours BudgetUnit = "fgpu_hours" // fGPU × hours
	GPUHours  BudgetUnit = "gpu_hours"  // whole GPUs × hours
)

// Period is how long a budget lasts.
type Period string

// The periods. Months and quarters are the calendar's, and the budget begins anew with each.
const (
	Month     Period = "month"
	Quarter   Period = "quarter"
	UntilDate Period = "until"
)

// Date is a day of the calendar, wherever the site is.
type Date struct {
	Year, Month, Day int
}

// In is the moment at which the day begins in a place: its first moment, also where clocks are set forward at midnight, or
// back so that there are two. Days and months beyond the calendar's count on, as in time.Date.
func (d Date) In(place *time.Location) time.Time {
	t := time.Date(d.Year, time.Month(d.Month), d.Day, 0, 0, 0, 0, place)
	begins, ends := t.ZoneBounds()
	if t.Hour() != 0 { // there is no midnight: time.Date may give the hour before the gap
		if t.Hour() > 12 {
			return ends
		}
		return begins
	}
	if begins.IsZero() {
		return t
	}
	_, before := begins.Add(-1).Zone()
	_, after := t.Zone()
	if first := t.Add(time.Duration(after-before) * time.Second); before > after && first.Before(begins) && first.In(place).Hour() == 0 && first.In(place).Day() == t.Day() {
		return first
	}
	return t
}

// Flat says that there are no accounts and no places in them: all users are equal.
func (p *Policy) Flat() bool { return p == nil || len(p.Accounts) == 0 && len(p.Members) == 0 }

// Account finds an account's line; ok is false for one that has none, also the implied root and default.
func (p *Policy) Account(name string) (a Account, ok bool) {
	if p == nil {
		return a, false
	}
	i, ok := slices.BinarySearchFunc(p.Accounts, name, func(a Account, name string) int { return cmp.Compare(a.Name, name) })
	if ok {
		a = p.Accounts[i]
	}
	return a, ok
}

// Has says whether there is an account of a name, root and default included.
func (p *Policy) Has(account string) bool {
	_, ok := p.Account(account)
	return ok || account == Root || account == DefaultAccount
}

// Parent is the account above one, "" above root. An account without a line is below root.
func (p *Policy) Parent(account string) string {
	if account == Root {
		return ""
	}
	if a, ok := p.Account(account); ok {
		return a.Parent
	}
	return Root
}

// Above lists an account and all those that it is in, the nearest first, root last.
func (p *Policy) Above(account string) []string {
	var out []string
	for ; account != ""; account = p.Parent(account) {
		out = append(out, account)
	}
	return out
}

// Places are a user's places. A user without a line has one, in the default account.
func (p *Policy) Places(user string) []Member {
	if p != nil {
		first, ok := slices.BinarySearchFunc(p.Members, user, func(m Member, user string) int { return cmp.Compare(m.User, user) })
		last := first
		for ; last < len(p.Members) && p.Members[last].User == user; last++ {
		}
		if ok {
			return slices.Clone(p.Members[first:last])
		}
	}
	return []Member{{User: user, Account: DefaultAccount, Shares: 1, Default: true}}
}

// DefaultOf is the account of a user's jobs for which none is named.
func (p *Policy) DefaultOf(user string) string {
	for _, m := range p.Places(user) {
		if m.Default {
			return m.Account
		}
	}
	return DefaultAccount
}

// IsMember says whether a user may name an account. Where there are no accounts everybody may name any: it is a word.
func (p *Policy) IsMember(user, account string) bool {
	if p.Flat() {
		return true
	}
	return slices.ContainsFunc(p.Places(user), func(m Member) bool { return m.Account == account })
}

// Leaf is a place in the tree: a user in an account.
type Leaf struct{ Account, User string }

// Leaf is where work of a user counts that was done for an account: there, if that is one of the user's places. What
// was done for none, for an account that is gone, or for one that the user has left, counts at the user's default.
func (p *Policy) Leaf(account, user string) Leaf {
	if account == "" || !p.IsMember(user, account) {
		account = p.DefaultOf(user)
	}
	return Leaf{account, user}
}

// LimitOf finds the limit of a scope.
func (p *Policy) LimitOf(s Scope) (l Limit, ok bool) {
	if p == nil {
		return l, false
	}
	i := slices.IndexFunc(p.Limits, func(l Limit) bool { return l.Scope == s })
	if i < 0 {
		return l, false
	}
	return p.Limits[i], true
}

// sort puts all into the order that Policy states.
func (p *Policy) sort() {
	slices.SortFunc(p.Accounts, func(a, b Account) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Account, b.Account))
	})
	slices.SortFunc(p.Limits, func(a, b Limit) int {
		return cmp.Or(slices.Index(scopeKinds, a.Scope.Kind)-slices.Index(scopeKinds, b.Scope.Kind), cmp.Compare(a.Scope.Name, b.Scope.Name))
	})
	slices.SortFunc(p.Budgets, func(a, b Budget) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Period, b.Period),
			a.From.compare(b.From), a.Until.compare(b.Until))
	})
}

func (d Date) compare(e Date) int {
	return cmp.Or(cmp.Compare(d.Year, e.Year), cmp.Compare(d.Month, e.Month), cmp.Compare(d.Day, e.Day))
}
