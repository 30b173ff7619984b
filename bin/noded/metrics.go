package main

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fairslice/nodes/agent"
)

// metrics shows the slices and jobs of this node. Labels are bounded by what runs here now.
type metrics struct {
	node string
	jobs interface{ Running() []agent.RunningJob }
}

var (
	sliceLabels = []string{"node", "gpu", "uuid", "mode", "job", "user", "queue"}
	jobLabels   = []string{"node", "job", "user", "queue"}

	sliceFGPU   = prometheus.NewDesc("fairslice_slice_fgpu", "fGPU of a slice.", sliceLabels, nil)
	sliceMemory = prometheus.NewDesc("fairslice_slice_memory_limit_bytes", "GPU memory that a slice may use; in mode count nothing holds it.", sliceLabels, nil)
	sliceShare  = prometheus.NewDesc("fairslice_slice_sm_share_ratio", "Share of the GPU's multiprocessors; in mode count nothing holds it.", sliceLabels, nil)
	jobCPU      = prometheus.NewDesc("fairslice_job_cpu_seconds_total", "CPU time of a job's processes on this node.", jobLabels, nil)
	jobMemory   = prometheus.NewDesc("fairslice_job_memory_bytes", "Memory of a job on this node.", jobLabels, nil)
	jobLimit    = prometheus.NewDesc("fairslice_job_memory_limit_bytes", "Memory at which a job is ended.", jobLabels, nil)
	jobCount    = prometheus.NewDesc("fairslice_node_jobs", "Jobs that run on this node.", []string{"node"}, nil)
)

func newMetrics(node string, a *agent.Agent) *metrics { return &metrics{node, a} }

func (m *metrics) handler() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	return mux
}

// Describe lists what Collect may give.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sliceFGPU, sliceMemory, sliceShare, jobCPU, jobMemory, jobLimit, jobCount} {
		ch <- d
	}
}

// Collect reads what runs now.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	jobs := m.jobs.Running()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(jobCount, float64(len(jobs)), m.node)
	for _, j := range jobs {
		labels := []string{m.node, j.ID.String(), j.User, j.Queue}
		ch <- prometheus.MustNewConstMetric(jobCPU, prometheus.CounterValue, j.Usage.CPU.Seconds(), labels...)
		gauge(jobMemory, float64(j.Usage.Memory), labels...)
		if j.MemoryLimit > 0 {
			gauge(jobLimit, float64(j.MemoryLimit), labels...)
		}
		for _, s := range j.Slices {
			l := []string{m.node, strconv.Itoa(s.Index), s.UUID, string(s.Mode), j.ID.String(), j.User, j.Queue}
			gauge(sliceFGPU, float64(s.Amount)/100, l...)
			gauge(sliceMemory, float64(s.Memory), l...)
			gauge(sliceShare, float64(s.SMShare)/10_000, l...)
		}
	}
}
