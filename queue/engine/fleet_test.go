package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"fairslice/nodes"
	"fairslice/queue"
)

// fleet is a set of node daemons: each keeps its attempts, obeys orders, and is told nothing while it is away.
type fleet struct {
	mu    sync.Mutex
	nodes map[nodes.ID]*daemon
}

type daemon struct {
	hello     queue.Hello
	connected bool
	attempts  map[string]*attempt
}

// attempt is one run on a node: accepted, running, stopped or ended.
type attempt struct {
	id      queue.ElementID
	number  int
	state   string
	verdict queue.Verdict
}

func (f *fleet) Assign(node nodes.ID, a queue.Assignment) error {
	return f.tell(node, a.ID, a.Attempt, func(d *daemon, key string, p *attempt) {
		if p == nil {
			d.attempts[key] = &attempt{id: a.ID, number: a.Attempt, state: "accepted"}
		}
	})
}

func (f *fleet) Order(node nodes.ID, o queue.Order) error {
	return f.tell(node, o.ID, o.Attempt, func(d *daemon, key string, p *attempt) {
		if p == nil || p.state == "ended" && o.Op != queue.OrderForget {
			return
		}
		switch o.Op {
		case queue.OrderForget:
			delete(d.attempts, key)
		case queue.OrderKill:
			p.state, p.verdict = "ended", o.Verdict
		case queue.OrderStop:
			p.state = "stopped"
		case queue.OrderResume:
			p.state = "running"
		}
	})
}

func (f *fleet) tell(node nodes.ID, id queue.ElementID, number int, do func(*daemon, string, *attempt)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.nodes[node]
	if !d.connected {
		return errors.New("not connected")
	}
	key := id.AttemptKey(number)
	do(d, key, d.attempts[key])
	return nil
}

func (f *fleet) connected(node nodes.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[node].connected
}

// cut takes the connection of a node away.
func (f *fleet) cut(node nodes.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[node].connected = false
}

// forget lets a node forget an attempt.
func (f *fleet) forget(node nodes.ID, p *attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes[node].attempts, p.id.AttemptKey(p.number))
}

// connect is a node's first word, with what it has.
func (f *fleet) connect(node nodes.ID) queue.Hello {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.nodes[node]
	d.connected = true
	h := d.hello
	for _, key := range slices.Sorted(maps.Keys(d.attempts)) {
		p := d.attempts[key]
		h.Attempts = append(h.Attempts, queue.AttemptState{ID: p.id, Attempt: p.number, State: p.state})
	}
	return h
}

// list are the attempts of a node, in a stable order.
func (f *fleet) list(node nodes.ID) (out []*attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.nodes[node]
	for _, key := range slices.Sorted(maps.Keys(d.attempts)) {
		out = append(out, d.attempts[key])
	}
	return out
}

// mismatch says where connected nodes and the book, both at rest, do not agree on what runs.
func (f *fleet) mismatch(b *queue.Book) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, d := range f.nodes {
		if n := b.Nodes[id]; !d.connected || n == nil || !n.Alive {
			continue
		}
		for key, p := range d.attempts {
			_, el := b.Find(p.id)
			if p.state != "ended" && (el == nil || !el.State.Live() || el.Attempt.Number != p.number) {
				return fmt.Errorf("node %s runs %s, and the book has it as %+v", id, key, el)
			}
		}
		for _, held := range b.On(id) {
			_, el := b.Find(held)
			p := d.attempts[held.AttemptKey(el.Attempt.Number)]
			if el.Attempt.Alloc[0].Node == id && p == nil {
				return fmt.Errorf("the book has %s on node %s, and the node does not know it", held, id)
			}
			if p != nil && p.state != "ended" && (p.state == "stopped") != (el.State == queue.USusp) && el.State != queue.Unkwn {
				return fmt.Errorf("the book has %s as %s, and its node as %s", held, el.State, p.state)
			}
		}
	}
	return nil
}
