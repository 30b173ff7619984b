package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"fairslice/queue"
	"fairslice/reports"
)

// The orders of reports by job: what was given most first, or left unused. Each has an index.
const (
	byGiven  = "given_ms(fgpu, began, ended) DESC, given_ms(slots, began, ended) DESC"
	byUnused = "unused_fgpu_ms(fgpu, began, ended, gpu_slices, gpu_capacity, sm_ns, sm_measured_ns) DESC, unused_slot_ms(slots, began, ended, cpu_ns) DESC"
)

// jobReport has a row for each attempt that ended in the period: the question that seff answers. The greatest, or the most wasteful, are first.
func jobReport(ctx context.Context, tx pgx.Tx, q reports.Query) (*reports.Table, error) {
	var c conditions
	c.period("ended", q.Period)
	c.filter(q.Filter)
	order := byGiven
	if q.Kind == reports.Wasters {
		order = byUnused
	}
	sql := fmt.Sprintf(`SELECT job, idx, attempt, user_name, %s, coalesce(outcome, ''), coalesce(slots * held_ms(began, ended), slot_seconds * 1000, 0), cpu_ns::float8,
		coalesce(memory, 0), max_memory, coalesce(fgpu * held_ms(began, ended), fgpu_seconds * 100000, 0), coalesce(sm_ns, 0)::float8,
		coalesce(sm_asked(fgpu, gpu_slices, gpu_capacity, sm_measured_ns), 0), coalesce(gpu_memory, 0)
		FROM charges WHERE %s ORDER BY %s, job, idx, attempt LIMIT %d`, accountOf, &c, order, q.Limit+1)
	rows, err := tx.Query(ctx, sql, c.args...)
	if err != nil {
		return nil, err
	}
	t := &reports.Table{Columns: slices.Concat([]reports.Column{{Name: "job", Text: true}, {Name: "attempt"}, {Name: "user", Text: true}, {Name: "account", Text: true}, {Name: "outcome", Text: true}},
		numbers("slot_hours", "cpu_percent", "memory_gib", "memory_percent", "fgpu_hours", "sm_percent", "gpu_memory_peak_gib"))}
	var id queue.ElementID
	var attempt, memory, peak, gpuPeak int64
	var user, account, outcome string
	var slot, cpu, fgpu, sm, asked float64
	_, err = pgx.ForEachRow(rows, []any{&id.Job, &id.Index, &attempt, &user, &account, &outcome, &slot, &cpu, &memory, &peak, &fgpu, &sm, &asked, &gpuPeak}, func() error {
		t.Add(id.String(), reports.Whole(attempt), user, account, outcome, hours(slot, 1), reports.Percent(cpu/1e6, slot), reports.Number(float64(memory)/gib, 3),
			reports.Percent(float64(peak), float64(memory)), hours(fgpu, 100), reports.Percent(sm, asked), reports.Number(float64(gpuPeak)/gib, 3))
		return nil
	})
	cut(t, q)
	return t, err
}
