package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"fairslice/nodes"
	"fairslice/nodes/fgpu"
	"fairslice/queue"
)

// Driver is what the watchdog asks of the GPU driver.
type Driver interface {
	// Read tells who uses a GPU, or a MIG instance: it sets Lost, Used and Processes of the reading, but not their utilization.
	Read(r *fgpu.Reading) error
	// Busy tells what each process has used of the GPU's time since then, in 1/100 percent; one that is not there has run
	// nothing. nil where the driver cannot tell.
	Busy(uuid string, since time.Time) (map[int]int, error)
}

// watchdog looks at the GPUs and at the jobs that have slices of them: it publishes in the jobs' regions what the driver
// says, moves their windows, sums up what they use, and acts on what package fgpu decides.
type watchdog struct {
	a     *Agent
	alive fgpu.Processes

	mu      sync.Mutex // guards what follows, and the regions
	jobs    map[string]*watched
	order   []string // keys of jobs, oldest first
	dog     fgpu.Watchdog
	shares  map[string]*fgpu.Shares // by UUID
	busy    map[string]busy         // by UUID
	settled time.Time               // last time the windows were set
	gpus    map[string]nodes.GPU    // at the last look
	actions map[ActionKey]uint64
}

// busy is who had what of a GPU's time when it was last asked. The driver makes a sample in up to a second, so that it is
// not asked more often.
type busy struct {
	at    time.Time
	parts map[int]int // by process, in 1/100 percent; nil: not known
}

// watched is an attempt with slices.
type watched struct {
	t        *attempt
	region   *fgpu.Region
	devices  []device
	enforced bool // the probe has proven the fence
	saved    time.Time
}

// device is one slice of a watched attempt, and what is known of its use.
type device struct {
	slice     nodes.Slice
	phase     int // of its window; -1 where it has none
	untracked fgpu.Untracked
	meter     fgpu.Meter
	before    int64 // held by its own account, right before the driver was asked
	said      fgpu.DeviceUsage
	throttled time.Duration // of said at the last second
	holding   fgpu.Holding  // by the driver
	lacking   int64         // untracked bytes, as published
}

func newWatchdog(a *Agent) *watchdog {
	return &watchdog{a: a, jobs: map[string]*watched{}, shares: map[string]*fgpu.Shares{}, busy: map[string]busy{},
		gpus: map[string]nodes.GPU{}, actions: map[ActionKey]uint64{}}
}

// run looks until ctx ends.
func (w *watchdog) run(ctx context.Context) {
	for {
		w.mu.Lock()
		wait := w.dog.Interval()
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			w.look(w.a.cfg.Now())
		}
	}
}

// watch takes over the region of an attempt and gives its slices their windows.
func (w *watchdog) watch(t *attempt, region *fgpu.Region, spec fgpu.Spec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.jobs[t.key]; old != nil { // a second try of the start
		_ = old.region.Close()
	} else {
		w.order = append(w.order, t.key)
	}
	j := &watched{t: t, region: region, saved: w.a.cfg.Now()}
	meters := w.loadMeters(t)
	now, err := region.Spec()
	for i, d := range spec.Devices {
		x := device{slice: d.Slice, phase: -1, meter: meters[d.Slice.UUID]}
		if err == nil && t.restored && i < len(now.Devices) {
			x.phase = now.Devices[i].Phase // where its window was
		}
		region.SetContext(i, d.Context)
		j.devices = append(j.devices, x)
	}
	w.jobs[t.key] = j
	for _, d := range spec.Devices {
		w.place(d.Slice.UUID)
	}
}

// place gives the windows of a GPU's slices their places in the frame.
func (w *watchdog) place(uuid string) {
	var windows []fgpu.Window
	wish := map[string]int{} // a job's windows open together on all its GPUs
	w.each(uuid, func(key string, j *watched, i int, d *device) {
		if d.slice.Mode == nodes.ModeShim {
			windows = append(windows, fgpu.Window{Key: key, Share: d.slice.SMShare, Phase: d.phase})
		}
		if i > 0 && j.devices[0].phase >= 0 {
			wish[key] = j.devices[0].phase
		}
	})
	for _, x := range fgpu.PhasesLike(windows, wish) {
		j := w.jobs[x.Key]
		for i := range j.devices {
			if d := &j.devices[i]; d.slice.UUID == uuid && d.phase != x.Phase {
				d.phase = x.Phase
				j.region.SetWindow(i, d.slice.SMShare, x.Phase)
			}
		}
	}
}

