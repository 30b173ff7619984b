package fgpu

import (
	"fmt"
	"math"
)

// Measured is what noded has found out about a job's use of one device.
type Measured struct {
	Driver      int64 // bytes, by the driver, of all processes of the job
	Untracked   int64 // bytes the job's processes do not know of; see Untracked.Next
	Utilization int   // of the GPU's time, in 1/100 percent
}

// Publish tells the job what was measured. A negative number is told as 0.
func (r *Region) Publish(device int, m Measured) {
	d := r.device(device)
	d.driver.Store(uint64(max(m.Driver, 0)))
	d.untracked.Store(uint64(max(m.Untracked, 0)))
	d.utilization.Store(uint32(min(max(m.Utilization, 0), Whole)))
}

// SetWindow moves the part of each frame in which launches pass, in 1/100 percent; both are kept within the frame.
// Processes see the two numbers one after the other, which may cost one frame's window.
func (r *Region) SetWindow(device, open, phase int) {
	d := r.device(device)
	d.phase.Store(uint32(min(max(phase, 0), Whole-1)))
	d.open.Store(uint32(min(max(open, 0), Whole)))
}

// SetContext says what one context costs on this device, for contexts made from now on.
func (r *Region) SetContext(device int, bytes int64) {
	r.device(device).context.Store(uint64(max(bytes, 0)))
}

// SetLost says whether the driver still answers for the device.
func (r *Region) SetLost(device int, lost bool) {
	var n uint32
	if lost {
		n = 1
	}
	r.device(device).lost.Store(n)
}

// SetProcesses publishes who uses the devices; beyond 256 processes the rest is left out. Processes of
// the job read the list without a lock: an odd sequence number tells them to wait, a changed one to read again.
func (r *Region) SetProcesses(all []Process) {
	s := r.slice
	sequence := s.processSeq.Load()
	if sequence%2 != 0 {
		sequence++ // noded was killed in the middle of this
	}
	s.processSeq.Store(sequence + 1)
	n := 0
	for _, p := range all {
		if n == maxProcesses {
			break
		}
		if p.PID <= 0 || p.PID > maxPID || p.Device < 0 || p.Device >= int(s.devices) {
			continue
		}
		to := &s.process[n]
		to.pid.Store(uint32(p.PID))
		to.device.Store(uint32(p.Device))
		to.bytes.Store(uint64(max(p.Bytes, 0)))
		n++
	}
	s.processes.Store(uint32(n))
	s.processSeq.Store(sequence + 2)
}

// AddSample appends a second to the device's history, of which the last 599 can be read.
func (r *Region) AddSample(device int, m Sample) {
	d := r.device(device)
	n := d.historyNext.Load()
	r.slice.history[device][n%maxHistory] = sliceSample{
		mib:         uint32(min(max(m.Bytes, 0)>>20, math.MaxUint32)),
		utilization: uint16(min(max(m.Utilization, 0), Whole)),
		throttled:   uint16(min(max(m.Throttled, 0), Whole)),
	}
	d.historyNext.Store(n + 1)
}

// Beat says that noded looked at the job at now (Monotonic).
func (r *Region) Beat(now uint64) { r.slice.heartbeat.Store(now) }

func (r *Region) device(i int) *sliceDevice {
	if i < 0 || i >= int(r.slice.devices) {
		panic(fmt.Sprintf("internal error: impossible: device %d of %d", i, r.slice.devices))
	}
	return &r.slice.device[i]
}
