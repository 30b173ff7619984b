package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// capabilities is where the driver's kernel module says which device file opens which instance.
const capabilities = "/proc/driver/nvidia/capabilities"

// Instance is one MIG instance that exists: a compute instance and the GPU instance it is in. CUDA sees it as a device
// of its own where CUDA_VISIBLE_DEVICES is its UUID. This package never makes or destroys one.
type Instance struct {
	UUID            string // "MIG-…"
	Parent          string // UUID of the GPU
	GPUInstance     int    // id
	ComputeInstance int    // id inside the GPU instance
	Profile         string // as nvidia-smi names it, "3g.20gb"; "" where the driver does not tell
	Memory          int64  // bytes of the GPU instance
	SMs             int    // 0 unknown
	ParentSMs       int    // of the whole GPU, those that no instance can have included; 0 unknown

	// Shared: another compute instance is in the same GPU instance. Each of the two may take all of its Memory.
	Shared bool

	// Minor numbers of the two /dev/nvidia-caps/nvidia-capN files that a process must be able to open to use
	// the instance; -1 unknown. A simulated GPU has none.
	GPUInstanceCap, ComputeInstanceCap int
}

// Instances lists the MIG instances of a GPU in the driver's order; none where the GPU is not in MIG mode. The
// error is ErrLost where the GPU does not answer, and ErrUnsupported where the driver lacks the calls.
func (l *Library) Instances(uuid string) ([]Instance, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.mu.RUnlock()
	parent, err := l.find(uuid)
	if err != nil {
		return nil, err
	}
	handles, err := l.instanceHandles(parent, uuid)
	if err != nil {
		return nil, err
	}
	gpu := l.rememberedDevice(uuid)
	list := make([]Instance, 0, len(handles))
	for _, h := range handles {
		it := Instance{Parent: uuid, ParentSMs: gpu.SMs, GPUInstanceCap: -1, ComputeInstanceCap: -1}
		if ret := l.describeInstance(h, &it); ret != nvml.SUCCESS {
			return nil, failed("a MIG instance", uuid, ret)
		}
		if gpu.MinorNumber >= 0 && !gpu.Simulated {
			if it.GPUInstanceCap, it.ComputeInstanceCap, err = instanceCaps(capabilities, gpu.MinorNumber, it); err != nil {
				return nil, fmt.Errorf("MIG instance %s: %w", it.UUID, err)
			}
		}
		list = append(list, it)
	}
	inGPUInstance := map[int]int{}
	for _, it := range list {
		inGPUInstance[it.GPUInstance]++
	}
	for i := range list {
		list[i].Shared = inGPUInstance[list[i].GPUInstance] > 1
	}
	return list, nil
}

// instanceHandles: a handle may be given to another instance when its own is destroyed, so none is kept.
func (l *Library) instanceHandles(parent nvml.Device, uuid string) ([]nvml.Device, error) {
	if !l.has("nvmlDeviceGetMigMode") { // older than MIG
		return nil, nil
	}
	mode, _, ret := parent.GetMigMode()
	if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.SUCCESS && mode != nvml.DEVICE_MIG_ENABLE {
		return nil, nil
	}
	if ret != nvml.SUCCESS {
		return nil, failed("MIG mode", uuid, ret)
	}
	for _, symbol := range []string{"nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
		"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"} {
		if !l.has(symbol) {
			return nil, failed("MIG instances", uuid, nvml.ERROR_FUNCTION_NOT_FOUND)
		}
	}
	most, ret := parent.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, failed("number of MIG instances", uuid, ret)
	}
	var handles []nvml.Device
	for i := range most {
		h, ret := parent.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND { // indices have gaps
			continue
		}
		if ret != nvml.SUCCESS {
			return nil, failed(fmt.Sprintf("MIG instance %d", i), uuid, ret)
		}
		handles = append(handles, h)
	}
	return handles, nil
}

func (l *Library) describeInstance(h nvml.Device, it *Instance) (ret nvml.Return) {
	if it.UUID, ret = h.GetUUID(); ret != nvml.SUCCESS {
		return ret
	}
	if it.GPUInstance, ret = h.GetGpuInstanceId(); ret != nvml.SUCCESS {
		return ret
	}
	if it.ComputeInstance, ret = h.GetComputeInstanceId(); ret != nvml.SUCCESS {
		return ret
	}
	memory, ret := h.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return ret
	}
	it.Memory = signed(memory.Total)
	if l.has("nvmlDeviceGetAttributes_v2") || l.has("nvmlDeviceGetAttributes") {
		if attributes, ret := h.GetAttributes(); ret == nvml.SUCCESS {
			it.SMs = int(attributes.MultiprocessorCount)
		}
	}
	// "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
	if name, ret := h.GetName(); ret == nvml.SUCCESS {
		if _, profile, is := strings.Cut(name, " MIG "); is {
			it.Profile = profile
		}
	}
	return nvml.SUCCESS
}

// findInstance gives the handle of a MIG instance. The caller has entered, and l.known is filled.
func (l *Library) findInstance(uuid string) (nvml.Device, error) {
	l.knownMu.Lock()
	gpus := make([]known, 0, len(l.known))
	for _, k := range l.known {
		gpus = append(gpus, k)
	}
	l.knownMu.Unlock()
	for _, k := range gpus {
		handles, err := l.instanceHandles(k.handle, k.device.UUID)
		if errors.Is(err, ErrLost) { // one lost GPU must not hide the instances of others
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, h := range handles {
			if got, ret := h.GetUUID(); ret == nvml.SUCCESS && got == uuid {
				return h, nil
			}
		}
	}
	return nil, fmt.Errorf("MIG instance %q: not on this machine, or its GPU is lost", uuid)
}

// instanceCaps reads, below the directory root, which device files open an instance. Drivers before 450.80 have no
// such files, and guard instances by /proc alone: -1.
func instanceCaps(root string, gpuMinor int, it Instance) (gpuInstance, computeInstance int, err error) {
	dir := filepath.Join(root, "gpu"+strconv.Itoa(gpuMinor), "mig", "gi"+strconv.Itoa(it.GPUInstance))
	if gpuInstance, err = readCap(filepath.Join(dir, "access")); err != nil {
		return -1, -1, err
	}
	computeInstance, err = readCap(filepath.Join(dir, "ci"+strconv.Itoa(it.ComputeInstance), "access"))
	return gpuInstance, computeInstance, err
}

func readCap(path string) (int, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	minor, err := parseCap(string(text))
	if err != nil {
		return -1, fmt.Errorf("%s: %w", path, err)
	}
	return minor, nil
}

// parseCap takes the minor number from a capability file of the driver:
//
//	DeviceFileMinor: 21
//	DeviceFileMode: 256
//	DeviceFileModify: 1
func parseCap(text string) (int, error) {
	minor := -1
	for line := range strings.Lines(text) {
		value, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "DeviceFileMinor: ")
		if !is {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 20) // Linux has 20 bits for a minor number
		if err != nil || minor >= 0 {
			return -1, fmt.Errorf("%q: want one line DeviceFileMinor: NUMBER", line)
		}
		minor = int(n)
	}
	if minor < 0 {
		return -1, fmt.Errorf("it has no line DeviceFileMinor: NUMBER")
	}
	return minor, nil
}
