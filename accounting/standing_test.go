package accounting

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	const two = "account physics shares=3\naccount chem\nuser ada account=physics\nuser bob account=physics\nuser cyd account=chem\nuser dan account=chem shares=0"
	for _, row := range []struct {
		what, policy string
		used         map[string]float64
		a, b         string
		want         string
	}{
		{"accounts decide", two, map[string]float64{"physics/ada": 61, "chem/cyd": 39}, "chem/cyd", "physics/ada",
			"physics has used 61 % of its level with 75 % of the shares, chem has used 39 % of its level with 25 % of the shares: physics goes first\n" +
				"So ada (physics) has rank 2 of 4 and factor 0.75, cyd (chem) rank 3 and factor 0.5"},
		{"within an account", two, map[string]float64{"physics/ada": 61, "chem/cyd": 39}, "physics/ada", "physics/bob",
			"Both are in account physics\n" +
				"bob has used 0 % of its level with 50 % of the shares, ada has used 100 % of its level with 50 % of the shares: bob goes first\n" +
				"So bob (physics) has rank 1 of 4 and factor 1, ada (physics) rank 2 and factor 0.75"},
		{"no shares", two, map[string]float64{"chem/cyd": 39}, "dan", "cyd",
			"dan has no shares: it comes after all who have some, and still may run\n" +
				"So cyd (chem) has rank 3 of 4 and factor 0.5, dan (chem) rank 4 and factor 0"},
		{"an account without shares", "account a\naccount z shares=0\nuser ada account=a\nuser zoe account=z", map[string]float64{"a/ada": 1}, "ada", "zoe",
			"zoe has no shares (its account z has none): it comes after all who have some, and still may run\n" +
				"So ada (a) has rank 1 of 2 and factor 1, zoe (z) rank 2 and factor 0"},
		{"equal accounts are taken as one", "account a\naccount b\nuser ada account=a\nuser bob account=b\nuser cyd account=b", map[string]float64{"a/ada": 100, "b/bob": 30, "b/cyd": 70}, "ada", "bob",
			"a has used 50 % of its level with 50 % of the shares and b has used 50 % of its level with 50 % of the shares: neither goes first\n" +
				"bob has used 30 % of its level with 50 % of the shares, ada has used 100 % of its level with 100 % of the shares: bob goes first\n" +
				"So bob (b) has rank 1 of 3 and factor 1, ada (a) rank 2 and factor 0.6667"},
		{"a user as an account", "account a\nuser u account=root\nuser a1 account=a\nuser a2 account=a", map[string]float64{"root/u": 50, "a/a1": 10, "a/a2": 40}, "u", "a/a2",
			"u has used 50 % of its level with 50 % of the shares and a has used 50 % of its level with 50 % of the shares: neither goes first\n" +
				"A user of an account's level fair share has the rank of the first user in it\n" +
				"So u (root) has rank 1 of 3 and factor 1, a2 (a) rank 3 and factor 0.3333"},
		{"equals", two, nil, "ada", "bob",
			"Both are in account physics\n" +
				"ada has used nothing, like all of its level, and has 50 % of the shares and bob has used nothing, like all of its level, and has 50 % of the shares: neither goes first\n" +
				"So ada (physics) and bob (physics) have the same rank, 1 of 4: who came first goes first"},
		{"one's own two places", "account a\naccount b\nuser ada account=a default\nuser ada account=b", map[string]float64{"a/ada": 3}, "a/ada", "b/ada",
			"b has used 0 % of its level with 50 % of the shares, a has used 100 % of its level with 50 % of the shares: b goes first\n" +
				"So ada (b) has rank 1 of 2 and factor 1, ada (a) rank 2 and factor 0.5"},
		{"without accounts", "", map[string]float64{"x/ada": 3600, "y/bob": 7200}, "bob", "ada",
			"All users have equal shares: there are no accounts\n" +
				"ada has used 1 slot-hours and bob 2 slot-hours: ada goes first (factor 0.6667 against 0.3333)"},
		{"without accounts and usage", "", nil, "bob", "ada", "bob and ada have used the same, 0 slot-hours: neither stands before the other"},
	} {
		t.Run(row.what, func(t *testing.T) {
			tree := used(t, row.policy, row.used)
			at := func(s string) Leaf {
				l, err := ParseLeaf(s)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			if got := strings.Join(tree.Explain(at(row.a), at(row.b)), "\n"); got != row.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, row.want)
			}
		})
	}
}

