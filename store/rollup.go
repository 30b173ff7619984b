package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// rollUpStep bounds one transaction of RollUp, in events or in charges of an older batchd.
const rollUpStep = 50_000

// hourSums are the columns of usage_hours after its key.
const hourSums = "ms, slot_ms, fgpu_ms, gpu_ms, memory_mib_ms, attempts, done, exited, suspended_ms, waited_ms, cpu_ns, sm_ns"

// sumHours sums rows of ledger, which stand in new, by the key of usage_hours.
const sumHours = `SELECT hour, account, user_name, queue, sum(ms) AS ms, sum(slot_ms) AS slot_ms, sum(fgpu_ms) AS fgpu_ms, sum(gpu_ms) AS gpu_ms,
	sum(memory_mib_ms) AS memory_mib_ms, sum(attempts) AS attempts, sum(done) AS done, sum(exited) AS exited,
	sum(suspended_ms) AS suspended_ms, sum(waited_ms) AS waited_ms, sum(cpu_ns) AS cpu_ns, sum(sm_ns) AS sm_ns
	FROM (SELECT h.hour, account, user_name, queue, h.ms, slots::numeric * h.ms AS slot_ms, fgpu::numeric * h.ms AS fgpu_ms,
			gpus::numeric * h.ms AS gpu_ms, memory_mib::numeric * h.ms AS memory_mib_ms,
			0 AS attempts, 0 AS done, 0 AS exited, 0 AS suspended_ms, 0 AS waited_ms, 0 AS cpu_ns, 0 AS sm_ns
		FROM new CROSS JOIN LATERAL hours_of(began_ms, ended_ms) h
		UNION ALL
		SELECT to_timestamp(floor(ended_ms / 3600000.0) * 3600), account, user_name, queue, 0, 0, 0, 0, 0,
			1, (outcome = 'done')::int, (outcome = 'exit')::int, suspended_ms, waited_ms, cpu_ns, sm_ns FROM new) parts
	GROUP BY hour, account, user_name, queue`

// sumConsumables does the same for consumable_hours.
const sumConsumables = `SELECT h.hour, account, user_name, queue, split_part(item, '=', 1) AS name, sum(split_part(item, '=', 2)::numeric * h.ms) AS amount_ms
	FROM new CROSS JOIN LATERAL hours_of(began_ms, ended_ms) h CROSS JOIN LATERAL string_to_table(consumables, ',') item
	WHERE consumables <> '' GROUP BY h.hour, account, user_name, queue, name`

// addHours adds the sums of new to both tables.
const addHours = `, consumed AS (INSERT INTO consumable_hours (hour, account, user_name, queue, name, amount_ms) ` + sumConsumables + `
	ON CONFLICT (hour, account, user_name, queue, name) DO UPDATE SET amount_ms = consumable_hours.amount_ms + excluded.amount_ms)
	INSERT INTO usage_hours AS u (hour, account, user_name, queue, ` + hourSums + `) ` + sumHours + `
	ON CONFLICT (hour, account, user_name, queue) DO UPDATE SET ms = u.ms + excluded.ms, slot_ms = u.slot_ms + excluded.slot_ms,
		fgpu_ms = u.fgpu_ms + excluded.fgpu_ms, gpu_ms = u.gpu_ms + excluded.gpu_ms, memory_mib_ms = u.memory_mib_ms + excluded.memory_mib_ms,
		attempts = u.attempts + excluded.attempts, done = u.done + excluded.done, exited = u.exited + excluded.exited,
		suspended_ms = u.suspended_ms + excluded.suspended_ms, waited_ms = u.waited_ms + excluded.waited_ms,
		cpu_ns = u.cpu_ns + excluded.cpu_ns, sm_ns = u.sm_ns + excluded.sm_ns`

// An older batchd's charges have no number; they are marked as they are added, and there are none when this leader writes.
const addOlder = `WITH taken AS (UPDATE charges SET seq = 0 WHERE ctid = ANY (ARRAY(SELECT ctid FROM charges WHERE seq IS NULL LIMIT $1))
		RETURNING job, idx, attempt),
	new AS (SELECT l.* FROM ledger l JOIN taken USING (job, idx, attempt))` + addHours

const addNewer = `WITH new AS (SELECT * FROM ledger WHERE seq > $1 AND seq <= $2)` + addHours

