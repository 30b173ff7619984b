package accounting

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// filled is the usage of a site's year: each user has charges in each of its weeks.
func filled(b *testing.B, users int) (*Usage, []string) {
	u := mustUsage(b, week)
	names := make([]string, users)
	for i := range names {
		names[i] = fmt.Sprintf("user%05d", i)
		for w := range 52 {
			u.Add(names[i], noon.Add(-time.Duration(w)*week), Used{SlotSeconds: float64(i * w), FGPUSeconds: float64(w)})
		}
	}
	return u, names
}

func BenchmarkAdd(b *testing.B) {
	u, names := filled(b, 1000)
	at := noon
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at = at.Add(time.Second)
		u.Add(names[i%len(names)], at, Used{SlotSeconds: 3600, FGPUSeconds: 1800})
	}
}

// BenchmarkTally is what a cycle pays: the work that runs, the usage of those who wait, and all ranks.
func BenchmarkTally(b *testing.B) {
	for _, users := range []int{200, 10_000} {
		for _, ranks := range []bool{false, true} {
			b.Run(fmt.Sprintf("users=%d/ranks=%v", users, ranks), func(b *testing.B) {
				u, names := filled(b, users)
				b.ReportAllocs()
				for b.Loop() {
					t := u.At(noon, Weights{GPU: 16})
					for _, name := range names {
						t.Hold(name, Holding{Slots: 4, FGPU: 50}, noon.Add(-time.Hour))
					}
					for _, name := range names {
						if ranks {
							t.Factor(name)
						} else {
							t.Of(name)
						}
					}
				}
			})
		}
	}
}

// BenchmarkTree is what a cycle pays where there are accounts: the work that runs, the places of those who wait, and all
// ranks; then one rank more after each of 100 starts.
func BenchmarkTree(b *testing.B) {
	for _, users := range []int{200, 10_000} {
		b.Run(fmt.Sprint("users=", users), func(b *testing.B) {
			u := mustUsage(b, week)
			var text strings.Builder
			leaves := make([]Leaf, users)
			for i := range 50 {
				fmt.Fprintf(&text, "account a%d shares=%d\n", i, i+1)
			}
			for i := range users {
				leaves[i] = Leaf{fmt.Sprint("a", i%50), fmt.Sprintf("user%05d", i)}
				fmt.Fprintf(&text, "user %s account=%s\n", leaves[i].User, leaves[i].Account)
				for w := range 52 {
					u.AddTo(leaves[i], noon.Add(-time.Duration(w)*week), Used{SlotSeconds: float64(i * w), FGPUSeconds: float64(w)})
				}
			}
			p := mustPolicy(b, text.String())
			b.ReportAllocs()
			for b.Loop() {
				t := u.Tree(p, noon, Weights{GPU: 16})
				for _, l := range leaves {
					t.Hold(l, Holding{Slots: 4, FGPU: 50}, noon.Add(-time.Hour))
				}
				for _, l := range leaves {
					t.Factor(l)
				}
				for i := range 100 {
					t.Commit(leaves[i], Holding{Slots: 4, FGPU: 50}, time.Hour)
					t.Factor(leaves[i])
				}
			}
		})
	}
}

func BenchmarkParsePolicy(b *testing.B) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "account a%d\nuser user%05d account=a%d shares=3\nlimit user=user%05d running=5\n", i, i, i, i)
	}
	for b.Loop() {
		mustPolicy(b, text.String())
	}
}

// The states of 100 budgets over 2,000 users in 200 accounts, with 10,000 attempts that run: what each cycle works out.
func BenchmarkBudgets(b *testing.B) {
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "account a%d\n", i)
		if i%2 == 0 {
			fmt.Fprintf(&text, "budget account=a%d fgpu_hours=1000 period=month hard\n", i)
		}
	}
	p, err := ParsePolicy(text.String())
	if err != nil {
		b.Fatal(err)
	}
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	s := NewSpending(p.Cuts(now, time.UTC))
	for i := range 2000 {
		s.Add(Leaf{fmt.Sprint("a", i%200), fmt.Sprint("u", i)}, "normal", 100, 0, now.Add(-time.Hour), now)
	}
	var works []Work
	for i := range 10_000 {
		works = append(works, Work{At: Leaf{fmt.Sprint("a", i%200), fmt.Sprint("u", i%2000)}, FGPU: 50, Began: now.Add(-time.Hour), Now: now, Ends: now.Add(time.Hour)})
	}
	for b.Loop() {
		p.BudgetsAt(now, time.UTC, s, works)
	}
}
