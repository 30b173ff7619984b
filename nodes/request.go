package nodes

// GPURequest is what a job asks of the GPUs of one host. At most one of Amount, Whole and Memory is set.
type GPURequest struct {
	Amount Amount `json:"amount,omitempty"` // a fraction (or more than one GPU: see the package comment)
	Whole  int    `json:"whole,omitempty"`  // this many whole GPUs, shared with nobody
	// Memory asks for Count slices, each the smallest that has this many bytes.
	Memory int64  `json:"memory,omitempty"`
	Count  int    `json:"count,omitempty"`
	Model  string `json:"model,omitempty"` // only GPUs whose model holds this text
	// MinMemory restricts whole GPUs to those with at least this many bytes.
	MinMemory int64 `json:"min_memory,omitempty"`
	// User is who asks for a part of a GPU, where the cluster has GPUs in ModeMPS: only one user's slices share such a
	// GPU. Without a user, a part of one is all of it. It is left out elsewhere, so that equal requests of all users are equal.
	User string `json:"user,omitempty"`
}

// Zero says that no GPU is asked for.
func (r GPURequest) Zero() bool { return r.Amount == 0 && r.Whole == 0 && r.Memory == 0 }

// Part says that parts of GPUs are asked for: some slice may be less than a whole GPU.
func (r GPURequest) Part() bool { return r.Whole == 0 && !r.Zero() }

// Request is what a job asks of one host. Comparable, so that equal requests can be planned as one
// class; consumables are therefore kept as their canonical text (see Consumables).
type Request struct {
	Slots       int         `json:"slots"`
	Memory      int64       `json:"memory,omitempty"` // bytes
	GPU         GPURequest  `json:"gpu,omitzero"`
	Consumables Consumables `json:"consumables,omitempty"`
	Exclusive   bool        `json:"exclusive,omitempty"` // the whole node, alone
}

// Allocation is what an attempt holds of one node.
type Allocation struct {
	Node        ID          `json:"node"`
	Slots       int         `json:"slots"`
	Memory      int64       `json:"memory,omitempty"`
	Slices      []Slice     `json:"slices,omitempty"`
	Consumables Consumables `json:"consumables,omitempty"`
	Exclusive   bool        `json:"exclusive,omitempty"`
	User        string      `json:"user,omitempty"` // GPURequest.User, where a slice is on a GPU in ModeMPS
}

// FGPU is the sum of an allocation's slices.
func (a Allocation) FGPU() Amount {
	var sum Amount
	for _, s := range a.Slices {
		sum += s.Amount
	}
	return sum
}

// WholeGPUs is how many GPUs it has all of. An instance of a GPU is none.
func (a Allocation) WholeGPUs() int {
	n := 0
	for i := range a.Slices {
		if s := &a.Slices[i]; s.Mode != ModeMIG && s.SMShare == 10_000 {
			n++
		}
	}
	return n
}
