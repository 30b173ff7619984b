package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/queue"
	"fairslice/reports"
)

// finished are the elements that are over, each once: by its last attempt, or without one. Jobs that are in the Book still
// are in jobs, others in history. Whoever wants no name does not pay for the joins.
const finished = `FROM (
	SELECT c.job, c.idx, c.user_name, coalesce(nullif(c.account, ''), 'default') AS account, c.queue, coalesce(c.project, '') AS project, c.nodes, c.began, c.ended, c.cpu_ns, c.max_memory,
		c.outcome = 'done' AS done, ` + submittedOf + ` AS submitted, coalesce(h.name, j.name, '') AS name
	FROM (SELECT * FROM charges WHERE ` + final + ` AND %[1]s AND %[3]s) c LEFT JOIN history h ON h.job = c.job LEFT JOIN jobs j ON j.id = c.job
	UNION ALL
	SELECT job, idx, user_name, account, queue, project, NULL, NULL, ended, 0, 0, false, submitted, name FROM cancelled WHERE %[1]s) x WHERE %[2]s`

// of adds conditions on who the jobs are of.
func (c *conditions) of(q *reports.FinishedQuery) {
	list := func(column string, names []string) {
		if len(names) > 0 {
			c.add(column+" = ANY ($$)", texts(names))
		}
	}
	list("user_name", q.Users)
	list("queue", q.Queues)
	list("coalesce(project, '')", q.Projects)
}

// finishedFrom completes a query on finished by its conditions. v says which charges are read; nil is all.
func finishedFrom(q *reports.FinishedQuery, v *coverage) (from string, args []any) {
	var c, after, charges conditions
	c.period("ended", q.Ended)
	c.of(q)
	if len(q.IDs) > 0 {
		var job []int64
		var first, last, step []int32
		for _, r := range q.IDs {
			job, first, last, step = append(job, r.Job), append(first, r.First), append(last, r.Last), append(step, max(r.Step, 1))
		}
		jobs := c.arg(job)
		c.where = append(c.where, fmt.Sprintf(`job = ANY (%[1]s) AND EXISTS (SELECT FROM unnest(%[1]s::bigint[], %[2]s::int[], %[3]s::int[], %[4]s::int[]) r(j, f, l, s)
			WHERE j = job AND idx BETWEEN f AND l AND (idx - f) %% s = 0)`, jobs, c.arg(first), c.arg(last), c.arg(step)))
	}
	charges.args = c.args // numbered on
	if v != nil {
		v.rest(&charges)
	}
	after.args = charges.args
	after.period("submitted", q.Submitted)
	after.period("began", q.Dispatched)
	if len(q.Hosts) > 0 {
		after.add(onHost, onHostPatterns(q.Hosts))
	}
	if q.Done != q.Failed {
		after.add("done = $$", q.Done)
	}
	return fmt.Sprintf(finished, &c, &after, &charges), after.args
}

func texts(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = text(s)
	}
	return out
}

// Summarise sums the jobs that q names. Where it names them by user, queue, project and the time of their ends only, most of them
// are in the sums that RollUp keeps; else it reads the charges, about half a million a second.
func (s *Store) Summarise(ctx context.Context, q *reports.FinishedQuery) (reports.Summary, error) {
	var m reports.Summary
	err := s.reading(ctx, func(tx pgx.Tx) error {
		var v *coverage
		if len(q.IDs) == 0 && len(q.Hosts) == 0 && q.Done == q.Failed && q.Submitted == (reports.Period{}) && q.Dispatched == (reports.Period{}) {
			ladder := keyed
			if len(q.Users)+len(q.Queues)+len(q.Projects) == 0 {
				ladder = unkeyed
			}
			var err error
			if v, err = coverageOf(ctx, tx, q.Ended, nil, ladder); err != nil {
				return err
			}
		}
		var err error
		if m, err = summariseRaw(ctx, tx, q, v); err != nil || v == nil || !v.covered() {
			return err
		}
		sums, err := summariseSums(ctx, tx, q, v)
		m.Merge(&sums)
		return err
	})
	return m, wrap(err, "summarise jobs")
}

// summariseRaw reads each charge, and what was cancelled.
func summariseRaw(ctx context.Context, tx pgx.Tx, q *reports.FinishedQuery, v *coverage) (m reports.Summary, err error) {
	from, args := finishedFrom(q, v)
	var first, last *time.Time
	// OFFSET 0 lets each time be worked out once for a row, not once for each sum.
	err = tx.QueryRow(ctx, `SELECT count(*) FILTER (WHERE done), count(*) FILTER (WHERE NOT done), count(began),
		coalesce(sum(cpu), 0), coalesce(max(cpu), 0), coalesce(min(cpu), 0), coalesce(sum(wait), 0), coalesce(max(wait), 0), coalesce(min(wait), 0),
		coalesce(sum(turn), 0), coalesce(max(turn), 0), coalesce(min(turn), 0), coalesce(sum(hog), 0), coalesce(max(hog), 0), coalesce(min(hog), 0),
		coalesce(sum(turn / nullif(run, 0)), 0), coalesce(sum(run), 0), min(ended), max(ended)
		FROM (SELECT done, began, ended, submitted, cpu_ns / 1e9::float8 AS cpu `+from+`) y
		CROSS JOIN LATERAL (SELECT greatest(date_part('epoch', coalesce(began, ended) - submitted), 0) AS wait, greatest(date_part('epoch', ended - submitted), 0) AS turn,
			coalesce(greatest(date_part('epoch', ended - began), 0), 0) AS run OFFSET 0) t
		CROSS JOIN LATERAL (SELECT coalesce(cpu / nullif(turn, 0), 0) AS hog OFFSET 0) h`, args...).Scan(&m.Done, &m.Failed, &m.Started,
		&m.CPU.Sum, &m.CPU.Max, &m.CPU.Min, &m.Wait.Sum, &m.Wait.Max, &m.Wait.Min, &m.Turnaround.Sum, &m.Turnaround.Max, &m.Turnaround.Min,
		&m.Hog.Sum, &m.Hog.Max, &m.Hog.Min, &m.Expansion, &m.Run, &first, &last)
	if err == nil && first != nil {
		m.First, m.Last = first.UTC(), last.UTC()
	}
	return m, err
}

