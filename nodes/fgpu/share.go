package fgpu

import (
	"math"
	"time"
)

// The gains of the share controller. The shim keeps the share within each window and carries what a kernel ran over as a debt, so that
// what is left is small and steady: the time until the first kernel of a window runs, the waits between kernels, the neighbours' overruns.
// A slow integrator takes it away. What it acts on is old: the driver averages over up to a second and tells it a second later, and
// the filter adds its own time. With correction·(delay 2 s + filter 2 s) = 0.4 the loop has about 65° of phase margin: it
// creeps to its aim within some 30 s and does not swing. A gain of 0.4 per second would overshoot, one of 0.8 swing for ever.
const (
	correction = 0.1             // per second: part of the error by which the window changes
	filterTime = 2 * time.Second // of the mean over the driver's readings, which are whole percents and jump
	deadband   = 0.02            // of the share: an error that is not worth a change, below what the readings can tell

	// Within these the controller moves the window. More room than a quarter would let a tenant that leaves the GPU idle
	// between its kernels spread into others' windows; less than half would starve one that is slow to be measured.
	mostOpen  = 1.25 // times the share
	leastOpen = 0.5

	starved = 500 // in 1/100 percent: a launch waited that part of the time, so there is something to gain by opening

	quiet  = time.Second     // another slice that ran nothing for so long lets one with policy burst have the GPU
	settle = 3 * time.Second // after a burst the driver's readings are of the burst for so long
)

// Demand is what one slice did since the last step.
type Demand struct {
	Key         string // names the slice among those of its GPU
	Share       int    // 1/100 percent
	Policy      Policy
	Utilization int // by the driver, of the GPU's time, in 1/100 percent; -1 unknown
	Throttled   int // part of the time in which a launch waited, in 1/100 percent; the tenant's word
}

// Shares sets the windows of the slices of one GPU. The zero value is ready. What one slice says of itself decides
// over its own window alone; whether others are active is known from the driver.
type Shares struct {
	last   time.Time
	slices map[string]*window
}

type window struct {
	open   float64   // for policy hard, and for burst while others are active
	mean   float64   // filtered utilization
	active time.Time // last seen to run something; unknown counts as running
	burst  bool      // open to all of the frame since the last step
	until  time.Time // readings before are of a burst
}

// Step takes what each slice did since the last step, about a second ago, and returns for each how much of the frame to open, in 1/100
// percent. A slice that is not among the demands is forgotten.
func (s *Shares) Step(now time.Time, demands []Demand) map[string]int {
	// After a pause longer than the driver's memory one reading does not stand for all of it.
	dt := min(max(now.Sub(s.last), 0), 2*time.Second).Seconds()
	s.last = now
	known := s.slices
	s.slices = make(map[string]*window, len(demands))
	for _, d := range demands {
		w := known[d.Key]
		if w == nil {
			w = &window{open: float64(d.Share), mean: float64(d.Share)}
		}
		if d.Utilization != 0 {
			w.active = now
		}
		s.slices[d.Key] = w
	}
	open := make(map[string]int, len(demands))
	for _, d := range demands {
		w := s.slices[d.Key]
		if burst := d.Policy == Burst && s.othersQuiet(now, d.Key); burst || w.burst {
			w.burst, w.until, w.mean = burst, now.Add(settle), float64(d.Share)
		}
		if w.burst {
			open[d.Key] = Whole
			continue
		}
		if now.After(w.until) {
			w.correct(d, dt)
		}
		open[d.Key] = int(math.Round(w.open))
	}
	return open
}

func (s *Shares) othersQuiet(now time.Time, key string) bool {
	for other, w := range s.slices {
		if other != key && now.Sub(w.active) <= quiet {
			return false
		}
	}
	return true
}

// correct moves the window by a part of the error, or back to the share where there is nothing to correct.
func (w *window) correct(d Demand, dt float64) {
	share := float64(d.Share)
	if d.Utilization >= 0 {
		w.mean += (float64(d.Utilization) - w.mean) * (1 - math.Exp(-dt/filterTime.Seconds()))
	} else {
		w.mean = share
	}
	missing := share - w.mean
	switch {
	case math.Abs(missing) <= deadband*share:
	case missing > 0 && d.Throttled < starved:
		w.open += (share - w.open) * correction * dt // it does not want more
	default:
		w.open += missing * correction * dt
	}
	w.open = min(max(w.open, leastOpen*share), mostOpen*share, Whole)
}
