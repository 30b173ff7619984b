package show

import (
	"strconv"
	"strings"
	"time"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// What jobs used of their slices, against what they have. bjobs -l and bhist -l tell it slice by slice; -o and -json of bjobs
// have it for the job as a whole, in the manner of sacct's TRESUsage:
//
//	gpu_mem       memory that the slices hold now, in sum
//	gpu_max_mem   the peak of that slice that had the greatest
//	gpu_sm_time   GPU time used, in seconds: all of one GPU for a second is a second
//	gpu_sm_mean   the mean share of the GPUs' time, in percent: the mean of the slices
//	gpu_usage     the lines of -l, joined by "; "

// percent1 is a share that was measured: "21.3".
func percent1(v int64) string { return strconv.FormatFloat(float64(v)/100, 'f', 1, 64) }

func sliceTexts(j *pb.Job) []string {
	if len(j.GetUsage().GetGpus()) == 0 {
		return nil
	}
	alloc := make([]nodes.Allocation, len(j.Alloc))
	for i, a := range j.Alloc {
		alloc[i] = wire.ToAllocation(a)
	}
	return queue.SliceTexts(alloc, wire.ToUsage(j.Usage))
}

// sliceBlock is the section of long listings. These lines are ours and never folded: scripts read them whole.
func sliceBlock(b []byte, j *pb.Job) []byte {
	texts := sliceTexts(j)
	if len(texts) == 0 {
		return b
	}
	b = append(b, "\n SLICE USAGE:\n"...)
	for _, t := range texts {
		b = append(append(append(b, ' '), Clean(t)...), '\n')
	}
	return b
}

func sliceUsageText(j *pb.Job) string { return strings.Join(sliceTexts(j), "; ") }

// sliceTotal is what all slices of a job used.
func sliceTotal(j *pb.Job) queue.GPUUsage {
	u := wire.ToUsage(j.GetUsage())
	return u.GPUTotal()
}

func sliceMemory(get func(queue.GPUUsage) int64) func([]byte, *pb.Job, *Style, byte) []byte {
	return size(func(j *pb.Job) int64 { return get(sliceTotal(j)) })
}

func sliceTime(j *pb.Job, _ *Style) int64 { return int64(sliceTotal(j).SMTime) }

func sliceMean(b []byte, j *pb.Job, _ *Style, _ byte) []byte {
	t := sliceTotal(j)
	if t.Measured <= 0 {
		return b
	}
	return append(b, percent1(int64(t.MeanShare()))...)
}

// SliceUsage adds the slices to a record of a job, one object for each that was measured. Bytes and percent are of the slice's GPU;
// the limits are 0 for a GPU of which the job has no slice any more.
func SliceUsage(d *JSON, alloc []nodes.Allocation, u queue.Usage) {
	d.Each("GPU_USAGE", len(u.GPUs), func(i int) {
		g := &u.GPUs[i]
		var s nodes.Slice
		if len(alloc) > 0 { // the first node is the one that measures
			for _, held := range alloc[0].Slices {
				if held.UUID == g.UUID {
					s = held
				}
			}
		}
		d.Int("GPU", int64(g.Index))
		d.String("UUID", g.UUID)
		d.Int("MEMORY_BYTES", g.Memory)
		d.Int("MAX_MEMORY_BYTES", g.MaxMemory)
		d.Int("MEMORY_LIMIT_BYTES", s.Memory)
		d.Raw("SM_MEAN_PERCENT", percent(nil, int64(g.MeanShare())))
		d.Raw("SM_LIMIT_PERCENT", percent(nil, int64(s.SMShare)))
		d.Raw("SM_SECONDS", millis(g.SMTime))
		d.Raw("MEASURED_SECONDS", millis(g.Measured))
	})
}

// millis is a duration in seconds as a JSON number.
func millis(d time.Duration) []byte { return strconv.AppendFloat(nil, d.Seconds(), 'f', 3, 64) }
