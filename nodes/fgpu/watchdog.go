package fgpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairslice/nodes"
)

// Reading is what the driver says of one GPU (or MIG instance) now.
type Reading struct {
	GPU       string // UUID
	Index     int
	Mode      nodes.Mode
	Lost      bool  // the driver does not answer for it
	Used      int64 // bytes in use on all of it; -1 unknown
	Processes []GPUProcess
}

// GPUProcess is a process that uses a GPU.
type GPUProcess struct {
	PID         int
	Bytes       int64 // -1 where the driver does not tell, as under MIG on some drivers
	Utilization int   // of the GPU's time over the last second or more, in 1/100 percent; -1 unknown
}

// Owner tells whose a process is: the job's key, "" for one that belongs to the machine (the driver's daemons, a display), false
// where nobody knows it.
type Owner func(pid int) (job string, ok bool)

// Once returns an Owner that asks o at most once for each process: for one look, in which many ask for the same.
func (o Owner) Once() Owner {
	type answer struct {
		job string
		ok  bool
	}
	known := map[int]answer{}
	return func(pid int) (string, bool) {
		a, seen := known[pid]
		if !seen {
			a.job, a.ok = o(pid)
			known[pid] = a
		}
		return a.job, a.ok
	}
}

// Guarded is a job and the slices it may use: none for a job that asked for no GPU, and may not use any.
type Guarded struct {
	Job    string
	Slices []nodes.Slice
}

// Holding is what one job has on one GPU by the driver.
type Holding struct {
	Bytes       int64        // -1 where the driver does not tell of some process
	Utilization int          // -1 where it does not tell of any
	Processes   []GPUProcess // by rising PID
}

// Attribute sorts a GPU's processes by the job they belong to; unknown are those nobody knows. Processes of the machine are in neither.
func Attribute(r Reading, owner Owner) (jobs map[string]Holding, unknown []int) {
	jobs = map[string]Holding{}
	for _, p := range r.Processes {
		job, ok := owner(p.PID)
		if !ok {
			unknown = append(unknown, p.PID)
		}
		if !ok || job == "" {
			continue
		}
		h, seen := jobs[job]
		if !seen {
			h.Utilization = -1
		}
		if p.Bytes < 0 || h.Bytes < 0 {
			h.Bytes = -1
		} else {
			h.Bytes += p.Bytes
		}
		if p.Utilization >= 0 {
			h.Utilization = min(max(h.Utilization, 0)+p.Utilization, Whole)
		}
		h.Processes = append(h.Processes, p)
		jobs[job] = h
	}
	for _, h := range jobs {
		slices.SortFunc(h.Processes, func(a, b GPUProcess) int { return cmp.Compare(a.PID, b.PID) })
	}
	slices.Sort(unknown)
	return jobs, unknown
}

// Kind says what the agent has to do about an Action.
type Kind string

const (
	Warn       Kind = "warn"       // tell it in the job's events
	Terminate  Kind = "terminate"  // end the job, with Text as the reason
	Alarm      Kind = "alarm"      // processes nobody knows are on a GPU that is shared
	Lost       Kind = "lost"       // the driver no longer answers for the GPU
	Found      Kind = "found"      // it answers again
	Unmeasured Kind = "unmeasured" // the driver does not tell what the job holds, so that nothing fences it but the shim
)

// Reason is why, as a metric's label.
type Reason string

const (
	ReasonMemory  Reason = "memory"      // over the limit in two looks in a row
	ReasonRepeat  Reason = "repeat"      // over the limit again and again, never for two looks in a row
	ReasonForeign Reason = "foreign_gpu" // on a GPU of which it has no slice
	ReasonUnknown Reason = "unknown_process"
	ReasonLost    Reason = "gpu_lost"
	ReasonDriver  Reason = "driver" // does not tell
)

// Action is one thing to do, log and count.
type Action struct {
	Kind   Kind
	Reason Reason
	Job    string // empty for actions about a GPU
	GPU    string // UUID
	Used   int64  // bytes, by the driver
	Limit  int64  // bytes
	PIDs   []int
	Text   string // for people
}

