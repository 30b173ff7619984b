package agent

import (
	"os"
	"strconv"
	"strings"
	"time"

	"fairslice/nodes/cgroup"
	"fairslice/queue"
)

// sampleEvery is how often a job's consumption is read. In cgroups the kernel keeps CPU and peak
// memory itself; the samples give the mean, processes and threads, and the memory watch where there is no cgroup.
const sampleEvery = 2 * time.Second

// watchEvery is how often it is read where nothing but that holds a job to its memory limit.
const watchEvery = 250 * time.Millisecond

func (t *attempt) sampleInterval() time.Duration {
	if t.a.cgroups.Mode() == cgroup.None && t.snapshot().MemoryLimit > 0 {
		return watchEvery
	}
	return sampleEvery
}

// meter sums up samples.
type meter struct {
	last    queue.Usage
	samples int64
	sum     int64 // bytes
}

// sample reads consumption. It ends a job that exceeds its memory where no cgroup holds it, and the
// rest of one of which the kernel has killed a process for it.
func (t *attempt) sample(k *killer) {
	if t.group == nil {
		return
	}
	u, err := t.group.Usage()
	if err != nil {
		return
	}
	t.mu.Lock()
	t.usage.add(u, t.group, t.rec.Pid)
	limit := t.rec.MemoryLimit
	over := t.rec.Killing == "" && (u.OOMKills > 0 ||
		t.a.cgroups.Mode() == cgroup.None && limit > 0 && u.Memory > limit)
	t.mu.Unlock()
	if over {
		t.mustUpdate(func(r *record) { r.Killing = queue.TermMemLimit })
		k.begin(true)
	}
}

func (m *meter) add(u cgroup.Usage, g *cgroup.Group, pid int) {
	m.samples++
	m.sum += u.Memory
	l := &m.last
	l.CPU, l.Memory, l.MaxMemory = max(l.CPU, u.CPU), u.Memory, max(l.MaxMemory, u.MemoryMax, u.Memory)
	l.AvgMemory = m.sum / m.samples
	l.Processes, l.MaxProcs = u.Processes, max(l.MaxProcs, u.Processes)
	pids, err := g.Pids()
	if err != nil {
		return
	}
	l.PGID, l.Pids, l.Threads = pid, pids[:min(len(pids), 64)], 0
	for _, p := range l.Pids {
		l.Threads += threadsOf(p)
	}
	l.MaxThrds = max(l.MaxThrds, l.Threads)
}

func threadsOf(pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, ok := strings.Cut(string(text), "\nThreads:")
	if !ok {
		return 0
	}
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSpace(line))
	return n
}

// usageNow is what heartbeats carry; false until something was measured.
func (t *attempt) usageNow() (queue.Usage, bool) {
	var gpus []queue.GPUUsage
	if t.a.watchdog != nil { // before t.mu: the watchdog takes that after its own
		gpus = t.a.watchdog.use(t.key)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.usage.last
	u.GPUs = gpus
	return u, (t.usage.samples > 0 || gpus != nil) && t.rec.Stage == running
}

// finalUsage joins what the kernel counted for the group, the samples and the wait status.
func (t *attempt) finalUsage(x exit) (u queue.Usage, oom int) {
	t.mu.Lock()
	u = t.usage.last
	t.mu.Unlock()
	u.Pids, u.Processes, u.Threads, u.Memory = nil, 0, 0, 0
	if !x.lost {
		u.UserCPU, u.SysCPU = x.status.Utime, x.status.Stime
		u.CPU = max(u.CPU, x.status.Utime+x.status.Stime)
	}
	if t.group != nil {
		if g, err := t.group.Total(); err == nil {
			u.CPU, u.MaxMemory, oom = max(u.CPU, g.CPU), max(u.MaxMemory, g.MemoryMax), g.OOMKills
		}
	}
	if t.a.watchdog != nil {
		u.GPUs = t.a.watchdog.leave(t.key)
	}
	if u.MaxMemory == 0 {
		u.MaxMemory = x.status.MaxRSS
	}
	if u.AvgMemory == 0 {
		u.AvgMemory = u.MaxMemory // over before the first sample
	}
	u.MaxProcs, u.MaxThrds = max(u.MaxProcs, 1), max(u.MaxThrds, 1)
	return u, oom
}
