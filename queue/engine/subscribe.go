package engine

import (
	"sync"

	"fairslice/queue"
)

// subscriptions wakes those who wait for a job to change. A wake-up says nothing: the truth is read again.
type subscriptions struct {
	mu    sync.Mutex
	byJob map[queue.JobID]map[chan struct{}]struct{}
}

func newSubscriptions() subscriptions {
	return subscriptions{byJob: map[queue.JobID]map[chan struct{}]struct{}{}}
}

// Subscribe returns a channel that gets a value whenever the job changes; cancel must be called.
func (e *Engine) Subscribe(job queue.JobID) (<-chan struct{}, func()) {
	s := &e.subs
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byJob[job] == nil {
		s.byJob[job] = map[chan struct{}]struct{}{}
	}
	s.byJob[job][c] = struct{}{}
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.byJob[job], c)
		if len(s.byJob[job]) == 0 {
			delete(s.byJob, job)
		}
	}
}

func (s *subscriptions) publish(events []queue.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byJob) == 0 {
		return
	}
	for _, ev := range events {
		for c := range s.byJob[ev.Job] {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}
