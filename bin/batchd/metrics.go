package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fairslice/backfill"
	"fairslice/nodes"
	"fairslice/queue"
)

// viewer lets the metrics look at the book.
type viewer interface {
	View(func(queue.View))
	Fragments() backfill.Fragments
}

// metrics counts what the engine tells (it is its Observer) and looks at the book when it is asked.
// Labels are bounded by the configuration: queues, states, results. No job is ever a label here.
type metrics struct {
	book     viewer
	registry *prometheus.Registry

	cycle     prometheus.Histogram
	bounded   prometheus.Counter
	batch     prometheus.Histogram
	commit    prometheus.Histogram
	refused   prometheus.Counter
	submitted *prometheus.CounterVec
	starts    *prometheus.CounterVec
	ended     *prometheus.CounterVec
	wait      *prometheus.HistogramVec
	predicted prometheus.Histogram
}

var (
	jobsDesc  = prometheus.NewDesc("fairslice_jobs", "Job elements by state and queue.", []string{"queue", "state"}, nil)
	nodesDesc = prometheus.NewDesc("fairslice_nodes", "Nodes by state.", []string{"state"}, nil)
	slotsDesc = prometheus.NewDesc("fairslice_slots", "Job slots of nodes that are up.", []string{"use"}, nil)
	memDesc   = prometheus.NewDesc("fairslice_memory_bytes", "Memory of nodes that are up, as promised to jobs.", []string{"use"}, nil)
	fgpuDesc  = prometheus.NewDesc("fairslice_fgpu", "fGPU of nodes that are up.", []string{"use"}, nil)
	lostDesc  = prometheus.NewDesc("fairslice_fgpu_fragmented", "Free fGPU that is lost to fragmentation: the mean over the requests that wait of what cannot serve them, though in sum it could.", nil, nil)
)

func newMetrics(book viewer, spent figures) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	fast := prometheus.ExponentialBuckets(0.0005, 2, 14) // 0.5 ms to 4 s
	m := &metrics{
		book: book, registry: prometheus.NewRegistry(),
		cycle:     histogram("fairslice_cycle_duration_seconds", "Time to make one scheduling plan.", fast),
		bounded:   counter("fairslice_cycles_bounded_total", "Scheduling cycles that ended at their bound."),
		batch:     histogram("fairslice_commit_batch_events", "Events in one transaction.", prometheus.ExponentialBuckets(1, 4, 7)),
		commit:    histogram("fairslice_commit_duration_seconds", "Time to apply and commit one batch.", fast),
		refused:   counter("fairslice_starts_refused_total", "Planned starts that were no longer possible when they were committed."),
		submitted: counters("fairslice_jobs_submitted_total", "Jobs submitted; an array is one job.", "queue"),
		starts:    counters("fairslice_starts_total", "Attempts started.", "queue"),
		ended:     counters("fairslice_ended_total", "Job elements ended.", "queue", "result"),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "fairslice_wait_seconds",
			Help: "Time from submission to start.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 11)}, []string{"queue"}),
		predicted: histogram("fairslice_start_prediction_error_seconds",
			"Actual start minus the start first expected; negative where it came earlier.",
			[]float64{-86400, -21600, -3600, -900, -60, -5, 5, 60, 900, 3600, 21600, 86400}),
	}
	m.registry.MustRegister(m, m.cycle, m.bounded, m.batch, m.commit, m.refused, m.submitted, m.starts, m.ended, m.wait, m.predicted, newSpending(spent))
	return m
}

// handler serves the page, with the process's own figures.
func (m *metrics) handler() http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(prometheus.Gatherers{m.registry, own}, promhttp.HandlerOpts{}))
	return mux
}

// Batch and the following methods make metrics the engine's Observer.
func (m *metrics) Batch(events int, took time.Duration) {
	if events > 0 {
		m.batch.Observe(float64(events))
		m.commit.Observe(took.Seconds())
	}
}

// Cycle notes one plan.
func (m *metrics) Cycle(took time.Duration, _, _ int, bounded bool) {
	m.cycle.Observe(took.Seconds())
	if bounded {
		m.bounded.Inc()
	}
}

// RefusedStart notes a start that a stale plan asked for.
func (m *metrics) RefusedStart() { m.refused.Inc() }

// Submitted notes a job.
func (m *metrics) Submitted(q string) { m.submitted.WithLabelValues(q).Inc() }

// Started notes an attempt and how long its element had waited.
func (m *metrics) Started(q string, waited time.Duration) {
	m.starts.WithLabelValues(q).Inc()
	m.wait.WithLabelValues(q).Observe(waited.Seconds())
}

// Predicted notes how far a first expected start was off.
func (m *metrics) Predicted(late time.Duration) { m.predicted.Observe(late.Seconds()) }

// Ended notes the end of an element.
func (m *metrics) Ended(q string, done bool) {
	result := "exit"
	if done {
		result = "done"
	}
	m.ended.WithLabelValues(q, result).Inc()
}

// Describe is empty on purpose: the book's metrics are whatever it holds (an unchecked collector would
// need it; the registry accepts a collector with at least one description).
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{jobsDesc, nodesDesc, slotsDesc, memDesc, fgpuDesc, lostDesc} {
		ch <- d
	}
}

// Collect reads the book once.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	type key struct {
		queue string
		state queue.State
	}
	jobs := map[key]int{}
	states := map[nodes.State]int{nodes.Up: 0, nodes.Drained: 0, nodes.Down: 0}
	var slots, usedSlots int
	var memory, usedMemory int64
	var fgpu, usedFGPU nodes.Amount
	m.book.View(func(v queue.View) {
		v.Book().Each(func(j *queue.Job) bool {
			for i := range j.Elements {
				jobs[key{j.Queue, j.Elements[i].State}]++
			}
			return true
		})
		for _, n := range v.Book().Nodes {
			states[n.State()]++
			if n.State() != nodes.Up {
				continue
			}
			slots, usedSlots = slots+n.Slots, usedSlots+n.UsedSlots
			memory, usedMemory = memory+n.Memory, usedMemory+n.UsedMemory
			for _, g := range n.GPUs {
				fgpu, usedFGPU = fgpu+g.Capacity, usedFGPU+g.Used
			}
		}
	})
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for k, n := range jobs {
		gauge(jobsDesc, float64(n), k.queue, string(k.state))
	}
	for s, n := range states {
		gauge(nodesDesc, float64(n), string(s))
	}
	for use, v := range map[string][3]float64{
		"total": {float64(slots), float64(memory), float64(fgpu) / float64(nodes.OneFGPU)},
		"used":  {float64(usedSlots), float64(usedMemory), float64(usedFGPU) / float64(nodes.OneFGPU)},
	} {
		gauge(slotsDesc, v[0], use)
		gauge(memDesc, v[1], use)
		gauge(fgpuDesc, v[2], use)
	}
	gauge(lostDesc, float64(m.book.Fragments().Lost)/float64(nodes.OneFGPU))
}
