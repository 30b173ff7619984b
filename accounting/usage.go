package accounting

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"fairslice/queue"
)

// Usage is the decayed usage of every user. It is not safe for concurrent use.
//
// Time is cut into periods of one half-life. A charge made at the part p (0 to 1) of a period is worth its amount times 2^p
// at the period's beginning, and as all charges of a period fade alike from there, their sum is all that is kept: one
// three integers for each user and period.
type Usage struct {
	halfLife time.Duration
	users    map[string]ledger          // in all accounts
	accounts map[string][]accountLedger // the same by user and account, sorted by account
}

// NewUsage makes an empty Usage. A half-life must be positive: with none, everybody's usage is always 0, and fair share
// is silently off.
func NewUsage(halfLife time.Duration) (*Usage, error) {
	if halfLife <= 0 {
		return nil, fmt.Errorf("half-life of usage: want more than 0; got %s", halfLife)
	}
	return &Usage{halfLife: halfLife, users: map[string]ledger{}, accounts: map[string][]accountLedger{}}, nil
}

// HalfLife is after how long usage counts half.
func (u *Usage) HalfLife() time.Duration { return u.halfLife }

// Charge adds what an attempt cost, at the time at which it ended. An attempt has one charge; who calls sees to it that
// it is added once.
func (u *Usage) Charge(c *queue.Charge) {
	u.AddTo(Leaf{c.Account, c.User}, c.Ended, Used{c.SlotSeconds(), c.FGPUSeconds(), c.GiBSeconds()})
}

// Add adds an amount charged at a time, for no account. What is negative or not a number counts as 0.
func (u *Usage) Add(user string, at time.Time, x Used) { u.AddTo(Leaf{"", user}, at, x) }

// AddTo adds an amount charged to a user in an account at a time. Whatever the accounts, it also counts for the user as
// Add counts it: that is what matters while a site has none.
func (u *Usage) AddTo(to Leaf, at time.Time, x Used) {
	number, part := u.period(at)
	worth := math.Exp2(part)
	s := sum{count(x.SlotSeconds * worth), count(x.FGPUSeconds * worth), count(x.GiBSeconds * worth)}
	if s == (sum{}) {
		return
	}
	u.users[to.User] = u.users[to.User].add(number, s)
	in := u.accounts[to.User]
	i, known := slices.BinarySearchFunc(in, to.Account, func(a accountLedger, account string) int { return cmp.Compare(a.account, account) })
	if !known {
		in = slices.Insert(in, i, accountLedger{account: to.Account})
		u.accounts[to.User] = in
	}
	in[i].ledger = in[i].ledger.add(number, s)
}

// accountLedger is what a user was charged in one account.
type accountLedger struct {
	account string
	ledger  ledger
}

// Used is an amount of usage.
type Used struct {
	SlotSeconds float64
	FGPUSeconds float64 // fGPU × seconds
	GiBSeconds  float64 // of the memory of hosts that was held: GiB × seconds
}

func (x Used) plus(y Used) Used {
	return Used{x.SlotSeconds + y.SlotSeconds, x.FGPUSeconds + y.FGPUSeconds, x.GiBSeconds + y.GiBSeconds}
}

// Of is what a user's charges are worth at a time. Charges later than that, which only a clock that was set back can
// give, count as something between half and twice of what they are.
func (u *Usage) Of(user string, now time.Time) Used {
	number, part := u.period(now)
	return u.users[user].at(number, part)
}

// Since is the time before which charges no longer count at a time: the beginning of the oldest period that does. A
// Usage made of the charges from there on is the same as one made of all.
func (u *Usage) Since(now time.Time) time.Time {
	number, _ := u.period(now)
	return time.Unix(0, max(number-remembered+1, 0)*int64(u.halfLife)).UTC()
}

// lastSecond is the greatest time that is told apart, in the year 2242; int64 nanoseconds end some years later.
const lastSecond = 1 << 33

// period is the number of the period that a time lies in, counted from 1970, and the part of it that has passed.
// Times before 1970, which are mistakes, count as 1970.
func (u *Usage) period(t time.Time) (number int64, part float64) {
	var ns int64
	if s := t.Unix(); s >= 0 {
		ns = min(s, lastSecond)*int64(time.Second) + int64(t.Nanosecond())
	}
	number = ns / int64(u.halfLife)
	return number, float64(ns%int64(u.halfLife)) / float64(u.halfLife)
}

// unit is how finely usage is counted: so many to a slot-second, fGPU-second or GiB-second. A period of one user then ends at 2.8e14
// slot-seconds, which is 10,000 nodes of 128 slots for more than a year.
const unit = 1 << 16

// count turns an amount into units.
func count(x float64) uint64 {
	x = math.Round(x * unit)
	switch {
	case !(x > 0): // also what is not a number
		return 0
	case x >= 1<<64:
		return math.MaxUint64
	}
	return uint64(x)
}

// sum is usage in units. It stops at the most that it can hold.
type sum struct{ slots, fgpu, memory uint64 }

func (s sum) plus(t sum) sum {
	return sum{plus(s.slots, t.slots), plus(s.fgpu, t.fgpu), plus(s.memory, t.memory)}
}

func plus(a, b uint64) uint64 {
	c, over := bits.Add64(a, b, 0)
	if over != 0 {
		return math.MaxUint64
	}
	return c
}

func (s sum) used() Used {
	return Used{float64(s.slots) / unit, float64(s.fgpu) / unit, float64(s.memory) / unit}
}

// ledger is the usage of one user by periods, the oldest first, at most remembered of them.
type ledger []entry

type entry struct {
	number int64
	sum    sum
}

// remembered is how many periods count. In the 64th from now, all that a user can have had of a large cluster (2^40
// slot-seconds in a week) is worth less than one unit.
const remembered = 64

func (l ledger) add(number int64, s sum) ledger {
	i := len(l) // charges come nearly in order
	for i > 0 && l[i-1].number > number {
		i--
	}
	if i > 0 && l[i-1].number == number {
		l[i-1].sum = l[i-1].sum.plus(s)
		return l
	}
	l = slices.Insert(l, i, entry{number, s})
	if len(l) > remembered {
		// Always the oldest, so that those left do not depend on the order in which they came.
		l = slices.Delete(l, 0, 1)
	}
	return l
}

// at is the ledger's worth at a part of a period.
func (l ledger) at(number int64, part float64) Used {
	var slots, fgpu, memory float64
	for _, e := range l {
		if age := max(number-e.number, 0); age < remembered {
			slots += float64(e.sum.slots) * fades[age]
			fgpu += float64(e.sum.fgpu) * fades[age]
			memory += float64(e.sum.memory) * fades[age]
		}
	}
	faded := math.Exp2(-part) / unit
	return Used{slots * faded, fgpu * faded, memory * faded}
}

// fades is what is left after so many half-lives.
var fades = func() (f [remembered]float64) {
	for age := range f {
		f[age] = math.Ldexp(1, -age)
	}
	return f
}()
