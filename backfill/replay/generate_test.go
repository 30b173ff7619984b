package replay

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

const smallTrace, smallProcs = "testdata/small.swf", 32

// writeSWF writes what is known of jobs in the format.
func writeSWF(w io.Writer, jobs []Job) {
	for _, j := range jobs {
		fmt.Fprintf(w, "%d %d -1 %d %d -1 -1 %d %d -1 1 %d %d %d %d -1 -1 -1\n", j.ID, j.Submit, j.Run, j.Allocated, j.Requested, j.Limit, j.User, j.Group, j.App, j.Queue)
	}
}

// generate makes a trace that is like the real ones in what matters: users come back with jobs of the same
// shape, ask for more time than they need, prefer powers of two, and come by day.
func generate(seed uint64, count int, procs int64) []Job {
	r := rand.New(rand.NewPCG(seed, 1))
	type habit struct{ procs, limit, user int64 }
	var habits []habit
	for user := range int64(12) {
		for range 1 + r.IntN(4) {
			h := habit{procs: 1 << r.IntN(6), limit: int64(300 << r.IntN(8)), user: user + 1}
			if r.IntN(4) == 0 {
				h.procs = 1 + r.Int64N(procs)
			}
			habits = append(habits, h)
		}
	}
	var jobs []Job
	now := int64(0)
	for i := range count {
		hour := now / 3600 % 24
		pause := 900.0
		if hour < 8 || hour > 19 {
			pause = 3600
		}
		now += int64(r.ExpFloat64() * pause)
		if r.IntN(5) == 0 && i > 0 {
			now = jobs[i-1].Submit // a script that submits several
		}
		x, y := r.Float64(), r.Float64()
		h := habits[int(float64(len(habits))*x*x)]
		run := h.limit // killed at its limit
		if r.IntN(6) > 0 {
			run = 1 + int64(float64(h.limit-1)*y*y*y)
		}
		jobs = append(jobs, Job{ID: int64(i + 1), Submit: now, Run: run, Limit: h.limit, Allocated: h.procs, Requested: h.procs, User: h.user, Group: 1, App: h.limit, Queue: 1})
	}
	// What real ones have too: cancelled before the start, larger than the machine, no estimate, allocated only.
	jobs[10].Run, jobs[20].Requested, jobs[30].Limit = 0, procs+1, -1
	jobs[40].Requested, jobs[50].Requested, jobs[50].Allocated = -1, -1, -1
	jobs[60].Run = jobs[60].Limit + 35
	return jobs
}

func smallSWF() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "; Version: 2.2\n; Computer: none: made by a program\n; Note: made by generate_test.go for its tests, with no real job in it\n; MaxJobs: 400\n; MaxProcs: %d\n", smallProcs)
	writeSWF(&b, generate(20261201, 400, smallProcs))
	return b.Bytes()
}

func TestSmallTrace(t *testing.T) {
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(smallTrace, smallSWF(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(smallTrace)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, smallSWF()) {
		t.Fatalf("%s is not what generate makes; go test -update writes it", smallTrace)
	}
}

func smallWorkload(t testing.TB, change Change) ([]Task, Dropped) {
	t.Helper()
	f, err := os.Open(smallTrace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := ReadSWF(f, false)
	if err != nil {
		t.Fatal(err)
	}
	tasks, dropped, err := Workload(trace.Jobs, smallProcs, change)
	if err != nil {
		t.Fatal(err)
	}
	return tasks, dropped
}
