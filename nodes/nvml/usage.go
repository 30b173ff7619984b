package nvml

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Usage is how much of a GPU is in use now, by everyone.
type Usage struct {
	MemoryUsed int64 // bytes; without what the driver keeps for itself, where the driver tells these apart
	GPUUtil    int   // percent of the last sample period (1 s or less) in which a kernel ran; -1 unknown, as under MIG
	MemUtil    int   // percent of that period in which memory was read or written; -1 unknown
}

// Usage asks for the use of one GPU or MIG instance. The error is ErrLost where the GPU does not answer.
func (l *Library) Usage(uuid string) (Usage, error) {
	if err := l.enter(); err != nil {
		return Usage{}, err
	}
	defer l.mu.RUnlock()
	h, err := l.find(uuid)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{GPUUtil: -1, MemUtil: -1}
	ret := nvml.ERROR_NOT_SUPPORTED
	if l.has("nvmlDeviceGetMemoryInfo_v2") {
		var memory nvml.Memory_v2
		memory, ret = h.GetMemoryInfo_v2()
		u.MemoryUsed = signed(memory.Used)
	}
	if ret != nvml.SUCCESS {
		var memory nvml.Memory
		memory, ret = h.GetMemoryInfo()
		u.MemoryUsed = signed(memory.Used)
	}
	if ret != nvml.SUCCESS {
		return Usage{}, failed("memory", uuid, ret)
	}
	if l.has("nvmlDeviceGetUtilizationRates") {
		switch rates, ret := h.GetUtilizationRates(); {
		case ret == nvml.SUCCESS:
			u.GPUUtil, u.MemUtil = int(rates.Gpu), int(rates.Memory)
		case isLost(ret):
			return Usage{}, failed("utilization", uuid, ret)
		}
	}
	return u, nil
}

// Process is a process that holds memory of a GPU.
type Process struct {
	Pid        int   // of the machine, also where it runs in a container with PIDs of its own
	MemoryUsed int64 // bytes; -1 where the driver does not tell (MIG on some drivers, vGPU)
}

// Processes lists who holds memory of a GPU or MIG instance (compute, graphics, MPS clients), each process once, by
// rising Pid. The error is ErrLost where the GPU does not answer.
func (l *Library) Processes(uuid string) ([]Process, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.mu.RUnlock()
	h, err := l.find(uuid)
	if err != nil {
		return nil, err
	}
	lists := []struct {
		symbol string
		ask    func() ([]nvml.ProcessInfo, nvml.Return)
	}{
		{"nvmlDeviceGetComputeRunningProcesses", h.GetComputeRunningProcesses},
		{"nvmlDeviceGetGraphicsRunningProcesses", h.GetGraphicsRunningProcesses},
		{"nvmlDeviceGetMPSComputeRunningProcesses", h.GetMPSComputeRunningProcesses},
	}
	held := map[int]int64{}
	answered := false
	for _, list := range lists {
		if !l.has(list.symbol+"_v3") && !l.has(list.symbol+"_v2") && !l.has(list.symbol) {
			continue
		}
		infos, ret := list.ask()
		if ret == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		if ret != nvml.SUCCESS {
			return nil, failed("processes", uuid, ret)
		}
		answered = true
		merge(held, infos)
	}
	if !answered {
		return nil, failed("processes", uuid, nvml.ERROR_NOT_SUPPORTED)
	}
	processes := make([]Process, 0, len(held))
	for pid, bytes := range held {
		processes = append(processes, Process{pid, bytes})
	}
	slices.SortFunc(processes, func(a, b Process) int { return cmp.Compare(a.Pid, b.Pid) })
	return processes, nil
}

// merge adds one of the driver's lists. Within a list a process has an entry for each MIG instance it
// uses, which add up; a process in two lists is there with the same memory, which must not.
func merge(held map[int]int64, infos []nvml.ProcessInfo) {
	sums := map[int]int64{}
	for _, info := range infos {
		pid := int(info.Pid)
		switch sum, seen := sums[pid]; {
		case info.UsedGpuMemory == math.MaxUint64 && !seen:
			sums[pid] = -1
		case info.UsedGpuMemory == math.MaxUint64:
		default:
			sums[pid] = max(sum, 0) + signed(info.UsedGpuMemory)
		}
	}
	for pid, sum := range sums {
		if old, seen := held[pid]; !seen || sum > old {
			held[pid] = sum
		}
	}
}

func isLost(ret nvml.Return) bool {
	return ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED
}

func isUnsupported(ret nvml.Return) bool {
	return ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_FUNCTION_NOT_FOUND
}

func failed(what, uuid string, ret nvml.Return) error {
	if isLost(ret) {
		return fmt.Errorf("%s of GPU %s: %w: %s", what, uuid, ErrLost, explain(ret))
	}
	if isUnsupported(ret) {
		return fmt.Errorf("%s of GPU %s: %w: %s", what, uuid, ErrUnsupported, explain(ret))
	}
	return fmt.Errorf("%s of GPU %s: %s", what, uuid, explain(ret))
}
