package api_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"fairslice/accounting"
	"fairslice/api"
	"fairslice/nodes"
	"fairslice/queue"
)

// engine is a fake: a book that tests fill, and a record of what it was told.
type engine struct {
	fakeArchive
	api.Catalogue
	api.Depot
	api.Committer
	mu      sync.RWMutex
	book    queue.Book
	tokens  map[string]queue.JobID
	wakes   map[queue.JobID][]chan struct{}
	control queue.Control
	reports []queue.Report

	attended map[string]int // who is connected to attempts now: "7#1"
	reserved queue.ReservationRequest
	policy   queue.PolicyChange
	calls    chan string                  // "joined n1", "gone n1: why", "heartbeat n1"
	durable  func(r queue.Report) error   // what NodeReport waits for
	submit   func(queue.Submission) error // before a Submit answers
}

func newEngine() *engine {
	return &engine{book: queue.Book{Jobs: map[queue.JobID]*queue.Job{}, Nodes: map[nodes.ID]*nodes.Node{}, Queues: map[string]queue.QueueState{}},
		tokens: map[string]queue.JobID{}, wakes: map[queue.JobID][]chan struct{}{}, attended: map[string]int{}, calls: make(chan string, 1000), durable: func(queue.Report) error { return nil }, submit: func(queue.Submission) error { return nil }}
}