// each visits the slices of a GPU, oldest first.
func (w *watchdog) each(uuid string, visit func(key string, j *watched, i int, d *device)) {
	for _, key := range w.order {
		j := w.jobs[key]
		for i := range j.devices {
			if j.devices[i].slice.UUID == uuid {
				visit(key, j, i, &j.devices[i])
			}
		}
	}
}

func (w *watchdog) enforced(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[key]; j != nil {
		j.enforced = true
	}
}

// leave ends the watch over an attempt and returns what it used of its slices; nil for one that is not watched.
func (w *watchdog) leave(key string) []queue.GPUUsage {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[key]
	if j == nil {
		return nil
	}
	said, _ := j.region.Usage()
	out := make([]queue.GPUUsage, len(j.devices))
	for i := range j.devices {
		d := &j.devices[i]
		out[i] = queue.GPUUsage{UUID: d.slice.UUID, Index: d.slice.Index, MaxMemory: d.meter.Peak, SMTime: d.meter.SMTime, Measured: d.meter.Measured}
		if d.meter.Last.IsZero() && i < len(said) {
			out[i].MaxMemory = said[i].Peak // over before the first look: its own word is all there is
		}
	}
	_ = j.region.Close()
	delete(w.jobs, key)
	w.order = slices.DeleteFunc(w.order, func(k string) bool { return k == key })
	return out
}

// use is what a running attempt uses now, as far as it was seen.
func (w *watchdog) use(key string) []queue.GPUUsage {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[key]
	if j == nil {
		return nil
	}
	var out []queue.GPUUsage
	for i := range j.devices {
		d := &j.devices[i]
		if d.meter.Last.IsZero() {
			continue
		}
		out = append(out, queue.GPUUsage{UUID: d.slice.UUID, Index: d.slice.Index, Memory: max(d.holding.Bytes, 0), MaxMemory: d.meter.Peak,
			Util: max(d.holding.Utilization, 0), SMTime: d.meter.SMTime, Measured: d.meter.Measured})
	}
	return out
}

// look takes one look at all GPUs and jobs.
func (w *watchdog) look(now time.Time) {
	w.mu.Lock()
	var guarded []fgpu.Guarded
	for _, key := range w.order {
		j := w.jobs[key]
		g := fgpu.Guarded{Job: key}
		_, _ = j.region.Sweep(w.alive.Alive) // what a tenant has done to its file is said by Usage
		said, err := j.region.Usage()
		for i := range j.devices {
			j.devices[i].before = 0
			if err == nil {
				j.devices[i].before = said[i].Held
			}
			g.Slices = append(g.Slices, j.devices[i].slice)
		}
		guarded = append(guarded, g)
	}
	second := now.Sub(w.settled) >= fgpu.LookEach-fgpu.LookOften/2
	readings := w.read(now, second)
	owner := fgpu.Owner(w.owner).Once()
	seen := make(map[string]seenOn, len(readings))
	for _, r := range readings {
		held, _ := fgpu.Attribute(r, owner)
		seen[r.GPU] = seenOn{r.Lost, held}
	}
	for _, key := range w.order {
		w.tell(now, w.jobs[key], seen, second)
	}
	if second {
		w.settle(now)
	}
	for _, t := range w.a.all() { // who has no slice has no business on a GPU either
		if w.jobs[t.key] == nil && t.snapshot().Stage == running {
			guarded = append(guarded, fgpu.Guarded{Job: t.key})
		}
	}
	actions := w.dog.Step(now, readings, guarded, owner)
	for _, x := range actions {
		w.actions[ActionKey{x.Kind, x.Reason}]++
	}
	w.mu.Unlock()
	for _, x := range actions {
		w.act(x)
	}
}

// seenOn is what a look found on a GPU: what each job holds there.
type seenOn struct {
	lost bool
	held map[string]fgpu.Holding // by the attempt's key
}

