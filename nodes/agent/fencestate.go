package agent

import (
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