// summing is one of the sums that are made of the charges, and how far they came.
type summing struct {
	mark  string   // a table of one row: all charges of events up to it are summed
	older string   // the condition on charges of an older batchd that are yet to be
	take  []string // adds at most $1 of those, and marks them
	add   []string // adds charges of events after $1 and up to $2
}

var summings = []summing{
	{mark: "usage_mark", older: "seq IS NULL", take: []string{addOlder}, add: []string{addNewer}},
	{mark: "ended_mark", older: "seq = 0", take: []string{endedOlder}, add: []string{heldNewer, endedNewer}}, // after usage_hours
}

// RollUp brings usage_hours, consumable_hours, ended_sums and held_sums up to the charges that are committed. Each step is one transaction
// with the mark of how far it came, whose row it locks: so a charge counts once, whatever is killed when, and however many
// processes call. It takes nothing from commits but their turn at the disk; call it every minute or so.
func (s *Store) RollUp(ctx context.Context) error { return s.rollUp(ctx, rollUpStep) }

func (s *Store) rollUp(ctx context.Context, step int64) error {
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		for i := range summings {
			for more := true; more; {
				var err error
				if more, err = summings[i].once(ctx, c, step); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return wrap(err, "roll up charges")
}

func (s *summing) once(ctx context.Context, c *pgx.Conn, step int64) (more bool, err error) {
	tx, err := c.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(ctx)
	// A plan for any numbers would read the whole table for the charges of one minute.
	if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = off; SET LOCAL jit = off; SET LOCAL work_mem = '64MB'"); err != nil {
		return false, err
	}
	var mark, last int64
	var older bool
	// The end is read after the lock was got, and before the charges are: events are committed in their order, so all
	// charges up to it are there.
	if err := tx.QueryRow(ctx, "SELECT seq FROM "+s.mark+" FOR UPDATE").Scan(&mark); err != nil {
		return false, err
	}
	err = tx.QueryRow(ctx, "SELECT (SELECT coalesce(max(seq), 0) FROM events), EXISTS (SELECT FROM charges WHERE "+s.older+")").Scan(&last, &older)
	if err != nil {
		return false, err
	}
	to := min(last, mark+step)
	statements, args := s.add, []any{mark, to}
	switch {
	case older:
		statements, args = s.take, []any{step}
	case to <= mark:
		return false, nil
	}
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return false, err
		}
	}
	if !older {
		if _, err := tx.Exec(ctx, "UPDATE "+s.mark+" SET seq = $1", to); err != nil {
			return false, err
		}
	}
	return older || to < last, tx.Commit(ctx)
}

// CheckRollUp compares usage_hours, consumable_hours, ended_sums and held_sums with the charges that they are made of, every sum of every
// row, and returns a sentence for each row that differs, at most 100. It reads all charges.
func (s *Store) CheckRollUp(ctx context.Context) ([]string, error) {
	var out []string
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		for _, sql := range []string{checkHours, checkEnded, checkHeld} {
			rows, err := c.Query(ctx, sql)
			if err != nil {
				return err
			}
			wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			out = append(out, wrong...)
		}
		return nil
	})
	return out[:min(len(out), 100)], wrap(err, "check the rollup of charges")
}

const checkHours = "WITH new AS (SELECT * FROM ledger WHERE seq <= (SELECT seq FROM usage_mark)) " + `(SELECT format('usage of %s, account %s, user %s, queue %s: charges give %s, the rollup has %s', hour, account, user_name, queue, r, u)
	FROM (` + provenHours + `) r FULL JOIN (SELECT hour, account, user_name, queue, ` + hourSums + ` FROM usage_hours) u USING (hour, account, user_name, queue)
	WHERE (r.ms, r.slot_ms, r.fgpu_ms, r.gpu_ms, r.memory_mib_ms, r.attempts, r.done, r.exited, r.suspended_ms, r.waited_ms, r.cpu_ns, r.sm_ns) IS DISTINCT FROM (u.ms, u.slot_ms, u.fgpu_ms, u.gpu_ms, u.memory_mib_ms, u.attempts, u.done, u.exited, u.suspended_ms, u.waited_ms, u.cpu_ns, u.sm_ns) LIMIT 100)
	UNION ALL (SELECT format('%s in %s, account %s, user %s, queue %s: charges give %s, the rollup has %s', name, hour, account, user_name, queue, r.amount_ms, u.amount_ms)
	FROM (` + provenConsumables + `) r FULL JOIN consumable_hours u USING (hour, account, user_name, queue, name)
	WHERE r.amount_ms IS DISTINCT FROM u.amount_ms LIMIT 100)`
