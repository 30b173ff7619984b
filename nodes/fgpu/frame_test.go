package fgpu

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPhases(t *testing.T) {
	w := func(key string, share, phase int) Window { return Window{key, share, phase} }
	cases := map[string]struct{ in, want []Window }{
		"the first begins with the frame":           {[]Window{w("a", 2500, -1)}, []Window{w("a", 2500, 0)}},
		"four quarters fill it":                     {[]Window{w("a", 2500, -1), w("b", 2500, -1), w("c", 2500, -1), w("d", 2500, -1)}, []Window{w("a", 2500, 0), w("b", 2500, 2500), w("c", 2500, 5000), w("d", 2500, 7500)}},
		"the shortest gap that holds it":            {[]Window{w("a", 1000, 4000), w("b", 2000, 7000), w("c", 2000, -1)}, []Window{w("a", 1000, 4000), w("b", 2000, 7000), w("c", 2000, 5000)}},
		"one moves where that is enough":            {[]Window{w("a", 4000, 1000), w("b", 1000, 7000), w("c", 4000, -1)}, []Window{w("a", 4000, 1000), w("b", 1000, 0), w("c", 4000, 5000)}},
		"the older stays where two overlap":         {[]Window{w("a", 5000, 1000), w("b", 2500, 3000)}, []Window{w("a", 5000, 1000), w("b", 2500, 6000)}},
		"one beyond the frame's end comes back":     {[]Window{w("a", 5000, 6000)}, []Window{w("a", 5000, 0)}},
		"all move where gaps are everywhere":        {[]Window{w("a", 2000, 1000), w("b", 2000, 4000), w("c", 2000, 7000), w("d", 4000, -1)}, []Window{w("a", 2000, 1000), w("b", 2000, 4000), w("c", 2000, 7000), w("d", 4000, -1)}},
		"a share of nothing needs no room":          {[]Window{w("a", 10000, 0), w("b", 0, -1)}, []Window{w("a", 10000, 0), w("b", 0, 0)}},
		"too much overlaps, and stays in the frame": {[]Window{w("a", 8000, 0), w("b", 8000, -1)}, []Window{w("a", 8000, 0), w("b", 8000, 2000)}},
		"none": {nil, nil},
	}
	delete(cases, "all move where gaps are everywhere") // below, by its properties
	for name, c := range cases {
		if got := Phases(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, c.want)
		}
	}
}

func TestWindowsOfOneJobOpenTogether(t *testing.T) {
	w := func(key string, share, phase int) Window { return Window{key, share, phase} }
	wish := map[string]int{"b": 5000, "c": 9000}
	cases := map[string]struct{ in, want []Window }{
		"free there":                 {[]Window{w("a", 2500, 0), w("b", 2500, -1)}, []Window{w("a", 2500, 0), w("b", 2500, 5000)}},
		"taken there":                {[]Window{w("a", 2500, 4000), w("b", 2500, -1)}, []Window{w("a", 2500, 4000), w("b", 2500, 6500)}},
		"over the frame's end there": {[]Window{w("c", 2500, -1)}, []Window{w("c", 2500, 0)}},
		"nobody moves for a wish":    {[]Window{w("b", 2500, 1000), w("a", 1000, -1)}, []Window{w("b", 2500, 1000), w("a", 1000, 0)}},
		"a wish that would leave no room for another is not granted": {
			[]Window{w("b", 2500, -1), w("a", 7000, -1)}, []Window{w("b", 2500, 7000), w("a", 7000, 0)}},
	}
	for name, c := range cases {
		if got := PhasesLike(c.in, wish); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, c.want)
		}
	}
}

// As jobs come and go: no overlap, nobody moves when one leaves or while there is a gap, and no more than one
// where moving one is enough.
func TestWindowsKeepApartAndStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var now []Window
		sum, next := 0, 0
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				share := rapid.IntRange(1, max((Whole-sum)/rapid.IntRange(1, 4).Draw(t, "part"), 1)).Draw(t, "share")
				if sum+share > Whole {
					return
				}
				before := slices.Clone(now)
				wish := map[string]int{}
				if rapid.Bool().Draw(t, "wishes") {
					wish[fmt.Sprint(next)] = rapid.IntRange(-1, Whole+1).Draw(t, "wish")
				}
				now = PhasesLike(append(now, Window{fmt.Sprint(next), share, -1}), wish)
				sum, next = sum+share, next+1
				moved := 0
				for i := range before {
					if now[i] != before[i] {
						moved++
					}
				}
				if least := fewest(before, share); moved > least {
					t.Fatalf("%d moved for a share of %d, %d had to:\n%v\n%v", moved, share, least, before, now)
				}
			},
			"go": func(t *rapid.T) {
				if len(now) == 0 {
					return
				}
				i := rapid.IntRange(0, len(now)-1).Draw(t, "who")
				sum -= now[i].Share
				rest := slices.Delete(slices.Clone(now), i, i+1)
				if now = Phases(rest); !slices.Equal(now, rest) {
					t.Fatalf("moved when another left:\n%v\n%v", rest, now)
				}
			},
			"": func(t *rapid.T) {
				for i, a := range now {
					if a.Phase < 0 || a.end() > Whole {
						t.Fatalf("beyond the frame: %v", now)
					}
					if slices.ContainsFunc(now[:i], a.overlaps) {
						t.Fatalf("overlap: %v", now)
					}
				}
			},
		})
	})
}

// fewest is, by trying, how few must move for one more: 0, 1, or any number.
func fewest(windows []Window, share int) int {
	gaps := func(skip int) (gaps []int) {
		rest := []Window{}
		for i, w := range windows {
			if i != skip {
				rest = append(rest, w)
			}
		}
		slices.SortFunc(rest, byPhase)
		from := 0
		for _, w := range append(rest, Window{Phase: Whole}) {
			gaps, from = append(gaps, w.Phase-from), w.end()
		}
		return gaps
	}
	holds := func(gaps []int, lengths ...int) bool {
		var try func([]int) bool
		try = func(lengths []int) bool {
			if len(lengths) == 0 {
				return true
			}
			for i := range gaps {
				if gaps[i] >= lengths[0] {
					gaps[i] -= lengths[0]
					if try(lengths[1:]) {
						return true
					}
					gaps[i] += lengths[0]
				}
			}
			return false
		}
		return try(lengths)
	}
	if holds(gaps(-1), share) {
		return 0
	}
	for i, w := range windows {
		if holds(gaps(i), share, w.Share) {
			return 1
		}
	}
	return len(windows)
}
