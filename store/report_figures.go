package store

import "fairslice/reports"

// figure is what a report says of a group of attempts: by which facts, in which order of the groups, and how their sums are shown.
type figure struct {
	facts  []string
	order  string // SQL over the facts
	titles []reports.Column
	cells  func(sums []float64) []string // of the facts, in their order
}

func numbers(names ...string) []reports.Column {
	out := make([]reports.Column, len(names))
	for i, n := range names {
		out[i] = reports.Column{Name: n}
	}
	return out
}

const mostGiven = "fgpu_ms DESC, slot_ms DESC, key"

var useFacts = []string{"jobs", "slot_ms", "cpu_ns", "fgpu_ms", "measured_fgpu_ms", "sm_ns", "sm_asked_ns", "byte_ms", "used_byte_ms"}

var figures = map[reports.Kind]figure{
	reports.Usage: {
		facts:  []string{"jobs", "done", "slot_ms", "cpu_ns", "fgpu_ms", "gpu_ms", "byte_ms"},
		order:  mostGiven,
		titles: numbers("jobs", "done", "exit", "slot_hours", "cpu_hours", "fgpu_hours", "gpu_hours", "memory_gib_hours"),
		cells: func(v []float64) []string {
			return []string{reports.Number(v[0], 0), reports.Number(v[1], 0), reports.Number(v[0]-v[1], 0), hours(v[2], 1), hours(v[3], 1e6),
				hours(v[4], 100), hours(v[5], 1), hours(v[6], gib)}
		},
	},
	reports.Efficiency: {
		facts: useFacts, order: mostGiven,
		titles: numbers("jobs", "slot_hours", "cpu_percent", "memory_percent", "fgpu_hours", "sm_percent"),
		cells: func(v []float64) []string {
			u := useOf(v)
			return []string{reports.Number(u.jobs, 0), hours(u.slot, 1), u.cpuPercent(), reports.Percent(u.usedBytes, u.bytes), hours(u.fgpu, 100),
				reports.Percent(u.sm, u.smAsked)}
		},
	},
	reports.Wasters: {
		facts:  useFacts,
		order:  "coalesce(measured_fgpu_ms * greatest(1 - sm_ns / nullif(sm_asked_ns, 0), 0), 0) DESC, greatest(slot_ms - cpu_ns / 1e6::float8, 0) DESC, key",
		titles: numbers("jobs", "fgpu_hours", "sm_percent", "fgpu_hours_unused", "slot_hours", "cpu_percent", "slot_hours_unused", "memory_percent"),
		cells: func(v []float64) []string {
			u := useOf(v)
			unused := ""
			if u.smAsked > 0 {
				unused = hours(u.measured*max(1-u.sm/u.smAsked, 0), 100)
			}
			return []string{reports.Number(u.jobs, 0), hours(u.fgpu, 100), reports.Percent(u.sm, u.smAsked), unused, hours(u.slot, 1), u.cpuPercent(),
				hours(max(u.slot-u.cpu/1e6, 0), 1), reports.Percent(u.usedBytes, u.bytes)}
		},
	},
}

// use is what useFacts give: sums of amounts × milliseconds, and of nanoseconds.
type use struct {
	jobs, slot, cpu             float64
	fgpu, measured, sm, smAsked float64
	bytes, usedBytes            float64
}

func useOf(v []float64) use { return use{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]} }

func (u *use) cpuPercent() string { return reports.Percent(u.cpu/1e6, u.slot) }
