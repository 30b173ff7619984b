package engine

import (
	"fmt"
	"time"

	"fairslice/queue"
)

// IdleRule is when a queue's sessions count as idle. One that is in use is never idle: while somebody types at a terminal of it,
// while somebody is connected to it in another way (a program beside it, an app), or while over the last After it has used as much
// as Below says.
type IdleRule struct {
	After time.Duration // without use, its owner is warned; 0: no rule
	Warn  time.Duration // after the warning, it is ended
	// BelowGPU is in percent of its share of the GPUs' time; BelowCPU in percent of its slots, of sessions without a GPU and where
	// nobody measures the GPU.
	BelowGPU, BelowCPU int
}

// watch is what is known of the use of a session's present attempt.
type watch struct {
	attempt int
	active  time.Time // when it was in use last; at the earliest when it began, or this engine
	samples []sample  // of the last rule.After, oldest first; the first may be older
	warned  time.Time // zero without a warning

	due     time.Time // when it must be looked at again, whatever happens; zero for never
	hungry  bool      // look at it when there is another sample
	changed bool      // look at it at once
}

// sample is what an attempt has used until a moment.
type sample struct {
	at                time.Time
	cpu, sm, measured time.Duration // sm and measured as queue.GPUUsage has them, of all slices
}

// decision is what is to be done about a session.
type decision struct {
	do     idleAct
	why    string // clear: what it is used for
	due    time.Time
	hungry bool
}

type idleAct uint8

const (
	idleWait idleAct = iota
	idleWarn
	idleClear
	idleEnd
)

// observe takes a sample over. Of a window not more than 64 are kept.
func (w *watch) observe(s sample, window time.Duration) {
	n := len(w.samples)
	switch {
	case n > 0 && (s.cpu < w.samples[n-1].cpu || s.sm < w.samples[n-1].sm || s.measured < w.samples[n-1].measured): // counted anew
		w.samples = w.samples[:0]
	case n > 1 && s.at.Sub(w.samples[n-2].at) < window/64:
		w.samples = w.samples[:n-1]
	}
	w.samples = append(w.samples, s)
	for len(w.samples) > 1 && !w.samples[1].at.After(s.at.Add(-window)) {
		w.samples = w.samples[1:]
	}
	w.changed = w.changed || w.hungry
}

// decide says what is to be done now about a session that runs, to which so many are connected.
func (w *watch) decide(now time.Time, rule *IdleRule, a *queue.Attempt, pipes int) decision {
	if w.warned.IsZero() {
		at := w.active.Add(rule.After)
		switch {
		case pipes > 0:
			return decision{}
		case now.Before(at):
			return decision{due: at}
		}
		if used, _, known := w.used(now.Add(-rule.After), a); !known || used >= float64(rule.below(a, w)) {
			return decision{hungry: true}
		}
		return decision{do: idleWarn}
	}
	if pipes > 0 || w.active.After(w.warned) {
		return decision{do: idleClear, why: "somebody is there"}
	}
	if used, what, known := w.used(w.warned, a); known && used >= float64(rule.below(a, w)) {
		return decision{do: idleClear, why: fmt.Sprintf("it uses %.0f %% of its %s", used, what)}
	}
	if end := w.warned.Add(rule.Warn); now.Before(end) {
		return decision{due: end, hungry: true}
	}
	return decision{do: idleEnd}
}

// used is how much of what it has the session has used since then, in percent, and of what; known is false while there are no
// samples that tell.
func (w *watch) used(since time.Time, a *queue.Attempt) (percent float64, what string, known bool) {
	first, last, ok := w.span(since)
	if !ok {
		return 0, "", false
	}
	took := last.at.Sub(first.at).Seconds()
	if w.onGPU(a) {
		share := 0
		for _, s := range a.Alloc[0].Slices {
			share += s.SMShare
		}
		return 100 * (last.sm - first.sm).Seconds() / (took * float64(share) / 10_000), "share of the GPU", true
	}
	return 100 * (last.cpu - first.cpu).Seconds() / (took * float64(max(a.Alloc[0].Slots, 1))), "slots", true
}

// span is the last sample, and the last one before or at since.
func (w *watch) span(since time.Time) (first, last sample, ok bool) {
	for _, s := range w.samples {
		if !s.at.After(since) {
			first, ok = s, true
		}
	}
	if !ok {
		return first, last, false
	}
	last = w.samples[len(w.samples)-1]
	return first, last, last.at.After(first.at)
}

// onGPU says that the session's use of GPUs is measured, and counts.
func (w *watch) onGPU(a *queue.Attempt) bool {
	n := len(w.samples)
	return len(a.Alloc[0].Slices) > 0 && a.Alloc[0].Slices[0].SMShare > 0 && n > 0 && w.samples[n-1].measured > w.samples[0].measured
}

func (r *IdleRule) below(a *queue.Attempt, w *watch) int {
	if w.onGPU(a) {
		return r.BelowGPU
	}
	return r.BelowCPU
}

// warn notes that a warning was given: only what is used from then on counts.
func (w *watch) warn(now time.Time) {
	w.warned = now
	w.samples = w.samples[max(0, len(w.samples)-1):]
}

// use notes that it is in use.
func (w *watch) use(now time.Time) { w.active, w.changed = latest(w.active, now), true }
