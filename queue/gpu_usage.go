package queue

import (
	"fmt"
	"math"
	"time"

	"fairslice/nodes"
)

// GPUUsage is what an attempt has used of one slice, by the driver's figures for its processes, contexts included. At
// the end of the attempt the peak, SMTime and Measured remain.
type GPUUsage struct {
	UUID      string        `json:"uuid"`
	Index     int           `json:"index"`                // as the driver counts on that node
	Memory    int64         `json:"memory,omitempty"`     // bytes, now
	MaxMemory int64         `json:"max_memory,omitempty"` // bytes, the greatest sample
	Util      int           `json:"util,omitempty"`       // now, of the GPU's time, in 1/100 percent
	SMTime    time.Duration `json:"sm_time,omitempty"`    // GPU time used: all of a GPU for a second is a second
	Measured  time.Duration `json:"measured,omitempty"`   // how long SMTime was summed up: shorter than the run where nobody looked
}

// MeanShare is the mean part of the GPU's time while it was measured, in 1/100 percent; 0 where it never was.
func (u *GPUUsage) MeanShare() int { return meanShare(u.SMTime, u.Measured) }

func meanShare(used, measured time.Duration) int {
	if measured <= 0 {
		return 0
	}
	return int(math.Round(10_000 * float64(used) / float64(measured)))
}

// GPU finds what was used of a slice by the GPU's UUID; nil where nothing was measured.
func (u *Usage) GPU(uuid string) *GPUUsage {
	for i := range u.GPUs {
		if u.GPUs[i].UUID == uuid {
			return &u.GPUs[i]
		}
	}
	return nil
}

// GPUTotal adds up the slices of an attempt, in the manner of sacct's TRESUsage: memory and times are sums, but MaxMemory is
// the peak of that slice that had the greatest, as peaks at different moments have no sum. MeanShare of it is the mean
// of the slices.
func (u *Usage) GPUTotal() GPUUsage {
	var sum GPUUsage
	for i := range u.GPUs {
		g := &u.GPUs[i]
		sum.Memory += g.Memory
		sum.MaxMemory = max(sum.MaxMemory, g.MaxMemory)
		sum.Util += g.Util
		sum.SMTime += g.SMTime
		sum.Measured += g.Measured
	}
	return sum
}

// SliceTexts says for each slice of an attempt what was used of it, of what it has:
//
//	GPU 0 (GPU-5f2…): peak 1536 MiB of 2048 MiB, SM 21.3 % of 25.0 %
//
// SM is the mean share of the GPU's multiprocessor time. Only the node that runs the command measures; slices of others are
// said to be not measured. Where there are several nodes, each line names its own.
func SliceTexts(alloc []nodes.Allocation, u Usage) []string {
	var out []string
	for i, a := range alloc {
		for _, s := range a.Slices {
			name := fmt.Sprintf("GPU %d (%s)", s.Index, s.UUID)
			if len(alloc) > 1 {
				name = fmt.Sprintf("GPU %d (%s) on %s", s.Index, s.UUID, a.Node)
			}
			g := u.GPU(s.UUID)
			if i > 0 || g == nil {
				out = append(out, name+": not measured")
				continue
			}
			sm := "not measured"
			if g.Measured > 0 {
				sm = percents(g.MeanShare())
			}
			out = append(out, fmt.Sprintf("%s: peak %s of %s, SM %s of %s", name, mibText(g.MaxMemory), mibText(s.Memory), sm, percents(s.SMShare)))
		}
	}
	return out
}

// mibText rounds up, as the listings do: what is used is never shown as nothing.
func mibText(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+mib-1)/mib) }

func percents(v int) string { return fmt.Sprintf("%.1f %%", float64(v)/100) }