// The watchdog's times. Two looks in a row make a verdict, so that one that falls between a job's two programs, when
// the driver still frees what the first held, makes none.
const (
	LookEach     = time.Second
	LookOften    = 200 * time.Millisecond // while a job is near its limit
	near         = 90                     // percent of the limit, by the driver
	repeatWithin = time.Minute            // this many times over the limit within this time is a verdict, too:
	repeats      = 5                      // a program must not hide between the looks
	remind       = 10 * time.Second       // a job that was to be terminated and is still there is told of again
)

// Watchdog decides from what the driver says alone. It has no side effects; the agent acts. The zero value is ready.
type Watchdog struct {
	// Tolerance is how many bytes over the limit are still in order. 0: 16 MiB, or 1 % of the limit if that is more. The
	// driver takes memory in pages of 2 MiB for each process and kind, and loads a program's code when it first runs, after the shim
	// has counted; a limit on the driver's own figure without this would end jobs that keep to theirs.
	Tolerance int64

	places  map[place]*excess
	lost    map[string]bool
	unknown map[string]map[int]bool // by GPU: seen in the look before, and whether the alarm was given
	next    time.Duration
}

type place struct{ job, gpu string }

// excess is what is remembered of a job that was over its limit on a GPU.
type excess struct {
	looks      int // in a row
	times      []time.Time
	terminated time.Time // last told; zero: never
	unmeasured bool
}

// Interval is when to look again after the last Step.
func (w *Watchdog) Interval() time.Duration { return cmp.Or(w.next, LookEach) }

// Step takes one look at the GPUs and at all jobs that run on the node, and returns what to do, in the order of the readings. Jobs it no
// longer hears of are forgotten. On GPUs of mode count nothing is fenced and nothing judged. A job that is not among jobs
// is not judged either, whatever its processes hold.
func (w *Watchdog) Step(now time.Time, readings []Reading, jobs []Guarded, owner Owner) []Action {
	w.next = LookEach
	before := w.places
	w.places = map[place]*excess{}
	limits := map[place]int64{}
	sharers := map[string]int{} // jobs with a slice, by GPU
	for _, j := range jobs {
		for _, s := range j.Slices {
			limits[place{j.Job, s.UUID}] = s.Memory
			sharers[s.UUID]++
		}
	}
	var actions []Action
	owner = owner.Once()
	unknownBefore := w.unknown
	w.unknown = map[string]map[int]bool{}
	for _, r := range readings {
		actions = append(actions, w.lostOrFound(r)...)
		if r.Lost {
			for p, e := range before { // what was seen before stays, until the GPU answers
				if p.gpu == r.GPU {
					w.places[p] = e
				}
			}
			continue
		}
		if r.Mode == nodes.ModeCount {
			continue
		}
		held, unknown := Attribute(r, owner)
		actions = append(actions, w.strangers(r, unknown, unknownBefore[r.GPU])...)
		for _, j := range jobs {
			p := place{j.Job, r.GPU}
			limit, has := limits[p]
			h, uses := held[j.Job]
			if !uses {
				h = Holding{}
			}
			// Alone on its GPU, a job holds what is held there, whoever of its processes the driver is silent about.
			if h.Bytes < 0 && has && sharers[r.GPU] == 1 && len(unknown) == 0 && len(held) == 1 {
				h.Bytes = r.Used
			}
			e := before[p]
			if e == nil {
				e = &excess{}
			}
			if actions = append(actions, w.judge(now, r, p, e, h, limit, has)...); uses || len(e.times) > 0 || !e.terminated.IsZero() {
				w.places[p] = e
			}
		}
	}
	return actions
}

