package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"

	"fairslice/nodes/fgpu"
)

// state is what is shown, and is the document of --json: bytes, and percents of a GPU's multiprocessor time.
type state struct {
	Job       string    `json:"job"`
	At        time.Time `json:"at"`
	Policy    string    `json:"share_policy"` // hard: never more than the share; burst: more while nobody else wants it
	Simulated bool      `json:"simulated"`    // no GPU is there: the driver is simulated
	Notes     []string  `json:"notes"`        // for people: what is not known, and why
	GPUs      []gpu     `json:"gpus"`
	Processes []process `json:"processes"`
}

type gpu struct {
	Index       int      `json:"index"`
	UUID        string   `json:"uuid"`
	Model       string   `json:"model"`
	Simulated   bool     `json:"simulated"`
	Mode        string   `json:"mode"`
	Lost        bool     `json:"lost"`
	FGPU        float64  `json:"fgpu"`
	MemoryUsed  int64    `json:"memory_used_bytes"` // as nvidia-smi and cuMemGetInfo in this job
	MemoryLimit int64    `json:"memory_limit_bytes"`
	Memory      int64    `json:"gpu_memory_bytes"` // of the whole GPU
	Driver      int64    `json:"memory_driver_bytes"`
	SM          float64  `json:"sm_percent"`
	SMLimit     float64  `json:"sm_limit_percent"`
	Denied      uint64   `json:"alloc_denied"`
	Launches    uint64   `json:"launches"`
	Throttled   float64  `json:"throttled_seconds"`
	Count       int      `json:"processes"`
	History     []sample `json:"history,omitempty"` // oldest first, one each second

	samples []fgpu.Sample // History as it was read
	share   int           // SMLimit in 1/100 percent
}

type sample struct {
	Memory    int64   `json:"memory_bytes"`
	SM        float64 `json:"sm_percent"`
	Throttled float64 `json:"throttled_percent"` // of that second
}

type process struct {
	GPU    int    `json:"gpu"`
	PID    int    `json:"pid"`
	Name   string `json:"name"`
	Memory int64  `json:"memory_bytes"`
}

// staleAfter is how long after noded's last look its figures are called old. It looks once a second.
const staleAfter = 5 * time.Second

func look(r region, s system) state {
	info := r.Info()
	st := state{Job: info.Job, At: s.now, Policy: info.Policy.String(), Notes: []string{}, GPUs: []gpu{}, Processes: []process{}}
	use, err := r.Usage()
	switch {
	case errors.Is(err, fs.ErrPermission):
		st.Notes = append(st.Notes, "what the job's processes hold may be read by its user only: memory is the driver's figure")
	case err != nil:
		st.Notes = append(st.Notes, err.Error()+": memory is the driver's figure")
	}
	for i, d := range info.Devices {
		g := gpu{
			Index: d.Slice.Index, UUID: d.Slice.UUID, Model: d.Model, Simulated: simulated(d.Model), Mode: string(d.Slice.Mode), Lost: d.Lost,
			FGPU: float64(d.Slice.Amount) / 100, MemoryUsed: d.Driver, MemoryLimit: d.Slice.Memory, Memory: d.Physical, Driver: d.Driver,
			SM: percent(d.Utilization), SMLimit: percent(d.Slice.SMShare), share: d.Slice.SMShare,
		}
		if err == nil && i < len(use) {
			u := use[i]
			g.MemoryUsed = u.Held + d.Untracked
			g.Denied, g.Launches, g.Throttled, g.Count = u.Denied, u.Launches, u.Throttled.Seconds(), u.Processes
		}
		st.Simulated = st.Simulated || g.Simulated
		st.GPUs = append(st.GPUs, g)
	}
	for _, p := range info.Processes {
		if p.Device < len(st.GPUs) {
			st.Processes = append(st.Processes, process{GPU: st.GPUs[p.Device].Index, PID: p.PID, Name: s.program(p.PID), Memory: p.Bytes})
		}
	}
	if note := age(info.Heartbeat, s.monotonic); note != "" {
		st.Notes = append(st.Notes, note)
	}
	return st
}

// simulated says whether a model is of the simulated driver, which has it in its names.
func simulated(model string) bool { return strings.Contains(strings.ToLower(model), "simulated") }

func percent(v int) float64 { return float64(v) / 100 }

// age says when noded's figures are old; "" when they are not. Both are nanoseconds of the same clock.
func age(heartbeat, now uint64) string {
	switch {
	case heartbeat == 0:
		return "noded has not looked yet: utilization and processes are not known"
	case now > heartbeat && now-heartbeat > uint64(staleAfter):
		return "noded looked " + time.Duration(now-heartbeat).Round(time.Second).String() + " ago: utilization and processes are of then"
	}
	return ""
}

// addHistory adds the last minutes of each GPU.
func (st *state) addHistory(r region, minutes int) {
	for i := range st.GPUs {
		all := r.History(i)
		if n := minutes * 60; len(all) > n {
			all = all[len(all)-n:]
		}
		st.GPUs[i].samples = all
		for _, h := range all {
			st.GPUs[i].History = append(st.GPUs[i].History, sample{h.Bytes, percent(h.Utilization), percent(h.Throttled)})
		}
	}
}

func (st *state) writeJSON(b *strings.Builder) {
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		panic("internal error: impossible: " + err.Error()) // plain values only
	}
	b.Write(append(text, '\n'))
}

var _ region = (*fgpu.View)(nil)