// read asks the driver about every GPU, and once a second what its processes do. A GPU of which it says nothing is left out.
func (w *watchdog) read(now time.Time, second bool) []fgpu.Reading {
	w.gpus = map[string]nodes.GPU{}
	var out []fgpu.Reading
	for _, gpu := range w.a.cfg.GPUs.List() {
		w.gpus[gpu.UUID] = gpu
		r := fgpu.Reading{GPU: gpu.UUID, Index: gpu.Index, Mode: gpu.Mode, Lost: gpu.Lost, Used: -1}
		if !r.Lost {
			if err := w.a.cfg.GPUs.Driver.Read(&r); err != nil {
				w.a.cfg.Logger.Error("a GPU's processes are not known: nothing watches its slices", "gpu", r.GPU, "error", err)
				continue
			}
		}
		if second && !r.Lost {
			w.measure(now, gpu.UUID)
		}
		parts := w.busy[gpu.UUID].parts
		for i := range r.Processes {
			p := &r.Processes[i]
			if p.Utilization = -1; parts != nil {
				p.Utilization = parts[p.PID]
			}
		}
		out = append(out, r)
	}
	return out
}

func (w *watchdog) measure(now time.Time, uuid string) {
	since := w.busy[uuid].at
	if since.IsZero() {
		since = now.Add(-fgpu.LookEach)
	}
	parts, err := w.a.cfg.GPUs.Driver.Busy(uuid, since)
	if err != nil {
		w.a.cfg.Logger.Error("what a GPU's processes do is not known", "gpu", uuid, "error", err)
	}
	w.busy[uuid] = busy{now, parts}
}

// tell publishes what was measured in a job's region, and sums it up.
func (w *watchdog) tell(now time.Time, j *watched, seen map[string]seenOn, second bool) {
	said, err := j.region.Usage()
	var list []fgpu.Process
	for i := range j.devices {
		d := &j.devices[i]
		gpu, ok := seen[d.slice.UUID]
		if !ok {
			continue
		}
		j.region.SetLost(i, gpu.lost)
		if gpu.lost {
			continue
		}
		h, uses := gpu.held[j.t.key]
		if !uses && w.busy[d.slice.UUID].parts == nil {
			h.Utilization = -1
		}
		d.holding = h
		if err == nil {
			d.said = said[i]
		}
		d.lacking = d.untracked.Next(max(h.Bytes, 0), d.before, d.said.Held)
		j.region.Publish(i, fgpu.Measured{Driver: h.Bytes, Untracked: d.lacking, Utilization: h.Utilization})
		d.meter.Add(now, h.Utilization, h.Bytes)
		for _, p := range h.Processes {
			list = append(list, fgpu.Process{PID: p.PID, Device: i, Bytes: p.Bytes})
		}
		if second {
			j.region.AddSample(i, fgpu.Sample{Bytes: max(h.Bytes, 0), Utilization: max(h.Utilization, 0), Throttled: d.waited(now.Sub(w.settled))})
		}
	}
	j.region.SetProcesses(list)
	j.region.Beat(fgpu.Monotonic())
	if now.Sub(j.saved) >= saveEvery {
		j.saved = now
		w.saveMeters(j)
	}
}

// waited is the part of the time since the last second in which a launch waited, in 1/100 percent, by the job's word.
func (d *device) waited(elapsed time.Duration) int {
	if elapsed <= 0 {
		return 0
	}
	return int(min(max(float64(d.said.Throttled-d.throttled)/float64(elapsed), 0), 1) * fgpu.Whole)
}

// settle moves the windows by what was measured in the last second.
func (w *watchdog) settle(now time.Time) {
	elapsed := now.Sub(w.settled)
	w.settled = now
	policy := w.a.cfg.GPUs.Policy
	for uuid := range w.gpus {
		var demands []fgpu.Demand
		w.each(uuid, func(key string, _ *watched, _ int, d *device) {
			if d.slice.Mode == nodes.ModeShim && d.slice.SMShare < fgpu.Whole {
				demands = append(demands, fgpu.Demand{Key: key, Share: d.slice.SMShare, Policy: policy, Utilization: d.holding.Utilization,
					Throttled: d.waited(elapsed)})
			}
			d.throttled = d.said.Throttled
		})
		if len(demands) == 0 {
			delete(w.shares, uuid)
			continue
		}
		if w.shares[uuid] == nil {
			w.shares[uuid] = &fgpu.Shares{}
		}
		open := w.shares[uuid].Step(now, demands)
		w.each(uuid, func(key string, j *watched, i int, d *device) {
			if part, ok := open[key]; ok {
				j.region.SetWindow(i, part, max(d.phase, 0))
			}
		})
	}
}
