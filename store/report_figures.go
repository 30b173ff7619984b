package store

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"fairslice/reports"
)

// figure is what a report says of a group of attempts: SQL over the columns of charged, and how its values are shown.
type figure struct {
	columns string // aggregates
	more    string // further columns of charged
	join    string // where those come from
	order   string
	titles  []reports.Column
	scan    func(rows pgx.Rows, key *string) ([]string, error)
}

func numbers(names ...string) []reports.Column {
	out := make([]reports.Column, len(names))
	for i, n := range names {
		out[i] = reports.Column{Name: n}
	}
	return out
}

// smAsked is the GPU time that a slice may use while it is measured: its share of the GPU, which is its amount of the GPU's
// capacity. The GPUs of an attempt are taken to be like its first.
const (
	smAsked = `, coalesce(fgpu, 0)::float8 / coalesce(g.capacity, 100) / (CASE strpos(gpu_slices, ',') WHEN 0 THEN 1 ELSE 1 + length(gpu_slices) - length(replace(gpu_slices, ',', '')) END) * sm_measured_ns AS sm_asked_ns,
		CASE WHEN sm_measured_ns > 0 THEN fgpu * ms END AS measured_fgpu_ms`
	capacities = `LEFT JOIN (SELECT uuid, max(capacity) AS capacity FROM gpus WHERE capacity > 0 GROUP BY uuid) g ON g.uuid = split_part(gpu_slices, '=', 1)`
	useColumns = `count(*) FILTER (WHERE final), coalesce(sum(slot_ms), 0), sum(cpu_ns::float8), coalesce(sum(fgpu_ms), 0), coalesce(sum(measured_fgpu_ms), 0),
		coalesce(sum(sm_ns::float8), 0), coalesce(sum(sm_asked_ns), 0), coalesce(sum(byte_ms), 0), coalesce(sum(used_byte_ms), 0)`
)

var figures = map[reports.Kind]figure{
	reports.Usage: {
		columns: `count(*) FILTER (WHERE final), count(*) FILTER (WHERE outcome = 'done'), coalesce(sum(slot_ms), 0), sum(cpu_ns::float8),
			coalesce(sum(fgpu_ms), 0), coalesce(sum(gpu_ms), 0), coalesce(sum(byte_ms), 0)`,
		order:  "sum(fgpu_ms) DESC, sum(slot_ms) DESC, key",
		titles: numbers("jobs", "done", "exit", "slot_hours", "cpu_hours", "fgpu_hours", "gpu_hours", "memory_gib_hours"),
		scan: func(rows pgx.Rows, key *string) ([]string, error) {
			var jobs, done int64
			var slot, cpu, fgpu, gpu, bytes float64
			err := rows.Scan(key, &jobs, &done, &slot, &cpu, &fgpu, &gpu, &bytes)
			return []string{reports.Whole(jobs), reports.Whole(done), reports.Whole(jobs - done), hours(slot, 1), hours(cpu, 1e6),
				hours(fgpu, 100), hours(gpu, 1), hours(bytes, gib)}, err
		},
	},
	reports.Wait: { // exact percentiles: the database would sort for them twice, in one process
		columns: "array_agg(waited_ms) FILTER (WHERE waited_ms IS NOT NULL)",
		order:   "count(waited_ms) DESC, key",
		titles:  numbers("starts", "wait_mean_s", "wait_p50_s", "wait_p95_s", "wait_max_s"),
		scan: func(rows pgx.Rows, key *string) ([]string, error) {
			var waits []int64
			err := rows.Scan(key, &waits)
			return waitCells(waits), err
		},
	},
	reports.Efficiency: {
		columns: useColumns, more: smAsked, join: capacities,
		order:  "sum(fgpu_ms) DESC, sum(slot_ms) DESC, key",
		titles: numbers("jobs", "slot_hours", "cpu_percent", "memory_percent", "fgpu_hours", "sm_percent"),
		scan: func(rows pgx.Rows, key *string) ([]string, error) {
			var u use
			err := u.scan(rows, key)
			return []string{reports.Whole(u.jobs), hours(u.slot, 1), u.cpuPercent(), reports.Percent(u.usedBytes, u.bytes), hours(u.fgpu, 100),
				reports.Percent(u.sm, u.smAsked)}, err
		},
	},
	reports.Wasters: {
		columns: useColumns, more: smAsked, join: capacities,
		order: `coalesce(sum(measured_fgpu_ms) * greatest(1 - sum(sm_ns::float8) / nullif(sum(sm_asked_ns), 0), 0), 0) DESC,
			greatest(coalesce(sum(slot_ms), 0) - sum(cpu_ns::float8) / 1e6, 0) DESC, key`,
		titles: numbers("jobs", "fgpu_hours", "sm_percent", "fgpu_hours_unused", "slot_hours", "cpu_percent", "slot_hours_unused", "memory_percent"),
		scan: func(rows pgx.Rows, key *string) ([]string, error) {
			var u use
			err := u.scan(rows, key)
			unused := ""
			if u.smAsked > 0 {
				unused = hours(u.measured*max(1-u.sm/u.smAsked, 0), 100)
			}
			return []string{reports.Whole(u.jobs), hours(u.fgpu, 100), reports.Percent(u.sm, u.smAsked), unused, hours(u.slot, 1), u.cpuPercent(),
				hours(max(u.slot-u.cpu/1e6, 0), 1), reports.Percent(u.usedBytes, u.bytes)}, err
		},
	},
}

// use is what useColumns give: sums of amounts × milliseconds, and of nanoseconds.
type use struct {
	jobs                        int64
	slot, cpu                   float64
	fgpu, measured, sm, smAsked float64
	bytes, usedBytes            float64
}

func (u *use) scan(rows pgx.Rows, key *string) error {
	return rows.Scan(key, &u.jobs, &u.slot, &u.cpu, &u.fgpu, &u.measured, &u.sm, &u.smAsked, &u.bytes, &u.usedBytes)
}

func (u *use) cpuPercent() string { return reports.Percent(u.cpu/1e6, u.slot) }

// waitCells sorts waits, in milliseconds.
func waitCells(waits []int64) []string {
	n := len(waits)
	if n == 0 {
		return []string{"0", "", "", "", ""}
	}
	slices.Sort(waits)
	sum := 0.0
	for _, w := range waits {
		sum += float64(w)
	}
	seconds := func(ms float64) string { return reports.Number(ms/1000, 1) }
	percentile := func(p float64) string { // between two waits: as far as p is between their ranks
		at := p * float64(n-1)
		low := int(at)
		high := min(low+1, n-1)
		return seconds(float64(waits[low]) + (at-float64(low))*float64(waits[high]-waits[low]))
	}
	return []string{reports.Whole(int64(n)), seconds(sum / float64(n)), percentile(0.5), percentile(0.95), seconds(float64(waits[n-1]))}
}
