package nvml

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// ProcessUtilization is how much of a GPU's time one process has had.
type ProcessUtilization struct {
	Pid    int       // of the machine, as in Process
	SMUtil float64   // percent of the GPU's time in which a kernel of it ran: the mean of the driver's samples
	At     time.Time // of the newest of these samples
}

// ProcessUtilization tells what each process did on a GPU after since, by rising Pid. The driver keeps samples of
// 1/6 to 1 s for some seconds only, so one who asks less often misses some. A process without a sample is not in the
// list; no sample at all is an empty list. The error is ErrLost where the GPU does not answer, and
// ErrUnsupported where the driver cannot tell (a GPU in MIG mode, a driver without the call).
func (l *Library) ProcessUtilization(uuid string, since time.Time) ([]ProcessUtilization, error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.mu.RUnlock()
	h, err := l.find(uuid)
	if err != nil {
		return nil, err
	}
	if !l.has("nvmlDeviceGetProcessUtilization") {
		return nil, failed("process utilization", uuid, nvml.ERROR_FUNCTION_NOT_FOUND)
	}
	last := uint64(max(since.UnixMicro(), 0))
	var samples []nvml.ProcessUtilizationSample
	var ret nvml.Return
	// go-nvml asks for the number of samples first; it may have grown when it then asks for them.
	for range 4 {
		if samples, ret = h.GetProcessUtilization(last); ret != nvml.ERROR_INSUFFICIENT_SIZE {
			break
		}
	}
	switch ret {
	case nvml.SUCCESS:
		return meanByProcess(samples, last), nil
	case nvml.ERROR_NOT_FOUND: // nothing ran
		return nil, nil
	}
	return nil, failed("process utilization", uuid, ret)
}

// meanByProcess leaves out what is no sample: drivers return slots they have not filled (process 0), filled before
// (an old time), or with a utilization beyond 100.
func meanByProcess(samples []nvml.ProcessUtilizationSample, last uint64) []ProcessUtilization {
	type sum struct {
		percent, count uint64
		newest         uint64
	}
	sums := map[uint32]sum{}
	for _, s := range samples {
		if s.Pid == 0 || s.TimeStamp <= last || s.SmUtil > 100 {
			continue
		}
		before := sums[s.Pid]
		sums[s.Pid] = sum{before.percent + uint64(s.SmUtil), before.count + 1, max(before.newest, s.TimeStamp)}
	}
	list := make([]ProcessUtilization, 0, len(sums))
	for pid, s := range sums {
		at := time.UnixMicro(signed(s.newest))
		list = append(list, ProcessUtilization{int(pid), float64(s.percent) / float64(s.count), at})
	}
	slices.SortFunc(list, func(a, b ProcessUtilization) int { return cmp.Compare(a.Pid, b.Pid) })
	return list
}

// ComputeMode says which processes may make contexts on a GPU. The zero value: the driver did not tell.
type ComputeMode string

// The compute modes of nvidia-smi -c. Under ExclusiveProcess one process at a time may use the GPU, which with MPS is
// the MPS server: a program that avoids MPS then gets nothing.
const (
	ComputeDefault          ComputeMode = "Default"
	ComputeExclusiveThread  ComputeMode = "Exclusive_Thread"
	ComputeProhibited       ComputeMode = "Prohibited"
	ComputeExclusiveProcess ComputeMode = "Exclusive_Process"
)

func computeMode(mode nvml.ComputeMode) ComputeMode {
	switch mode {
	case nvml.COMPUTEMODE_DEFAULT:
		return ComputeDefault
	case nvml.COMPUTEMODE_EXCLUSIVE_THREAD:
		return ComputeExclusiveThread
	case nvml.COMPUTEMODE_PROHIBITED:
		return ComputeProhibited
	case nvml.COMPUTEMODE_EXCLUSIVE_PROCESS:
		return ComputeExclusiveProcess
	}
	return ComputeMode(fmt.Sprintf("mode %d", mode))
}