// By hand, one half-life after: bob's 2 h × (4 slots + 2 fGPU × 8 + 64 GiB × 1/4) = 72 slot-hours have become 36, ada's
// 6 h × 4 slots 12, and she holds 32 GiB for half an hour: 4 more.
func TestExplainSaysWhatUsageIsMadeOfWhereMemoryCounts(t *testing.T) {
	u := mustUsage(t, week)
	for user, h := range map[string]Used{"bob": {2 * 4 * 3600, 2 * 2 * 3600, 2 * 64 * 3600}, "ada": {6 * 4 * 3600, 0, 0}} {
		u.AddTo(Leaf{"lab", user}, boundary, h)
	}
	for policy, want := range map[string]string{
		"": "All users have equal shares: there are no accounts\n" +
			"ada: 16 slot-hours = 12 of slots + 0 of GPUs (1 fGPU as 8 slots) + 4 of memory (1 GiB as 0.25 slots)\n" +
			"bob: 36 slot-hours = 4 of slots + 16 of GPUs (1 fGPU as 8 slots) + 16 of memory (1 GiB as 0.25 slots)\n" +
			"ada has used 16 slot-hours and bob 36 slot-hours: ada goes first (factor 0.6667 against 0.3333)",
		"account lab\nuser ada account=lab\nuser bob account=lab": "Both are in account lab\n" +
			"ada has used 31 % of its level with 50 % of the shares, bob has used 69 % of its level with 50 % of the shares: ada goes first\n" +
			"bob: 36 slot-hours = 4 of slots + 16 of GPUs (1 fGPU as 8 slots) + 16 of memory (1 GiB as 0.25 slots)\n" +
			"ada: 16 slot-hours = 12 of slots + 0 of GPUs (1 fGPU as 8 slots) + 4 of memory (1 GiB as 0.25 slots)\n" +
			"So ada (lab) has rank 1 of 2 and factor 1, bob (lab) rank 2 and factor 0.5",
	} {
		now := boundary.Add(week)
		tree := u.Tree(mustPolicy(t, policy), now, Weights{GPU: 8, Memory: 0.25})
		tree.Hold(Leaf{"lab", "ada"}, Holding{Memory: 32 << 30}, now.Add(-30*time.Minute))
		if got := strings.Join(tree.Explain(Leaf{"lab", "bob"}, Leaf{"lab", "ada"}), "\n"); got != want {
			t.Errorf("policy %q, got:\n%s\nwant:\n%s", policy, got, want)
		}
	}
}

func TestFlatStandings(t *testing.T) {
	got := used(t, "", map[string]float64{"x/ada": 30, "bob/": 0, "/cyd": 10, "y/ada": 10, "/dan": 10}).Standings()
	want := []Standing{
		{Account: Root, Shares: 1, Share: 1, Usage: 1, Used: 60, Raw: Used{SlotSeconds: 60}, LevelFairShare: 1},
		{User: "cyd", Depth: 1, Shares: 1, Share: 1. / 3, Usage: 1. / 6, Used: 10, Raw: Used{SlotSeconds: 10}, LevelFairShare: 2, Rank: 1, Factor: .75},
		{User: "dan", Depth: 1, Shares: 1, Share: 1. / 3, Usage: 1. / 6, Used: 10, Raw: Used{SlotSeconds: 10}, LevelFairShare: 2, Rank: 1, Factor: .75},
		{User: "ada", Depth: 1, Shares: 1, Share: 1. / 3, Usage: 4. / 6, Used: 40, Raw: Used{SlotSeconds: 40}, LevelFairShare: .5, Rank: 3, Factor: .25},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseLeaf(t *testing.T) {
	for text, want := range map[string]Leaf{"ada": {"", "ada"}, "chem/ada": {"chem", "ada"}} {
		if got, err := ParseLeaf(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "/", "a/", "/a", "a/b/c", "=a", "a b", "a\x1b"} {
		if l, err := ParseLeaf(text); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q gave %+v, %v", text, l, err)
		}
	}
}
