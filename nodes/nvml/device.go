package nvml

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Device is one physical GPU. A fact the driver does not give is the zero value, or -1 where said.
type Device struct {
	Index             int // NVML's order; it may change when the machine restarts, the UUID does not
	UUID              string
	Name              string
	Memory            int64 // bytes, all of it; what the driver keeps for itself is not taken off
	MinorNumber       int   // of /dev/nvidiaN; -1 unknown. A simulated GPU has no such file
	MIG               bool  // MIG mode is on: the GPU is used through its instances (Instances)
	ComputeMode       ComputeMode
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

// MPS says whether MPS can hold a share on this GPU: it gives each client its own share since Volta (7.0), and a GPU
// in MIG mode is used through its instances.
func (d Device) MPS() bool {
	major, _, _ := strings.Cut(d.ComputeCapability, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 7 && !d.MIG
}

// Devices lists the GPUs in NVML's order, lost ones included. It fails as a whole only when the
// driver cannot even count them.
func (l *Library) Devices() ([]Device, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.mu.RUnlock()
	return l.list()
}

// list asks for every GPU anew, and remembers what it learns. The caller has entered.
func (l *Library) list() ([]Device, error) {
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
			if before, seen := l.known[i]; seen {
				device = before.device
			}
			device.Lost, device.Problem = true, explain(ret)
		}
		l.knownMu.Unlock()
		list[i] = device
	}
	return list, nil
}

// describe returns what it learned before the driver refused, too.
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
	if l.has("nvmlDeviceGetComputeMode") {
		if mode, ret := h.GetComputeMode(); ret == nvml.SUCCESS {
			d.ComputeMode = computeMode(mode)
		}
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

// find gives the handle of a GPU or MIG instance. It does not ask the driver by UUID: that search fails when any GPU
// on its way is lost.
func (l *Library) find(uuid string) (nvml.Device, error) {
	if h := l.remembered(uuid); h != nil {
		return h, nil
	}
	if _, err := l.list(); err != nil {
		return nil, err
	}
	if h := l.remembered(uuid); h != nil {
		return h, nil
	}
	if strings.HasPrefix(uuid, "MIG-") {
		return l.findInstance(uuid)
	}
	return nil, fmt.Errorf("GPU %q: not on this machine, or lost before it was seen", uuid)
}

func (l *Library) remembered(uuid string) nvml.Device {
	l.knownMu.Lock()
	defer l.knownMu.Unlock()
	for _, k := range l.known {
		if k.device.UUID == uuid {
			return k.handle
		}
	}
	return nil
}

// rememberedDevice is what a GPU was when it was last seen well; the zero value where it never was.
func (l *Library) rememberedDevice(uuid string) Device {
	l.knownMu.Lock()
	defer l.knownMu.Unlock()
	for _, k := range l.known {
		if k.device.UUID == uuid {
			return k.device
		}
	}
	return Device{MinorNumber: -1}
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
