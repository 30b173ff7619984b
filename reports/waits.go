package reports

import (
	"math/bits"
	"slices"
)

// Waits are the waits of a group of starts, in milliseconds, of which some may be known in sums only: how many there are of each
// length. Number, mean and maximum are always exact. Percentiles are so while every wait is known; otherwise they are within
// WaitError, or a twentieth of a second.
type Waits struct {
	N     int64
	Sum   float64
	Max   int64
	known []int64
	sums  []int64 // by WaitBucket; nil: every wait is known
}

// WaitError bounds the relative error of a length, of which there are 32 to each doubling: half of 1/32.
const WaitError = 1.0 / 64

// tenth is what lengths are counted in: reports print no less.
const tenth = 100

// subBuckets is how many lengths there are to each doubling, and as a shift.
const (
	subBuckets = 1 << subShift
	subShift   = 5
)

// WaitBucket is the number of a length, given in tenths of a second: each up to 3.2 s has its own, and above that every doubling has 32.
// The database reckons the same (wait_bucket).
func WaitBucket(tenths uint32) int {
	e := max(bits.Len32(tenths)-1-subShift, 0)
	return e*subBuckets + int(tenths>>e)
}

// bucketMillis is the middle of a length.
func bucketMillis(bucket int) float64 {
	if bucket < 2*subBuckets {
		return (float64(bucket) + 0.5) * tenth
	}
	e := bucket/subBuckets - 1
	low := uint64(bucket-e*subBuckets) << e
	return (float64(low) + float64(uint64(1)<<e)/2) * tenth
}

// buckets is one more than the greatest number of a length.
var buckets = WaitBucket(1<<31-1) + 1

// Add adds waits that are known.
func (w *Waits) Add(ms ...int64) {
	w.known = append(w.known, ms...)
	for _, v := range ms {
		w.Sum += float64(v)
		w.Max = max(w.Max, v)
	}
	w.N += int64(len(ms))
}

// AddSums adds n waits of which only sum and maximum are known, and how many there are of each length: number × 2^40 + how many.
// What is none is left out.
func (w *Waits) AddSums(n int64, sum float64, greatest int64, lengths []int64) {
	if w.sums == nil {
		w.sums = make([]int64, buckets)
	}
	w.N += n
	w.Sum += sum
	w.Max = max(w.Max, greatest)
	for _, l := range lengths {
		if b := int(l >> 40); b >= 0 && b < buckets {
			w.sums[b] += l & (1<<40 - 1)
		}
	}
}

// Percentiles are the waits that are not exceeded by some parts of all, in milliseconds: between two waits, as far as a part is between
// their ranks. There must be a wait.
func (w *Waits) Percentiles(parts ...float64) []float64 {
	at := w.ranked()
	out := make([]float64, len(parts))
	for i, p := range parts {
		rank := p * float64(w.N-1)
		low := int64(rank)
		from, to := at(low), at(min(low+1, w.N-1))
		out[i] = from + (rank-float64(low))*(to-from)
	}
	return out
}

// ranked finds the wait of a rank, from 0.
func (w *Waits) ranked() func(rank int64) float64 {
	if w.sums == nil {
		slices.Sort(w.known)
		return func(rank int64) float64 { return float64(w.known[rank]) }
	}
	all := slices.Clone(w.sums)
	for _, ms := range w.known {
		all[WaitBucket(uint32(min(max(ms, 0)/tenth, 1<<31-1)))]++
	}
	return func(rank int64) float64 {
		for b, n := range all {
			if rank -= n; rank < 0 {
				return min(bucketMillis(b), float64(w.Max))
			}
		}
		return float64(w.Max)
	}
}

// Cells are number, mean, median, 95th percentile and maximum, in seconds; without a wait there is only the number.
func (w *Waits) Cells() []string {
	if w.N == 0 {
		return []string{"0", "", "", "", ""}
	}
	seconds := func(ms float64) string { return Number(ms/1000, 1) }
	p := w.Percentiles(0.5, 0.95)
	return []string{Whole(w.N), seconds(w.Sum / float64(w.N)), seconds(p[0]), seconds(p[1]), seconds(float64(w.Max))}
}

// Approximate says that percentiles are within WaitError only.
func (w *Waits) Approximate() bool { return w.sums != nil }
