package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"fairslice/nodes/fgpu"
)

// saveEvery is how often the sums of an attempt are written down: what noded's death can lose of them.
const saveEvery = 10 * time.Second

func (t *attempt) meterFile() string { return t.regionDir() + ".meter" }

func (w *watchdog) saveMeters(j *watched) {
	meters := map[string]fgpu.Meter{}
	for i := range j.devices {
		meters[j.devices[i].slice.UUID] = j.devices[i].meter
	}
	data, err := json.Marshal(meters)
	if err == nil {
		err = os.WriteFile(j.t.meterFile()+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(j.t.meterFile()+".new", j.t.meterFile())
	}
	if err != nil {
		w.a.cfg.Logger.Warn("what a job has used of its slices is not written down", "attempt", j.t.key, "error", err)
	}
}

func (w *watchdog) loadMeters(t *attempt) map[string]fgpu.Meter {
	if !t.restored {
		return nil
	}
	var meters map[string]fgpu.Meter
	data, err := os.ReadFile(t.meterFile())
	if err == nil {
		err = json.Unmarshal(data, &meters)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.a.cfg.Logger.Warn("what a job has used of its slices is not known from before", "attempt", t.key, "error", err)
	}
	return meters
}

// removeRegion removes what is left of an attempt's slices.
func (t *attempt) removeRegion() error {
	if t.a.watchdog == nil {
		return nil
	}
	t.a.watchdog.leave(t.key)
	_ = os.Remove(t.meterFile())
	_ = os.Remove(t.meterFile() + ".new")
	if err := fgpu.Remove(t.regionDir()); err != nil {
		return fmt.Errorf("remove the region: %w", err)
	}
	return nil
}
