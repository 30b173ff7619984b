package replay

import (
	"math"

	"fairslice/accounting"
	"fairslice/nodes"
)

// halfLife is that of usage in replays, in seconds: a week.
const halfLife = 7 * 86400

// fairShare is what users have used: processors, and GPUs and memory by their weights, times run time, charged when a task
// ends and halved every week since. With weights of 0 it is FS7 of the comparisons that this is measured against; the
// daemon counts running work too.
//
// All usage fades alike, so instead of making what there is smaller, what is added is made larger: the order of
// users is the same, and nothing is to be done as time passes.
type fairShare struct {
	user  []int // by task
	used  []float64
	index map[string]int
	since int64 // when a charge counts as it is
	now   int64
}

func newFairShare(tasks []Task, users []string) *fairShare {
	f := &fairShare{user: make([]int, len(users)), index: map[string]int{}}
	for i, name := range users {
		at, known := f.index[name]
		if !known {
			at = len(f.used)
			f.index[name], f.used = at, append(f.used, 0)
		}
		f.user[i] = at
	}
	if len(tasks) > 0 {
		f.since = tasks[0].Submit
	}
	return f
}

// longest keeps numbers far from the largest of a float64, which is near 2^1024.
const longest = 500 * halfLife

// workOf is what a task costs, in processor-seconds.
func workOf(t *Task, w accounting.Weights) float64 {
	run := float64(t.Run)
	return w.Weigh(accounting.Used{SlotSeconds: float64(t.Procs) * run, FGPUSeconds: float64(t.FGPU) / float64(nodes.OneFGPU) * run, GiBSeconds: float64(t.Memory) / (1 << 30) * run})
}

func (f *fairShare) charge(task int, work float64) {
	if f.now-f.since > longest {
		fade := math.Exp2(-float64(f.now-f.since) / halfLife)
		for i := range f.used {
			f.used[i] *= fade
		}
		f.since = f.now
	}
	f.used[f.user[task]] += work * math.Exp2(float64(f.now-f.since)/halfLife)
}

// of is what a user deserves, more for who has used less, in a unit that is the same for all at one time.
func (f *fairShare) of(user string) float64 { return -f.used[f.index[user]] }