func (w *Watchdog) judge(now time.Time, r Reading, p place, e *excess, h Holding, limit int64, has bool) []Action {
	if h.Bytes < 0 {
		e.looks = 0
		if e.unmeasured {
			return nil
		}
		e.unmeasured = true
		return []Action{{Unmeasured, ReasonDriver, p.job, p.gpu, -1, limit, h.pids(),
			fmt.Sprintf("%s: the driver does not tell what the job holds: nothing fences its memory but the shim", r.name())}}
	}
	if has && h.Bytes > limit/100*near {
		w.next = LookOften
	}
	if h.Bytes <= limit+w.tolerance(limit) {
		e.looks = 0
		return nil
	}
	e.looks++
	e.times = slices.DeleteFunc(e.times, func(t time.Time) bool { return now.Sub(t) >= repeatWithin })
	if e.looks == 1 {
		e.times = append(e.times, now)
	}
	a := Action{Warn, ReasonMemory, p.job, p.gpu, h.Bytes, limit, h.pids(), ""}
	what := fmt.Sprintf("%s: the job holds %s by the driver's count, its slice is %s", r.name(), sizeText(h.Bytes), sizeText(limit))
	if !has {
		a.Reason, what = ReasonForeign, fmt.Sprintf("%s: the job holds %s there and has no slice of it", r.name(), sizeText(h.Bytes))
	}
	switch {
	case e.looks == 2 || e.looks > 2 && now.Sub(e.terminated) >= remind:
		a.Kind, e.terminated = Terminate, now
		a.Text = what + ", in two looks in a row (" + processText(h) + ")"
	case e.looks == 1 && len(e.times) >= repeats:
		a.Kind, a.Reason, e.terminated = Terminate, ReasonRepeat, now
		e.looks = 2
		a.Text = fmt.Sprintf("%s, for the %dth time within %v (%s)", what, len(e.times), repeatWithin, processText(h))
	case e.looks == 1:
		a.Text = what + "; it is terminated if the next look finds this again"
	default:
		return nil
	}
	return []Action{a}
}

func (w *Watchdog) tolerance(limit int64) int64 {
	if w.Tolerance > 0 {
		return w.Tolerance
	}
	return max(16<<20, limit/100)
}

func (w *Watchdog) lostOrFound(r Reading) []Action {
	if r.Lost == w.lost[r.GPU] {
		return nil
	}
	if w.lost == nil {
		w.lost = map[string]bool{}
	}
	w.lost[r.GPU] = r.Lost
	if r.Lost {
		return []Action{{Kind: Lost, Reason: ReasonLost, GPU: r.GPU, Text: r.name() + ": the driver no longer answers for it"}}
	}
	return []Action{{Kind: Found, Reason: ReasonLost, GPU: r.GPU, Text: r.name() + ": the driver answers again"}}
}

// strangers gives the alarm for a process that is unknown in two looks in a row: one that has just ended, or has not yet been put into its
// group, is nobody's for a moment.
func (w *Watchdog) strangers(r Reading, unknown []int, before map[int]bool) []Action {
	seen := make(map[int]bool, len(unknown))
	w.unknown[r.GPU] = seen
	var fresh []int
	for _, pid := range unknown {
		told, again := before[pid]
		if again && !told {
			fresh = append(fresh, pid)
		}
		seen[pid] = again
	}
	if len(fresh) == 0 {
		return nil
	}
	return []Action{{Kind: Alarm, Reason: ReasonUnknown, GPU: r.GPU, PIDs: fresh,
		Text: fmt.Sprintf("%s: processes that belong to no job: %s", r.name(), pidText(fresh))}}
}

// Unknown counts the processes on a GPU that belonged to nobody in the last two looks.
func (w *Watchdog) Unknown(gpu string) int {
	n := 0
	for _, told := range w.unknown[gpu] {
		if told {
			n++
		}
	}
	return n
}

func (r Reading) name() string { return fmt.Sprintf("GPU %d (%s)", r.Index, r.GPU) }

func (h Holding) pids() []int {
	pids := make([]int, len(h.Processes))
	for i, p := range h.Processes {
		pids[i] = p.PID
	}
	return pids
}

// sizeText rounds up, so that what is over the limit never reads as the limit.
func sizeText(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }

func processText(h Holding) string {
	biggest := slices.SortedFunc(slices.Values(h.Processes), func(a, b GPUProcess) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID))
	})
	var parts []string
	for i, p := range biggest {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("and %d more", len(biggest)-3))
			break
		}
		parts = append(parts, fmt.Sprintf("process %d: %s", p.PID, sizeText(max(p.Bytes, 0))))
	}
	return strings.Join(parts, ", ")
}

func pidText(pids []int) string {
	if len(pids) > 8 {
		return fmt.Sprintf("%s and %d more", pidText(pids[:8]), len(pids)-8)
	}
	return strings.Trim(fmt.Sprint(pids), "[]")
}
