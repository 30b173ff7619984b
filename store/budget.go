package store

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/accounting"
)

// inParts is what was charged, by user, account, queue and part, see parts_of; $1 has the cuts. What RollUp has summed up is taken by
// hours, each in the part in which it begins; the charges since are split at the cuts. So sums are exact but for hours that
// are cut: see movedParts.
const inParts = `SELECT account, user_name, queue, width_bucket((extract(epoch FROM hour) * 1000)::bigint, $1::bigint[]) AS part, fgpu_ms, gpu_ms
		FROM usage_hours
	UNION ALL
	SELECT account, user_name, queue, p.part, fgpu::numeric * p.ms, gpus::numeric * p.ms
		FROM (SELECT * FROM ledger WHERE seq IS NULL UNION ALL SELECT * FROM ledger WHERE seq > (SELECT seq FROM usage_mark)) l
		CROSS JOIN LATERAL parts_of(l.began_ms, l.ended_ms, $1::bigint[]) p`

// movedParts moves what was held in the hours $2 (their beginnings, in milliseconds) after a cut in them from the part before
// that cut to those after. It reads charges; of hours whose charges have left for an archive, the part before has all.
const movedParts = `
	UNION ALL
	SELECT account, user_name, queue, moved.part, sign * fgpu::numeric * p.ms, sign * gpus::numeric * p.ms
		FROM unnest($2::bigint[]) h
		JOIN ledger l ON l.seq <= (SELECT seq FROM usage_mark) AND l.ended >= to_timestamp(h / 1000) AND l.ended_ms > h AND l.began_ms < h + 3600000
		CROSS JOIN LATERAL parts_of(greatest(l.began_ms, h), least(l.ended_ms, h + 3600000), $1::bigint[]) p
		CROSS JOIN LATERAL (VALUES (1, p.part), (-1, width_bucket(h, $1::bigint[]))) moved (sign, part)`

// Spending is all that was charged by the events up to seq, told apart at cuts. It reads usage_hours, and charges only where they
// are not in those yet, or where a cut is within an hour of UTC: for a site whose days begin there, all since the first of
// those cuts.
func (s *Store) Spending(ctx context.Context, cuts []time.Time) (out *accounting.Spending, seq int64, err error) {
	out = accounting.NewSpending(cuts)
	at := out.Cuts()
	query, args := inParts, []any{at}
	if hours := cutHours(at); len(hours) > 0 {
		query, args = query+movedParts, append(args, hours)
	}
	err = s.reader.with(ctx, func(c *pgx.Conn) error {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if err := tx.QueryRow(ctx, "SELECT coalesce(max(seq), 0) FROM events").Scan(&seq); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT account, user_name, queue, part, sum(fgpu_ms)::text, (100 * sum(gpu_ms))::text FROM (`+query+`) p
			GROUP BY account, user_name, queue, part HAVING sum(fgpu_ms) <> 0 OR sum(gpu_ms) <> 0`, args...)
		if err != nil {
			return err
		}
		var leaf accounting.Leaf
		var queue, fgpu, gpu string
		var part int
		_, err = pgx.ForEachRow(rows, []any{&leaf.Account, &leaf.User, &queue, &part, &fgpu, &gpu}, func() error {
			var x accounting.Spent
			var err error
			if x.FGPU, err = accounting.ParseCost(fgpu); err != nil {
				return err
			}
			if x.GPU, err = accounting.ParseCost(gpu); err != nil {
				return err
			}
			out.Put(leaf, queue, part, x)
			return nil
		})
		return err
	})
	return out, seq, wrap(err, "sum up what was charged")
}

// cutHours are the hours of UTC that are cut, by their beginnings.
func cutHours(cuts []int64) (hours []int64) {
	const hour = int64(time.Hour / time.Millisecond)
	for _, c := range cuts {
		if c > 0 && c%hour != 0 {
			hours = append(hours, c/hour*hour)
		}
	}
	return slices.Compact(hours)
}
