package web

import (
	"slices"
	"sync"
	"time"

	"fairslice/queue"
)

// What is remembered of use, so that a page shows the last minutes and not a moment: of the elements that somebody looks at, since
// he did first. Of the others nothing is, however many run.
const (
	sampleEvery = 5 * time.Second
	trailLength = 10 * time.Minute // of samples; and how long sampling goes on when nobody looks any more
	maxTrails   = 1000             // elements; who was looked at the longest ago goes first
)

// sample is what was used of a slice at some moment, as its node said last.
type sample struct {
	at     time.Time
	memory int64 // bytes
	sm     int   // of the GPU's time, in 1/100 percent
}

// trail is the last minutes of one attempt.
type trail struct {
	attempt int
	looked  time.Time           // when somebody did last
	sampled time.Time           // and when we did
	slices  map[string][]sample // by the GPU's UUID, the oldest first; of trailLength, so at most 241 samples each
}

// trails are those of the elements that somebody looks at.
type trails struct {
	mu   sync.Mutex
	each map[queue.ElementID]*trail
}

// look is told that somebody looks at an attempt: it is sampled from here on. It returns what is known of its slices by the GPU's
// UUID, up to what is used now; the caller may keep that.
func (t *trails) look(id queue.ElementID, a *queue.Attempt, state queue.State, now time.Time) map[string][]sample {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.each[id]
	if one == nil || one.attempt != a.Number {
		if one == nil && len(t.each) >= maxTrails {
			t.dropOldest()
		}
		if t.each == nil {
			t.each = map[queue.ElementID]*trail{}
		}
		one = &trail{attempt: a.Number, slices: map[string][]sample{}}
		t.each[id] = one
	}
	one.looked = now
	one.sample(a, state, now)
	out := make(map[string][]sample, len(one.slices))
	for uuid, list := range one.slices {
		out[uuid] = slices.Clone(list)
	}
	if one.sampled.Before(now) && state != queue.Unkwn {
		for i := range a.Usage.GPUs {
			g := &a.Usage.GPUs[i]
			out[g.UUID] = append(out[g.UUID], sample{now, g.Memory, g.Util})
		}
	}
	return out
}

func (t *trails) dropOldest() {
	var oldest queue.ElementID
	for id, one := range t.each {
		if o := t.each[oldest]; o == nil || one.looked.Before(o.looked) {
			oldest = id
		}
	}
	delete(t.each, oldest)
}

// none says that there is nothing to sample.
func (t *trails) none() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.each) == 0
}

// sample takes one of each, and forgets those that are over or that nobody looks at any more. The book is held.
func (t *trails) sample(book *queue.Book, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, one := range t.each {
		_, e := book.Find(id)
		if e == nil || e.Attempt == nil || e.Attempt.Number != one.attempt || !e.State.Live() || now.Sub(one.looked) > trailLength {
			delete(t.each, id)
			continue
		}
		one.sample(e.Attempt, e.State, now)
	}
}

// sample takes one, unless the last was a moment ago: a tick or a look may be early. A node that does not answer leaves a gap.
func (t *trail) sample(a *queue.Attempt, state queue.State, now time.Time) {
	if len(a.Usage.GPUs) == 0 || state == queue.Unkwn || now.Sub(t.sampled) < sampleEvery/2 && !t.sampled.IsZero() {
		return
	}
	t.sampled = now
	for i := range a.Usage.GPUs {
		g := &a.Usage.GPUs[i]
		list := append(t.slices[g.UUID], sample{now, g.Memory, g.Util})
		old := 0
		for old < len(list) && now.Sub(list[old].at) > trailLength {
			old++
		}
		t.slices[g.UUID] = slices.Delete(list, 0, old)
	}
}

// follow samples until the server is closed.
func (s *Server) follow() {
	defer close(s.followed)
	every := time.NewTicker(sampleEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if !s.trails.none() { // the book is left alone where nobody looks
				s.Batch.View(func(q queue.View) { s.trails.sample(q.Book(), s.Now()) })
			}
		case <-s.closed:
			return
		}
	}
}
