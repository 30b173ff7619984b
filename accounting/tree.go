package accounting

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Tree is the account tree at one moment, with what everybody has used as of then: of charges that have faded, of work that
// runs, and of work that a cycle has decided to start. It reads its Usage when it is asked: nothing may be added to that
// while a Tree of it is in use.
//
// Whose turn it is follows Slurm's Fair Tree (slurm.schedmd.com/fair_tree.html). Among siblings each has a level fair share
//
//	LF = S / U    S: own shares by those of all siblings    U: own usage by that of all siblings
//
// and the one with the greater LF goes first, with all that is below it. Who has used nothing has an LF without bound.
// Accounts of equal LF are taken as one: what is in them is sorted together, each with its own LF. A user whose LF equals an
// account's has the rank of the first user in that. Users of equal rank have the better one, and after k of them the next is
// k ranks later. The factor of the user with rank r of n is (n-r+1)/n: 1 for the first, 1/n for the last.
//
// Beyond Slurm: who has no shares, or is in an account that has none, comes after all others and has the factor 0.
//
// Under a flat policy a Tree is a Tally: all users are equal, whatever accounts they were charged in.
type Tree struct {
	policy  *Policy
	flat    *Tally // under a flat policy; then the rest is not used
	usage   *Usage
	number  int64
	part    float64
	weights Weights
	now     time.Time

	// The branches are worked out anew when they are asked for, and only those that something has changed in.
	root   *branch
	leaves map[Leaf]*branch
	ranked bool // ranks are as usage is
	placed int  // leaves that have a rank, while ranks are given
	last   int  // the rank given last
	behind []*branch
}

// branch is an account, or a user in one.
type branch struct {
	leaf     Leaf
	user     bool
	shares   int64
	parent   *branch
	children []*branch // by name: sums are made in this order, so that they do not depend on whose turn it is
	order    []*branch // the same, those first whose turn comes first
	mixed    bool      // children are not sorted yet
	joined   bool      // it is one of its parent's children
	stale    bool      // of an account: what follows from its children must be worked out anew

	faded Used // of a user: charges
	held  sum  // of a user: what runs or starts

	used float64 // of all that is below, in slot-seconds
	all  int64   // shares of the children
	fair float64 // LF
	out  bool    // no shares here or above
	rank int     // of a user, from 1
}

// Tree begins a tree. A nil policy is a flat one.
func (u *Usage) Tree(p *Policy, now time.Time, w Weights) *Tree {
	tally := u.At(now, w)
	if p.Flat() {
		return &Tree{policy: p, flat: tally}
	}
	t := &Tree{policy: p, usage: u, now: now, number: tally.number, part: tally.part, weights: tally.weights, leaves: map[Leaf]*branch{}}
	t.plant()
	return t
}

// plant makes the branches that the policy names, and those of everybody who has used something.
func (t *Tree) plant() {
	t.root = &branch{leaf: Leaf{Account: Root}, shares: 1, stale: true}
	accounts := map[string]*branch{Root: t.root}
	for _, a := range t.policy.Accounts {
		accounts[a.Name] = &branch{leaf: Leaf{Account: a.Name}, shares: a.Shares, stale: true}
	}
	if accounts[DefaultAccount] == nil {
		accounts[DefaultAccount] = &branch{leaf: Leaf{Account: DefaultAccount}, shares: 1, stale: true}
	}
	for name, b := range accounts {
		if name != Root {
			b.parent = accounts[t.policy.Parent(name)]
		}
		t.leaves[b.leaf] = b
	}
	for _, b := range accounts {
		// The account default is there only if it says so, or somebody is in it: else its shares would count for nobody.
		if _, said := t.policy.Account(b.leaf.Account); said || b.leaf.Account != DefaultAccount {
			b.join()
		}
	}
	for _, m := range t.policy.Members {
		t.grow(Leaf{m.Account, m.User}, m.Shares)
	}
	for user, charged := range t.usage.accounts {
		for _, a := range charged {
			if used := a.ledger.at(t.number, t.part); used != (Used{}) {
				b := t.at(Leaf{a.account, user})
				b.faded = b.faded.plus(used)
			}
		}
	}
}

// join makes b one of its parent's children.
func (b *branch) join() {
	if b.parent == nil || b.joined {
		return
	}
	b.joined = true
	p := b.parent // of the order of joining nothing depends
	p.children, p.order, p.mixed = append(p.children, b), append(p.order, b), true
}

func compareNames(a, b *branch) int {
	return cmp.Or(cmp.Compare(a.leaf.User, b.leaf.User), cmp.Compare(a.leaf.Account, b.leaf.Account))
}

func (t *Tree) grow(at Leaf, shares int64) *branch {
	account := t.leaves[Leaf{Account: at.Account}]
	b := &branch{leaf: at, user: true, shares: shares, parent: account}
	b.join()
	account.join() // default may not have been there
	t.leaves[at] = b
	t.touch(b)
	return b
}

