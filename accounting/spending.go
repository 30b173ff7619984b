package accounting

import (
	"cmp"
	"slices"
	"time"

	"fairslice/nodes"
)

// Spent is what was charged, in both units.
type Spent struct{ FGPU, GPU Cost }

// Of is what a budget of a unit counts.
func (s Spent) Of(u BudgetUnit) Cost {
	if u == GPUHours {
		return s.GPU
	}
	return s.FGPU
}

func (s Spent) plus(t Spent) Spent { return Spent{s.FGPU.Plus(t.FGPU), s.GPU.Plus(t.GPU)} }

// Spending is what has been charged, by user and account, between moments at which it is told apart: cuts. It is exact: charges
// are split at the cuts to the millisecond, and sums are of integers. Part i is what was held before cut i and not before
// the one before it; the last part is without end. It is not safe for concurrent use.
type Spending struct {
	cuts  []int64 // milliseconds since 1970, ascending
	parts map[Leaf][]Spent
	total map[string]Cost // fGPU by queue
	last  int             // the last part in which something was charged
}

// NewSpending makes an empty one. Cuts may be in any order, and there more than once.
func NewSpending(cuts []time.Time) *Spending {
	s := &Spending{parts: map[Leaf][]Spent{}, total: map[string]Cost{}}
	for _, c := range cuts {
		s.cuts = append(s.cuts, c.UnixMilli())
	}
	slices.Sort(s.cuts)
	s.cuts = slices.Compact(s.cuts)
	return s
}

// Cuts are the moments, in milliseconds since 1970, ascending; never nil.
func (s *Spending) Cuts() []int64 { return append([]int64{}, s.cuts...) }

// Knows says whether it is told apart at all of these moments.
func (s *Spending) Knows(at []time.Time) bool {
	return !slices.ContainsFunc(at, func(t time.Time) bool { _, ok := slices.BinarySearch(s.cuts, t.UnixMilli()); return !ok })
}

// Put adds sums that were made elsewhere, of one part: by user and account, and by queue.
func (s *Spending) Put(at Leaf, queue string, part int, x Spent) {
	parts := s.of(at)
	parts[part] = parts[part].plus(x)
	s.last = max(s.last, part)
	s.total[queue] = s.total[queue].Plus(x.FGPU)
}

func (s *Spending) of(at Leaf) []Spent {
	parts := s.parts[at]
	if parts == nil {
		parts = make([]Spent, len(s.cuts)+1)
		s.parts[at] = parts
	}
	return parts
}

// Add adds a charge: what was held from one moment to another.
func (s *Spending) Add(at Leaf, queue string, fgpu nodes.Amount, gpus int, from, to time.Time) {
	a, b := from.UnixMilli(), to.UnixMilli()
	if a >= b || fgpu <= 0 && gpus <= 0 {
		return
	}
	i, exact := slices.BinarySearch(s.cuts, a)
	if exact {
		i++
	}
	for ; a < b; i++ {
		end := b
		if i < len(s.cuts) {
			end = min(end, s.cuts[i])
		}
		s.Put(at, queue, i, Spent{CostOf(FGPUHours.amount(fgpu, gpus), end-a), CostOf(GPUHours.amount(fgpu, gpus), end-a)})
		a = end
	}
}

// Cut tells apart from now on also at these moments. What was added before to a part that is cut stays in the part before
// the cut: call it while nothing later has been charged, or make another Spending.
func (s *Spending) Cut(at []time.Time) {
	for _, t := range at {
		ms := t.UnixMilli()
		i, known := slices.BinarySearch(s.cuts, ms)
		if known {
			continue
		}
		s.cuts = slices.Insert(s.cuts, i, ms)
		for leaf, parts := range s.parts {
			s.parts[leaf] = slices.Insert(parts, i+1, Spent{})
		}
		if i < s.last {
			s.last++
		}
	}
}

// each calls fn for each user in each account.
func (s *Spending) each(fn func(Leaf, []Spent)) {
	if s != nil {
		for at, parts := range s.parts {
			fn(at, parts)
		}
	}
}

// empty says that nothing was charged from a moment on.
func (s *Spending) empty(from time.Time) bool {
	return s.last < len(s.cuts) && from.UnixMilli() >= s.cuts[s.last]
}

// in is the sum of the parts that lie in a span, or reach into it: what is not told apart counts in full, so nothing is missed.
func (s *Spending) in(parts []Spent, span Span) (sum Spent) {
	from, _ := slices.BinarySearchFunc(s.cuts, span.From.UnixMilli(), func(c, x int64) int { return cmp.Or(cmp.Compare(c, x), -1) })
	to, _ := slices.BinarySearch(s.cuts, span.To.UnixMilli())
	for i := from; i <= to && i < len(parts); i++ {
		sum = sum.plus(parts[i])
	}
	return sum
}

// ByAccount is all fGPU time by the accounts in which it counts now, not with those below them; ByQueue is it by queue.
func (s *Spending) ByAccount(p *Policy) map[string]Cost {
	out := map[string]Cost{}
	s.each(func(at Leaf, parts []Spent) {
		sum := out[p.PlaceOf(at)]
		for i := range parts {
			sum = sum.Plus(parts[i].FGPU)
		}
		out[p.PlaceOf(at)] = sum
	})
	return out
}

// ByQueue is all fGPU time by queue.
func (s *Spending) ByQueue() map[string]Cost {
	out := map[string]Cost{}
	if s != nil {
		for queue, c := range s.total {
			out[queue] = c
		}
	}
	return out
}
