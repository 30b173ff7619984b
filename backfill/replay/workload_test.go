package replay

import (
	"reflect"
	"strings"
	"testing"
)

func TestWorkload(t *testing.T) {
	job := Job{ID: 1, Submit: 100, Run: 60, Limit: 120, Allocated: 4, Requested: 8, User: 3, App: 9}
	task := Task{ID: 1, Submit: 100, Run: 60, Limit: 120, Procs: 8, User: 3, App: 9}
	for _, row := range []struct {
		what    string
		job     func(*Job)
		task    func(*Task) // nil: it is dropped
		dropped Dropped
	}{
		{"processors are those requested", func(*Job) {}, func(*Task) {}, Dropped{}},
		{"or those allocated", func(j *Job) { j.Requested = -1 }, func(t *Task) { t.Procs = 4 }, Dropped{}},
		{"neither", func(j *Job) { j.Requested, j.Allocated = 0, -1 }, nil, Dropped{NoProcessors: 1}},
		{"all of the machine", func(j *Job) { j.Requested = 10 }, func(t *Task) { t.Procs = 10 }, Dropped{}},
		{"more requested than there is", func(j *Job) { j.Requested = 11 }, nil, Dropped{TooLarge: 1}},
		{"more allocated than there is", func(j *Job) { j.Allocated = 11 }, nil, Dropped{TooLarge: 1}},
		{"no run time", func(j *Job) { j.Run = 0 }, nil, Dropped{NoRunTime: 1}},
		{"an unknown run time", func(j *Job) { j.Run = -1 }, nil, Dropped{NoRunTime: 1}},
		{"no requested time", func(j *Job) { j.Limit = -1 }, nil, Dropped{NoRequestTime: 1}},
		{"no submit time", func(j *Job) { j.Submit = -1 }, nil, Dropped{NoSubmitTime: 1}},
		{"killed at its limit", func(j *Job) { j.Run = 130 }, func(t *Task) { t.Run = 120 }, Dropped{}},
	} {
		j, want := job, task
		row.job(&j)
		tasks, dropped, err := Workload([]Job{j}, 10, Change{})
		if err != nil || dropped != row.dropped || dropped.Sum() != 1-len(tasks) {
			t.Errorf("%s: dropped %+v, %v", row.what, dropped, err)
		}
		if row.task == nil {
			continue
		}
		if row.task(&want); !reflect.DeepEqual(tasks, []Task{want}) {
			t.Errorf("%s: got %+v, want %+v", row.what, tasks, want)
		}
	}
}

func TestWorkloadChanges(t *testing.T) {
	jobs := []Job{{ID: 1, Submit: 99, Run: 60, Limit: 120, Requested: 1}, {ID: 2, Submit: 10, Run: 130, Limit: 120, Requested: 1}, {ID: 3, Submit: 10, Run: 1, Limit: 120, Requested: 1}}
	tasks, _, err := Workload(jobs, 4, Change{Compress: 0.5, Estimate: Perfect})
	if err != nil {
		t.Fatal(err)
	}
	want := []Task{{ID: 2, Submit: 5, Run: 120, Limit: 120, Procs: 1}, {ID: 3, Submit: 5, Run: 1, Limit: 1, Procs: 1}, {ID: 1, Submit: 49, Run: 60, Limit: 60, Procs: 1}}
	if !reflect.DeepEqual(tasks, want) {
		t.Errorf("got %+v", tasks)
	}
	for what, change := range map[string]Change{
		"submit times cannot be multiplied by -1":               {Compress: -1},
		"job 1: its estimate of 59 s is less than its run time": {Estimate: func(Task) int64 { return 59 }},
	} {
		if _, _, err := Workload(jobs, 4, change); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %s", err, what)
		}
	}
	if _, _, err := Workload(jobs, 0, Change{}); err == nil {
		t.Error("a machine without processors was accepted")
	}
}

// A line of the small trace for each reason, and nothing else is dropped.
func TestSmallWorkload(t *testing.T) {
	tasks, dropped := smallWorkload(t, Change{})
	if want := (Dropped{NoProcessors: 1, TooLarge: 1, NoRunTime: 1, NoRequestTime: 1}); dropped != want || len(tasks) != 396 {
		t.Errorf("%d tasks, dropped %+v", len(tasks), dropped)
	}
}
