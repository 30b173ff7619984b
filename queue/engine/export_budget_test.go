package engine

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/nodes"
	"fairslice/queue"
)

// CheckBudgets sums up the ledger again and says where what the writer has kept differs.
func (e *Engine) CheckBudgets(l Ledger) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var cuts []time.Time
	for _, ms := range e.budgets.spent.Cuts() {
		cuts = append(cuts, time.UnixMilli(ms))
	}
	want, _, err := l.Spending(context.Background(), cuts)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(e.budgets.spent, want) {
		return fmt.Errorf("the writer has kept that was spent\n%v, and the ledger has\n%v", e.budgets.spent, want)
	}
	if n := len(e.budgets.recent); e.budgets.readers == 0 && n > 0 {
		return fmt.Errorf("%d charges are kept for nobody", n)
	}
	return nil
}

// TryStarts activates the queue normal and commits starts of elements as if plans had found them, in one transaction, and says which
// have started: no plan comes between.
func (e *Engine) TryStarts(ids []queue.ElementID, node nodes.ID) (started []bool) {
	_ = e.write(context.Background(), func(t *tx) error {
		if err := t.emit(0, 0, "root", &queue.QueueSet{Queue: "normal"}); err != nil {
			return err
		}
		for _, id := range ids {
			j, _ := e.book.Find(id)
			need := j.Plan.Host
			need.Slots = j.Plan.Slots
			a, misfit := e.book.Nodes[node].Carve(need)
			started = append(started, misfit == nil && t.start(backfill.Start{ID: id, Shape: &j.Plan, Alloc: []nodes.Allocation{a}}))
		}
		return nil
	})
	return started
}

// Priority is the number by which the planner has a job.
func (e *Engine) Priority(id queue.JobID) (queue.Priority, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.sched.priority(e.book.Jobs[id])
}

// States are the budgets as of now.
func (e *Engine) States() *accounting.Budgets {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.budgetsAt(e.cfg().Now())
}
