package accounting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Standing is one line of a Tree: an account, or a user in one.
type Standing struct {
	Account string
	User    string // "" for an account
	Depth   int    // below root, which has 0
	Shares  int64
	// Share is the part of the level's shares, and Usage the part of what the level has used, both 0 to 1.
	Share, Usage float64
	// Used is the decayed usage in slot-seconds, GPUs and memory by their weights.
	Used float64
	Raw  Used // the same before it is weighed
	// LevelFairShare is Share by Usage, +Inf with nothing used.
	LevelFairShare float64
	Rank           int     // of a user, 1 is first; 0 for an account
	Factor         float64 // of a user
}

// Standings lists the whole tree, each account before what is in it, those of a level in turn. A flat policy gives one
// level of users below root.
func (t *Tree) Standings() []Standing {
	if t.flat != nil {
		return t.flat.standings()
	}
	t.rank()
	var out []Standing
	var list func(b *branch, depth int)
	list = func(b *branch, depth int) {
		out = append(out, t.standing(b, depth))
		for _, c := range b.order {
			list(c, depth+1)
		}
	}
	list(t.root, 0)
	return out
}

func (t *Tree) standing(b *branch, depth int) Standing {
	s := Standing{Account: b.leaf.Account, User: b.leaf.User, Depth: depth, Shares: b.shares, Share: 1, Usage: 1, Used: b.used,
		Raw: b.raw(), LevelFairShare: b.fair, Rank: b.rank}
	if b.user {
		s.Factor = t.factor(b)
	}
	if p := b.parent; p != nil {
		s.Share, s.Usage = part(float64(b.shares), float64(p.all)), part(b.used, p.used)
	} else {
		s.LevelFairShare = 1
	}
	return s
}

// raw is what has been used in b and below it.
func (b *branch) raw() Used {
	if b.user {
		return b.faded.plus(b.held.used())
	}
	var x Used
	for _, c := range b.children {
		x = x.plus(c.raw())
	}
	return x
}

// part is x by all, 0 of nothing.
func part(x, all float64) float64 {
	if all == 0 {
		return 0
	}
	return x / all
}

// standings are those of users who are all equal.
func (t *Tally) standings() []Standing {
	users := map[string]bool{}
	for user := range t.usage.users {
		users[user] = true
	}
	for user := range t.users {
		users[user] = true
	}
	var out []Standing
	for user := range users {
		out = append(out, Standing{User: user, Depth: 1, Shares: 1, Share: 1 / float64(len(users)), Used: t.Of(user), Raw: t.raw(user), Factor: t.Factor(user)})
	}
	slices.SortFunc(out, func(a, b Standing) int { return cmp.Or(cmp.Compare(a.Used, b.Used), cmp.Compare(a.User, b.User)) })
	total, raw := 0.0, Used{}
	for i := range out {
		total += out[i].Used
		raw = raw.plus(out[i].Raw)
		out[i].Rank = i + 1
		if i > 0 && out[i].Used == out[i-1].Used {
			out[i].Rank = out[i-1].Rank
		}
	}
	for i := range out {
		s := &out[i]
		s.Usage, s.LevelFairShare = part(s.Used, total), math.Inf(1)
		if s.Used > 0 {
			s.LevelFairShare = s.Share / s.Usage
		}
	}
	return append([]Standing{{Account: Root, Shares: 1, Share: 1, Usage: 1, Used: total, Raw: raw, LevelFairShare: 1}}, out...)
}

func (t *Tally) raw(user string) Used {
	return t.usage.users[user].at(t.number, t.part).plus(t.users[user].held.used())
}

// Explain says in words why work of one user stands before another's, a line for each level at which they are apart,
// then what each has used where memory counts, too, and last what comes of it.
func (t *Tree) Explain(a, b Leaf) []string {
	if t.flat != nil {
		return t.flat.explain(a.User, b.User)
	}
	x, y := t.at(a), t.at(b)
	t.rank()
	out := t.compare(x, y)
	if x != y {
		out = append(out, t.weights.explain(x.leaf.User, x.raw())...)
	}
	out = append(out, t.weights.explain(y.leaf.User, y.raw())...)
	return append(out, t.outcome(x, y))
}

func (t *Tally) explain(a, b string) []string {
	x, y := t.Of(a), t.Of(b)
	if x > y {
		a, b, x, y = b, a, y, x
	}
	if x == y {
		return []string{fmt.Sprintf("%s and %s have used the same, %s: neither stands before the other", a, b, amount(x))}
	}
	out := append([]string{"All users have equal shares: there are no accounts"}, t.weights.explain(a, t.raw(a))...)
	return append(append(out, t.weights.explain(b, t.raw(b))...),
		fmt.Sprintf("%s has used %s and %s %s: %s goes first (factor %s against %s)", a, amount(x), b, amount(y), a, factor(t.Factor(a)), factor(t.Factor(b))))
}

