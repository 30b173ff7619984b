package store

import "fmt"

const (
	// endedKey is the key of ended_sums, lastKey all of it but the interval.
	endedKey = "level, start, " + lastKey
	lastKey  = "account, user_name, queue, project, image"
	levelKey = "k.level, k.start, k.account, k.user_name, k.queue, k.project, k.image"
	// Each charge adds to a day and to a quarter of an hour, with the key that these have; and those to a month, and an hour.
	daysOf = ` CROSS JOIN LATERAL (VALUES ('day', date_trunc('day', c.ended, 'UTC'), c.account, c.user_name, c.queue, c.project, c.image),
		('quarter', date_bin('15 minutes', c.ended, 'epoch'), '', '', '', '', '')) k(` + endedKey + ")"
	monthsOf = "CASE level WHEN 'day' THEN 'month' ELSE 'hour' END AS level, CASE level WHEN 'day' THEN date_trunc('month', start, 'UTC') ELSE date_bin('1 hour', start, 'epoch') END AS start, " + lastKey
	// tenths is a wait as wait_bucket takes it.
	tenths = "least(greatest(waited_ms, 0) / 100, 2147483647)::int"
)

// sumEnded sums charges, which stand in new, by the key of ended_sums. What each of them adds is worked out once, not for each sum; and
// lengths of waits are counted apart.
var sumEnded = "SELECT sums.*, coalesce(lengths.waits, '{}') AS waits FROM (WITH one AS MATERIALIZED (SELECT ended, " + accountOf + " AS account, user_name, queue, " +
	"coalesce(project, '') AS project, coalesce(image, '') AS image, " + each(facts, func(f *fact) string { return f.exact() + " AS f_" + f.name }) + " FROM " + fmt.Sprintf(attempts, "new") + jobTimes + `),
	fine AS MATERIALIZED (SELECT ` + levelKey + ", " + each(facts, func(f *fact) string { return f.total("f_"+f.name) + " AS " + f.name }) + " FROM one c" + daysOf + " GROUP BY " + levelKey + `)
	SELECT * FROM fine UNION ALL SELECT ` + monthsOf + ", " + each(facts, func(f *fact) string { return f.total(f.name) }) + " FROM fine GROUP BY 1, 2, " + lastKey + `) sums
	LEFT JOIN (WITH fine AS MATERIALIZED (SELECT ` + levelKey + ", bucket, count(*) AS n FROM (SELECT ended, " + accountOf + ` AS account, user_name, queue,
			coalesce(project, '') AS project, coalesce(image, '') AS image, wait_bucket(` + tenths + ") AS bucket FROM new WHERE waited_ms IS NOT NULL OFFSET 0) c" + daysOf + " GROUP BY " + levelKey + `, bucket)
		SELECT ` + endedKey + `, array_agg((bucket::bigint << 40) + n ORDER BY bucket) AS waits FROM (SELECT * FROM fine
			UNION ALL SELECT ` + monthsOf + ", bucket, sum(n)::bigint FROM fine GROUP BY 1, 2, " + lastKey + `, bucket) counted
		GROUP BY ` + endedKey + ") lengths USING (" + endedKey + ")"

// addEnded adds the sums of new to the table.
var addEnded = "INSERT INTO ended_sums AS u (" + endedKey + ", " + factNames(facts) + ", waits) " + sumEnded +
	" ON CONFLICT (" + endedKey + ") DO UPDATE SET " + each(facts, func(f *fact) string {
	switch f.how {
	case "sum":
		return fmt.Sprintf("%[1]s = u.%[1]s + excluded.%[1]s", f.name)
	case "min":
		return fmt.Sprintf("%[1]s = least(u.%[1]s, excluded.%[1]s)", f.name)
	}
	return fmt.Sprintf("%[1]s = greatest(u.%[1]s, excluded.%[1]s)", f.name)
}) + `, waits = (SELECT coalesce(array_agg((bucket << 40) + n ORDER BY bucket), '{}')
	FROM (SELECT w >> 40 AS bucket, sum(w & 1099511627775)::bigint AS n FROM unnest(u.waits || excluded.waits) w GROUP BY 1) both_)`

