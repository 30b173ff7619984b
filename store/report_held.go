package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/queue"
	"fairslice/reports"
)

// held is what nodes or GPUs gave in a period: for each the sum of an amount × milliseconds.
type held map[string]float64

// given is a sort of thing that is given by several, and how it is known.
type given struct {
	what    string // in held_sums
	column  string // of charges: queue.Parts
	running func(*queue.Attempt, func(name string, amount int64))
}

// overlap adds what attempts held between two times. more is a further condition on them. Attempts that held the same are summed in the
// database, as there are few sorts of them.
func (g *given) overlap(ctx context.Context, tx pgx.Tx, c *conditions, from, to time.Time, sum held) error {
	since, until := c.arg(from)+"::timestamptz", c.arg(to)+"::timestamptz"
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT %[1]s, sum(date_part('epoch', least(ended, %[3]s) - greatest(began, %[2]s)) * 1000) FROM charges WHERE ended > %[2]s AND began < %[3]s AND %[1]s <> '' AND %[4]s GROUP BY 1",
		g.column, since, until, c), c.args...)
	if err != nil {
		return err
	}
	var parts string
	var ms float64
	_, err = pgx.ForEachRow(rows, []any{&parts, &ms}, func() error {
		queue.Parts(parts).Each(func(name string, amount int64) { sum[name] += float64(amount) * ms })
		return nil
	})
	return err
}

// charged is what attempts that are over gave in the period of q until a time. Whole months and days are from held_sums, unless a filter
// narrows it.
func (g *given) charged(ctx context.Context, tx pgx.Tx, q reports.Query, until time.Time) (held, error) {
	sum := held{}
	var c conditions
	c.filter(q.Filter)
	period := reports.Period{From: q.Period.From, To: until}
	if q.Filter != (reports.Filter{}) {
		return sum, g.overlap(ctx, tx, &c, period.From, period.To, sum)
	}
	v, err := coverageOf(ctx, tx, period, nil, keyed)
	if err != nil {
		return nil, err
	}
	if !v.covered() {
		return sum, g.overlap(ctx, tx, &c, period.From, period.To, sum)
	}
	for _, p := range v.raw {
		// An attempt of a day at most has ended within a day of the time in which it held something. Both conditions have an index.
		edge := conditions{}
		edge.where = append(edge.where, fmt.Sprintf("(ended > %[1]s AND ended <= %[2]s OR ended > %[2]s AND ended - began > interval '1 day')",
			edge.arg(p.From)+"::timestamptz", edge.arg(p.To.Add(24*time.Hour))+"::timestamptz"))
		if err := g.overlap(ctx, tx, &edge, p.From, p.To, sum); err != nil {
			return nil, err
		}
	}
	behind := conditions{}
	behind.where = append(behind.where, v.behind(&behind))
	if err := g.overlap(ctx, tx, &behind, v.begin(), v.end(), sum); err != nil {
		return nil, err
	}
	spans := conditions{}
	from := v.spans(&spans, "held_sums")
	rows, err := tx.Query(ctx, "SELECT name, sum(amount_ms)::float8 FROM "+from+" WHERE what = "+spans.arg(g.what)+" GROUP BY name", spans.args...)
	if err != nil {
		return nil, err
	}
	var name string
	var ms float64
	_, err = pgx.ForEachRow(rows, []any{&name, &ms}, func() error { sum[name] += ms; return nil })
	return sum, err
}
