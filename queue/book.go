package queue

import (
	"fmt"
	"slices"
	"time"

	"fairslice/images"
	"fairslice/nodes"
)

// Book is every job that is not yet forgotten, every node and every queue state, in memory. One
// goroutine changes it, by Apply; it is the fold of the events.
type Book struct {
	Jobs  map[JobID]*Job
	Nodes map[nodes.ID]*nodes.Node
	// Queues holds what administrators changed; a queue without an entry is open and active.
	Queues map[string]QueueState
	// Reservations by ID. Those in it are never changed.
	Reservations map[string]*Reservation
	Policy       PolicyState
	Images       *images.Catalogue

	LastSeq int64 // of the last event applied
	LastJob JobID // the highest number ever given

	order  []JobID // submission order; forgotten ids are skipped, and dropped now and then
	tokens map[string]JobID
	held   map[nodes.ID]map[ElementID]struct{} // live attempts of each node
	dirty  Dirty
}

// QueueState is what administrators set of a queue at run time.
type QueueState struct {
	Closed bool   `json:"closed"`
	Inact  bool   `json:"inactive"`
	Reason string `json:"reason,omitempty"`
}

// Dirty names the rows that events have changed since the last TakeDirty.
type Dirty struct {
	Jobs      map[JobID]struct{}
	Elements  map[ElementID]struct{}
	Nodes     map[nodes.ID]struct{}
	Queues    map[string]struct{}
	Forgotten []JobID

	Policy bool

	Reservations map[string]struct{} // added, or deleted when the book has it no more

	Images  map[images.ID]struct{}             // likewise
	Commits map[images.CommitID]*images.Commit // as they are now: one that is over may be forgotten already
}

// NewBook is an empty book.
func NewBook() *Book {
	return &Book{
		Jobs: map[JobID]*Job{}, Nodes: map[nodes.ID]*nodes.Node{}, Queues: map[string]QueueState{},
		Reservations: map[string]*Reservation{}, Images: images.NewCatalogue(),
		tokens: map[string]JobID{}, held: map[nodes.ID]map[ElementID]struct{}{}, dirty: newDirty(),
	}
}

func newDirty() Dirty {
	return Dirty{Jobs: map[JobID]struct{}{}, Elements: map[ElementID]struct{}{},
		Nodes: map[nodes.ID]struct{}{}, Queues: map[string]struct{}{}, Reservations: map[string]struct{}{},
		Images: map[images.ID]struct{}{}, Commits: map[images.CommitID]*images.Commit{}}
}

// TakeDirty returns what changed since the last call.
func (b *Book) TakeDirty() Dirty {
	d := b.dirty
	b.dirty = newDirty()
	return d
}

// Restore fills an empty book from stored rows. It recomputes everything that is derived, what the
// nodes have in use included, and so detects rows that contradict each other.
func (b *Book) Restore(jobs []*Job, ns []*nodes.Node, queues map[string]QueueState, lastSeq int64, lastJob JobID) error {
	for _, n := range ns {
		e := n.Empty()
		b.Nodes[n.ID] = e
	}
	for name, q := range queues {
		b.Queues[name] = q
	}
	slices.SortFunc(jobs, func(x, y *Job) int { return int(x.ID - y.ID) })
	for _, j := range jobs {
		if err := b.add(j); err != nil {
			return err
		}
		for i := range j.Elements {
			e := &j.Elements[i]
			switch {
			case e.State.Final():
				j.ended++
			case e.State.Live():
				if e.Attempt == nil {
					return fmt.Errorf("job %s is %s without an attempt", ElementID{j.ID, e.Index}, e.State)
				}
				if err := b.hold(j, e); err != nil {
					return fmt.Errorf("job %s: %w", ElementID{j.ID, e.Index}, err)
				}
			}
		}
	}
	b.LastSeq, b.LastJob = lastSeq, max(lastJob, b.LastJob)
	return nil
}

// RestoreReservations adds the stored reservations to a book that Restore fills.
func (b *Book) RestoreReservations(list []*Reservation) error {
	for _, r := range list {
		if err := r.valid(); err != nil {
			return err
		}
		b.Reservations[r.ID] = r
	}
	return nil
}

// RestorePolicy adds the stored policy to a book that Restore fills.
func (b *Book) RestorePolicy(p PolicyState) { b.Policy = p }

func (b *Book) add(j *Job) error {
	if j.Spec.Depend != "" {
		c, err := ParseCondition(j.Spec.Depend)
		if err != nil {
			return fmt.Errorf("job %d: %w", j.ID, err)
		}
		j.depend = c
	}
	b.Jobs[j.ID] = j
	b.order = append(b.order, j.ID)
	b.LastJob = max(b.LastJob, j.ID)
	if j.Token != "" {
		b.tokens[tokenKey(j.Owner.User, j.Token)] = j.ID
	}
	return nil
}

