package main

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fairslice/nodes"
	"fairslice/nodes/agent"
)

// source tells what runs on this node, and how its slices are; agent.Agent does.
type source interface {
	Running() []agent.RunningJob
	Fence() agent.FenceState
}

// metrics shows the slices and jobs of this node. Labels are bounded by what runs here now. Whose a slice is, is said
// once, by fgpu_slice_info; queries join it: fgpu_slice_memory_used_bytes * on (session, gpu_uuid) group_left (user) fgpu_slice_info.
type metrics struct {
	node string
	jobs source
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	jobCPU    = desc("fairslice_job_cpu_seconds_total", "CPU time of a job's processes on this node.", "node", "job", "user", "queue")
	jobMemory = desc("fairslice_job_memory_bytes", "Memory of a job on this node.", "node", "job", "user", "queue")
	jobLimit  = desc("fairslice_job_memory_limit_bytes", "Memory at which a job is ended.", "node", "job", "user", "queue")
	jobCount  = desc("fairslice_node_jobs", "Jobs that run on this node.", "node")

	sliceInfo = desc("fgpu_slice_info", "A slice of a GPU that a job has; always 1. share is of the GPU's multiprocessors.",
		"session", "job", "user", "project", "node", "gpu_uuid", "gpu_index", "model", "mode", "share")
	sliceLimit     = desc("fgpu_slice_memory_limit_bytes", "GPU memory that the slice may hold, contexts included.", "session", "gpu_uuid")
	sliceUsed      = desc("fgpu_slice_memory_used_bytes", "GPU memory that the job holds, by the driver.", "session", "gpu_uuid")
	sliceUntracked = desc("fgpu_slice_memory_untracked_bytes", "Of the memory used, what the job's own accounting does not know.", "session", "gpu_uuid")
	sliceShare     = desc("fgpu_slice_sm_limit_ratio", "Part of the GPU's multiprocessor time that the slice may use.", "session", "gpu_uuid")
	sliceUtil      = desc("fgpu_slice_sm_utilization_ratio", "Part of the GPU's multiprocessor time that the job used lately: of the GPU, not of the slice.", "session", "gpu_uuid")
	sliceThrottled = desc("fgpu_slice_throttled_seconds_total", "Time that launches of the job waited for its share.", "session", "gpu_uuid")
	sliceDenied    = desc("fgpu_slice_alloc_denied_total", "Allocations refused because of the memory limit.", "session", "gpu_uuid")
	sliceLaunches  = desc("fgpu_slice_launches_total", "Kernels launched; a graph counts its kernel nodes.", "session", "gpu_uuid")
	sliceProcesses = desc("fgpu_slice_processes", "Processes of the job that hold memory of the GPU.", "session", "gpu_uuid")
	sliceEnforced  = desc("fgpu_slice_enforced", "1 where the fence was proven inside the job; 0 where it was not: nothing but the watchdog holds the job to its slice.", "session", "gpu_uuid", "mode")

	gpuShares     = desc("fgpu_gpu_shares_total", "What a GPU can give to slices, 1 being a whole physical GPU; 0 where it is lost or cannot be fenced.", "node", "gpu_uuid")
	gpuAllocated  = desc("fgpu_gpu_shares_allocated", "What of a GPU slices hold, 1 being a whole physical GPU.", "node", "gpu_uuid")
	gpuFragmented = desc("fgpu_gpu_shares_fragmented", "What is free of a GPU that slices hold a part of, 1 being a whole physical GPU: of no use to a request for whole GPUs.", "node", "gpu_uuid")
	gpuUnknown    = desc("fgpu_gpu_unknown_processes", "Processes on a GPU that belong to no job.", "node", "gpu_uuid")

	watchdogActions = desc("fgpu_watchdog_actions_total", "What the watchdog did, and why.", "action", "reason")
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
	for _, d := range []*prometheus.Desc{jobCPU, jobMemory, jobLimit, jobCount, sliceInfo, sliceLimit, sliceUsed, sliceUntracked, sliceShare,
		sliceUtil, sliceThrottled, sliceDenied, sliceLaunches, sliceProcesses, sliceEnforced, gpuShares, gpuAllocated, gpuFragmented,
		gpuUnknown, watchdogActions} {
		ch <- d
	}
}

// Collect reads what runs now.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	s := sink(ch)
	jobs := m.jobs.Running()
	s.gauge(jobCount, float64(len(jobs)), m.node)
	for _, j := range jobs {
		labels := []string{m.node, j.ID.String(), j.User, j.Queue}
		s.counter(jobCPU, j.Usage.CPU.Seconds(), labels...)
		s.gauge(jobMemory, float64(j.Usage.Memory), labels...)
		if j.MemoryLimit > 0 {
			s.gauge(jobLimit, float64(j.MemoryLimit), labels...)
		}
	}
	f := m.jobs.Fence()
	for i := range f.Slices {
		s.slice(m.node, &f.Slices[i])
	}
	for i := range f.GPUs {
		g := &f.GPUs[i]
		s.gauge(gpuShares, ratio(g.Share), m.node, g.UUID)
		s.gauge(gpuAllocated, ratio(g.Allocated), m.node, g.UUID)
		s.gauge(gpuFragmented, ratio(g.Fragmented()), m.node, g.UUID)
		s.gauge(gpuUnknown, float64(f.Unknown[g.UUID]), m.node, g.UUID)
	}
	for key, n := range f.Actions {
		s.counter(watchdogActions, float64(n), string(key.Kind), string(key.Reason))
	}
}

// sink is where Collect puts its metrics.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.put(d, prometheus.GaugeValue, v, labels)
}

func (s sink) counter(d *prometheus.Desc, v float64, labels ...string) {
	s.put(d, prometheus.CounterValue, v, labels)
}

// put takes labels of any bytes: users choose some of them, and the library panics at what is no UTF-8.
func (s sink) put(d *prometheus.Desc, t prometheus.ValueType, v float64, labels []string) {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "\ufffd")
	}
	s <- prometheus.MustNewConstMetric(d, t, v, labels...)
}

func (s sink) slice(node string, x *agent.SliceState) {
	id, uuid, mode := x.Session, x.Slice.UUID, string(x.Slice.Mode)
	s.gauge(sliceInfo, 1, id, x.Job.String(), x.User, x.Project, node, uuid, strconv.Itoa(x.Slice.Index), x.Model, mode,
		strconv.FormatFloat(ratio(x.Slice.SMShare), 'f', -1, 64))
	s.gauge(sliceLimit, float64(x.Limit), id, uuid)
	s.gauge(sliceUsed, float64(x.Used), id, uuid)
	s.gauge(sliceUntracked, float64(x.Untracked), id, uuid)
	s.gauge(sliceShare, ratio(x.Slice.SMShare), id, uuid)
	s.gauge(sliceUtil, ratio(x.Utilization), id, uuid)
	s.counter(sliceThrottled, x.Throttled.Seconds(), id, uuid)
	s.counter(sliceDenied, float64(x.Denied), id, uuid)
	s.counter(sliceLaunches, float64(x.Launches), id, uuid)
	s.gauge(sliceProcesses, float64(x.Processes), id, uuid)
	enforced := 0.0
	if x.Enforced && x.Slice.Mode != nodes.ModeCount { // to count is no fence, whatever a probe says
		enforced = 1
	}
	s.gauge(sliceEnforced, enforced, id, uuid, mode)
}

// ratio is a number of 1/100 percent.
func ratio(v int) float64 { return float64(v) / 10_000 }
