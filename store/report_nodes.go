package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/queue"
	"fairslice/reports"
)

// clippedMillis is how long of an attempt's time lies in the period from $1 to $2.
const clippedMillis = "date_part('epoch', least(ended, $2::timestamptz) - greatest(began, $1::timestamptz)) * 1000"

// held is what nodes or GPUs gave in a period: for each the sum of an amount × milliseconds.
type held map[string]float64

// gather sums one column of parts over what ended in the period or after it, and adds what runs still, by the slots or
// slices of its allocation. Attempts that held the same are summed in the database, as there are few sorts of them.
func gather(ctx context.Context, tx pgx.Tx, q reports.Query, until time.Time, column string, running func(*queue.Attempt, func(name string, amount int64))) (held, error) {
	var c conditions
	c.args = []any{q.Period.From, until}
	c.where = []string{"ended > $1", "began < $2", column + " <> ''"}
	c.filter(q.Filter)
	sum := held{}
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT %s, sum(%s) FROM charges WHERE %s GROUP BY 1", column, clippedMillis, &c), c.args...)
	if err != nil {
		return nil, err
	}
	var parts string
	var ms float64
	if _, err := pgx.ForEachRow(rows, []any{&parts, &ms}, func() error {
		queue.Parts(parts).Each(func(name string, amount int64) { sum[name] += float64(amount) * ms })
		return nil
	}); err != nil {
		return nil, err
	}
	if q.Filter != (reports.Filter{}) {
		return sum, nil // what runs has no charge to filter
	}
	rows, err = tx.Query(ctx, "SELECT attempt FROM elements WHERE live_attempt IS NOT NULL")
	if err != nil {
		return nil, err
	}
	var text []byte
	_, err = pgx.ForEachRow(rows, []any{&text}, func() error {
		var a queue.Attempt
		if err := json.Unmarshal(text, &a); err != nil {
			return fmt.Errorf("a live attempt: %w", err)
		}
		from := a.Dispatched
		if from.Before(q.Period.From) {
			from = q.Period.From
		}
		if ms := until.Sub(from).Milliseconds(); ms > 0 {
			running(&a, func(name string, amount int64) { sum[name] += float64(amount) * float64(ms) })
		}
		return nil
	})
	return sum, err
}

// utilisation checks the period of a report of nodes or GPUs: it ends now at the latest.
func utilisation(q reports.Query, now time.Time) (until time.Time, ms float64, err error) {
	if q.Period.From.IsZero() || q.Period.To.IsZero() {
		return until, 0, fmt.Errorf("a utilisation needs both ends of the period")
	}
	if until = q.Period.To; until.After(now) {
		until = now
	}
	if !q.Period.From.Before(until) {
		return until, 0, fmt.Errorf("the period has not begun")
	}
	return until, float64(until.Sub(q.Period.From).Milliseconds()), nil
}

const capacityNote = "capacity is that of the nodes and GPUs as they are now, for the whole period: a node that was away counts as unused; " +
	"what runs still counts until now; what an older version charged is not known by node"

func slotsByNode(a *queue.Attempt, add func(string, int64)) {
	for i := range a.Alloc {
		add(string(a.Alloc[i].Node), int64(a.Alloc[i].Slots))
	}
}

func slicesByGPU(a *queue.Attempt, add func(string, int64)) {
	for i := range a.Alloc {
		for _, s := range a.Alloc[i].Slices {
			add(s.UUID, int64(s.Amount))
		}
	}
}

// capacity is a row of nodes or gpus.
type capacity struct {
	node, uuid, model string
	amount            int64 // slots, or 1/100 fGPU
}

func capacitiesOf(ctx context.Context, tx pgx.Tx, sql string) (list []capacity, err error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	var c capacity
	_, err = pgx.ForEachRow(rows, []any{&c.node, &c.uuid, &c.model, &c.amount}, func() error {
		list = append(list, c)
		return nil
	})
	return list, err
}

