package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// notRolledUp are the charges that some rollup does not have yet; see charges.seq in the migrations.
const notRolledUp = `(seq IS NULL OR seq = 0 OR seq > (SELECT least(u.seq, e.seq) FROM usage_mark u, ended_mark e))`

// kept are the sums that an archive leaves behind: a table, the columns after its first, which is the archive, and what they are made of.
var kept = []struct{ table, columns, from string }{
	{"archived_hours", "hour, account, user_name, queue, " + hourSums, goingLedger + sumHours},
	{"archived_consumable_hours", "hour, account, user_name, queue, name, amount_ms", goingLedger + sumConsumables},
	{"archived_ended_sums", endedKey + ", " + factNames(facts) + ", waits", goingCharges + sumEnded},
	{"archived_held_sums", "level, start, what, name, amount_ms", goingLedger + sumHeld},
}

// The charges of the jobs in the temporary table archiving.
const (
	goingLedger  = "WITH new AS (SELECT l.* FROM ledger l JOIN archiving USING (job)) "
	goingCharges = "WITH new AS MATERIALIZED (SELECT c.* FROM charges c JOIN archiving USING (job)) "
)

// keepSums keeps what the charges that are about to go have added to the rollups, so that CheckRollUp can still prove these.
func keepSums(ctx context.Context, tx pgx.Tx, archive int) error {
	for _, k := range kept {
		if _, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO %s (archive, %s) SELECT $1, r.* FROM (%s) r", k.table, k.columns, k.from), archive); err != nil {
			return fmt.Errorf("%s: %w", k.table, err)
		}
	}
	return nil
}

// dropSums undoes keepSums when an archive's charges are back.
func dropSums(ctx context.Context, tx pgx.Tx, archive int) error {
	for _, k := range kept {
		if _, err := tx.Exec(ctx, "DELETE FROM "+k.table+" WHERE archive = $1", archive); err != nil {
			return err
		}
	}
	return nil
}

// provenHours are the hours as the charges give them: those that are here, of new, and those that are in archives.
const provenHours = `SELECT hour, account, user_name, queue, sum(ms) AS ms, sum(slot_ms) AS slot_ms, sum(fgpu_ms) AS fgpu_ms, sum(gpu_ms) AS gpu_ms,
	sum(memory_mib_ms) AS memory_mib_ms, sum(attempts) AS attempts, sum(done) AS done, sum(exited) AS exited,
	sum(suspended_ms) AS suspended_ms, sum(waited_ms) AS waited_ms, sum(cpu_ns) AS cpu_ns, sum(sm_ns) AS sm_ns
	FROM (` + sumHours + ` UNION ALL SELECT hour, account, user_name, queue, ` + hourSums + ` FROM archived_hours) both_parts
	GROUP BY hour, account, user_name, queue`

// provenConsumables are the same of consumable_hours.
const provenConsumables = `SELECT hour, account, user_name, queue, name, sum(amount_ms) AS amount_ms
	FROM (` + sumConsumables + ` UNION ALL SELECT hour, account, user_name, queue, name, amount_ms FROM archived_consumable_hours) both_parts
	GROUP BY hour, account, user_name, queue, name`

// provenEnded are the same of ended_sums.
var provenEnded = "WITH both_parts AS MATERIALIZED (SELECT * FROM (" + sumEnded + ") here UNION ALL SELECT " + endedKey + ", " + factNames(facts) + ", waits FROM archived_ended_sums) " +
	"SELECT sums.*, coalesce(lengths.waits, '{}') AS waits FROM (SELECT " + endedKey + ", " + each(facts, func(f *fact) string { return fmt.Sprintf("%s(%s) AS %[2]s", f.how, f.name) }) +
	" FROM both_parts GROUP BY " + endedKey + `) sums LEFT JOIN (SELECT ` + endedKey + `, array_agg((bucket << 40) + n ORDER BY bucket) AS waits
	FROM (SELECT ` + endedKey + `, w >> 40 AS bucket, sum(w & 1099511627775)::bigint AS n FROM both_parts CROSS JOIN LATERAL unnest(waits) w GROUP BY ` + endedKey + `, bucket) counted
	GROUP BY ` + endedKey + `) lengths USING (` + endedKey + `)`

// provenHeld are the same of held_sums.
const provenHeld = `SELECT level, start, what, name, sum(amount_ms) AS amount_ms
	FROM (` + sumHeld + ` UNION ALL SELECT level, start, what, name, amount_ms FROM archived_held_sums) both_parts GROUP BY level, start, what, name`
