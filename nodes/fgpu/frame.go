package fgpu

import (
	"cmp"
	"slices"
)

// Window is the part of each frame in which a slice's launches pass, in 1/100 percent.
type Window struct {
	Key   string // names the slice among those of its GPU
	Share int    // its length, 0 to Whole
	Phase int    // where it begins; -1 where it has none yet
}

func (w Window) end() int { return w.Phase + w.Share }

// Phases places the windows of one GPU's slices, given oldest first, and returns them in that order. While the shares add up to at
// most Whole, no two overlap and none runs over the frame's end. A window that is moved may lose or gain once what it has in a frame, so
// none moves while there is a gap for the new ones; else one, or two, where moving these makes the room, the smallest first; else all
// move together. Beyond Whole, which nodes.Fit does not allow, the windows that do not fit overlap others.
func Phases(windows []Window) []Window { return PhasesLike(windows, nil) }

// PhasesLike is Phases for slices whose jobs have slices of other GPUs as well: a new window begins where wish says by its key, if
// it is free there. The windows of one job then open together on all its GPUs, as kernels that wait for each other across GPUs
// (NCCL's) need to get on: one GPU's would otherwise wait out the closed time of the other's.
func PhasesLike(windows []Window, wish map[string]int) []Window {
	var kept, loose []Window // loose: to be placed
	for _, w := range windows {
		if w.Phase >= 0 && w.end() <= Whole && !slices.ContainsFunc(kept, w.overlaps) {
			kept = append(kept, w)
		} else {
			loose = append(loose, w)
		}
	}
	wished, other := grant(kept, loose, wish)
	placed, ok := fit(wished, other)
	if !ok {
		placed, ok = fit(kept, loose)
	}
	if !ok {
		placed, ok = moveSome(kept, loose)
	}
	if !ok {
		placed = slide(kept, loose)
	}
	phase := make(map[string]int, len(placed))
	for _, w := range placed {
		phase[w.Key] = w.Phase
	}
	out := slices.Clone(windows)
	for i := range out {
		out[i].Phase = phase[out[i].Key]
	}
	return out
}

// grant puts those of loose where they wish to be that fit there, and returns the others.
func grant(kept, loose []Window, wish map[string]int) (placed, other []Window) {
	placed = slices.Clone(kept)
	for _, w := range loose {
		at, wishes := wish[w.Key]
		w.Phase = at
		if wishes && at >= 0 && w.end() <= Whole && !slices.ContainsFunc(placed, w.overlaps) {
			placed = append(placed, w)
		} else {
			other = append(other, w)
		}
	}
	return placed, other
}

func (w Window) overlaps(o Window) bool {
	return w.Phase < o.end() && o.Phase < w.end()
}

// fit puts each of loose, the longest first, into the shortest gap between the others that holds it.
func fit(fixed, loose []Window) ([]Window, bool) {
	placed := slices.SortedFunc(slices.Values(fixed), byPhase)
	loose = slices.SortedFunc(slices.Values(loose), func(a, b Window) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Key, b.Key))
	})
	for _, w := range loose {
		shortest, from := Whole+1, 0
		for i := 0; i <= len(placed); i++ {
			if i > 0 {
				from = placed[i-1].end()
			}
			to := Whole
			if i < len(placed) {
				to = placed[i].Phase
			}
			if gap := to - from; gap >= w.Share && gap < shortest {
				shortest, w.Phase = gap, from
			}
		}
		if shortest > Whole {
			return nil, false
		}
		at, _ := slices.BinarySearchFunc(placed, w, byPhase)
		placed = slices.Insert(placed, at, w)
	}
	return placed, true
}

func byPhase(a, b Window) int {
	return cmp.Or(cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Share, b.Share), cmp.Compare(a.Key, b.Key))
}

// moveSome makes room by taking out one of the windows, or two, and placing them again with the others.
func moveSome(kept, loose []Window) ([]Window, bool) {
	small := slices.SortedFunc(slices.Values(kept), func(a, b Window) int {
		return cmp.Or(cmp.Compare(a.Share, b.Share), cmp.Compare(a.Key, b.Key))
	})
	without := func(skip ...int) (rest, moved []Window) {
		for i, w := range small {
			if slices.Contains(skip, i) {
				moved = append(moved, w)
			} else {
				rest = append(rest, w)
			}
		}
		return rest, append(moved, loose...)
	}
	for i := range small {
		if placed, ok := fit(without(i)); ok {
			return placed, true
		}
	}
	for i := range small {
		for j := range i {
			if placed, ok := fit(without(j, i)); ok {
				return placed, true
			}
		}
	}
	return nil, false
}

// slide moves all windows to the left, so that one gap is left at the frame's end, and puts the new ones there.
func slide(kept, loose []Window) []Window {
	all := append(slices.SortedFunc(slices.Values(kept), byPhase), loose...)
	next := 0
	for i := range all {
		all[i].Phase = max(min(next, Whole-all[i].Share, Whole-1), 0)
		next += all[i].Share
	}
	return all
}
