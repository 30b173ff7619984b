package fgpu

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fairslice/nodes"
)

// bench is a node with two shared GPUs, and jobs a and b with 2 GiB each on the first, b on the second as well.
type bench struct {
	t    *testing.T
	dog  Watchdog
	now  time.Time
	jobs []Guarded
}

func newBench(t *testing.T) *bench {
	slice := func(gpu string) nodes.Slice {
		return nodes.Slice{UUID: gpu, Memory: 2 * gib, SMShare: 2500, Mode: nodes.ModeShim}
	}
	return &bench{t: t, now: time.Unix(1000, 0), jobs: []Guarded{
		{"a", []nodes.Slice{slice("GPU-0")}}, {"b", []nodes.Slice{slice("GPU-0"), slice("GPU-1")}}}}
}

// owner: pid 100 to 199 are job a's, 200 to 299 b's, 1 is the machine's.
func owner(pid int) (string, bool) {
	switch {
	case pid == 1:
		return "", true
	case pid/100 == 1:
		return "a", true
	case pid/100 == 2:
		return "b", true
	}
	return "", false
}

// look takes a look after a second; each reading is "gpu pid:MiB …", "gpu lost" or "gpu used:MiB pid:? …". It returns the actions as text.
func (b *bench) look(readings ...string) string {
	b.t.Helper()
	b.now = b.now.Add(time.Second)
	var all []Reading
	for _, text := range readings {
		fields := strings.Fields(text)
		r := Reading{GPU: "GPU-" + fields[0], Mode: nodes.ModeShim, Used: -1}
		fmt.Sscan(fields[0], &r.Index)
		for _, f := range fields[1:] {
			who, amount, _ := strings.Cut(f, ":")
			var pid int
			var size int64 = -1
			if amount != "?" {
				fmt.Sscan(amount, &size)
				size *= mib
			}
			switch fmt.Sscan(who, &pid); who {
			case "lost":
				r.Lost = true
			case "count":
				r.Mode = nodes.ModeCount
			case "used":
				r.Used = size
			default:
				r.Processes = append(r.Processes, GPUProcess{pid, size, -1})
			}
		}
		all = append(all, r)
	}
	var out []string
	for _, a := range b.dog.Step(b.now, all, b.jobs, owner) {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Kind, a.Reason, a.Job)))
		if a.Text == "" || a.GPU == "" {
			b.t.Errorf("%+v: says nothing", a)
		}
	}
	return strings.Join(out, "; ")
}

func TestWatchdog(t *testing.T) {
	type look struct {
		readings string // of the GPUs, "|" between
		want     string
	}
	cases := map[string][]look{
		"at the limit is in order":                      {{"0 100:2048 200:2048", ""}, {"0 100:2048 200:2048", ""}},
		"within the tolerance, too":                     {{"0 100:2068", ""}, {"0 100:2068", ""}},
		"over it: a warning, then the end":              {{"0 100:2069", "warn memory a"}, {"0 100:2069", "terminate memory a"}, {"0 100:2069", ""}},
		"all processes of a job count":                  {{"0 100:1200 101:1200", "warn memory a"}, {"0 101:1200 102:1200", "terminate memory a"}},
		"one look over is forgiven":                     {{"0 100:4000", "warn memory a"}, {"0 100:2000", ""}, {"0 100:4000", "warn memory a"}},
		"another's memory is not the job's":             {{"0 100:100 200:4000", "warn memory b"}, {"0 100:100 200:4000", "terminate memory b"}},
		"the machine's own processes are nobody's":      {{"0 1:9000 100:10", ""}, {"0 1:9000 100:10", ""}},
		"a GPU of which it has no slice":                {{"1 100:500", "warn foreign_gpu a"}, {"1 100:500", "terminate foreign_gpu a"}},
		"a glance at such a GPU, within the tolerance":  {{"1 100:10", ""}, {"1 100:10", ""}},
		"a job that is forgotten, and its process":      {{"0 300:10", ""}, {"0 300:10", "alarm unknown_process"}, {"0 300:10", ""}},
		"a process nobody knows for a moment":           {{"0 300:10", ""}, {"0 301:10", ""}, {"0 300:10", ""}},
		"a GPU is lost and found":                       {{"0 lost", "lost gpu_lost"}, {"0 lost", ""}, {"0 100:1", "found gpu_lost"}, {"0 100:1", ""}},
		"a loss between two looks saves nobody":         {{"0 100:4000", "warn memory a"}, {"0 lost", "lost gpu_lost"}, {"0 100:4000", "found gpu_lost; terminate memory a"}},
		"the driver does not tell":                      {{"0 100:? 200:5", "unmeasured driver a"}, {"0 100:? 200:5", ""}},
		"does not tell, but the job is alone":           {{"1 used:4000 200:?", "warn memory b"}, {"1 used:4000 200:?", "terminate memory b"}},
		"alone, within the limit":                       {{"1 used:2000 200:? 201:?", ""}},
		"alone but for a stranger":                      {{"1 used:4000 200:? 300:?", "unmeasured driver b"}},
		"nothing is fenced on a GPU of mode count":      {{"0 count 100:9000 300:9000", ""}, {"0 count 100:9000 300:9000", ""}},
		"two GPUs, each for itself":                     {{"0 200:4000|1 200:100", "warn memory b"}, {"0 200:100|1 200:4000", "warn memory b"}},
		"no process at all":                             {{"0", ""}, {"0", ""}},
		"still there long after: told of again":         append([]look{{"0 100:4000", "warn memory a"}, {"0 100:4000", "terminate memory a"}}, append(slices.Repeat([]look{{"0 100:4000", ""}}, 9), look{"0 100:4000", "terminate memory a"})...),
		"between the looks, again and again: the fifth": append(slices.Repeat([]look{{"0 100:4000", "warn memory a"}, {"0 100:4", ""}}, 4), look{"0 100:4000", "terminate repeat a"}),
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for i, l := range looks {
				if got := b.look(strings.Split(l.readings, "|")...); got != l.want {
					t.Fatalf("look %d, %s: %q, want %q", i+1, l.readings, got, l.want)
				}
			}
		})
	}
}