// nodeReport has a row for each node that there is, or that gave something in the period.
func nodeReport(ctx context.Context, tx pgx.Tx, q reports.Query, now time.Time) (*reports.Table, error) {
	until, ms, err := utilisation(q, now)
	if err != nil {
		return nil, err
	}
	slots, err := gather(ctx, tx, q, until, "nodes", slotsByNode)
	if err != nil {
		return nil, err
	}
	fgpu, err := gather(ctx, tx, q, until, "gpu_slices", slicesByGPU)
	if err != nil {
		return nil, err
	}
	have, err := capacitiesOf(ctx, tx, "SELECT id, '', '', slots FROM nodes ORDER BY id")
	if err != nil {
		return nil, err
	}
	gpus, err := capacitiesOf(ctx, tx, "SELECT node, uuid, model, capacity FROM gpus")
	if err != nil {
		return nil, err
	}
	given, capacity := held{}, held{}
	for _, g := range gpus {
		given[g.node] += fgpu[g.uuid]
		capacity[g.node] += float64(g.amount) * ms
	}
	t := &reports.Table{Columns: append([]reports.Column{{Name: "node", Text: true}},
		numbers("slots", "slot_hours", "slot_percent", "fgpu_hours", "fgpu_percent")...), Notes: []string{capacityNote}}
	known := map[string]bool{}
	var allSlots, allGiven, allMS, allFGPU, allCapacity float64
	for _, n := range have {
		known[n.node] = true
		whole := float64(n.amount) * ms
		t.Add(n.node, reports.Whole(n.amount), hours(slots[n.node], 1), reports.Percent(slots[n.node], whole), hours(given[n.node], 100),
			reports.Percent(given[n.node], capacity[n.node]))
		allSlots += float64(n.amount)
		allGiven += slots[n.node]
		allMS += whole
		allFGPU += given[n.node]
		allCapacity += capacity[n.node]
	}
	for _, name := range sorted(slots) { // nodes that are gone
		if !known[name] {
			t.Add(name, "", hours(slots[name], 1), "", "", "")
		}
	}
	cut(t, q)
	t.Add(reports.Total, reports.Whole(int64(allSlots)), hours(allGiven, 1), reports.Percent(allGiven, allMS), hours(allFGPU, 100), reports.Percent(allFGPU, allCapacity))
	return t, nil
}

// gpuReport has a row for each GPU that there is, or that gave something in the period.
func gpuReport(ctx context.Context, tx pgx.Tx, q reports.Query, now time.Time) (*reports.Table, error) {
	until, ms, err := utilisation(q, now)
	if err != nil {
		return nil, err
	}
	fgpu, err := gather(ctx, tx, q, until, "gpu_slices", slicesByGPU)
	if err != nil {
		return nil, err
	}
	gpus, err := capacitiesOf(ctx, tx, "SELECT node, uuid, model, capacity FROM gpus ORDER BY node, uuid")
	if err != nil {
		return nil, err
	}
	t := &reports.Table{Columns: append([]reports.Column{{Name: "gpu", Text: true}, {Name: "node", Text: true}, {Name: "model", Text: true}},
		numbers("fgpu", "fgpu_hours", "fgpu_percent")...), Notes: []string{capacityNote}}
	known := map[string]bool{}
	var all, given float64
	for _, g := range gpus {
		known[g.uuid] = true
		t.Add(g.uuid, g.node, g.model, reports.Number(float64(g.amount)/100, 2), hours(fgpu[g.uuid], 100), reports.Percent(fgpu[g.uuid], float64(g.amount)*ms))
		all += float64(g.amount)
		given += fgpu[g.uuid]
	}
	for _, uuid := range sorted(fgpu) {
		if !known[uuid] {
			t.Add(uuid, "", "", "", hours(fgpu[uuid], 100), "")
		}
	}
	cut(t, q)
	t.Add(reports.Total, "", "", reports.Number(all/100, 2), hours(given, 100), reports.Percent(given, all*ms))
	return t, nil
}

func sorted(h held) []string {
	names := make([]string, 0, len(h))
	for n := range h {
		names = append(names, n)
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names
}

// jobReport has a row for each attempt that ended in the period: the question that seff answers. The greatest, or the most wasteful, are first.
func jobReport(ctx context.Context, tx pgx.Tx, q reports.Query) (*reports.Table, error) {
	var c conditions
	c.period("ended", q.Period)
	c.filter(q.Filter)
	order := "coalesce(fgpu * ms, 0) DESC, coalesce(slots * ms, 0) DESC, job, idx, attempt"
	if q.Kind == reports.Wasters {
		order = `coalesce(CASE WHEN sm_measured_ns > 0 THEN fgpu * ms * greatest(1 - sm_ns / nullif(sm_asked_ns, 0), 0) END, 0) DESC,
			greatest(coalesce(slots * ms, 0) - cpu_ns / 1e6, 0) DESC, job, idx, attempt`
	}
	sql := fmt.Sprintf(`SELECT job, idx, attempt, user_name, %s, coalesce(outcome, ''), coalesce(slots * ms, slot_seconds * 1000, 0), cpu_ns::float8,
		coalesce(memory, 0), max_memory, coalesce(fgpu * ms, fgpu_seconds * 100000, 0), coalesce(sm_ns, 0)::float8, coalesce(sm_asked_ns, 0)::float8, coalesce(gpu_memory, 0)
		FROM (SELECT * %s FROM (SELECT *, %s AS ms FROM charges WHERE %s) c %s) x ORDER BY %s LIMIT %d`,
		accountOf, smAsked, heldMillis, &c, capacities, order, q.Limit+1)
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
