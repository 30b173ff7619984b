package agent

import (
	"fairslice/nodes/fgpu"
	"fairslice/queue"
)

// owner says whose a process is.
func (w *watchdog) owner(pid int) (job string, ok bool) {
	if g := w.a.cfg.GPUs; g.Ours != nil && g.Ours(pid) {
		return "", true
	}
	name, ok, err := w.a.cgroups.GroupOf(pid)
	if err != nil {
		w.a.cfg.Logger.Debug("the group of a process is not known", "pid", pid, "error", err)
	}
	return name, ok
}

// act does what package fgpu decided.
func (w *watchdog) act(x fgpu.Action) {
	w.a.cfg.Logger.Warn("GPU watchdog: "+x.Text, "action", string(x.Kind), "reason", string(x.Reason), "attempt", x.Job, "gpu", x.GPU, "pids", x.PIDs)
	switch {
	case x.Kind == fgpu.Lost:
		// What runs there cannot go on: its next call to the driver fails, if it returns at all.
		for _, t := range w.holders(x.GPU) {
			t.endFor(queue.TermGPULost, x.Text)
		}
	case x.Kind == fgpu.Terminate:
		if t := w.attempt(x.Job); t != nil {
			t.endFor(queue.TermGPUMemLimit, x.Text)
		}
	case x.Job != "":
		if t := w.attempt(x.Job); t != nil {
			t.report(x.Text)
		}
	}
}

func (w *watchdog) attempt(key string) *attempt {
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	return w.a.attempts[key]
}

// holders are the attempts with a slice of a GPU.
func (w *watchdog) holders(uuid string) []*attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*attempt
	w.each(uuid, func(_ string, j *watched, _ int, _ *device) { out = append(out, j.t) })
	return out
}

// endFor ends the attempt with a verdict and says why; at once where that was tried before.
func (t *attempt) endFor(verdict queue.Verdict, why string) {
	again := t.snapshot().Killing == verdict
	t.mustUpdate(func(r *record) {
		if r.Killing == "" {
			r.Detail = why
		}
	})
	if !again {
		t.report(why)
	}
	t.order(queue.Order{ID: t.id, Attempt: t.number, Op: queue.OrderKill, Verdict: verdict, AtOnce: again})
}