func TestWatchdogForgetsAnEndedJob(t *testing.T) {
	b := newBench(t)
	b.look("0 100:4000")
	jobs := b.jobs
	b.jobs = jobs[1:]
	b.look("0")
	b.jobs = jobs // another attempt of that name
	if got := b.look("0 100:4000"); got != "warn memory a" {
		t.Errorf("%q: want it to begin anew", got)
	}
	if len(b.dog.places) != 1 {
		t.Errorf("remembers %v", b.dog.places)
	}
}

func TestWatchdogTexts(t *testing.T) {
	b := newBench(t)
	r := Reading{GPU: "GPU-0", Mode: nodes.ModeShim, Processes: []GPUProcess{{101, 1500 * mib, -1}, {100, 600*mib + 1, -1}, {102, mib, -1}, {103, mib, -1}}}
	warn := b.dog.Step(b.now, []Reading{r}, b.jobs, owner)
	end := b.dog.Step(b.now.Add(time.Second), []Reading{r}, b.jobs, owner)
	want := []Action{{Warn, ReasonMemory, "a", "GPU-0", 2102*mib + 1, 2 * gib, []int{100, 101, 102, 103},
		"GPU 0 (GPU-0): the job holds 2103 MiB by the driver's count, its slice is 2048 MiB; it is terminated if the next look finds this again"}}
	if !reflect.DeepEqual(warn, want) {
		t.Errorf("%+v\nwant %+v", warn, want)
	}
	want[0].Kind = Terminate
	want[0].Text = "GPU 0 (GPU-0): the job holds 2103 MiB by the driver's count, its slice is 2048 MiB, in two looks in a row " +
		"(process 101: 1500 MiB, process 100: 601 MiB, process 102: 1 MiB, and 1 more)"
	if !reflect.DeepEqual(end, want) {
		t.Errorf("%+v\nwant %+v", end, want)
	}
}

func TestWatchdogLooksOftenNearALimit(t *testing.T) {
	b := newBench(t)
	if got := b.dog.Interval(); got != LookEach {
		t.Errorf("before the first look: %v", got)
	}
	for reading, want := range map[string]time.Duration{
		"0 100:1800 200:100": LookEach, "0 100:1900 200:100": LookOften, "0 100:100 200:1900": LookOften, "0": LookEach, "0 300:9000": LookEach,
	} {
		if b.look(reading); b.dog.Interval() != want {
			t.Errorf("%s: %v, want %v", reading, b.dog.Interval(), want)
		}
	}
}

func TestWatchdogCountsStrangers(t *testing.T) {
	b := newBench(t)
	b.look("0 300:1 301:1")
	if n := b.dog.Unknown("GPU-0"); n != 0 {
		t.Errorf("after one look: %d", n)
	}
	b.look("0 300:1 301:1 302:1")
	b.look("0 300:1 302:1")
	if n := b.dog.Unknown("GPU-0"); n != 2 {
		t.Errorf("%d strangers, want 2", n)
	}
}

