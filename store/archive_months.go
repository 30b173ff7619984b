package store

import (
	"context"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"
)

// EndedSum is what the attempts of a user in an account that ended in a period were given. Sums are exact.
type EndedSum struct {
	Account, User          string
	Attempts, Done, Exited int64

	SlotMillis, FGPUMillis, GPUMillis big.Int // amounts times milliseconds; FGPUMillis: of 1/100 fGPU
	Waited                            big.Int // milliseconds
}

// quiet is how long after its end a period in which and after which nothing happened is taken to be over.
const quiet = time.Hour

// EndedBetween sums the attempts that ended in [from, to), by account and user, in the order of their names. whole is false, and
// there are no sums, while more of them may come: until RollUp has got past to. archived is true, and there are none
// either, where some of them are in an archive.
func (s *Store) EndedBetween(ctx context.Context, from, to, now time.Time) (sums []EndedSum, whole, archived bool, err error) {
	err = s.reading(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM archived_hours WHERE hour > $1::timestamptz - interval '1 hour' AND hour < $2 AND attempts > 0),
			(SELECT coalesce((SELECT at >= $2 FROM events WHERE seq <= (SELECT seq FROM usage_mark) ORDER BY seq DESC LIMIT 1), false) OR $3 >= $2::timestamptz)
			AND NOT EXISTS (SELECT FROM charges WHERE ended >= $1 AND ended < $2 AND `+notRolledUp+`)`, from, to, now.Add(-quiet)).Scan(&archived, &whole); err != nil {
			return err
		}
		if archived || !whole {
			return nil
		}
		rows, err := tx.Query(ctx, `SELECT account, user_name, count(*), count(*) FILTER (WHERE outcome = 'done'), count(*) FILTER (WHERE outcome = 'exit'),
				sum(slots::numeric * ms)::text, sum(fgpu::numeric * ms)::text, sum(gpus::numeric * ms)::text, sum(waited_ms)::text
			FROM ledger WHERE ended >= $1 AND ended < $2 GROUP BY account, user_name ORDER BY account COLLATE "C", user_name COLLATE "C"`, from, to)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e EndedSum
			var slot, fgpu, gpu, waited string
			if err := rows.Scan(&e.Account, &e.User, &e.Attempts, &e.Done, &e.Exited, &slot, &fgpu, &gpu, &waited); err != nil {
				return err
			}
			e.SlotMillis.SetString(slot, 10) // sums of whole numbers, so they are
			e.FGPUMillis.SetString(fgpu, 10)
			e.GPUMillis.SetString(gpu, 10)
			e.Waited.SetString(waited, 10)
			sums = append(sums, e)
		}
		return rows.Err()
	})
	return sums, whole && !archived, archived, wrap(err, "sum up what ended")
}

// Archivable is when the first job finished that is in the history, and zero where there is none; and when an archive was last restored.
func (s *Store) Archivable(ctx context.Context) (oldest, restored time.Time, err error) {
	var first, back *time.Time
	err = s.reader.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT (SELECT min(ended) FROM history), (SELECT max(restored) FROM archives)").Scan(&first, &back)
	})
	if first != nil {
		oldest = first.UTC()
	}
	if back != nil {
		restored = back.UTC()
	}
	return oldest, restored, wrap(err, "look what is old")
}
