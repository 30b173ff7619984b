package accounting

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustPolicy(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := ParsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// boundary is the beginning of a period of a week: nothing is rounded there, so that equal ratios of usage are equal.
var boundary = time.Unix(0, 2000*int64(week))

// used is a tree at that time of what leaves, written "account/user", have used by then, in slot-seconds.
func used(t testing.TB, policy string, all map[string]float64) *Tree {
	t.Helper()
	u := mustUsage(t, week)
	for at, amount := range all {
		u.AddTo(leafOf(at), boundary, Used{SlotSeconds: amount})
	}
	return u.Tree(mustPolicy(t, policy), boundary, Weights{GPU: 1})
}

func leafOf(s string) Leaf {
	account, user, _ := strings.Cut(s, "/")
	return Leaf{account, user}
}

// The tree of Slurm's classic example (classic_fair_share.html), with its usage. Its own factors are those of the
// classic algorithm and are not ours; here each LF of the Fair Tree was worked out by hand:
//
//	root  A: 40 % of shares, .45 of .70 used: .40/.642857 = .6222     D: .60/.357143 = 1.68
//	D     E: 25 of 60, all that is used: .416667/1 = .4167            F: nothing used: no bound
//	A     B: .75, .20 of .45: .75/.444444 = 1.6875                    C: .25/.555556 = .45
//	C     u2: .5/1 = .5                                               u3: no bound
const classic = `
account A shares=40
account B parent=A shares=30
account C parent=A shares=10
account D shares=60
account E parent=D shares=25
account F parent=D shares=35
user u1 account=B
user u2 account=C
user u3 account=C
user u4 account=E
user u5 account=F
`

func TestFairTreeGolden(t *testing.T) {
	tree := used(t, classic, map[string]float64{"B/u1": 20, "C/u2": 25, "E/u4": 25})
	for at, want := range map[string]float64{"F/u5": 1, "E/u4": .8, "B/u1": .6, "C/u3": .4, "C/u2": .2} {
		if got := tree.Factor(leafOf(at)); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: factor %v, want %v", at, got, want)
		}
	}
	fair := map[string]float64{"A/": 0.62222222, "D/": 1.68, "E/": 0.41666667, "F/": math.Inf(1), "B/": 1.6875, "C/": 0.45, "C/u2": 0.5, "C/u3": math.Inf(1), "E/u4": 1}
	for _, row := range tree.Standings() {
		if want, asked := fair[row.Account+"/"+row.User]; asked && row.LevelFairShare != want && math.Abs(row.LevelFairShare-want) > 1e-8 {
			t.Errorf("%s/%s: LF %v, want %v", row.Account, row.User, row.LevelFairShare, want)
		}
	}
}

