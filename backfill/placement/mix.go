package placement

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"fairslice/nodes"
)

// Mix is what a site asks of its nodes: the shapes of its requests with weights that halve every half-life, and how many GPUs
// of each model there are. It keeps a bounded number of shapes, the heaviest, with slots and memory to four
// significant bits. The same observations in the same order give the same mix. Not for concurrent use: a plan
// that runs beside the observer needs a Clone.
type Mix struct {
	halfLife time.Duration
	base     time.Time // of the weights: an observation at base weighs its weight
	weights  map[nodes.Request]float64
	total    float64
	fresh    float64 // of total, what was observed in this epoch
	supply   map[string]float64
	epoch    uint64
}

// Shape is a request with its share of the mix: all shares add up to 1.
type Shape struct {
	Request nodes.Request
	Share   float64
}

const (
	maxShapes = 128 // kept when there are twice as many
	// newEpoch is the part of the mix that is new when costs are worked out anew.
	newEpoch = 1.0 / 16
	// maxHalfLives is how far weights run ahead of their base before they are brought back.
	maxHalfLives = 64
)

// NewMix is an empty mix in which an observation's weight halves every halfLife; 0 means never.
func NewMix(halfLife time.Duration) *Mix {
	return &Mix{halfLife: halfLife, weights: map[nodes.Request]float64{}, supply: map[string]float64{}}
}

// Observe counts that r was asked of one host, as often as weight says (what is not positive does not count). Where
// a request may have one of several GPU models, GPU.Model lists them with | between, as in "V100|A100".
// Observations may come in any order of time.
func (m *Mix) Observe(r nodes.Request, weight float64, at time.Time) {
	if !(weight > 0) {
		return
	}
	w := weight * m.growth(at)
	if !(w > 0) || math.IsInf(w, 1) { // too long ago to count, or too heavy to be true
		return
	}
	m.weights[coarse(r)] += w
	m.total += w
	if len(m.weights) > 2*maxShapes {
		m.prune()
	}
	if m.fresh += w; m.fresh >= m.total*newEpoch {
		m.fresh = 0
		m.epoch++
	}
}

// growth is what a unit observed at this time weighs against one observed at base. Instead of letting old
// observations shrink, new ones count for more.
func (m *Mix) growth(at time.Time) float64 {
	if m.halfLife <= 0 {
		return 1
	}
	if len(m.weights) == 0 {
		m.base = at
	}
	ahead := float64(at.Sub(m.base)) / float64(m.halfLife)
	if ahead > maxHalfLives {
		shrink := math.Exp2(-ahead)
		for r, w := range m.weights {
			if w *= shrink; w > 0 {
				m.weights[r] = w
			} else {
				delete(m.weights, r)
			}
		}
		m.total, m.fresh, m.base, ahead = m.total*shrink, m.fresh*shrink, at, 0
	}
	return math.Exp2(ahead)
}

func (m *Mix) prune() {
	m.total = 0
	for i, s := range m.Shapes() {
		if w := m.weights[s.Request]; i < maxShapes && w > 0 {
			m.total += w
		} else {
			delete(m.weights, s.Request)
		}
	}
	m.fresh = min(m.fresh, m.total)
}

// Shapes lists the mix, the heaviest first.
func (m *Mix) Shapes() []Shape {
	out := make([]Shape, 0, len(m.weights))
	for r, w := range m.weights {
		out = append(out, Shape{r, w})
	}
	slices.SortFunc(out, func(a, b Shape) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), compareRequests(&a.Request, &b.Request))
	})
	sum := 0.0
	for i := range out {
		sum += out[i].Share
	}
	for i := range out {
		out[i].Share /= sum
	}
	return out
}

// Supply says which nodes there are, so that a model that many ask for, and few nodes have, is spared by those who
// can do without it. It replaces what was said before.
func (m *Mix) Supply(ns []*nodes.Node) {
	supply := map[string]float64{}
	for _, n := range ns {
		for i := range n.GPUs {
			supply[n.GPUs[i].Model] += worth(&n.GPUs[i])
		}
	}
	if !maps.Equal(supply, m.supply) {
		m.supply = supply
		m.epoch++
	}
}

// Clone is a mix of its own.
func (m *Mix) Clone() *Mix {
	c := *m
	c.weights, c.supply = maps.Clone(m.weights), maps.Clone(m.supply)
	return &c
}

// Epoch changes when enough was observed to change costs.
func (m *Mix) Epoch() uint64 { return m.epoch }

// coarse is r as the mix counts it.
func coarse(r nodes.Request) nodes.Request {
	r.Consumables, r.GPU.User = "", ""
	r.Slots = int(fourBits(int64(r.Slots)))
	r.Memory = fourBits(r.Memory)
	r.GPU.Memory = fourBits(r.GPU.Memory)
	return r
}

// fourBits rounds v to the nearest number of four significant bits, halves up.
func fourBits(v int64) int64 {
	if v < 16 {
		return max(v, 0)
	}
	v = min(v, 1<<62)
	drop := bits.Len64(uint64(v)) - 4
	return (v + 1<<(drop-1)) >> drop << drop
}

func compareRequests(a, b *nodes.Request) int {
	return cmp.Or(cmp.Compare(a.Slots, b.Slots), cmp.Compare(a.Memory, b.Memory),
		cmp.Compare(a.GPU.Amount, b.GPU.Amount), cmp.Compare(a.GPU.Whole, b.GPU.Whole), cmp.Compare(a.GPU.Memory, b.GPU.Memory),
		cmp.Compare(a.GPU.Count, b.GPU.Count), cmp.Compare(a.GPU.MinMemory, b.GPU.MinMemory), cmp.Compare(a.GPU.Model, b.GPU.Model),
		compareBools(a.Exclusive, b.Exclusive))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
