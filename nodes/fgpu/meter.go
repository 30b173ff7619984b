package fgpu

import "time"

// Meter sums up what one attempt used of one device. The zero value is ready; all of it is kept in the exported fields, so
// that it can be stored and continued.
type Meter struct {
	Last     time.Time     `json:"last,omitzero"`      // of the last Add
	Measured time.Duration `json:"measured,omitempty"` // time for which the driver told the utilization
	SMTime   time.Duration `json:"sm_time,omitempty"`  // GPU time used: a second at 25 % is 250 ms
	Peak     int64         `json:"peak,omitempty"`     // bytes: the most the driver counted
}

// meterGap is the longest time that one reading stands for: while noded was away nothing was measured.
const meterGap = 5 * time.Second

// Add takes a reading: the mean utilization in 1/100 percent of the GPU's time since the last one, and the bytes held now. -1 is
// unknown, for each. The first reading begins the measurement.
func (m *Meter) Add(now time.Time, utilization int, bytes int64) {
	m.Peak = max(m.Peak, bytes)
	elapsed := now.Sub(m.Last)
	if m.Last.IsZero() || elapsed < 0 {
		elapsed = 0
	}
	m.Last = now
	if utilization < 0 {
		return
	}
	elapsed = min(elapsed, meterGap)
	m.Measured += elapsed
	m.SMTime += elapsed * time.Duration(min(utilization, Whole)) / Whole
}

// MeanShare is the part of the GPU's time used over all that was measured, in 1/100 percent; 0 where nothing was.
func (m Meter) MeanShare() int {
	if m.Measured <= 0 {
		return 0
	}
	return int(m.SMTime.Seconds()/m.Measured.Seconds()*Whole + 0.5)
}
