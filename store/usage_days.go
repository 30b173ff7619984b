package store

import (
	"context"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"
)

// UsageSum is what attempts of a user in an account and a queue held in a day, and what became of those that ended in it.
// Sums are exact and have no bound; those of amounts are times milliseconds.
type UsageSum struct {
	Day                  time.Time // its beginning
	Account, User, Queue string

	Millis, SlotMillis, FGPUMillis, GPUMillis, MemoryMiBMillis big.Int // FGPUMillis: of 1/100 fGPU

	Attempts, Done, Exited int64   // ended in the day; of them, the last of their element as DONE and as EXIT
	Suspended, Waited      big.Int // milliseconds, of those that ended
	CPUNanos, GPUNanos     big.Int // of those that ended; all of a GPU for a second is a second
}

// UsageDays calls fn for the days of zone that begin in [from, to), in order, with all that RollUp has summed up. An hour
// counts in the day in which it begins: where days do not begin with an hour of UTC, that is up to an hour away.
func (s *Store) UsageDays(ctx context.Context, from, to time.Time, zone string, fn func(*UsageSum) error) error {
	var stop error
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, `SELECT day, account, user_name, queue, sum(ms)::text, sum(slot_ms)::text, sum(fgpu_ms)::text, sum(gpu_ms)::text,
				sum(memory_mib_ms)::text, sum(attempts)::bigint, sum(done)::bigint, sum(exited)::bigint,
				sum(suspended_ms)::text, sum(waited_ms)::text, sum(cpu_ns)::text, sum(sm_ns)::text
			FROM (SELECT date_trunc('day', hour, $3) AS day, * FROM usage_hours WHERE hour >= $1::timestamptz - interval '1 hour' AND hour < $2::timestamptz + interval '25 hours') h
			WHERE day >= $1 AND day < $2 GROUP BY day, account, user_name, queue ORDER BY day, account, user_name, queue`, from, to, zone)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var u UsageSum
			exact := []*big.Int{&u.Millis, &u.SlotMillis, &u.FGPUMillis, &u.GPUMillis, &u.MemoryMiBMillis, &u.Suspended, &u.Waited, &u.CPUNanos, &u.GPUNanos}
			texts := make([]string, len(exact))
			if err := rows.Scan(&u.Day, &u.Account, &u.User, &u.Queue, &texts[0], &texts[1], &texts[2], &texts[3], &texts[4],
				&u.Attempts, &u.Done, &u.Exited, &texts[5], &texts[6], &texts[7], &texts[8]); err != nil {
				return err
			}
			for i, text := range texts {
				exact[i].SetString(text, 10) // sums of whole numbers, so they are
			}
			if stop = fn(&u); stop != nil {
				return nil
			}
		}
		return rows.Err()
	})
	if stop != nil {
		return stop
	}
	return wrap(err, "read usage by day")
}
