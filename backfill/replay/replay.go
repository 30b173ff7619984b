package replay

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/nodes"
	"fairslice/queue"
)

// Options say how a workload is served.
type Options struct {
	// Nodes are the machine, with nothing on them. Machine makes that of a trace.
	Nodes  []*nodes.Node
	Policy backfill.Policy
	// Weights are of what counts in fair share beside processors.
	Weights accounting.Weights
	// Predict estimates run times from what has ended, for orders that use them.
	Predict bool
	// Progress, when given, is told now and then how many tasks have ended; Stop, when given, is asked then, and
	// its error ends the replay.
	Progress func(done, all int)
	Stop     func() error
}

// Machine is one node of so many processors and nothing else: a trace knows no more of its machine.
func Machine(procs int64) []*nodes.Node {
	return []*nodes.Node{{ID: "all", Alive: true, Slots: int(procs)}}
}

// Schedule is what became of a workload.
type Schedule struct {
	Starts []int64 // by task, in seconds as Task.Submit; NotStarted for those that no node ever had room for
	Passes int     // plans made
}

// NotStarted is the start of a task that never could.
const NotStarted = math.MaxInt64

// Replay serves tasks, which are in the order of submission, event by event with the planner that the daemon uses.
//
// The order of events is that of the published results. At one instant come submissions, then terminations in
// the order in which the tasks were started; after each, one plan. What reaches its requested time now has
// left its processors before all of them.
func Replay(tasks []Task, o Options) (*Schedule, error) {
	r := newReplay(tasks, &o)
	for i := range tasks {
		if t := &tasks[i]; t.Run < 1 || t.Limit < t.Run || i > 0 && t.Submit < tasks[i-1].Submit {
			return nil, fmt.Errorf("job %d: run time %d s, limit %d s, submitted at %d s: wanted is 1 <= run <= limit, in order of submission", t.ID, t.Run, t.Limit, t.Submit)
		}
	}
	for {
		now := r.nextEvent()
		if now == NotStarted {
			return &r.Schedule, nil
		}
		r.step(now)
		if r.ended-r.told < 1000 {
			continue
		}
		if r.told = r.ended; o.Progress != nil {
			o.Progress(r.ended, len(tasks))
		}
		if o.Stop != nil {
			if err := o.Stop(); err != nil {
				return nil, err
			}
		}
	}
}

type replay struct {
	Schedule
	tasks   []Task
	shapes  []*queue.Shape // by task
	users   []string       // by task
	planner *backfill.Planner
	share   *fairShare
	weights accounting.Weights
	next    int // the first task not submitted
	running runs
	started int64 // how many were
	deep    bool  // several elements may hold promises
	wake    int64 // when the next promised start is due; NotStarted when none is known, or it needs no waking
	ended   int
	told    int
	ending  []run // scratch
}

var oneElement = []int{0}

func newReplay(tasks []Task, o *Options) *replay {
	r := &replay{tasks: tasks, weights: o.Weights, wake: NotStarted, deep: o.Policy.Protected > 1}
	r.Starts = make([]int64, len(tasks))
	for i := range r.Starts {
		r.Starts[i] = NotStarted
	}
	r.shapes, r.users = describe(tasks)
	r.share = newFairShare(tasks, r.users)
	r.planner = backfill.New(o.Policy)
	r.planner.Share = func(who backfill.Claimant) float64 { return r.share.of(who.User) }
	if o.Predict {
		r.planner.Predictor = backfill.NewPredictor()
	}
	for _, n := range o.Nodes {
		r.planner.PutNode(n)
	}
	return r
}

// describe gives each task what the planner knows of it. Alike are the same pointer, so that nothing is made
// while the clock runs.
func describe(tasks []Task) (shapes []*queue.Shape, users []string) {
	type form struct{ procs, limit int64 }
	forms, names := map[form]*queue.Shape{}, map[int64]string{}
	shapes, users = make([]*queue.Shape, len(tasks)), make([]string, len(tasks))
	for i := range tasks {
		t := &tasks[i]
		if shapes[i] = t.Shape; t.Shape == nil {
			key := form{t.Procs, t.Limit}
			if forms[key] == nil {
				forms[key] = &queue.Shape{Slots: int(t.Procs), MaxSlots: int(t.Procs), RunLimit: seconds(t.Limit)}
			}
			shapes[i] = forms[key]
		}
		if names[t.User] == "" {
			names[t.User] = "user" + strconv.FormatInt(t.User, 10)
		}
		users[i] = names[t.User]
	}
	return shapes, users
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func (r *replay) nextEvent() int64 {
	at := r.wake
	if r.next < len(r.tasks) {
		at = min(at, r.tasks[r.next].Submit)
	}
	if len(r.running) > 0 {
		at = min(at, r.running[0].ends)
	}
	return at
}

// step is all that happens at one instant.
func (r *replay) step(now int64) {
	clock := time.Unix(now, 0).UTC()
	r.share.now = now
	r.ending = r.ending[:0]
	for len(r.running) > 0 && r.running[0].ends == now {
		e := r.running.pop()
		r.ending = append(r.ending, e)
		if e.atLimit {
			r.planner.Expire(element(e.task), clock)
		}
	}
	quiet := true
	for ; r.next < len(r.tasks) && r.tasks[r.next].Submit == now; r.next++ {
		r.planner.Add(backfill.Pending{Job: queue.JobID(r.next + 1), Shape: r.shapes[r.next], User: r.users[r.next], Submitted: clock, Indices: oneElement})
		r.plan(now, clock)
		quiet = false
	}
	for _, e := range r.ending {
		t := &r.tasks[e.task]
		r.share.charge(e.task, workOf(t, r.weights))
		if p := r.planner.Predictor; p != nil {
			p.Observe(r.users[e.task], r.shapes[e.task], seconds(t.Run))
		}
		r.planner.End(element(e.task), clock)
		r.plan(now, clock)
	}
	if r.ended += len(r.ending); quiet && len(r.ending) == 0 {
		r.plan(now, clock) // only a promised start is due
	}
	// With several promises one can be due when nothing ends or comes. A single one waits for an end.
	if r.wake = NotStarted; r.deep {
		if next := r.planner.NextPromise(); !next.IsZero() {
			r.wake = next.Unix()
		}
	}
}

func element(task int) queue.ElementID { return queue.ElementID{Job: queue.JobID(task + 1)} }

// plan makes one pass, and begins what it starts.
func (r *replay) plan(now int64, clock time.Time) {
	p := r.planner.Plan(clock)
	r.Passes++
	for i := range p.Starts {
		task := int(p.Starts[i].ID.Job) - 1
		t := &r.tasks[task]
		r.Starts[task] = now
		r.started++
		r.running.push(run{ends: now + t.Run, order: r.started, task: task, atLimit: t.Run == t.Limit})
	}
}

// run is a task that runs.
type run struct {
	ends    int64
	order   int64 // of its start
	task    int
	atLimit bool // it runs until its requested time
}

// runs is a binary heap: the first is the next to end, of those of one instant the first started.
type runs []run

func (h runs) before(i, j int) bool {
	return h[i].ends < h[j].ends || h[i].ends == h[j].ends && h[i].order < h[j].order
}

func (h *runs) push(r run) {
	*h = append(*h, r)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.before(i, up) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *runs) pop() run {
	s := *h
	first, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(s) {
			return first
		}
		if down+1 < len(s) && s.before(down+1, down) {
			down++
		}
		if !s.before(down, i) {
			return first
		}
		s[i], s[down] = s[down], s[i]
		i = down
	}
}