// sumHeld sums what nodes and GPUs gave to rows of ledger, which stand in new, by the key of held_sums. A part is a name, "=" and an
// amount; the last "=" counts. What held the same is summed first.
const sumHeld = `SELECT level, start, what, substring(part FROM '^(.+)=\d+$') AS name, sum(substring(part FROM '=(\d+)$')::numeric * ms) AS amount_ms
	FROM (SELECT nodes, gpu_slices, to_timestamp(day * 86400) AS day, sum(least(ended_ms, (day + 1) * 86400000) - greatest(began_ms, day * 86400000)) AS ms
		FROM (SELECT nodes, gpu_slices, began_ms, ended_ms FROM new OFFSET 0) l CROSS JOIN LATERAL generate_series(began_ms / 86400000, (ended_ms - 1) / 86400000) day
		WHERE began_ms < ended_ms GROUP BY nodes, gpu_slices, day) days
	CROSS JOIN LATERAL (SELECT 'node', string_to_table(nodes, ',') UNION ALL SELECT 'gpu', string_to_table(gpu_slices, ',')) parts(what, part)
	CROSS JOIN LATERAL (VALUES ('day', day), ('month', date_trunc('month', day, 'UTC'))) k(level, start)
	WHERE part ~ '^.+=\d+$' GROUP BY 1, 2, 3, 4`

const addHeld = "INSERT INTO held_sums AS u (level, start, what, name, amount_ms) " + sumHeld +
	" ON CONFLICT (level, start, what, name) DO UPDATE SET amount_ms = u.amount_ms + excluded.amount_ms"

var (
	endedNewer = "WITH new AS MATERIALIZED (SELECT * FROM charges WHERE seq > $1 AND seq <= $2) " + addEnded
	// Those of an older batchd are in usage_hours, and are marked as they are added here.
	endedOlder = `WITH taken AS (UPDATE charges SET seq = -1 WHERE ctid = ANY (ARRAY(SELECT ctid FROM charges WHERE seq = 0 LIMIT $1)) RETURNING *),
	held AS (` + "WITH new AS (SELECT l.* FROM ledger l JOIN taken USING (job, idx, attempt)) " + addHeld + `), new AS (SELECT * FROM taken) ` + addEnded

	checkEnded = "WITH new AS MATERIALIZED (SELECT * FROM charges WHERE seq = -1 OR seq > 0 AND seq <= (SELECT seq FROM ended_mark)) " +
		"SELECT format('what ended in the %s of %s, account %s, user %s, queue %s, project %s, image %s: charges give %s, the rollup has %s', " + endedKey + ", r, u) FROM (" + provenEnded +
		") r FULL JOIN ended_sums u USING (" + endedKey + ") WHERE (" + each(facts, func(f *fact) string { return "r." + f.name }) + ", r.waits) IS DISTINCT FROM (" +
		each(facts, func(f *fact) string { return "u." + f.name }) + ", u.waits) LIMIT 100"
)

const (
	heldNewer = "WITH new AS (SELECT * FROM ledger WHERE seq > $1 AND seq <= $2) " + addHeld
	checkHeld = "WITH new AS (SELECT * FROM ledger WHERE seq = -1 OR seq > 0 AND seq <= (SELECT seq FROM ended_mark)) " +
		"SELECT format('what %s %s gave in the %s of %s: charges give %s, the rollup has %s', what, name, level, start, r.amount_ms, u.amount_ms) FROM (" + provenHeld +
		") r FULL JOIN held_sums u USING (level, start, what, name) WHERE r.amount_ms IS DISTINCT FROM u.amount_ms LIMIT 100"
)
