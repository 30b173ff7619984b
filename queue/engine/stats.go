package engine

import (
	"sync"
	"time"

	"fairslice/backfill"
	"fairslice/queue"
)

// Observer is told what the engine does, for metrics. Its methods must be quick and safe for concurrent use.
type Observer interface {
	Batch(events int, took time.Duration)
	Cycle(took time.Duration, pending, starts int, bounded bool)
	RefusedStart()
	Submitted(queueName string)
	Started(queueName string, waited time.Duration)
	Ended(queueName string, done bool)
	// Predicted tells by how much an element started later than was first expected (negative: earlier).
	Predicted(late time.Duration)
}

// Stats passes on what happens to the Observer, if there is one.
type Stats struct {
	mu  sync.RWMutex
	obs Observer
}

func newStats() *Stats { return &Stats{} }

// Observe sets who is told. Call it before Run.
func (e *Engine) Observe(o Observer) {
	e.stats.mu.Lock()
	defer e.stats.mu.Unlock()
	e.stats.obs = o
}

func (s *Stats) tell(fn func(Observer)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.obs != nil {
		fn(s.obs)
	}
}

func (s *Stats) batch(events int, took time.Duration) {
	s.tell(func(o Observer) { o.Batch(events, took) })
}

func (s *Stats) cycle(took time.Duration, pending int, p *backfill.Plan) {
	s.tell(func(o Observer) { o.Cycle(took, pending, len(p.Starts), p.Bounded) })
}

func (s *Stats) submitted(queueName string) {
	s.tell(func(o Observer) { o.Submitted(queueName) })
}

func (s *Stats) refusedStart() { s.tell(func(o Observer) { o.RefusedStart() }) }

func (s *Stats) started(j *queue.Job, el *queue.Element, now time.Time) {
	s.tell(func(o Observer) { o.Started(j.Queue, now.Sub(j.Submitted)) })
}

func (s *Stats) ended(j *queue.Job, done bool) {
	s.tell(func(o Observer) { o.Ended(j.Queue, done) })
}

func (s *Stats) predicted(late time.Duration) { s.tell(func(o Observer) { o.Predicted(late) }) }
