package replay

import (
	"cmp"
	"slices"
)

// The oracle is the reference of the published results, as plainly as it can be written: whole numbers, lists
// that are searched from the front, nothing kept between passes but what waits and what runs. It shares no code
// with the planner, and real traces must give the same starts on it as were published; then the planner must.
//
// At one instant come submissions, then terminations, then starts, and a pass is made after each of the first
// two. What is predicted to end by now counts as gone.
type oracle struct {
	procs   int64
	tasks   []Task
	waiting []int // in order of submission
	running []oracleRun
	starts  []int64 // by task; -1 while it waits
	// conservative plans only
	promised []int64 // by task
	profile  []oracleStep
}

type oracleRun struct {
	task      int
	ends      int64 // really
	predicted int64
}

// oracleStep says how many processors are free from a time until the next step.
type oracleStep struct{ at, free int64 }

const never = int64(1) << 62

// oracleReplay gives the start of each task. policy is "fcfs", "easy", "easy-sjf" or "conservative".
func oracleReplay(tasks []Task, procs int64, policy string) []int64 {
	o := &oracle{procs: procs, tasks: tasks, starts: make([]int64, len(tasks)), promised: make([]int64, len(tasks)), profile: []oracleStep{{-never, procs}}}
	for i := range o.starts {
		o.starts[i] = -1
	}
	pass := map[string]func(now int64){"fcfs": o.fcfs, "easy": o.easy, "easy-sjf": o.easySJF, "conservative": o.startPromised}[policy]
	next := 0
	for {
		now := o.nextEvent(next, policy == "conservative")
		if now == never {
			return o.starts
		}
		for ; next < len(tasks) && tasks[next].Submit == now; next++ {
			o.waiting = append(o.waiting, next)
			if policy == "conservative" {
				o.promise(next, now)
			}
			pass(now)
		}
		ended := o.endedAt(now)
		for _, r := range ended {
			o.running = slices.DeleteFunc(o.running, func(other oracleRun) bool { return other.task == r.task })
			if policy == "conservative" {
				o.compress(r, now)
			}
			pass(now)
		}
		pass(now) // what was promised for now, where nothing ends or comes
	}
}

func (o *oracle) nextEvent(next int, promises bool) int64 {
	at := never
	if next < len(o.tasks) {
		at = o.tasks[next].Submit
	}
	for _, r := range o.running {
		at = min(at, r.ends)
	}
	if promises {
		for _, i := range o.waiting {
			at = min(at, o.promised[i])
		}
	}
	return at
}

// endedAt are those that end now, by when they were started.
func (o *oracle) endedAt(now int64) (ended []oracleRun) {
	for _, r := range o.running {
		if r.ends == now {
			ended = append(ended, r)
		}
	}
	return ended
}

func (o *oracle) start(i int, now int64) {
	t := o.tasks[i]
	o.starts[i] = now
	o.running = append(o.running, oracleRun{i, now + t.Run, now + t.Limit})
	o.waiting = slices.DeleteFunc(o.waiting, func(w int) bool { return w == i })
}

func (o *oracle) freeAt(at int64) int64 {
	free := o.procs
	for _, r := range o.running {
		if r.predicted > at {
			free -= o.tasks[r.task].Procs
		}
	}
	return free
}

func (o *oracle) fcfs(now int64) {
	for len(o.waiting) > 0 && o.tasks[o.waiting[0]].Procs <= o.freeAt(now) {
		o.start(o.waiting[0], now)
	}
}

func (o *oracle) easy(now int64) { o.backfill(now, func(a, b int) int { return cmp.Compare(a, b) }) }

func (o *oracle) easySJF(now int64) {
	o.backfill(now, func(a, b int) int {
		return cmp.Or(cmp.Compare(o.tasks[a].Limit, o.tasks[b].Limit), cmp.Compare(a, b))
	})
}

func (o *oracle) backfill(now int64, order func(a, b int) int) {
	o.fcfs(now)
	if len(o.waiting) < 2 {
		return
	}
	head := o.tasks[o.waiting[0]]
	var ends []int64
	for _, r := range o.running {
		if r.predicted > now {
			ends = append(ends, r.predicted)
		}
	}
	slices.Sort(ends)
	shadow := now
	for _, at := range ends {
		if shadow = at; o.freeAt(at) >= head.Procs {
			break
		}
	}
	free, extra := o.freeAt(now), o.freeAt(shadow)-head.Procs
	candidates := slices.Clone(o.waiting[1:])
	slices.SortFunc(candidates, order)
	for _, i := range candidates {
		t := o.tasks[i]
		endsBefore := now+t.Limit <= shadow
		if t.Procs > free || !endsBefore && t.Procs > extra {
			continue
		}
		if free -= t.Procs; !endsBefore {
			extra -= t.Procs
		}
		o.start(i, now)
	}
}

// promise gives a task the earliest start that the profile has, and takes it out.
func (o *oracle) promise(i int, now int64) {
	o.promised[i] = o.earliest(o.tasks[i], now)
	o.take(o.promised[i], o.promised[i]+o.tasks[i].Limit, o.tasks[i].Procs)
}

func (o *oracle) startPromised(now int64) {
	for _, i := range slices.Clone(o.waiting) {
		if o.promised[i] <= now {
			o.start(i, now)
		}
	}
}

// compress takes each waiting task out, and puts it back at its earliest, when one has ended: also when it
// ended just as predicted, since an earlier compression may have left room before a promise.
func (o *oracle) compress(r oracleRun, now int64) {
	o.take(now, r.predicted, -o.tasks[r.task].Procs)
	for _, i := range o.waiting {
		t := o.tasks[i]
		o.take(o.promised[i], o.promised[i]+t.Limit, -t.Procs)
		o.promise(i, now)
	}
}

func (o *oracle) earliest(t Task, now int64) int64 {
	o.forget(now)
	start, fits := int64(0), false
	for i, s := range o.profile {
		switch {
		case s.free < t.Procs:
			fits = false
		case !fits:
			start, fits = max(s.at, now), true
		}
		if last := i+1 == len(o.profile); fits && (last || o.profile[i+1].at >= start+t.Limit) {
			return start
		}
	}
	panic("the machine is too small")
}

// forget drops the steps that are over.
func (o *oracle) forget(now int64) {
	over := 0
	for over+1 < len(o.profile) && o.profile[over+1].at <= now {
		over++
	}
	o.profile = slices.Delete(o.profile, 0, over)
}

// take makes n processors fewer from one time until another; give them back with a negative n.
func (o *oracle) take(from, until, n int64) {
	first, last := o.cut(from), o.cut(until)
	for i := first; i < last; i++ {
		o.profile[i].free -= n
	}
	o.join(last)
	o.join(first)
}

// cut makes a step begin at a time, and says which.
func (o *oracle) cut(at int64) int {
	i, found := slices.BinarySearchFunc(o.profile, at, func(s oracleStep, at int64) int { return cmp.Compare(s.at, at) })
	if !found {
		o.profile = slices.Insert(o.profile, i, oracleStep{at, o.profile[i-1].free})
	}
	return i
}

// join drops step i where it changes nothing.
func (o *oracle) join(i int) {
	if i > 0 && i < len(o.profile) && o.profile[i].free == o.profile[i-1].free {
		o.profile = slices.Delete(o.profile, i, i+1)
	}
}