func TestASiteSetsTheTolerance(t *testing.T) {
	b := newBench(t)
	b.dog.Tolerance = 500 * mib
	if got := b.look("0 100:2548"); got != "" {
		t.Errorf("within it: %q", got)
	}
	if got := b.look("0 100:2549"); got != "warn memory a" {
		t.Errorf("over it: %q", got)
	}
}

func TestAttribute(t *testing.T) {
	r := Reading{Processes: []GPUProcess{{201, 5, 100}, {101, 10, -1}, {100, 20, 3000}, {300, 1, 1}, {1, 1, 1}, {200, -1, 9990}, {202, 7, -1}, {103, -1, -1}}}
	jobs, unknown := Attribute(r, owner)
	want := map[string]Holding{
		"a": {-1, 3000, []GPUProcess{{100, 20, 3000}, {101, 10, -1}, {103, -1, -1}}},
		"b": {-1, Whole, []GPUProcess{{200, -1, 9990}, {201, 5, 100}, {202, 7, -1}}},
	}
	if !reflect.DeepEqual(jobs, want) || !slices.Equal(unknown, []int{300}) {
		t.Errorf("%+v, %v\nwant %+v", jobs, unknown, want)
	}
	jobs, _ = Attribute(Reading{Processes: []GPUProcess{{100, 5, -1}, {101, 6, 0}}}, owner)
	if h := jobs["a"]; h.Bytes != 11 || h.Utilization != 0 {
		t.Errorf("%+v", h)
	}
}

func TestAJobWithoutSlicesMayUseNoGPU(t *testing.T) {
	b := newBench(t)
	b.jobs = append(b.jobs[1:], Guarded{Job: "a"})
	b.look("0 100:100")
	if got := b.look("0 100:100"); got != "terminate foreign_gpu a" {
		t.Errorf("%q", got)
	}
}

func TestAnOwnerIsAskedOnce(t *testing.T) {
	asked := 0
	once := Owner(func(pid int) (string, bool) { asked++; return owner(pid) }).Once()
	for range 3 {
		if job, ok := once(100); job != "a" || !ok {
			t.Errorf("%q, %v", job, ok)
		}
		if job, ok := once(300); job != "" || ok {
			t.Errorf("%q, %v", job, ok)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// Whatever the driver says: nobody is terminated in the first look at it, and nobody whose figures were never over its limit.
func TestNobodyIsTerminatedWithoutAWarning(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	b := newBench(t)
	warned := map[string]bool{}
	terminations := 0
	for i := range 5000 {
		b.now = b.now.Add(time.Duration(random.IntN(2000)) * time.Millisecond)
		readings := []Reading{{GPU: "GPU-0", Mode: nodes.ModeShim}, {GPU: "GPU-1", Index: 1, Mode: nodes.ModeShim}}
		over := map[string]bool{}
		for g := range readings {
			readings[g].Lost = random.IntN(20) == 0
			sum := map[string]int64{}
			for range random.IntN(4) {
				p := GPUProcess{100 + random.IntN(250), random.Int64N(3 * gib), random.IntN(Whole)}
				if slices.ContainsFunc(readings[g].Processes, func(q GPUProcess) bool { return q.PID == p.PID }) {
					continue
				}
				readings[g].Processes = append(readings[g].Processes, p)
				if job, ok := owner(p.PID); ok && !readings[g].Lost {
					sum[job] += p.Bytes
				}
			}
			for job, bytes := range sum {
				limit := int64(2 * gib)
				if job == "a" && g == 1 {
					limit = 0
				}
				if bytes > limit+max(16*mib, limit/100) {
					over[fmt.Sprint(job, g)] = true
				}
			}
		}
		for _, a := range b.dog.Step(b.now, readings, b.jobs, owner) {
			key := a.Job + strings.TrimPrefix(a.GPU, "GPU-")
			switch a.Kind {
			case Warn:
				if !over[key] {
					t.Fatalf("step %d: warned without reason: %+v", i, a)
				}
				warned[key] = true
			case Terminate:
				terminations++
				if !over[key] || !warned[key] {
					t.Fatalf("step %d: over %v, warned %v: %+v", i, over, warned, a)
				}
			}
		}
	}
	if terminations == 0 {
		t.Error("nobody was terminated at all")
	}
}