func tokenKey(user, token string) string { return user + "\x00" + token }

// ByToken finds the job that a user submitted with a token.
func (b *Book) ByToken(user, token string) (JobID, bool) {
	id, ok := b.tokens[tokenKey(user, token)]
	return id, ok
}

// Each calls fn for every job in submission order, until it returns false.
func (b *Book) Each(fn func(*Job) bool) {
	for _, id := range b.order {
		if j := b.Jobs[id]; j != nil && !fn(j) {
			return
		}
	}
}

// From is Each for the jobs with a number above after: for reading in pages.
func (b *Book) From(after JobID, fn func(*Job) bool) {
	i, _ := slices.BinarySearch(b.order, after+1)
	for _, id := range b.order[i:] {
		if j := b.Jobs[id]; j != nil && !fn(j) {
			return
		}
	}
}

// On returns the live elements that hold something of a node, in a stable order.
func (b *Book) On(node nodes.ID) []ElementID {
	out := make([]ElementID, 0, len(b.held[node]))
	for id := range b.held[node] {
		out = append(out, id)
	}
	slices.SortFunc(out, func(x, y ElementID) int {
		if x.Job != y.Job {
			return int(x.Job - y.Job)
		}
		return x.Index - y.Index
	})
	return out
}

// Find returns a job and one of its elements, or nils.
func (b *Book) Find(id ElementID) (*Job, *Element) {
	j := b.Jobs[id.Job]
	if j == nil {
		return nil, nil
	}
	return j, j.Element(id.Index)
}

// Observe notes what a live attempt has consumed. It is no event: after a restart the node tells again.
func (b *Book) Observe(id ElementID, attempt int, u Usage) {
	if _, e := b.Find(id); e != nil && e.Attempt != nil && e.State.Live() && e.Attempt.Number == attempt {
		e.Attempt.Usage = u
	}
}

// Live counts the elements of j that have an attempt, Ended those in a final state.
func (j *Job) Live() int { return j.live }

// Ended counts the elements in a final state.
func (j *Job) Ended() int { return j.ended }

// Finished says that every element is in a final state.
func (j *Job) Finished() bool { return j.ended == len(j.Elements) }

// Condition is the job's dependency, nil without one.
func (j *Job) Condition() Condition { return j.depend }

// newElements makes a job's elements in their first state.
func newElements(s *Spec, at time.Time) []Element {
	state := Pend
	if s.Hold {
		state = PSusp
	}
	if s.Array == nil {
		return []Element{{State: state, Since: at}}
	}
	indices := s.Array.Indices()
	out := make([]Element, len(indices))
	for i, index := range indices {
		out[i] = Element{Index: index, State: state, Since: at}
	}
	return out
}

// InitialElements are a job's elements as they were right after submission: what rows need not store.
func InitialElements(s *Spec, submitted time.Time) []Element { return newElements(s, submitted) }

// hold takes an attempt's allocation on its nodes.
func (b *Book) hold(j *Job, e *Element) error {
	id := ElementID{j.ID, e.Index}
	for i, a := range e.Attempt.Alloc {
		n := b.Nodes[a.Node]
		err := fmt.Errorf("node %s is not known", a.Node)
		if n != nil {
			err = n.Take(a)
		}
		if err != nil {
			for _, back := range e.Attempt.Alloc[:i] {
				b.Nodes[back.Node].Release(back)
			}
			return err
		}
	}
	for _, a := range e.Attempt.Alloc {
		if b.held[a.Node] == nil {
			b.held[a.Node] = map[ElementID]struct{}{}
		}
		b.held[a.Node][id] = struct{}{}
		b.dirty.Nodes[a.Node] = struct{}{}
	}
	j.live++
	return nil
}

// release gives an attempt's allocation back.
func (b *Book) release(j *Job, e *Element) {
	for _, a := range e.Attempt.Alloc {
		b.Nodes[a.Node].Release(a)
		delete(b.held[a.Node], ElementID{j.ID, e.Index})
		b.dirty.Nodes[a.Node] = struct{}{}
	}
	j.live--
}

func (b *Book) forget(id JobID) {
	if j := b.Jobs[id]; j != nil && j.Token != "" {
		delete(b.tokens, tokenKey(j.Owner.User, j.Token))
	}
	delete(b.Jobs, id)
	b.dirty.Forgotten = append(b.dirty.Forgotten, id)
	if len(b.order) > 2*len(b.Jobs)+1024 {
		b.order = slices.DeleteFunc(b.order, func(id JobID) bool { return b.Jobs[id] == nil })
	}
}
