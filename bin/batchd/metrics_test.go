package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"fairslice/backfill"
	"fairslice/nodes"
	"fairslice/queue"
)

// fixedBook is a viewer of a book that does not change.
type fixedBook struct{ book *queue.Book }

func (f fixedBook) View(fn func(queue.View)) { fn(fixedView{book: f.book}) }

func (fixedBook) Fragments() backfill.Fragments {
	return backfill.Fragments{Capacity: 400, Free: 350, Lost: 125}
}

type fixedView struct {
	queue.View // only Book is asked for
	book       *queue.Book
}

func (f fixedView) Book() *queue.Book { return f.book }

func exampleBook(t *testing.T) *queue.Book {
	t.Helper()
	at := time.Date(2026, 3, 18, 2, 6, 32, 0, time.UTC)
	b := queue.NewBook()
	apply := func(job queue.JobID, index int, body queue.Body) {
		if err := b.Apply(queue.Event{Seq: b.LastSeq + 1, At: at, Job: job, Index: index, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []nodes.ID{"node1", "node2"} {
		apply(0, 0, &queue.NodeJoined{Node: nodes.Node{ID: id, Slots: 4, Memory: 8 << 30, GPUs: []nodes.GPU{
			{UUID: "GPU-" + string(id), Memory: 8 << 30, Capacity: 200, Mode: nodes.ModeCount}}}})
	}
	apply(0, 0, &queue.NodeLost{Node: "node2"})
	spec := &queue.Spec{Command: "true", Array: &queue.Array{Ranges: []queue.Range{{First: 1, Last: 3, Step: 1}}}}
	apply(1, 0, &queue.Submitted{Spec: spec, Queue: "normal", Plan: queue.Shape{Slots: 1}})
	apply(1, 1, &queue.Started{Attempt: 1, Alloc: []nodes.Allocation{{Node: "node1", Slots: 1, Memory: 1 << 30,
		Slices: []nodes.Slice{{UUID: "GPU-node1", Amount: 50, Memory: 2 << 30, SMShare: 2500, Mode: nodes.ModeCount}}}}})
	return b
}

func TestMetricsPageIsGolden(t *testing.T) {
	m := newMetrics(fixedBook{book: exampleBook(t)}, exampleFigures())
	m.Submitted("normal")
	m.Started("normal", 1500*time.Millisecond)
	m.Ended("normal", true)
	m.Ended("normal", false)
	m.Cycle(3*time.Millisecond, 3, 1, true)
	m.Batch(4, 2*time.Millisecond)
	m.RefusedStart()
	compareGolden(t, m.registry, "testdata/metrics.txt")
}

// compareGolden compares a whole page; UPDATE=1 writes it.
func compareGolden(t *testing.T, g prometheus.Gatherer, file string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		writeGolden(t, g, file)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := testutil.GatherAndCompare(g, f); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "fairslice_budget_") { // in hours, as bbudget and the policy have them
			continue
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
