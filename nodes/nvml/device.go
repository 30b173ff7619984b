package nvml

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Device is one physical GPU. A fact the driver does not give is the zero value, or -1 where said.
type Device struct {
	Index             int // NVML's order; it may change when the machine restarts, the UUID does not
	UUID              string
	Name              string
	Memory            int64 // bytes, all of it; what the driver keeps for itself is not taken off
	MinorNumber       int   // of /dev/nvidiaN; -1 unknown. A simulated GPU has no such file
	MIG               bool  // MIG mode is on: the GPU is used through its instances
	ComputeCapability string // "9.0"
	SMs               int    // 0 unknown
	PCIBusID          string // "00000000:01:00.0"
	DriverVersion     string
	Simulated         bool // it computes nothing, and says so in its name

	// Lost: the GPU does not answer. What it was is then what it was when last seen by this Library;
	// of a GPU never seen well only Index is known. Problem says what the driver said.
	Lost    bool
	Problem string
}

// Devices lists the GPUs in NVML's order, lost ones included. It fails as a whole only when the
// driver cannot even count them.
func (l *Library) Devices() ([]Device, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.mu.RUnlock()
	count, ret := l.api.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count GPUs: %s", explain(ret))
	}
	list := make([]Device, count)
	for i := range list {
		device, handle, ret := l.describe(i)
		l.knownMu.Lock()
		if ret == nvml.SUCCESS {
			l.known[i] = known{device, handle}
		} else {
			device = l.known[i].device
			device.Index, device.Lost, device.Problem = i, true, explain(ret)
			device.DriverVersion, device.Simulated = l.driver, l.simulated
		}
		l.knownMu.Unlock()
		list[i] = device
	}
	return list, nil
}

func (l *Library) describe(index int) (Device, nvml.Device, nvml.Return) {
	d := Device{Index: index, MinorNumber: -1, DriverVersion: l.driver, Simulated: l.simulated}
	h, ret := l.api.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return d, nil, ret
	}
	if d.UUID, ret = h.GetUUID(); ret != nvml.SUCCESS {
		return d, nil, ret
	}
	if d.Name, ret = h.GetName(); ret != nvml.SUCCESS {
		return d, nil, ret
	}
	memory, ret := h.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return d, nil, ret
	}
	d.Memory = signed(memory.Total)

	if l.has("nvmlDeviceGetMinorNumber") {
		if n, ret := h.GetMinorNumber(); ret == nvml.SUCCESS {
			d.MinorNumber = n
		}
	}
	if l.has("nvmlDeviceGetPciInfo_v3") {
		if pci, ret := h.GetPciInfo(); ret == nvml.SUCCESS {
			d.PCIBusID = text(pci.BusId[:])
		}
	}
	if l.has("nvmlDeviceGetMigMode") {
		mode, _, ret := h.GetMigMode()
		d.MIG = ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
	}
	if l.has("nvmlDeviceGetCudaComputeCapability") {
		if major, minor, ret := h.GetCudaComputeCapability(); ret == nvml.SUCCESS {
			d.ComputeCapability = strconv.Itoa(major) + "." + strconv.Itoa(minor)
			if l.has("nvmlDeviceGetNumGpuCores") {
				if cores, ret := h.GetNumGpuCores(); ret == nvml.SUCCESS {
					d.SMs = cores / coresPerSM(major, minor)
				}
			}
		}
	}
	return d, h, nvml.SUCCESS
}

// coresPerSM: NVML counts a whole GPU's cores but not its SMs, and a core count per SM is fixed by
// the compute capability (CUDA C++ Programming Guide, "Compute Capabilities").
func coresPerSM(major, minor int) int {
	switch {
	case major == 3:
		return 192
	case major == 6 && minor == 0, major == 7, major == 8 && minor == 0:
		return 64
	}
	return 128 // 5.x, 6.1, 8.6 and every one since
}

// Usage is how much of a GPU is in use now, by everyone.
type Usage struct {
	MemoryUsed int64 // bytes; without what the driver keeps for itself, where the driver tells these apart
	GPUUtil    int   // percent of the last sample period (1 s or less) in which a kernel ran; -1 unknown, as under MIG
	MemUtil    int   // percent of that period in which memory was read or written; -1 unknown
}

// Usage asks for one GPU's use. The error is ErrLost where the GPU does not answer.
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

// Processes lists who holds memory of a GPU (compute, graphics, MPS clients), each process once, by
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

// find gives the handle of a GPU. It does not ask the driver by UUID: that search fails when any GPU
// on its way is lost.
func (l *Library) find(uuid string) (nvml.Device, error) {
	l.knownMu.Lock()
	defer l.knownMu.Unlock()
	for _, k := range l.known {
		if k.device.UUID == uuid {
			return k.handle, nil
		}
	}
	count, ret := l.api.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, failed("find", uuid, ret)
	}
	for i := range count {
		device, handle, ret := l.describe(i)
		if ret != nvml.SUCCESS {
			continue
		}
		l.known[i] = known{device, handle}
		if device.UUID == uuid {
			return handle, nil
		}
	}
	return nil, fmt.Errorf("GPU %s: not on this machine, or lost before it was seen", uuid)
}

func isLost(ret nvml.Return) bool {
	return ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED
}

func failed(what, uuid string, ret nvml.Return) error {
	if isLost(ret) {
		return fmt.Errorf("%s of GPU %s: %w: %s", what, uuid, ErrLost, explain(ret))
	}
	return fmt.Errorf("%s of GPU %s: %s", what, uuid, explain(ret))
}

// signed keeps a nonsense size from turning negative.
func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// text reads a C string of fixed size. NVML's characters are ASCII.
func text(chars []int8) string {
	b := make([]byte, 0, len(chars))
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}
