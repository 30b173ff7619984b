package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"fairslice/nodes"
	"fairslice/nodes/agent"
	"fairslice/queue"
)

// fixedJobs are jobs that run for ever.
type fixedJobs []agent.RunningJob

func (f fixedJobs) Running() []agent.RunningJob { return f }

func TestMetricsPageIsGolden(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(&metrics{"node1", fixedJobs{
		{ID: queue.ElementID{Job: 12, Index: 3}, User: "alice", Queue: "gpu", MemoryLimit: 4 << 30,
			Usage:  queue.Usage{CPU: 90 * time.Second, Memory: 1 << 30},
			Slices: []nodes.Slice{{UUID: "GPU-1", Index: 0, Amount: 50, Memory: 2 << 30, SMShare: 2500, Mode: nodes.ModeCount}}},
		{ID: queue.ElementID{Job: 13}, User: "bob", Queue: "normal"},
	}})
	page, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := testutil.GatherAndCompare(r, strings.NewReader(string(page))); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
