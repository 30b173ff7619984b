package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"fairslice/accounting"
	"fairslice/backfill"
	"fairslice/etc"
	"fairslice/queue/engine"
	"fairslice/store"
)

// scheduling is what the engine needs of [scheduler].
func scheduling(s *etc.Scheduler) engine.Scheduling {
	out := engine.Scheduling{
		Policy: policy(s), PlaceBy: s.Placement,
		Predict: s.Predict, HalfLife: s.HalfLife, MemoryWeight: s.MemoryWeight, MaxForecasts: s.MaxForecasts,
	}
	if s.GPUWeight != etc.AutoGPUWeight {
		out.GPUWeight = max(float64(s.GPUWeight), 1e-9) // 0 would ask for what the nodes have
	}
	return out
}

// policy is who is promised a start, and in which order they are served.
func policy(s *etc.Scheduler) backfill.Policy {
	p := backfill.Policy{Protected: s.Protected}
	if s.Policy == "conservative" {
		p.Protected = backfill.All
	}
	switch s.Order {
	case "fcfs":
		p.Order = backfill.FCFS
	case "fairshare":
		p.Order = backfill.Weighted{FairShare: 1, Guard: s.AgeGuard}
	case "xfactor":
		p.Order = backfill.XFactor
	case "sjf":
		p.Order, p.Candidates = backfill.FCFS, backfill.SJF
	default:
		w := backfill.Weighted{Response: 1, Guard: s.AgeGuard}
		if s.Weights != (etc.Weights{}) {
			w.FairShare, w.Age, w.Response, w.Size = s.Weights.FairShare, s.Weights.Age, s.Weights.XFactor, s.Weights.Size
		}
		p.Order = w
	}
	return p
}

// maxPastRuns bounds how many ended elements are read to learn from.
const maxPastRuns = 5000

// past reads what the schedule learns from.
func past(ctx context.Context, st *store.Store, cfg *etc.Config, log *slog.Logger) (engine.Past, error) {
	began := time.Now()
	usage, err := accounting.NewUsage(cfg.Scheduler.HalfLife)
	if err != nil {
		return engine.Past{}, fmt.Errorf("scheduler: half_life: %w", err)
	}
	if err := st.LoadUsage(ctx, usage, began); err != nil {
		return engine.Past{}, err
	}
	ended, err := st.LastFinished(ctx, began.Add(-4*cfg.Scheduler.HalfLife), maxPastRuns)
	if err != nil {
		return engine.Past{}, err
	}
	p := engine.Past{Usage: usage}
	for _, x := range slices.Backward(ended) {
		p.Runs = append(p.Runs, engine.PastRun{User: x.Charge.User, Shape: x.Plan, Ran: x.Charge.Ended.Sub(x.Charge.Began), Ended: x.Charge.Ended})
	}
	log.Info("learnt from the past", "runs", len(p.Runs), "seconds", time.Since(began).Seconds())
	return p, nil
}
