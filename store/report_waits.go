package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"fairslice/reports"
)

// exactWaits is how many attempts are read one by one, for exact percentiles, where their sums would do.
const exactWaits = 100_000

var waitNote = fmt.Sprintf("the percentiles of more than %d starts are taken from sums: they are exact to %.1f %%, or 0.05 s", exactWaits, 100*reports.WaitError)

// waitReport has a row for each group in which an attempt ended.
func waitReport(ctx context.Context, tx pgx.Tx, q reports.Query, g *grouping, exact int64) (*reports.Table, error) {
	if few, err := g.few(ctx, tx, exact); err != nil {
		return nil, err
	} else if few {
		g.coverage = &coverage{period: q.Period}
	}
	groups := map[string]*reports.Waits{}
	of := func(key string) *reports.Waits {
		w := groups[key]
		if w == nil {
			w = &reports.Waits{}
			groups[key] = w
		}
		return w
	}
	c := conditions{args: g.args}
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT (%s)::text, array_agg(waited_ms) FILTER (WHERE waited_ms IS NOT NULL) FROM %s GROUP BY 1",
		g.keyOf("ended"), g.fromCharges(&c)), c.args...)
	if err != nil {
		return nil, err
	}
	var key string
	var list []int64
	if _, err := pgx.ForEachRow(rows, []any{&key, &list}, func() error { of(key).Add(list...); return nil }); err != nil {
		return nil, err
	}
	if g.covered() {
		c := conditions{args: g.args}
		rows, err := tx.Query(ctx, fmt.Sprintf("SELECT (%s)::text, starts, wait_ms::float8, coalesce(wait_max_ms, 0), waits FROM %s", g.keyOf("start"), g.fromSums(&c)), c.args...)
		if err != nil {
			return nil, err
		}
		var n, greatest int64
		var sum float64
		if _, err := pgx.ForEachRow(rows, []any{&key, &n, &sum, &greatest, &list}, func() error { of(key).AddSums(n, sum, greatest, list); return nil }); err != nil {
			return nil, err
		}
	}
	return waitTable(q, g, groups)
}

// waitTable puts the groups in order: those with the most starts first, a calendar as it is.
func waitTable(q reports.Query, g *grouping, groups map[string]*reports.Waits) (*reports.Table, error) {
	keys := make([]string, 0, len(groups))
	for k := range groups {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if g.parts != nil {
			x, _ := strconv.Atoi(a)
			y, _ := strconv.Atoi(b)
			return cmp.Compare(x, y)
		}
		return cmp.Or(-cmp.Compare(groups[a].N, groups[b].N), cmp.Compare(a, b))
	})
	t := &reports.Table{Columns: append([]reports.Column{{Name: string(q.By), Text: true}}, numbers("starts", "wait_mean_s", "wait_p50_s", "wait_p95_s", "wait_max_s")...)}
	approximate := false
	for _, k := range keys[:min(len(keys), q.Limit+1)] {
		name, err := g.name(k, q.By)
		if err != nil {
			return nil, err
		}
		t.Add(append([]string{name}, groups[k].Cells()...)...)
		approximate = approximate || groups[k].Approximate()
	}
	if approximate {
		t.Notes = append(t.Notes, waitNote)
	}
	cut(t, q)
	return t, nil
}

// few says that there are at most so many attempts that reading them takes no time, and that they are still there: what is archived
// is only in the sums. Only users have an index, so other filters do not make them fewer.
func (g *grouping) few(ctx context.Context, tx pgx.Tx, exact int64) (bool, error) {
	if !g.covered() {
		return false, nil
	}
	var sums, charges conditions
	var from string
	if user := g.filter.User; user != "" {
		only := *g
		only.filter = reports.Filter{User: user}
		from = only.fromSums(&sums)
		charges.period("ended", g.period)
		charges.where = append(charges.where, "NOT "+g.unsummed(&charges))
		charges.filter(only.filter)
	} else { // all from the first span to the last: these rows are few
		within := reports.Period{From: g.begin(), To: g.end()}
		sums.period("start", within)
		from = "ended_sums WHERE level = 'quarter' AND " + sums.String()
		charges.period("ended", within)
		charges.where = append(charges.where, "NOT "+g.behind(&charges))
	}
	var summed, there int64
	if err := tx.QueryRow(ctx, "SELECT coalesce(sum(attempts), 0)::bigint FROM "+from, sums.args...).Scan(&summed); err != nil || summed > exact {
		return false, err
	}
	err := tx.QueryRow(ctx, "SELECT count(*) FROM charges WHERE "+charges.String(), charges.args...).Scan(&there)
	return there == summed, err
}
