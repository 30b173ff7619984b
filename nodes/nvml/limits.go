package nvml

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"
)

// NoLimit stands for "all of the GPU's memory" as a hard limit (NVML_DEVICE_MEMORY_LIMIT_MAX).
const NoLimit = math.MaxInt64

// MemoryLimits are the GPU memory limits that the NVIDIA kernel driver itself keeps for a control group, from driver
// 615 (CUDA 13.4) on: whatever the processes of the group do, their memory on the GPU stays within the hard limit. It
// counts all device memory, contexts included; managed memory is charged to the group's system memory only. GPUs in MIG
// mode have none. The calls and their layout are those of NVML's reference, nvmlDeviceSetMemoryLimits_v1.
//
// The driver forgets a limit with its group, but not what it added to the groups above: Clear before the group is
// removed.
type MemoryLimits struct{ library *Library }

// Limits are those of one group on one GPU, in bytes.
type Limits struct {
	Soft int64 // guaranteed; 0: nothing is
	Hard int64 // never exceeded; NoLimit: the GPU's memory is the limit
	Used int64 // what the group holds now
}

// MemoryLimits gives access to the limits, or nil where the driver has no such calls. That it has them does not yet
// say that a GPU supports them: then Set fails with ErrUnsupported.
func (l *Library) MemoryLimits() *MemoryLimits {
	if !l.has("nvmlDeviceSetMemoryLimits_v1") || !l.has("nvmlDeviceGetMemoryLimits_v1") {
		return nil
	}
	return &MemoryLimits{l}
}

// Set limits what the processes in a group may hold on a GPU. group is the full path of its directory, which must be
// of cgroup v2, and the one its processes are in, not one above it. Limits are bytes, 0 <= soft <= hard; a hard limit of
// NoLimit lifts it. Needs root. The error is ErrLost, ErrUnsupported (MIG, cgroup v1, a driver or kernel without
// it), or says what is wrong.
func (m *MemoryLimits) Set(group, uuid string, soft, hard int64) error {
	if soft < 0 || hard < soft {
		return fmt.Errorf("memory limits of GPU %s for %s: soft %d, hard %d: want 0 <= soft <= hard bytes", uuid, group, soft, hard)
	}
	most := uint64(hard)
	if hard == NoLimit {
		most = math.MaxUint64
	}
	return m.call(group, uuid, func(h nvml.Device) nvml.Return { return h.SetMemoryLimits_v1(group, uint64(soft), most) })
}

// Get tells a group's limits on a GPU and what it holds there. A group that has none has Soft 0 and Hard NoLimit.
func (m *MemoryLimits) Get(group, uuid string) (Limits, error) {
	var got nvml.MemoryLimits_v1
	var none bool
	err := m.call(group, uuid, func(h nvml.Device) (ret nvml.Return) {
		got, ret = h.GetMemoryLimits_v1(group)
		if none = ret == nvml.ERROR_NOT_FOUND; none {
			return nvml.SUCCESS
		}
		return ret
	})
	if err != nil || none {
		return Limits{Hard: NoLimit}, err
	}
	return Limits{signed(got.SoftLimit), signed(got.HardLimit), signed(got.CurrentUsed)}, nil
}

// Clear lifts a group's limits on a GPU. Clearing what has none is no error.
func (m *MemoryLimits) Clear(group, uuid string) error { return m.Set(group, uuid, 0, NoLimit) }

func (m *MemoryLimits) call(group, uuid string, ask func(nvml.Device) nvml.Return) error {
	if err := m.library.enter(); err != nil {
		return err
	}
	defer m.library.mu.RUnlock()
	if err := isV2(group); err != nil {
		return fmt.Errorf("memory limits of GPU %s: %w", uuid, err)
	}
	h, err := m.library.find(uuid)
	if err != nil {
		return err
	}
	if ret := ask(h); ret != nvml.SUCCESS {
		return fmt.Errorf("group %s: %w", group, failed("memory limits", uuid, ret))
	}
	return nil
}

// isV2: the driver accounts by cgroup v2 only, and what it does with another directory is not described.
func isV2(group string) error {
	var s unix.Statfs_t
	if !filepath.IsAbs(group) {
		return fmt.Errorf("group %q: want the full path of its directory", group)
	}
	if err := unix.Statfs(group, &s); err != nil {
		return fmt.Errorf("group %s: %w", group, err)
	}
	if s.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("group %s: %w: it is not a directory of cgroup v2", group, ErrUnsupported)
	}
	return nil
}