// summariseSums reads the spans of v.
func summariseSums(ctx context.Context, tx pgx.Tx, q *reports.FinishedQuery, v *coverage) (m reports.Summary, err error) {
	var narrow conditions
	from := v.spans(&narrow, "ended_sums")
	narrow.of(q)
	spread := func(name, unit string) string {
		return fmt.Sprintf("coalesce(sum(job_%[1]s%[2]s)::float8, 0), coalesce(max(job_%[1]s_max)::float8, 0), coalesce(min(job_%[1]s_min)::float8, 0), ", name, unit)
	}
	var jobs int64
	var first, last *time.Time
	err = tx.QueryRow(ctx, "SELECT coalesce(sum(jobs), 0)::bigint, coalesce(sum(done), 0)::bigint, coalesce(sum(job_started), 0)::bigint, "+
		spread("cpu", "_ns")+spread("wait", "_us")+spread("turn", "_us")+spread("hog", "")+
		"coalesce(sum(job_expansion)::float8, 0), coalesce(sum(job_run_us)::float8, 0), min(first_ended), max(last_ended) FROM "+from+" WHERE jobs > 0 AND "+narrow.String(), narrow.args...).Scan(
		&jobs, &m.Done, &m.Started, &m.CPU.Sum, &m.CPU.Max, &m.CPU.Min, &m.Wait.Sum, &m.Wait.Max, &m.Wait.Min, &m.Turnaround.Sum, &m.Turnaround.Max, &m.Turnaround.Min,
		&m.Hog.Sum, &m.Hog.Max, &m.Hog.Min, &m.Expansion, &m.Run, &first, &last)
	if err != nil || first == nil {
		return m, err
	}
	m.Failed, m.First, m.Last = jobs-m.Done, first.UTC(), last.UTC()
	for _, x := range []struct {
		spread *reports.Spread
		unit   float64
	}{{&m.CPU, 1e9}, {&m.Wait, 1e6}, {&m.Turnaround, 1e6}, {&m.Hog, 1e9}} {
		x.spread.Sum, x.spread.Max, x.spread.Min = x.spread.Sum/x.unit, x.spread.Max/x.unit, x.spread.Min/x.unit
	}
	m.Expansion /= 1e9
	m.Run /= 1e6
	return m, nil
}

// Finished calls fn for each job that q names, in the order of their ends. fn must not keep the pointer.
func (s *Store) Finished(ctx context.Context, q *reports.FinishedQuery, fn func(*reports.Finished) error) error {
	var stop error // fn's own
	err := s.reading(ctx, func(tx pgx.Tx) error {
		from, args := finishedFrom(q, nil)
		rows, err := tx.Query(ctx, `SELECT job, idx, user_name, account, queue, project, name, coalesce(nodes, ''), submitted, began, ended, cpu_ns, max_memory, done
			`+from+" ORDER BY ended, job, idx", args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var f reports.Finished
			var nodes string
			var began *time.Time
			if err := rows.Scan(&f.Job, &f.Index, &f.User, &f.Account, &f.Queue, &f.Project, &f.Name, &nodes, &f.Submitted, &began, &f.Ended, &f.CPU, &f.MaxMemory, &f.Done); err != nil {
				return err
			}
			if began != nil {
				f.Dispatched = began.UTC()
			}
			f.Hosts = queue.Parts(nodes).Names()
			f.Submitted, f.Ended = f.Submitted.UTC(), f.Ended.UTC()
			if stop = fn(&f); stop != nil {
				return nil
			}
		}
		return rows.Err()
	})
	if stop != nil {
		return stop
	}
	return wrap(err, "read finished jobs")
}

// insertCancelled records elements that ended without ever having run. Their job's row is written before it in the same commit.
// Two texts are cut out of the JSON of spec, as they are escaped there: PostgreSQL's own functions fail on any \u0000 in
// a user's words. A quote within a text has a backslash before it, so no text can be taken for a key.
const insertCancelled = `INSERT INTO cancelled (job, idx, user_name, account, queue, project, name, submitted, ended)
	SELECT j.id, t.idx, j.owner, coalesce(nullif(substring(j.spec::text FROM '"account":"((?:[^"\\]|\\.)*)"'), ''), 'default'), j.queue,
		coalesce(substring(j.spec::text FROM '"project":"((?:[^"\\]|\\.)*)"'), ''), j.name, j.submitted, t.at
	FROM unnest($1::bigint[], $2::int[], $3::timestamptz[]) t(job, idx, at) JOIN jobs j ON j.id = t.job`

// addCancelled costs nothing in a batch without such ends.
func (st *statements) addCancelled(events []queue.Event) {
	var job []int64
	var idx []int32
	var at []time.Time
	for i := range events {
		if end, ok := events[i].Body.(*queue.Ended); ok && end.Attempt == 0 {
			job, idx, at = append(job, int64(events[i].Job)), append(idx, int32(events[i].Index)), append(at, events[i].At)
		}
	}
	if len(job) > 0 {
		st.batch.Queue(insertCancelled, job, idx, at)
	}
}
