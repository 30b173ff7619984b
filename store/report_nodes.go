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

// gather sums what was given of one sort in the period, and adds what runs still, by the slots or slices of its allocation.
func gather(ctx context.Context, tx pgx.Tx, q reports.Query, until time.Time, of *given) (held, error) {
	sum, err := of.charged(ctx, tx, q, until)
	if err != nil {
		return nil, err
	}
	if q.Filter != (reports.Filter{}) {
		return sum, nil // what runs has no charge to filter
	}
	rows, err := tx.Query(ctx, "SELECT attempt FROM elements WHERE live_attempt IS NOT NULL")
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
			of.running(&a, func(name string, amount int64) { sum[name] += float64(amount) * float64(ms) })
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

var (
	slotsGiven = given{"node", "nodes", slotsByNode}
	fgpuGiven  = given{"gpu", "gpu_slices", slicesByGPU}
)

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
	slots, err := gather(ctx, tx, q, until, &slotsGiven)
	if err != nil {
		return nil, err
	}
	fgpu, err := gather(ctx, tx, q, until, &fgpuGiven)
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
	fgpu, err := gather(ctx, tx, q, until, &fgpuGiven)
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
