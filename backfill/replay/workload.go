package replay

import (
	"cmp"
	"fmt"
	"slices"

	"fairslice/nodes"
	"fairslice/queue"
)

// Task is a job of a trace that can be replayed: it is complete and fits the machine.
type Task struct {
	ID     int64
	Submit int64 // seconds
	Run    int64 // seconds, 1 to Limit
	Limit  int64 // seconds requested
	Procs  int64
	User   int64
	App    int64
	FGPU   nodes.Amount // that it holds while it runs
	Memory int64        // likewise, in bytes
	// Shape is all that it asks for, where that is more than Procs slots for Limit; nil otherwise.
	Shape *queue.Shape
}

// Dropped counts the jobs left out of a replay, each by the first reason that holds.
type Dropped struct {
	NoProcessors  int `json:"no_processors"`       // neither requested nor allocated
	TooLarge      int `json:"too_many_processors"` // requested or allocated more than the machine has
	NoRunTime     int `json:"no_run_time"`         // not positive
	NoRequestTime int `json:"no_requested_time"`   // not positive
	NoSubmitTime  int `json:"no_submit_time"`      // negative
}

// Sum is the number of all jobs dropped.
func (d Dropped) Sum() int {
	return d.NoProcessors + d.TooLarge + d.NoRunTime + d.NoRequestTime + d.NoSubmitTime
}

// Change is what is done to the jobs of a trace that are kept.
type Change struct {
	// Compress, when not 0, multiplies submit times (cut to whole seconds): below 1, work arrives faster.
	Compress float64
	// Estimate, when given, is the requested time to use instead, at least the run time, in seconds.
	Estimate func(Task) int64
}

// Perfect is the estimate of users who know: the run time itself.
func Perfect(t Task) int64 { return t.Run }

// Workload are the jobs of a trace that a machine of procs processors can run, in order of submission. The
// rules are the "strong filter" of Gaussier et al. (SC'15): processors are those requested, or those
// allocated where none are; a run time is cut at the requested time, at which the job was killed.
func Workload(jobs []Job, procs int64, change Change) ([]Task, Dropped, error) {
	if procs < 1 {
		return nil, Dropped{}, fmt.Errorf("a machine of %d processors runs nothing: at least 1 is needed", procs)
	}
	if change.Compress < 0 || change.Compress > 1000 || change.Compress != change.Compress {
		return nil, Dropped{}, fmt.Errorf("submit times cannot be multiplied by %v: allowed is more than 0 and at most 1000", change.Compress)
	}
	var dropped Dropped
	tasks := make([]Task, 0, len(jobs))
	for i := range jobs {
		t, ok := dropped.judge(&jobs[i], procs)
		if !ok {
			continue
		}
		if change.Compress != 0 {
			t.Submit = int64(float64(t.Submit) * change.Compress)
		}
		if change.Estimate != nil {
			t.Limit = change.Estimate(t)
			if t.Limit < t.Run {
				return nil, dropped, fmt.Errorf("job %d: its estimate of %d s is less than its run time of %d s", t.ID, t.Limit, t.Run)
			}
		}
		tasks = append(tasks, t)
	}
	// Traces are in this order; one that is not gets it, with the order of the file among equals.
	slices.SortStableFunc(tasks, func(a, b Task) int { return cmp.Compare(a.Submit, b.Submit) })
	return tasks, dropped, nil
}

// judge is the job as a task; ok is false where it is dropped, and counted.
func (d *Dropped) judge(j *Job, procs int64) (t Task, ok bool) {
	n := j.Requested
	if n <= 0 {
		n = j.Allocated
	}
	switch {
	case n <= 0:
		d.NoProcessors++
	case j.Requested > procs || j.Allocated > procs:
		d.TooLarge++
	case j.Run <= 0:
		d.NoRunTime++
	case j.Limit <= 0:
		d.NoRequestTime++
	case j.Submit < 0:
		d.NoSubmitTime++
	default:
		return Task{ID: j.ID, Submit: j.Submit, Run: min(j.Run, j.Limit), Limit: j.Limit, Procs: n, User: j.User, App: j.App}, true
	}
	return Task{}, false
}
