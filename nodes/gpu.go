package nodes

import (
	"math"
	"math/bits"
)

// Mode says how a slice is enforced on a GPU. It is a fact of the node, published with every slice.
type Mode string

// The modes, strongest first. ModeCount is bookkeeping only: nothing stops a program from using more.
const (
	ModeMIG   Mode = "mig"
	ModeMPS   Mode = "mps"
	ModeShim  Mode = "shim"
	ModeCount Mode = "count"
)

// GPU is one physical (or simulated) GPU of a node and what of it is held.
type GPU struct {
	Index     int    `json:"index"` // as the driver counts on that node
	UUID      string `json:"uuid"`
	Model     string `json:"model"`
	Memory    int64  `json:"memory"`   // bytes
	Capacity  Amount `json:"capacity"` // fGPU this GPU is worth: fgpu_per_gpu
	Mode      Mode   `json:"mode"`
	Simulated bool   `json:"simulated,omitempty"`
	Lost      bool   `json:"lost,omitempty"` // the driver no longer answers for it

	Used   Amount `json:"used"`             // sum of the live slices
	Excess Amount `json:"excess,omitempty"` // see Node.Excess

	of Amount // the capacity of the whole GPU where this is a part of one (Node.Part); otherwise 0
}

// Free is what no slice holds; nothing on a lost GPU.
func (g *GPU) Free() Amount {
	if g.Lost {
		return 0
	}
	return g.Capacity - g.Used
}

// Whole says that all of g can be given, and all of it is a whole GPU. A GPU that the site counts as 0 fGPU has nothing to give.
func (g *GPU) Whole() bool { return g.Used == 0 && !g.Lost && g.of <= g.Capacity && g.Capacity > 0 }

// Slice is a part of one GPU given to one attempt of one job.
type Slice struct {
	UUID   string `json:"uuid"`
	Index  int    `json:"index"`
	Amount Amount `json:"amount"`
	Memory int64  `json:"memory"` // bytes the job may use on this GPU
	// SMShare is the share of the GPU's multiprocessors in 1/100 percent: 2500 is 25 %.
	SMShare int  `json:"sm_share"`
	Mode    Mode `json:"mode"`
}

// slice cuts a out of g. Memory and SM share are rounded down, so that the slices of a GPU never
// add up to more than it has.
func (g *GPU) slice(a Amount) Slice {
	return Slice{
		UUID: g.UUID, Index: g.Index, Amount: a, Mode: g.Mode,
		Memory:  mulDiv(g.Memory, int64(a), int64(g.Capacity)),
		SMShare: int(mulDiv(10_000, int64(a), int64(max(g.Capacity, g.of)))),
	}
}

// amountFor is the smallest amount of g whose memory is at least bytes, or 0 when all of g is too small.
func (g *GPU) amountFor(bytes int64) Amount {
	if bytes > g.Memory || g.Memory <= 0 {
		return 0
	}
	a := Amount(mulDiv(bytes, int64(g.Capacity), g.Memory))
	if g.slice(a).Memory < bytes {
		a++
	}
	return max(a, 1)
}

// mulDiv is a*b/c rounded down, for a and b from 0, without overflow on the way. What c cannot divide
// (0, or a result beyond int64) gives 0: nothing is the only share that is safe to give.
func mulDiv(a, b, c int64) int64 {
	if a < 0 || b < 0 || c <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 0
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	if q > math.MaxInt64 {
		return 0
	}
	return int64(q)
}
