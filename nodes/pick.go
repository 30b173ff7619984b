package nodes

import "strings"

// gpuMisfit is why the GPUs of n have no room for r; false says that they have. It agrees with pickGPUs.
func (n *Node) gpuMisfit(r *GPURequest) (Misfit, bool) {
	switch {
	case r.Whole > 0:
		have := 0
		for i := range n.GPUs {
			if g := &n.GPUs[i]; g.Whole() && g.Matches(r) {
				have++
			}
		}
		return Misfit{Blocker: BlockedByGPU, Need: int64(r.Whole), Have: int64(min(have, r.Whole)), What: "gpus"}, have < r.Whole
	case r.Memory > 0:
		need, have := max(r.Count, 1), 0
		for i := range n.GPUs {
			if g := &n.GPUs[i]; g.Matches(r) {
				if a := g.amountFor(r.Memory); a > 0 && a <= g.Free() {
					have++
				}
			}
		}
		return Misfit{Blocker: BlockedByGPU, Need: int64(need), Have: int64(min(have, need)), What: "slices"}, have < need
	}
	var freest, largest Amount
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.Matches(r) {
			freest, largest = max(freest, g.Free()), max(largest, g.Capacity)
		}
	}
	if r.Amount <= freest {
		return Misfit{}, false
	}
	m := Misfit{Blocker: BlockedByGPU, Need: int64(r.Amount), Have: int64(freest), What: "fgpu"}
	return m, r.Amount <= largest || !n.fitsAcross(r)
}

// fitsAcross says whether an amount above one GPU fits whole GPUs and a rest on another.
func (n *Node) fitsAcross(r *GPURequest) bool {
	rest := r.Amount
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.takesWhole(r, rest) {
			rest -= g.Capacity
		}
	}
	if rest == 0 {
		return true
	}
	before := r.Amount
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.takesWhole(r, before) {
			before -= g.Capacity
		} else if g.Matches(r) && g.Free() >= rest {
			return true
		}
	}
	return false
}

func (g *GPU) takesWhole(r *GPURequest, rest Amount) bool {
	return g.Whole() && rest >= g.Capacity && g.Matches(r)
}

// pickGPUs chooses slices for r: for a fraction the GPU that is left with least (best fit, so that
// whole GPUs stay whole), the lowest index among equals, so that the choice is deterministic.
func (n *Node) pickGPUs(r *GPURequest) ([]Slice, *Misfit) {
	switch {
	case r.Whole > 0:
		var out []Slice
		for i := range n.GPUs {
			g := &n.GPUs[i]
			if len(out) < r.Whole && g.Matches(r) && g.Whole() {
				out = append(out, g.slice(g.Capacity))
			}
		}
		if len(out) < r.Whole {
			return nil, &Misfit{Blocker: BlockedByGPU, Need: int64(r.Whole), Have: int64(len(out)), What: "gpus"}
		}
		return out, nil
	case r.Memory > 0:
		return n.pickEach(max(r.Count, 1), r, func(g *GPU) Amount { return g.amountFor(r.Memory) })
	}
	return n.pickAmount(r)
}

// pickAmount places a fraction, or whole GPUs and a rest where more than one GPU is asked for.
func (n *Node) pickAmount(r *GPURequest) ([]Slice, *Misfit) {
	if best := n.bestFit(r, func(*GPU) Amount { return r.Amount }, nil); best != nil {
		return []Slice{best.slice(r.Amount)}, nil
	}
	var freest Amount
	var largest Amount
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.Matches(r) {
			freest, largest = max(freest, g.Free()), max(largest, g.Capacity)
		}
	}
	misfit := &Misfit{Blocker: BlockedByGPU, Need: int64(r.Amount), Have: int64(freest), What: "fgpu"}
	if r.Amount <= largest || largest == 0 {
		return nil, misfit
	}
	var out []Slice
	taken := map[string]bool{}
	rest := r.Amount
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Matches(r) && g.Whole() && rest >= g.Capacity {
			out, rest = append(out, g.slice(g.Capacity)), rest-g.Capacity
			taken[g.UUID] = true
		}
	}
	if rest > 0 {
		g := n.bestFit(r, func(*GPU) Amount { return rest }, taken)
		if g == nil {
			return nil, misfit
		}
		out = append(out, g.slice(rest))
	}
	return out, nil
}

func (n *Node) pickEach(count int, r *GPURequest, amount func(*GPU) Amount) ([]Slice, *Misfit) {
	var out []Slice
	taken := map[string]bool{}
	for range count {
		g := n.bestFit(r, amount, taken)
		if g == nil {
			return nil, &Misfit{Blocker: BlockedByGPU, Need: int64(count), Have: int64(len(out)), What: "slices"}
		}
		taken[g.UUID] = true
		out = append(out, g.slice(amount(g)))
	}
	return out, nil
}

func (n *Node) bestFit(r *GPURequest, amount func(*GPU) Amount, except map[string]bool) *GPU {
	var best *GPU
	for i := range n.GPUs {
		g := &n.GPUs[i]
		a := amount(g)
		if a <= 0 || !g.Matches(r) || except[g.UUID] || g.Free() < a {
			continue
		}
		if best == nil || g.Free()-a < best.Free()-amount(best) {
			best = g
		}
	}
	return best
}

// Matches says whether r may have g, or a part of it, whatever of g is free: it has the model and the memory.
func (g *GPU) Matches(r *GPURequest) bool {
	return g.Memory >= r.MinMemory && (r.Model == "" || containsFold(g.Model, r.Model))
}

// containsFold is strings.Contains without regard to case, and without the copies of strings.ToLower.
func containsFold(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(part)], part) {
			return true
		}
	}
	return false
}
