package agent

import (
	"maps"
	"slices"
	"time"

	"fairslice/nodes"
	"fairslice/nodes/fgpu"
	"fairslice/queue"
)

// FenceState is what the metrics and the job mapping for dcgm show of the fence of this node, at one moment.
type FenceState struct {
	Slices  []SliceState         // of the attempts that run here
	GPUs    []GPUState           // by index
	Actions map[ActionKey]uint64 // what the watchdog has done since noded started
	Unknown map[string]int       // by the UUID of a GPU: processes on it that belong to no job
}

// ActionKey is what the watchdog's actions are counted by.
type ActionKey struct {
	Kind   fgpu.Kind
	Reason fgpu.Reason
}

// SliceState is one slice of an attempt that runs here. Bytes are the driver's figures.
type SliceState struct {
	Session     string // the attempt's key: a name that no other attempt ever has
	Job         queue.ElementID
	User        string
	Project     string
	Slice       nodes.Slice
	Model       string // of the GPU
	Instance    int    // the GPU instance's number where Slice is one of MIG, otherwise NoInstance
	Limit       int64  // bytes
	Used        int64  // bytes, by the driver
	Untracked   int64  // bytes, of Used: what the job's own accounting does not know
	Utilization int    // of the GPU's time, lately, in 1/100 percent
	Throttled   time.Duration
	Denied      uint64 // allocations refused
	Launches    uint64
	Processes   int  // that hold memory of the GPU
	Enforced    bool // the probe has proven the fence in this attempt
}

// NoInstance is SliceState.Instance of a slice of a GPU that is not in MIG mode.
const NoInstance = -1

// GPUState is a GPU, or an instance of one in MIG mode, and how much of it is given away. Shares are in 1/100 percent of the
// physical GPU: how much fGPU that is, is the site's to say, and batchd's to know.
type GPUState struct {
	Index     int
	UUID      string
	Share     int // what it can give: 10000, an instance's part, or 0 where it is lost or not fenced
	Allocated int // the sum of the slices
}

// Fragmented is what of g is free, but of no use to a request for a whole GPU: the rest of one of which a part is given away.
func (g *GPUState) Fragmented() int {
	if g.Allocated == 0 {
		return 0
	}
	return max(g.Share-g.Allocated, 0)
}

// Fence is the state of the fence: what runs, what it was given, and what was seen of it. Empty on a node without GPUs.
func (a *Agent) Fence() FenceState {
	if a.watchdog == nil {
		return FenceState{}
	}
	return a.watchdog.state()
}

// state is what the metrics show.
func (w *watchdog) state() FenceState {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := FenceState{Actions: maps.Clone(w.actions), Unknown: map[string]int{}}
	held := map[string]int{}
	for _, key := range w.order {
		j := w.jobs[key]
		as := j.t.snapshot().Assignment
		for i := range j.devices {
			d := &j.devices[i]
			held[d.slice.UUID] += d.slice.SMShare
			facts, ok := w.a.cfg.GPUs.Facts(d.slice.UUID)
			if !ok {
				facts.MIG = NoInstance
			}
			f.Slices = append(f.Slices, SliceState{Session: key, Job: j.t.id, User: as.Owner.User, Project: as.Spec.Project, Slice: d.slice,
				Model: facts.Model, Instance: facts.MIG, Limit: d.slice.Memory, Used: max(d.holding.Bytes, 0), Untracked: d.lacking,
				Utilization: max(d.holding.Utilization, 0), Throttled: d.said.Throttled, Denied: d.said.Denied, Launches: d.said.Launches,
				Processes: len(d.holding.Processes), Enforced: j.enforced || w.fencedOtherwise(d.slice)})
		}
	}
	for _, g := range slices.SortedFunc(maps.Values(w.gpus), func(a, b nodes.GPU) int { return a.Index - b.Index }) {
		s := GPUState{Index: g.Index, UUID: g.UUID, Share: fgpu.Whole, Allocated: held[g.UUID]}
		if g.Mode == nodes.ModeMIG {
			s.Share = g.Fraction
		}
		if g.Lost || g.Unfenced != "" {
			s.Share = 0
		}
		f.GPUs = append(f.GPUs, s)
		f.Unknown[g.UUID] = w.dog.Unknown(g.UUID)
	}
	return f
}

// fencedOtherwise: the hardware keeps a MIG instance apart, and who has a whole GPU shares it with nobody.
func (w *watchdog) fencedOtherwise(s nodes.Slice) bool {
	return s.Mode == nodes.ModeMIG || s.Mode == nodes.ModeShim && s.SMShare >= fgpu.Whole
}
