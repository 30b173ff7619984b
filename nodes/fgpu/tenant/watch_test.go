package tenant_test

import (
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/nodes/fgpu"
)

// watch lets the watchdog look twice at what the driver says each process holds, and wants the verdict that ends the region's
// job for process culprit.
func watch(t *testing.T, r *fgpu.Region, each map[int]int64, culprit int) {
	t.Helper()
	device := r.Info().Devices[0]
	reading := fgpu.Reading{GPU: device.Slice.UUID, Mode: nodes.ModeShim}
	for pid, bytes := range each {
		reading.Processes = append(reading.Processes, fgpu.GPUProcess{PID: pid, Bytes: bytes, Utilization: -1})
	}
	owner := func(pid int) (string, bool) { return "job", pid == culprit }
	jobs := []fgpu.Guarded{{Job: "job", Slices: []nodes.Slice{device.Slice}}}
	var w fgpu.Watchdog
	now := time.Unix(1e9, 0)
	var kinds []fgpu.Kind
	for range 2 {
		for _, a := range w.Step(now, []fgpu.Reading{reading}, jobs, owner) {
			kinds = append(kinds, a.Kind)
		}
		now = now.Add(w.Interval())
	}
	if len(kinds) != 2 || kinds[0] != fgpu.Warn || kinds[1] != fgpu.Terminate {
		t.Errorf("the watchdog says %v: want a warning, and then the verdict", kinds)
	}
}