func TestFairTreeRules(t *testing.T) {
	for _, row := range []struct {
		what, policy string
		used         map[string]float64
		want         string // ranks by leaf, in turn
	}{
		{"an account that has used less of its share goes first, with its heaviest user before the lightest of others",
			"account a shares=3\naccount b\nuser a1 account=a\nuser a2 account=a\nuser b1 account=b",
			map[string]float64{"a/a1": 290, "a/a2": 1, "b/b1": 100}, "a/a2=1 a/a1=2 b/b1=3"},
		{"users of equal usage and shares have the better of their ranks",
			"account a\nuser x account=a\nuser y account=a\nuser z account=a",
			map[string]float64{"a/x": 5, "a/y": 5, "a/z": 9}, "a/x=1 a/y=1 a/z=3"},
		{"accounts of equal LF are taken as one: their users are sorted together",
			"account a\naccount b\nuser a1 account=a\nuser a2 account=a\nuser b1 account=b\nuser b2 account=b",
			map[string]float64{"a/a1": 10, "a/a2": 90, "b/b1": 30, "b/b2": 70}, "a/a1=1 b/b1=2 b/b2=3 a/a2=4"},
		{"equal LF comes of different shares, too: 3 shares of 300 as 1 of 100",
			"account a shares=3\naccount b\nuser a1 account=a\nuser a2 account=a\nuser b1 account=b\nuser b2 account=b",
			map[string]float64{"a/a1": 30, "a/a2": 270, "b/b1": 30, "b/b2": 70}, "a/a1=1 b/b1=2 b/b2=3 a/a2=4"},
		{"a user whose LF equals an account's has the rank of its first user",
			"account a\nuser u account=root\nuser a1 account=a\nuser a2 account=a",
			map[string]float64{"root/u": 50, "a/a1": 10, "a/a2": 40}, "root/u=1 a/a1=1 a/a2=3"},
		{"shares among siblings count by their parts",
			"account a\nuser x account=a shares=3\nuser y account=a shares=1",
			map[string]float64{"a/x": 29, "a/y": 10}, "a/x=1 a/y=2"},
		{"no shares come last even with nothing used, and in turn among themselves",
			"account a\naccount z shares=0\nuser x account=a\nuser n account=a shares=0\nuser z1 account=z\nuser z2 account=z",
			map[string]float64{"a/x": 1000, "z/z1": 9}, "a/x=1 a/n=2 z/z2=3 z/z1=4"},
		{"a user under several accounts has a place in each",
			"account a\naccount b\nuser u account=a default\nuser u account=b\nuser v account=b",
			map[string]float64{"a/u": 90, "b/v": 10}, "b/u=1 b/v=2 a/u=3"},
		{"users without a line are in the account default",
			"account a\nuser x account=a",
			map[string]float64{"a/x": 10, "/p": 3, "default/q": 2}, "default/q=1 default/p=2 a/x=3"},
		{"what was charged where the user no longer is counts at his default",
			"account a\naccount b\nuser x account=a\nuser y account=b",
			map[string]float64{"gone/x": 10, "b/x": 10, "b/y": 19}, "b/y=1 a/x=2"},
	} {
		t.Run(row.what, func(t *testing.T) {
			tree := used(t, row.policy, row.used)
			if got := turns(tree); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// turns are the ranks, in turn.
func turns(tree *Tree) string {
	var leaves []Standing
	for _, row := range tree.Standings() {
		if row.User != "" {
			leaves = append(leaves, row)
		}
	}
	slices.SortStableFunc(leaves, func(a, b Standing) int { return a.Rank - b.Rank })
	var out []string
	for _, row := range leaves {
		out = append(out, fmt.Sprintf("%s/%s=%d", row.Account, row.User, row.Rank))
	}
	return strings.Join(out, " ")
}

func TestNoSharesHaveNoFactorAndOthersDo(t *testing.T) {
	tree := used(t, "account a\nuser x account=a\nuser n account=a shares=0", map[string]float64{"a/x": 1e6})
	if x, n := tree.Factor(Leaf{"a", "x"}), tree.Factor(Leaf{"a", "n"}); !(x > 0) || n != 0 {
		t.Errorf("factors %v and %v", x, n)
	}
}

func TestRunningWorkCountsInTheTree(t *testing.T) {
	tree := used(t, "account a\naccount b\nuser x account=a\nuser y account=b", map[string]float64{"a/x": 100, "b/y": 90})
	if before := turns(tree); before != "b/y=1 a/x=2" {
		t.Fatal(before)
	}
	tree.Hold(Leaf{"b", "y"}, Holding{Slots: 1}, boundary.Add(-20*time.Second))
	tree.Hold(Leaf{"b", "y"}, Holding{Slots: 1}, boundary.Add(time.Hour)) // a future: nothing
	if got := turns(tree); got != "a/x=1 b/y=2" {
		t.Error(got)
	}
	tree.Commit(Leaf{"a", "x"}, Holding{Slots: 1}, time.Minute)
	if got := turns(tree); got != "b/y=1 a/x=2" {
		t.Error(got)
	}
}

// Of a policy without accounts everything is as it is without a tree, to the bit, whatever accounts were charged.
func TestAFlatTreeIsATally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, halfLife := drawCharges(t), drawHalfLife(t)
		plain := usageOf(t, halfLife, all)
		named, _ := NewUsage(halfLife)
		for i, c := range all {
			named.AddTo(Leaf{[]string{"", "a", "b"}[i%3], c.user}, c.at, Used{SlotSeconds: c.slots, FGPUSeconds: c.fgpu})
		}
		tally, tree := plain.At(noon, Weights{GPU: 3}), named.Tree(nil, noon, Weights{GPU: 3})
		tally.Hold("c", Holding{Slots: 1, FGPU: 50}, noon.Add(-time.Hour))
		tree.Hold(Leaf{"x", "c"}, Holding{Slots: 1, FGPU: 50}, noon.Add(-time.Hour))
		for _, user := range []string{"a", "b", "c", "d", "e", "f"} {
			if got, want := tree.Factor(Leaf{"any", user}), tally.Factor(user); got != want {
				t.Fatalf("%s: %v, want %v", user, got, want)
			}
		}
	})
}

// Factors depend neither on the order of charges nor on how they were read, and are ranks: greater, never equal without cause.
func TestATreeIsOneOfAnyOrder(t *testing.T) {
	policy := mustPolicy(t, "account x shares=3\naccount y parent=x\naccount z shares=2\nuser a account=x\nuser b account=y\nuser c account=z default\nuser c account=y\nuser d account=z shares=0")
	rapid.Check(t, func(t *rapid.T) {
		all, halfLife := drawCharges(t), drawHalfLife(t)
		accounts := rapid.SliceOfN(rapid.SampledFrom([]string{"", "x", "y", "z", "gone"}), len(all), len(all)).Draw(t, "accounts")
		order := rapid.Permutation(indexes(len(all))).Draw(t, "order")
		one, _ := NewUsage(halfLife)
		two, _ := NewUsage(halfLife)
		for i := range all {
			one.AddTo(Leaf{accounts[i], all[i].user}, all[i].at, Used{SlotSeconds: all[i].slots, FGPUSeconds: all[i].fgpu})
			j := order[i]
			two.AddTo(Leaf{accounts[j], all[j].user}, all[j].at, Used{SlotSeconds: all[j].slots, FGPUSeconds: all[j].fgpu})
		}
		s, u := one.Tree(policy, noon, Weights{GPU: 2}).Standings(), two.Tree(policy, noon, Weights{GPU: 2}).Standings()
		if !slices.Equal(s, u) {
			t.Fatalf("%v\n%v", s, u)
		}
		leaves, ranks := 0, map[int]bool{}
		var total, leavesUsed float64
		for _, row := range s {
			if row.User == "" {
				if row.Account == Root {
					total = row.Used
				}
				continue
			}
			leaves++
			leavesUsed += row.Used
			ranks[row.Rank] = true
			if row.Factor < 0 || row.Factor > 1 || row.Rank < 1 {
				t.Fatalf("%+v", row)
			}
		}
		if !ranks[1] || math.Abs(total-leavesUsed) > 1e-9*total {
			t.Fatalf("ranks %v, total %v of %v", ranks, total, leavesUsed)
		}
		for rank := range ranks {
			if rank > leaves {
				t.Fatalf("rank %d of %d", rank, leaves)
			}
		}
	})
}

func indexes(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