// explain says what somebody's usage is made of, where more than slots and GPUs counts.
func (w Weights) explain(user string, x Used) []string {
	if w.Memory == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s = %.4g of slots + %.4g of GPUs (1 fGPU as %.4g slots) + %.4g of memory (1 GiB as %.4g slots)", user, amount(w.Weigh(x)),
		x.SlotSeconds/3600, w.GPU*x.FGPUSeconds/3600, w.GPU, w.Memory*x.GiBSeconds/3600, w.Memory)}
}

// compare walks down from where two places part.
func (t *Tree) compare(x, y *branch) []string {
	if x == y {
		return nil
	}
	if x.out != y.out {
		if x.out {
			x, y = y, x
		}
		return []string{fmt.Sprintf("%s has no shares%s: it comes after all who have some, and still may run", y.name(), y.shareless())}
	}
	var out []string
	xs, ys := x.path(), y.path()
	at := 0
	for at < len(xs)-1 && at < len(ys)-1 && xs[at] == ys[at] {
		at++
	}
	if above := xs[at].parent; above != nil && above.parent != nil {
		out = append(out, fmt.Sprintf("Both are in account %s", above.leaf.Account))
	}
	for ; at < len(xs) && at < len(ys); at++ {
		p, q := xs[at], ys[at]
		if p.fair == q.fair && !(p.shares == 0 && q.shares == 0 && p.used != q.used) {
			out = append(out, fmt.Sprintf("%s and %s: neither goes first", p.words(), q.words()))
			continue
		}
		if compareTurns(q, p) < 0 {
			p, q = q, p
		}
		return append(out, fmt.Sprintf("%s, %s: %s goes first", p.words(), q.words(), p.name()))
	}
	if x.rank != y.rank {
		out = append(out, "A user of an account's level fair share has the rank of the first user in it")
	}
	return out
}

// path is from below root down to b.
func (b *branch) path() []*branch {
	var out []*branch
	for ; b.parent != nil; b = b.parent {
		out = append(out, b)
	}
	slices.Reverse(out)
	return out
}

func (b *branch) name() string {
	if b.user {
		return b.leaf.User
	}
	return b.leaf.Account
}

// shareless says where there are no shares, when it is above b.
func (b *branch) shareless() string {
	for at := b; at != nil; at = at.parent {
		if at.shares == 0 && at != b {
			return " (its account " + at.name() + " has none)"
		}
	}
	return ""
}

// words are a branch's part of its level.
func (b *branch) words() string {
	if b.parent.used == 0 {
		return fmt.Sprintf("%s has used nothing, like all of its level, and has %s of the shares", b.name(), percent(part(float64(b.shares), float64(b.parent.all))))
	}
	return fmt.Sprintf("%s has used %s of its level with %s of the shares", b.name(),
		percent(part(b.used, b.parent.used)), percent(part(float64(b.shares), float64(b.parent.all))))
}

func (t *Tree) outcome(x, y *branch) string {
	if x.rank > y.rank {
		x, y = y, x
	}
	if x.rank == y.rank {
		return fmt.Sprintf("So %s (%s) and %s (%s) have the same rank, %d of %d: who came first goes first", x.leaf.User, x.leaf.Account, y.leaf.User, y.leaf.Account, x.rank, t.placed)
	}
	return fmt.Sprintf("So %s (%s) has rank %d of %d and factor %s, %s (%s) rank %d and factor %s", x.leaf.User, x.leaf.Account, x.rank, t.placed, factor(t.factor(x)),
		y.leaf.User, y.leaf.Account, y.rank, factor(t.factor(y)))
}

// percent keeps what is little, or nearly all, from looking like nothing, or like all.
func percent(x float64) string {
	if x *= 100; x == 0 || x >= 9.95 && x <= 90 || x == 100 {
		return fmt.Sprintf("%.0f %%", x)
	}
	return fmt.Sprintf("%.3g %%", x)
}

func factor(x float64) string { return fmt.Sprintf("%.4g", x) }

func amount(slotSeconds float64) string { return fmt.Sprintf("%.4g slot-hours", slotSeconds/3600) }

// Shares is a Tree as it is shown.
type Shares struct {
	At       time.Time
	HalfLife time.Duration
	Weights  Weights
	Flat     bool // there are no accounts: all users are equal
	Ordered  bool // the scheduler's order asks for fair share
	Tree     []Standing
	Why      []string // of two who were compared
}

// ParseLeaf reads USER or ACCOUNT/USER; without an account it is the user's default.
func ParseLeaf(text string) (Leaf, error) {
	account, user, both := strings.Cut(text, "/")
	if !both {
		account, user = "", text
	}
	l := Leaf{account, user}
	err := checkName("user", user)
	if err == nil && both {
		err = checkName("account", account)
	}
	if err != nil {
		return l, fmt.Errorf("%s: want USER or ACCOUNT/USER: %w", shown(text), err)
	}
	return l, nil
}
