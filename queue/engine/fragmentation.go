package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"fairslice/backfill"
)

// GPUHour is what the GPUs of nodes that were up were in an hour, as far as this engine has seen it. The amounts are sums of
// 1/100 fGPU × milliseconds, see backfill.Fragments for what is lost.
type GPUHour struct {
	Hour                 time.Time // its beginning, in UTC
	Millis               int64     // of the hour, how much was seen
	Capacity, Free, Lost int64
}

// fragmentation adds up what is free and lost over time. A figure counts until the next one, exactly; a cycle makes a new
// one when something has changed, but not before lookEvery, nor so often that looking takes more than 1/lookRest of the time. So a
// sum is wrong by what changes between two looks, in the time between them.
type fragmentation struct {
	due     time.Time // not looked again before; guarded by schedule.mu, as changed
	changed bool

	mu    sync.Mutex // guards the rest
	now   backfill.Fragments
	since time.Time  // until when now has been counted; zero before the first look
	hours []seenHour // the oldest first
}

// seenHour is an hour with what of it is stored.
type seenHour struct{ seen, stored GPUHour }

const (
	lookEvery = time.Second
	lookRest  = 100
	// longestLook is how long a figure is taken to hold when nobody looks. Cycles come every second: what takes longer is a
	// machine that was stopped, or a clock that was set.
	longestLook = 10 * time.Minute
	// writeGPUHours is how often the sums are written.
	writeGPUHours = time.Minute
)

const hourMillis = int64(time.Hour / time.Millisecond)

// look brings the sums up to now and looks anew, if it is due, at what the last plan has left.
func (s *schedule) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, now := &s.fragments, s.e.cfg().Now()
	if !f.changed || now.Before(f.due) {
		f.mu.Lock()
		f.count(now)
		f.mu.Unlock()
		return
	}
	began := time.Now()
	x := s.planner.Fragments()
	f.changed, f.due = false, now.Add(max(lookEvery, lookRest*time.Since(began)))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(now)
	f.now = x
}

// count adds the time since the last count, in the hours that it lies in.
func (f *fragmentation) count(now time.Time) {
	from, to := f.since.UnixMilli(), now.UnixMilli()
	known := !f.since.IsZero() && from <= to && to-from <= longestLook.Milliseconds()
	for f.since = now; known && from < to; {
		end := min(to, (from/hourMillis+1)*hourMillis)
		h := f.hour(time.UnixMilli(from / hourMillis * hourMillis).UTC())
		// No hour is longer than an hour, though a clock that was set back shows it twice.
		ms := min(end-from, hourMillis-h.Millis)
		h.Millis += ms
		h.Capacity += int64(f.now.Capacity) * ms
		h.Free += int64(f.now.Free) * ms
		h.Lost += int64(f.now.Lost) * ms
		from = end
	}
}

func (f *fragmentation) hour(begin time.Time) *GPUHour {
	i, found := slices.BinarySearchFunc(f.hours, begin, func(h seenHour, t time.Time) int { return h.seen.Hour.Compare(t) })
	if !found {
		f.hours = slices.Insert(f.hours, i, seenHour{seen: GPUHour{Hour: begin}})
	}
	return &f.hours[i].seen
}

// unwritten is what is to be written at a time: the whole sums of each hour of which not all is stored, without those in
// which there were no GPUs.
func (f *fragmentation) unwritten(now time.Time) (out []GPUHour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(now)
	for _, h := range f.hours {
		if h.seen != h.stored && h.seen.Capacity > 0 {
			out = append(out, h.seen)
		}
	}
	return out
}

// written notes what has been stored, and forgets what is over. The hours of a day stay: a clock that is set back comes to
// them again.
func (f *fragmentation) written(list []GPUHour, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range list {
		for i := range f.hours {
			if f.hours[i].seen.Hour.Equal(h.Hour) {
				f.hours[i].stored = h
			}
		}
	}
	f.hours = slices.DeleteFunc(f.hours, func(h seenHour) bool {
		return h.seen.Hour.Before(now.Add(-25*time.Hour)) && (h.seen == h.stored || h.seen.Capacity == 0)
	})
}

// Fragments is what of the GPUs is free and lost to fragmentation, as it was last looked at.
func (e *Engine) Fragments() backfill.Fragments {
	f := &e.sched.fragments
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// gpuHoursLoop writes the sums now and then.
func (e *Engine) gpuHoursLoop(ctx context.Context) {
	ticker := time.NewTicker(writeGPUHours)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := e.cfg().Now()
			list := e.sched.fragments.unwritten(now)
			if len(list) == 0 {
				continue
			}
			if e.write(ctx, func(t *tx) error { t.hours = list; return nil }) != nil {
				return // the engine is stopping; Run says why
			}
			e.sched.fragments.written(list, now)
		}
	}
}

// lastGPUHours bounds how long a stop waits for the database to take the last sums.
const lastGPUHours = 2 * time.Second

// writeLastGPUHours writes the sums when the engine stops. What the database does not take now is not known later.
func (e *Engine) writeLastGPUHours(ctx context.Context) {
	list := e.sched.fragments.unwritten(e.cfg().Now())
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastGPUHours)
	defer cancel()
	if err := e.store.Commit(ctx, &Batch{GPUHours: list}); err != nil {
		e.cfg().Logger.Warn("the last minute of free and fragmented GPU was not written", "error", err)
	}
}
