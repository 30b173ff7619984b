package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/reports"
)

// grouping is how a report groups what it reads.
type grouping struct {
	key   string // SQL over a charge or a row of ended_sums; %s stands for the time that counts
	parts []time.Time
	*coverage
	filter reports.Filter
	args   []any
}

// groupingOf plans the reading of a report by user, day and so on.
func groupingOf(ctx context.Context, tx pgx.Tx, q reports.Query) (*grouping, error) {
	g := &grouping{filter: q.Filter}
	ladder := keyed
	switch q.By { // "C" compares quickly
	case reports.ByUser:
		g.key = `user_name COLLATE "C"`
	case reports.ByAccount:
		g.key = accountOf + ` COLLATE "C"`
	case reports.ByQueue:
		g.key = `queue COLLATE "C"`
	case reports.ByProject:
		g.key = `coalesce(project, '') COLLATE "C"`
	case reports.ByImage:
		g.key = `coalesce(image, '') COLLATE "C"`
	default: // the calendar is Go's: the database need not know the site's time zone
		if q.Period.From.IsZero() || q.Period.To.IsZero() {
			return nil, fmt.Errorf("a calendar needs both ends of the period")
		}
		var err error
		if g.parts, err = q.Period.Parts(q.By, q.Zone); err != nil {
			return nil, err
		}
		g.args = []any{g.parts}
		g.key = "width_bucket(%s, $1::timestamptz[])"
		if q.Filter == (reports.Filter{}) {
			ladder = unkeyed
		}
	}
	var err error
	if q.Filter.Host != "" { // which no sum knows
		g.coverage = &coverage{period: q.Period}
	} else if g.coverage, err = coverageOf(ctx, tx, q.Period, g.parts, ladder); err != nil {
		return nil, err
	}
	return g, nil
}

// keyOf is the key of rows whose time is in a column.
func (g *grouping) keyOf(column string) string {
	if g.parts == nil {
		return g.key
	}
	return fmt.Sprintf(g.key, column)
}

// fromSums completes a query by the rows of ended_sums, narrowed by the filter.
func (g *grouping) fromSums(c *conditions) string {
	narrow := conditions{args: c.args}
	from := g.spans(&narrow, "ended_sums")
	narrow.filter(g.filter)
	c.args = narrow.args
	return from + " WHERE " + narrow.String()
}

// fromCharges does the same by the charges that are in none of these rows.
func (g *grouping) fromCharges(c *conditions) string {
	narrow := conditions{args: c.args}
	g.rest(&narrow)
	narrow.filter(g.filter)
	c.args = narrow.args
	return fmt.Sprintf(attempts, "charges") + " WHERE " + narrow.String()
}

// name is how a key is called in a report.
func (g *grouping) name(key string, by reports.By) (string, error) {
	if g.parts == nil {
		return key, nil
	}
	var n int
	if _, err := fmt.Sscan(key, &n); err != nil || n < 1 || n > len(g.parts) {
		return "", fmt.Errorf("part %q of a calendar of %d", key, len(g.parts))
	}
	return reports.PartName(g.parts[n-1], by), nil
}

// groupReport has a row for each user, queue, day and so on.
func groupReport(ctx context.Context, tx pgx.Tx, q reports.Query, exact int64) (*reports.Table, error) {
	g, err := groupingOf(ctx, tx, q)
	if err != nil {
		return nil, err
	}
	if q.Kind == reports.Wait {
		return waitReport(ctx, tx, q, g, exact)
	}
	f := figures[q.Kind]
	list := pick(f.facts...)
	c := conditions{args: g.args}
	parts := fmt.Sprintf("SELECT %s AS key, %s FROM %s GROUP BY 1", g.keyOf("ended"),
		each(list, func(f *fact) string { return f.total(f.quick()) + "::float8 AS " + f.name }), g.fromCharges(&c))
	if g.covered() {
		parts += fmt.Sprintf(" UNION ALL SELECT %s AS key, %s FROM %s GROUP BY 1", g.keyOf("start"),
			each(list, func(f *fact) string { return f.how + "(" + f.name + ")::float8" }), g.fromSums(&c))
	}
	order := f.order
	if g.parts != nil {
		order = "key"
	}
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT key::text, %s FROM (SELECT key, %s FROM (%s) parts GROUP BY key) sums ORDER BY %s LIMIT %d", factNames(list),
		each(list, func(f *fact) string { return f.how + "(" + f.name + ") AS " + f.name }), parts, order, q.Limit+1), c.args...)
	if err != nil {
		return nil, err
	}
	t := &reports.Table{Columns: append([]reports.Column{{Name: string(q.By), Text: true}}, f.titles...)}
	values := make([]float64, len(list))
	var key string
	to := []any{&key}
	for i := range values {
		to = append(to, &values[i])
	}
	_, err = pgx.ForEachRow(rows, to, func() error {
		name, err := g.name(key, q.By)
		t.Add(append([]string{name}, f.cells(values)...)...)
		return err
	})
	cut(t, q)
	return t, err
}
