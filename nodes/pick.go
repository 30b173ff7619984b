package nodes

import "strings"

// gpuMisfit is why the GPUs of n have no room for r; false says that they have. It agrees with pickGPUs.
func (n *Node) gpuMisfit(r *GPURequest) (Misfit, bool) {
	m := Misfit{Blocker: BlockedByGPU}
	switch {
	case r.Whole > 0:
		have := 0
		for i := range n.GPUs {
			if g := &n.GPUs[i]; g.Whole() && g.Matches(r) {
				have++
			}
		}
		m.Need, m.Have, m.What = int64(r.Whole), int64(min(have, r.Whole)), "gpus"
		return m, have < r.Whole
	case r.Memory > 0:
		need, have := max(r.Count, 1), 0
		for i := range n.GPUs {
			if g := &n.GPUs[i]; g.Grant(r, g.amountFor(r.Memory)) > 0 {
				have++
			}
		}
		m.Need, m.Have, m.What = int64(need), int64(min(have, need)), n.others(r, "slices")
		return m, have < need
	}
	var freest, largest Amount
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if !g.Matches(r) {
			continue
		}
		if g.Grant(r, r.Amount) > 0 {
			return Misfit{}, false
		}
		if g.admits(r.User) {
			freest = max(freest, g.Free())
		}
		if g.Mode != ModeMIG {
			largest = max(largest, g.Capacity)
		}
	}
	if r.Amount > largest && n.fitsAcross(r) {
		return Misfit{}, false
	}
	m.Need, m.Have, m.What = int64(r.Amount), int64(freest), n.others(r, "fgpu")
	return m, true
}

// others is "mps" when r would fit a GPU if it were its user's, and otherwise what.
func (n *Node) others(r *GPURequest, what string) string {
	for i := range n.GPUs {
		if g := &n.GPUs[i]; r.User != "" && !g.admits(r.User) && g.Matches(r) {
			if need := g.Need(r); need > 0 && need <= g.Free() {
				return "mps"
			}
		}
	}
	return what
}

// fitsAcross says whether an amount above one GPU fits whole GPUs and a rest on another. Instances are no part of that.
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
		} else if g.Mode != ModeMIG && g.Grant(r, rest) > 0 {
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
			return nil, n.why(r)
		}
		return out, nil
	case r.Memory > 0:
		return n.pickEach(max(r.Count, 1), r)
	}
	return n.pickAmount(r)
}

// why is gpuMisfit of what did not fit.
func (n *Node) why(r *GPURequest) *Misfit {
	m, _ := n.gpuMisfit(r)
	return &m
}

// pickAmount places a fraction, or whole GPUs and a rest where more than one GPU is asked for.
func (n *Node) pickAmount(r *GPURequest) ([]Slice, *Misfit) {
	if best, a := n.bestFit(r, nil, func(*GPU) Amount { return r.Amount }); best != nil {
		return []Slice{best.slice(a)}, nil
	}
	var largest Amount
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.Matches(r) && g.Mode != ModeMIG {
			largest = max(largest, g.Capacity)
		}
	}
	if r.Amount <= largest || largest == 0 {
		return nil, n.why(r)
	}
	var out []Slice
	taken := map[string]bool{}
	rest := r.Amount
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.Mode == ModeMIG {
			taken[g.UUID] = true
		} else if g.takesWhole(r, rest) {
			out, rest = append(out, g.slice(g.Capacity)), rest-g.Capacity
			taken[g.UUID] = true
		}
	}
	if rest > 0 {
		g, a := n.bestFit(r, taken, func(*GPU) Amount { return rest })
		if g == nil {
			return nil, n.why(r)
		}
		out = append(out, g.slice(a))
	}
	return out, nil
}

func (n *Node) pickEach(count int, r *GPURequest) ([]Slice, *Misfit) {
	var out []Slice
	taken := map[string]bool{}
	for range count {
		g, a := n.bestFit(r, taken, func(g *GPU) Amount { return g.amountFor(r.Memory) })
		if g == nil {
			return nil, n.why(r)
		}
		taken[g.UUID] = true
		out = append(out, g.slice(a))
	}
	return out, nil
}

// bestFit is the GPU that suits r best, by suits, and what it gives.
func (n *Node) bestFit(r *GPURequest, except map[string]bool, need func(*GPU) Amount) (best *GPU, granted Amount) {
	var bestSuit suit
	for i := range n.GPUs {
		g := &n.GPUs[i]
		a := need(g)
		given := g.Grant(r, a)
		if given == 0 || except[g.UUID] {
			continue
		}
		if s := g.suits(a, given); best == nil || s.before(&bestSuit) {
			best, granted, bestSuit = g, given, s
		}
	}
	return best, granted
}

// suit is how well a GPU suits a request for a part of one: without rounding up if possible; then the GPU that is left
// with least; then, of what is given whole, the smallest.
type suit struct {
	rounded    bool
	left, size Amount
	bytes      int64
}

func (g *GPU) suits(need, given Amount) suit {
	s := suit{rounded: given > need, left: g.Free() - given}
	if s.rounded || g.Mode == ModeMIG {
		s.size, s.bytes = given, g.Memory
	}
	return s
}

func (s *suit) before(o *suit) bool {
	switch {
	case s.rounded != o.rounded:
		return o.rounded
	case s.left != o.left:
		return s.left < o.left
	case s.size != o.size:
		return s.size < o.size
	}
	return s.bytes < o.bytes
}

// Matches says whether r may have g, or a part of it, whatever of g is free: it has the model and the memory.
func (g *GPU) Matches(r *GPURequest) bool {
	return g.Memory >= r.MinMemory && (r.Model == "" || containsFold(g.Model, r.Model))
}

// Serves says whether g, by what is free of it, can be the GPU that r takes, or one of those: whatever else the node has, or
// lacks. Of an amount above one GPU it is either all of g or the rest that would be left beside whole GPUs like g.
func (g *GPU) Serves(r *GPURequest) bool {
	switch {
	case g.Capacity <= 0:
		return false
	case r.Whole > 0:
		return g.Whole() && g.Matches(r)
	case r.Memory > 0:
		return g.Grant(r, g.amountFor(r.Memory)) > 0
	case r.Amount <= g.Capacity || g.Mode == ModeMIG:
		return g.Grant(r, r.Amount) > 0
	}
	return g.takesWhole(r, r.Amount) || g.Grant(r, r.Amount%g.Capacity) > 0
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
