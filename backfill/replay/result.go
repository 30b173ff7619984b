package replay

import (
	"bufio"
	"io"
	"slices"
	"strconv"
)

// Result is how a schedule served a workload. Times are seconds.
//
// Wait is from submission to start. Bounded slowdown is max(1, (wait+run)/max(run, 10)) (Feitelson et al.,
// 1997, with a bound of 10 s). Utilisation is the work done, processors times run, over what the machine
// could do from the first submission to the last end, which is the makespan. A percentile p is the smallest
// value that at least p percent of the jobs do not exceed (nearest rank).
type Result struct {
	N            int     `json:"n"`
	MeanWait     float64 `json:"mean_wait"`
	P50Wait      int64   `json:"p50_wait"`
	P95Wait      int64   `json:"p95_wait"`
	MaxWait      int64   `json:"max_wait"`
	MeanSlowdown float64 `json:"mean_bounded_slowdown"`
	MaxSlowdown  float64 `json:"max_bounded_slowdown"`
	Utilisation  float64 `json:"utilisation"`
	// WindowUtilisation counts only the work done, and the time, from the first to the last submission: it
	// tells policies apart where Utilisation is settled by the work that is there.
	WindowUtilisation float64 `json:"window_utilisation"`
	Makespan          int64   `json:"makespan"`
}

// slowdownBound keeps jobs of a moment from having slowdowns that nobody feels.
const slowdownBound = 10

// Summarise works out a Result. starts[i] is when tasks[i] was started.
func Summarise(tasks []Task, starts []int64, procs int64) Result {
	r := Result{N: len(tasks)}
	if r.N == 0 {
		return r
	}
	first, lastSubmit, lastEnd := tasks[0].Submit, tasks[0].Submit, starts[0]
	for i, t := range tasks {
		first, lastSubmit, lastEnd = min(first, t.Submit), max(lastSubmit, t.Submit), max(lastEnd, starts[i]+t.Run)
	}
	waits := make([]int64, len(tasks))
	var sumWait int64
	var sumSlowdown, work, windowWork float64 // floats do not overflow, and are exact as far as any real trace goes
	for i, t := range tasks {
		waits[i] = starts[i] - t.Submit
		sumWait += waits[i]
		s := max(1, float64(waits[i]+t.Run)/float64(max(t.Run, slowdownBound)))
		sumSlowdown += s
		r.MaxSlowdown = max(r.MaxSlowdown, s)
		work += float64(t.Run) * float64(t.Procs)
		windowWork += float64(max(0, min(starts[i]+t.Run, lastSubmit)-starts[i])) * float64(t.Procs)
	}
	slices.Sort(waits)
	r.MeanWait = float64(sumWait) / float64(r.N)
	r.P50Wait, r.P95Wait, r.MaxWait = percentile(waits, 50), percentile(waits, 95), waits[r.N-1]
	r.MeanSlowdown = sumSlowdown / float64(r.N)
	r.Makespan = lastEnd - first
	r.Utilisation = work / (float64(procs) * float64(r.Makespan))
	if lastSubmit > first {
		r.WindowUtilisation = windowWork / (float64(procs) * float64(lastSubmit-first))
	}
	return r
}

// percentile is by nearest rank; sorted is not empty.
func percentile(sorted []int64, p int) int64 {
	return sorted[(len(sorted)*p+99)/100-1]
}

// WriteStarts writes a line "id start" for each task, in the order of the trace.
func WriteStarts(to io.Writer, tasks []Task, starts []int64) error {
	w := bufio.NewWriterSize(to, 1<<16)
	var line []byte
	for i, t := range tasks {
		line = strconv.AppendInt(line[:0], t.ID, 10)
		line = append(line, ' ')
		line = strconv.AppendInt(line, starts[i], 10)
		line = append(line, '\n')
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return w.Flush()
}
