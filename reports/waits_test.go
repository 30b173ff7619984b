package reports

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every length has one number, numbers ascend, and the middle is as near as WaitError says.
func TestWaitBucket(t *testing.T) {
	last := -1
	for v := uint32(0); v < 1<<22; v++ {
		b := WaitBucket(v)
		if b != last && b != last+1 {
			t.Fatalf("%d has number %d, the one before %d", v, b, last)
		}
		last = b
		middle := bucketMillis(b)
		for _, ms := range []float64{float64(v) * 100, float64(v)*100 + 99} {
			if off := math.Abs(middle - ms); off > 50 && off > ms*WaitError {
				t.Fatalf("%.0f ms are taken for %.0f", ms, middle)
			}
		}
	}
	if b := WaitBucket(math.MaxInt32); b != buckets-1 {
		t.Errorf("the greatest number is %d of %d", b, buckets)
	}
}

// However waits are divided into those that are known and those that are summed, the percentiles are near those of all of them.
func TestWaits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 1))
	for range 300 {
		var exact, mixed Waits
		var lengths []int64
		var sum, n, greatest int64
		for range 1 + rnd.IntN(400) {
			ms := int64(math.Exp(rnd.Float64()*24)) - 1 // up to 300 days
			exact.Add(ms)
			if rnd.IntN(2) == 0 {
				mixed.Add(ms)
				continue
			}
			lengths = append(lengths, int64(WaitBucket(uint32(ms/100)))<<40+1)
			sum, n, greatest = sum+ms, n+1, max(greatest, ms)
		}
		mixed.AddSums(n, float64(sum), greatest, lengths)
		if mixed.N != exact.N || math.Abs(mixed.Sum-exact.Sum) > 1 || mixed.Max != exact.Max || exact.Approximate() || !mixed.Approximate() {
			t.Fatalf("%+v of %+v", mixed, exact)
		}
		parts := []float64{0, 0.25, 0.5, 0.95, 1}
		for i, want := range exact.Percentiles(parts...) {
			if got := mixed.Percentiles(parts...)[i]; math.Abs(got-want) > 51 && math.Abs(got-want) > want*WaitError {
				t.Errorf("percentile %v is %v, want %v", parts[i], got, want)
			}
		}
	}
	var w Waits
	w.Add(40_000, 10_000, 20_000, 30_000)
	if got := w.Cells(); !slices.Equal(got, []string{"4", "25.0", "25.0", "38.5", "40.0"}) {
		t.Errorf("%q", got)
	}
	w.AddSums(0, 0, 0, []int64{-1, math.MaxInt64}) // what no wait has is left out
	if got := (&Waits{}).Cells(); got[0] != "0" || w.N != 4 {
		t.Errorf("%q, %d", got, w.N)
	}
}

func TestMerge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 1))
	for range 100 {
		var all, a, b Summary
		for range rnd.IntN(5) {
			f := Finished{Submitted: now, Ended: now.Add(1 + 1<<rnd.IntN(40)), CPU: 1 << rnd.IntN(40), Done: rnd.IntN(2) == 0}
			if rnd.IntN(2) == 0 {
				f.Dispatched = now.Add(f.Ended.Sub(now) / 2)
			}
			all.Add(&f)
			if rnd.IntN(2) == 0 {
				a.Add(&f)
			} else {
				b.Add(&f)
			}
		}
		a.Merge(&b)
		near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-12*math.Abs(y) }
		if a.Done != all.Done || a.Failed != all.Failed || a.Started != all.Started || a.First != all.First || a.Last != all.Last || !near(a.Run, all.Run) || !near(a.Expansion, all.Expansion) {
			t.Fatalf("%+v, want %+v", a, all)
		}
		for _, x := range [][2]Spread{{a.CPU, all.CPU}, {a.Wait, all.Wait}, {a.Turnaround, all.Turnaround}, {a.Hog, all.Hog}} {
			if x[0].Max != x[1].Max || x[0].Min != x[1].Min || !near(x[0].Sum, x[1].Sum) {
				t.Fatalf("%+v, want %+v", x[0], x[1])
			}
		}
	}
}