// at is where a user's work for an account counts. It grows for a user of whom nothing was known.
func (t *Tree) at(l Leaf) *branch {
	if b := t.leaves[l]; b != nil {
		return b
	}
	place := t.policy.Leaf(l.Account, l.User)
	b := t.leaves[place]
	if b == nil {
		b = t.grow(place, 1)
	}
	return b
}

// Hold counts work that has run since a time and still does: as if it were charged now, so undecayed. Work of the future
// or of no time counts as 0.
func (t *Tree) Hold(l Leaf, h Holding, since time.Time) {
	switch {
	case t.flat != nil:
		t.flat.Hold(l.User, h, since)
	case !since.IsZero():
		t.Commit(l, h, t.now.Sub(since))
	}
}

// Commit counts work as if it had run for a time and were charged now, see Tally.Commit.
func (t *Tree) Commit(l Leaf, h Holding, run time.Duration) {
	if t.flat != nil {
		t.flat.Commit(l.User, h, run)
		return
	}
	if s := h.over(run); s != (sum{}) {
		b := t.at(l)
		b.held = b.held.plus(s)
		t.touch(b)
	}
}

// Include counts a user's place among those that are ranked, though nothing is known of it. Else it is when Factor is first
// asked for it; ranks are parts of how many there are.
func (t *Tree) Include(l Leaf) {
	if t.flat == nil {
		t.at(l)
	}
}

// Factor is the fair-share factor of a user's work for an account, 0 to 1, more for who has used less of what is his due.
func (t *Tree) Factor(l Leaf) float64 {
	if t.flat != nil {
		return t.flat.Factor(l.User)
	}
	b := t.at(l)
	t.rank()
	return t.factor(b)
}

// rank gives all users their ranks.
func (t *Tree) rank() {
	if t.ranked {
		return
	}
	t.refresh(t.root)
	t.placed, t.last, t.behind = 0, 0, t.behind[:0]
	t.visit([]*branch{t.root}, false)
	for i := 0; i < len(t.behind); i++ { // it may grow
		b := t.behind[i]
		if b.user {
			t.give(b, false)
		} else {
			t.visit(b.order, false)
		}
	}
	t.ranked = true
}

// factor is that of a user's rank.
func (t *Tree) factor(b *branch) float64 {
	if b.out {
		return 0
	}
	return float64(t.placed-b.rank+1) / float64(t.placed)
}

// refresh works out anew what has been used below an account, the LF of its children, and whose turn comes first. Equal LF
// come out equal, to the bit, while the products are exact.
func (t *Tree) refresh(b *branch) {
	if !b.stale {
		return
	}
	if b.mixed {
		slices.SortFunc(b.children, compareNames)
	}
	b.stale, b.mixed = false, false
	b.used, b.all = 0, 0
	for _, c := range b.children {
		c.out = b.out || c.shares == 0
		if c.user {
			c.used = t.weights.Weigh(c.faded) + t.weights.Weigh(c.held.used())
		} else {
			t.refresh(c)
		}
		b.used += c.used
		b.all += c.shares
	}
	for _, c := range b.children {
		switch {
		case c.shares == 0:
			c.fair = 0
		case c.used == 0:
			c.fair = math.Inf(1)
		default:
			c.fair = float64(c.shares) * b.used / (float64(b.all) * c.used)
		}
	}
	slices.SortFunc(b.order, compareTurns)
}

// touch notes that something has changed in b: what is above it must be worked out anew.
func (t *Tree) touch(b *branch) {
	for ; b != nil; b = b.parent {
		b.stale = true
	}
	t.ranked = false
}

// compareTurns puts a user before an account of the same LF, and those without shares last, who has used less first.
func compareTurns(a, b *branch) int {
	if c := cmp.Compare(b.fair, a.fair); c != 0 {
		return c
	}
	if a.shares == 0 && b.shares == 0 {
		if c := cmp.Compare(a.used, b.used); c != 0 {
			return c
		}
	}
	switch {
	case a.user == b.user:
		return compareNames(a, b)
	case a.user:
		return -1
	}
	return 1
}

// visit gives ranks to all below a list of siblings in turn. With tied the first has the rank of who came before.
func (t *Tree) visit(list []*branch, tied bool) {
	for i := 0; i < len(list); {
		b := list[i]
		if i > 0 {
			tied = b.fair == list[i-1].fair
		}
		first := i
		switch i++; {
		case b.shares == 0:
			t.behind = append(t.behind, b)
		case b.user:
			t.give(b, tied)
		default:
			for i < len(list) && list[i].fair == b.fair { // accounts too: users come before them
				i++
			}
			t.visit(together(list[first:i]), tied)
		}
	}
}

// together are the children of accounts of equal LF, taken as one.
func together(accounts []*branch) []*branch {
	if len(accounts) == 1 {
		return accounts[0].order
	}
	var all []*branch
	for _, a := range accounts {
		all = append(all, a.children...)
	}
	slices.SortFunc(all, compareTurns)
	return all
}

func (t *Tree) give(b *branch, tied bool) {
	t.placed++
	if !tied {
		t.last = t.placed
	}
	b.rank = t.last
}