// change alters a job and wakes who watches it.
func (e *engine) change(id queue.JobID, f func(j *queue.Job)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.book.Jobs[id] == nil {
		e.book.Jobs[id] = &queue.Job{ID: id, Spec: &queue.Spec{}, Queue: "normal", Elements: make([]queue.Element, 1)}
	}
	f(e.book.Jobs[id])
	for _, c := range e.wakes[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (e *engine) Submit(_ context.Context, s queue.Submission) (queue.Accepted, error) {
	if err := e.submit(s); err != nil {
		return queue.Accepted{}, err
	}
	e.mu.Lock()
	id, ok := e.tokens[s.Token]
	if !ok {
		id = queue.JobID(len(e.tokens) + 1)
		e.tokens[s.Token] = id
	}
	e.mu.Unlock()
	e.change(id, func(j *queue.Job) { j.Spec, j.Owner, j.Elements[0].State = s.Spec, s.Owner, queue.Pend })
	return queue.Accepted{Job: id, Queue: "normal", Default: s.Spec.Queue == "", Notes: []string{s.Owner.User}}, nil
}
func (e *engine) Control(_ context.Context, c queue.Control) ([]queue.Outcome, error) {
	e.control = c
	return []queue.Outcome{{ID: "5", OK: true, Text: "Job <5> is being terminated"}}, nil
}
func (e *engine) Extend(_ context.Context, q queue.Extend) (queue.Extension, error) {
	e.calls <- fmt.Sprintf("extend %s %s %s by %s", q.ID, q.Add, q.RunLimit, q.By.User)
	return queue.Extension{ID: queue.ElementID{Job: 7}, Granted: true, RunLimit: time.Hour, Ends: time.Unix(7200, 0), Longest: 2 * time.Hour, Why: "why"}, nil
}
func (e *engine) Admin(context.Context, queue.AdminCommand) ([]queue.Outcome, error) {
	return nil, errors.New("the secret of the database")
}
func (e *engine) AddReservation(_ context.Context, q queue.ReservationRequest) (string, error) {
	e.reserved = q
	return "alice#0", nil
}
func (e *engine) SetPolicy(_ context.Context, c queue.PolicyChange) (queue.PolicyOutcome, error) {
	e.policy = c
	return queue.PolicyOutcome{Version: c.Base + 1, Diff: []string{"account lab: added"}}, nil
}
func (e *engine) PolicyLog(_ context.Context, limit int) ([]queue.PolicyEntry, error) {
	return []queue.PolicyEntry{{PolicyState: queue.PolicyState{Version: int64(limit), Text: "account lab\n", By: "root", At: time.Unix(5, 0)}, Diff: []string{"x", "y"}}}, nil
}
func (e *engine) Shares(_ context.Context, compare []string) (accounting.Shares, error) {
	return accounting.Shares{At: time.Unix(5, 0), HalfLife: time.Hour, Weights: accounting.Weights{GPU: 8, Memory: 0.25}, Ordered: true, Why: compare,
		Tree: []accounting.Standing{{Account: "root", Shares: 1}, {Account: "lab", User: "ada", Depth: 1, Shares: 3, Share: .75, Usage: .5, Used: 7,
			LevelFairShare: math.Inf(1), Rank: 2, Factor: .25}}}, nil
}
func (e *engine) Priority(*queue.Job) (queue.Priority, bool) {
	return queue.Priority{Queue: 30, User: 2, Parts: []queue.PriorityPart{{Name: "age", Weight: 2, Factor: .5, Points: 1}}, Total: 1}, true
}
func (e *engine) Window(*queue.Reservation) (queue.Period, bool) {
	return queue.Period{Begin: time.Unix(300, 0), End: time.Unix(400, 0)}, true
}
func (e *engine) View(f func(queue.View))              { e.mu.RLock(); defer e.mu.RUnlock(); f(e) }
func (e *engine) Book() *queue.Book                    { return &e.book }
func (e *engine) PlannedAt() time.Time                 { return time.Unix(100, 0) }
func (e *engine) Ahead(*queue.Job, *queue.Element) int { return 3 }
func (e *engine) Why(*queue.Job, *queue.Element) ([]queue.Reason, time.Time) {
	return []queue.Reason{{Kind: queue.ReasonGPU, Text: "no GPU", Hosts: 2}}, time.Unix(200, 0)
}
func (e *engine) Select(_ queue.View, s queue.Selection, _ queue.Identity) (found []api.Found, missing []string, err error) {
	for _, id := range slices.Sorted(maps.Keys(e.book.Jobs)) {
		if j := e.book.Jobs[id]; len(s.IDs) == 0 || slices.Contains(s.IDs, fmt.Sprint(id)) {
			for i := range j.Elements {
				if state := j.Elements[i].State; s.Scope == queue.ScopePending && state == queue.Run || s.Scope == queue.ScopeRunning && state != queue.Run {
					continue
				}
				found = append(found, api.Found{Job: j, Element: &j.Elements[i]})
			}
		}
	}
	if len(found) == 0 && len(s.IDs) > 0 {
		missing = []string{"Job <" + strings.Join(s.IDs, " ") + "> is not found"}
	}
	return found, missing, nil
}
func (e *engine) Subscribe(job queue.JobID) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wakes[job] = append(e.wakes[job], c)
	return c, func() {}
}
func (e *engine) History(context.Context, queue.Selection, queue.Identity) ([]api.HistoryJob, []string, error) {
	return []api.HistoryJob{{Job: e.book.Jobs[1], Events: []queue.Event{{Seq: 1, At: time.Unix(5, 0), Job: 1, Body: &queue.Switched{Queue: "long"}}}}}, nil, nil
}
func (e *engine) Describe() api.Cluster {
	return api.Cluster{Name: "test", DefaultQueue: "normal", Queues: []api.QueueInfo{{Name: "normal", Priority: 30}, {Name: "gpu", Users: []string{"alice"}}}}
}
func (e *engine) NodeJoined(_ context.Context, h queue.Hello) error {
	e.calls <- "joined " + string(h.Node.ID)
	return nil
}
func (e *engine) NodeGone(_ context.Context, id nodes.ID, why string) error {
	e.calls <- "gone " + string(id) + ": " + why
	return nil
}
func (e *engine) NodeReport(_ context.Context, _ nodes.ID, r queue.Report) error {
	if err := e.durable(r); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reports = append(e.reports, r)
	return nil
}
func (e *engine) Attended(id queue.ElementID, attempt int, terminal bool) (used, left func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := fmt.Sprintf("%s#%d", id, attempt)
	if terminal {
		key += " terminal"
	}
	e.attended[key]++
	return func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.attended[key+" used"]++
		}, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.attended[key]--
		}
}
func (e *engine) NodeHeartbeat(id nodes.ID, _ queue.Heartbeat) { e.calls <- "heartbeat " + string(id) }
