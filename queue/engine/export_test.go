package engine

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"fairslice/backfill"
	"fairslice/nodes"
	"fairslice/queue"
)

// CheckHoldings counts the book again and says where what the writer has kept differs.
func (e *Engine) CheckHoldings() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if want := newQueueSlots(e.book); !reflect.DeepEqual(e.slots, want) {
		return fmt.Errorf("in queues the writer has kept %v slots, and the book has %v", e.slots, want)
	}
	counted := newHoldings(e, e.held.policy, time.Now())
	for scope := range e.held.counts {
		if counted.counts[scope] == nil {
			counted.counts[scope] = &amounts{}
		}
	}
	for scope, want := range counted.counts {
		got := amounts{}
		if kept := e.held.counts[scope]; kept != nil {
			got = *kept
		}
		w := *want
		got.recent, w.recent = nil, nil
		if !reflect.DeepEqual(got, w) {
			return fmt.Errorf("under limit %s the writer has kept %+v, and the book has %+v", scope, got, w)
		}
	}
	return nil
}

// TryStart commits a start as if a plan had found it, of one slot on a node.
func (e *Engine) TryStart(id queue.ElementID, node nodes.ID) (started bool) {
	_ = e.write(context.Background(), func(t *tx) error {
		j, _ := e.book.Find(id)
		started = t.start(backfill.Start{ID: id, Shape: &j.Plan, Alloc: []nodes.Allocation{{Node: node, Slots: 1}}})
		return nil
	})
	return started
}

// ResumeAndStart is bresume and TryStart in one transaction: no plan comes between.
func (e *Engine) ResumeAndStart(id queue.ElementID, node nodes.ID) (started bool) {
	_ = e.write(context.Background(), func(t *tx) error {
		j, _ := e.book.Find(id)
		if err := t.emit(j.ID, id.Index, j.Owner.User, &queue.Resumed{}); err != nil {
			return err
		}
		started = t.start(backfill.Start{ID: id, Shape: &j.Plan, Alloc: []nodes.Allocation{{Node: node, Slots: 1}}})
		return nil
	})
	return started
}
