package accounting

import (
	"fmt"
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
			u.Add(names[i], noon.Add(-time.Duration(w)*week), float64(i*w), float64(w))
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
		u.Add(names[i%len(names)], at, 3600, 1800)
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
					t := u.At(noon, 16)
					for _, name := range names {
						t.Hold(name, 4, 50, noon.Add(-time.Hour))
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
