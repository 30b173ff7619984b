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

// GPU is one physical (or simulated) GPU of a node, or one instance of a GPU that MIG divides, and what of it is held.
type GPU struct {
	Index     int    `json:"index"` // as the driver counts on that node; an instance has its GPU's
	UUID      string `json:"uuid"`
	Model     string `json:"model"`
	Memory    int64  `json:"memory"`   // bytes
	Capacity  Amount `json:"capacity"` // fGPU this GPU is worth: see Worth
	Mode      Mode   `json:"mode"`
	Simulated bool   `json:"simulated,omitempty"`
	Lost      bool   `json:"lost,omitempty"` // the driver no longer answers for it
	// Unfenced is why the node could not prove that it can hold a program on this GPU to its slice; "" when it
	// could. Nothing new starts on an unfenced GPU, and what runs goes on.
	Unfenced string `json:"unfenced,omitempty"`

	// Of an instance (ModeMIG): the UUID of its GPU, and how much of that GPU's multiprocessors it has, in 1/10000.
	Parent   string `json:"parent,omitempty"`
	Fraction int    `json:"fraction,omitempty"`

	Used   Amount `json:"used"`             // sum of the live slices
	Excess Amount `json:"excess,omitempty"` // see Node.Excess
	// Holder is the only user who may have more of a GPU in ModeMPS: all the slices on it are that user's. "" when nothing is
	// held, or when what is held is shared with nobody. In other modes it is "".
	Holder string `json:"holder,omitempty"`

	of Amount // the capacity of the whole GPU where this is a part of one (Node.Part); otherwise 0
}

// wholeFraction is the Fraction of all of a GPU.
const wholeFraction = 10_000

// Worth is the capacity of g where the site counts a whole GPU of its model as so much: that, or the part of it that
// an instance has, rounded down, and at least 1/100 fGPU.
func (g *GPU) Worth(whole Amount) Amount {
	if g.Mode != ModeMIG || whole <= 0 {
		return whole
	}
	return max(Amount(mulDiv(int64(whole), int64(min(g.Fraction, wholeFraction)), wholeFraction)), 1)
}

// Free is what can still be given of g; nothing on a lost or unfenced GPU, nor on an instance that somebody has. In
// ModeMPS not everybody may have it: see Grant.
func (g *GPU) Free() Amount {
	if g.Lost || g.Unfenced != "" || g.Mode == ModeMIG && g.Used > 0 {
		return 0
	}
	return g.Capacity - g.Used
}

// Whole says that all of g can be given, and all of it is a whole GPU, which an instance never is. A GPU that the site
// counts as 0 fGPU has nothing to give.
func (g *GPU) Whole() bool {
	return g.Used == 0 && !g.Lost && g.Unfenced == "" && g.Mode != ModeMIG && g.of <= g.Capacity && g.Capacity > 0
}

// Grant is how much of g a request that needs an amount of one GPU gets: the amount, or all of g where it is not
// shared. That is so on an instance (ModeMIG), and in ModeMPS for who does not say a user. 0 when g has not so
// much left, is not one that r may have, or is in use by another user (ModeMPS).
func (g *GPU) Grant(r *GPURequest, need Amount) Amount {
	if need <= 0 || need > g.Free() || !g.Matches(r) || !g.admits(r.User) {
		return 0
	}
	switch {
	case g.Mode == ModeMIG && r.Count > 1: // a CUDA program sees one instance only
		return 0
	case g.Mode == ModeMIG, g.Mode == ModeMPS && r.User == "":
		return g.Capacity
	}
	return need
}

// admits says whether a user's slice may be beside those that are on g. An MPS daemon serves one user at a time: another
// one's programs would wait until all of the first have ended.
func (g *GPU) admits(user string) bool {
	return g.Mode != ModeMPS || g.Used == 0 || user != "" && user == g.Holder
}

// Need is how much of g a request for one slice needs, whatever is free: its amount, or what has its memory. 0 when all of
// g is too small.
func (g *GPU) Need(r *GPURequest) Amount {
	switch {
	case r.Memory > 0:
		return g.amountFor(r.Memory)
	case r.Amount > g.Capacity:
		return 0
	}
	return r.Amount
}

// hold counts a slice of a user's on g, once it has been found to fit.
func (g *GPU) hold(s Slice, user string) {
	switch {
	case g.Mode != ModeMPS:
	case s.Mode != ModeMPS: // it is from before the mode changed, and nothing may be beside it
		g.Holder = ""
	case g.Used == 0:
		g.Holder = user
	case g.Holder != user:
		g.Holder = ""
	}
	g.Used += s.Amount
}

// release is the inverse of hold.
func (g *GPU) release(s Slice) {
	if g.Used -= s.Amount; g.Used == 0 {
		g.Holder = ""
	}
}

// empty forgets what is held.
func (g *GPU) empty() { g.Used, g.Holder = 0, "" }

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
// add up to more than it has. Of an instance it is always all.
func (g *GPU) slice(a Amount) Slice {
	if g.Mode == ModeMIG {
		return Slice{UUID: g.UUID, Index: g.Index, Amount: g.Capacity, Mode: g.Mode,
			Memory: g.Memory, SMShare: max(min(g.Fraction, wholeFraction), 0)}
	}
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
	if mulDiv(g.Memory, int64(a), int64(g.Capacity)) < bytes {
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
