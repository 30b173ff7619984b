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
// are in jobs, others in history.
const finished = `FROM (
	SELECT c.job, c.idx, c.user_name, coalesce(nullif(c.account, ''), 'default') AS account, c.queue, coalesce(c.project, '') AS project, c.nodes, c.began, c.ended, c.cpu_ns, c.max_memory,
		c.outcome = 'done' AS done, coalesce(h.submitted, j.submitted, c.began, c.ended) AS submitted, coalesce(h.name, j.name, '') AS name
	FROM (SELECT * FROM charges WHERE ` + final + ` AND %[1]s) c LEFT JOIN history h ON h.job = c.job LEFT JOIN jobs j ON j.id = c.job
	UNION ALL
	SELECT job, idx, user_name, account, queue, project, NULL, NULL, ended, 0, 0, false, submitted, name FROM cancelled WHERE %[1]s) x WHERE %[2]s`

// finishedWhere gives the conditions on columns that both parts of finished have, and those on what is joined.
func finishedWhere(q *reports.FinishedQuery) (inner, outer string, args []any) {
	var c, after conditions
	c.period("ended", q.Ended)
	list := func(column string, names []string) {
		if len(names) > 0 {
			c.add(column+" = ANY ($$)", texts(names))
		}
	}
	list("user_name", q.Users)
	list("queue", q.Queues)
	list("coalesce(project, '')", q.Projects)
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
	after.args = c.args // numbered on
	after.period("submitted", q.Submitted)
	after.period("began", q.Dispatched)
	if len(q.Hosts) > 0 {
		after.add(onHost, onHostPatterns(q.Hosts))
	}
	if q.Done != q.Failed {
		after.add("done = $$", q.Done)
	}
	return c.String(), after.String(), after.args
}

func texts(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = text(s)
	}
	return out
}

// Summarise sums the jobs that q names.
func (s *Store) Summarise(ctx context.Context, q *reports.FinishedQuery) (reports.Summary, error) {
	var m reports.Summary
	err := s.reading(ctx, func(tx pgx.Tx) error {
		inner, outer, args := finishedWhere(q)
		var first, last *time.Time
		// OFFSET 0 lets each time be worked out once for a row, not once for each sum.
		err := tx.QueryRow(ctx, `SELECT count(*) FILTER (WHERE done), count(*) FILTER (WHERE NOT done), count(began),
			coalesce(sum(cpu), 0), coalesce(max(cpu), 0), coalesce(min(cpu), 0), coalesce(sum(wait), 0), coalesce(max(wait), 0), coalesce(min(wait), 0),
			coalesce(sum(turn), 0), coalesce(max(turn), 0), coalesce(min(turn), 0), coalesce(sum(hog), 0), coalesce(max(hog), 0), coalesce(min(hog), 0),
			coalesce(sum(turn / nullif(run, 0)), 0), coalesce(sum(run), 0), min(ended), max(ended)
			FROM (SELECT done, began, ended, submitted, cpu_ns / 1e9::float8 AS cpu `+fmt.Sprintf(finished, inner, outer)+`) y
			CROSS JOIN LATERAL (SELECT greatest(date_part('epoch', coalesce(began, ended) - submitted), 0) AS wait, greatest(date_part('epoch', ended - submitted), 0) AS turn,
				coalesce(greatest(date_part('epoch', ended - began), 0), 0) AS run OFFSET 0) t
			CROSS JOIN LATERAL (SELECT coalesce(cpu / nullif(turn, 0), 0) AS hog OFFSET 0) h`, args...).Scan(&m.Done, &m.Failed, &m.Started,
			&m.CPU.Sum, &m.CPU.Max, &m.CPU.Min, &m.Wait.Sum, &m.Wait.Max, &m.Wait.Min, &m.Turnaround.Sum, &m.Turnaround.Max, &m.Turnaround.Min,
			&m.Hog.Sum, &m.Hog.Max, &m.Hog.Min, &m.Expansion, &m.Run, &first, &last)
		if err != nil || first == nil {
			return err
		}
		m.First, m.Last = first.UTC(), last.UTC()
		return nil
	})
	return m, wrap(err, "summarise jobs")
}

// Finished calls fn for each job that q names, in the order of their ends. fn must not keep the pointer.
func (s *Store) Finished(ctx context.Context, q *reports.FinishedQuery, fn func(*reports.Finished) error) error {
	var stop error // fn's own
	err := s.reading(ctx, func(tx pgx.Tx) error {
		inner, outer, args := finishedWhere(q)
		rows, err := tx.Query(ctx, `SELECT job, idx, user_name, account, queue, project, name, coalesce(nodes, ''), submitted, began, ended, cpu_ns, max_memory, done
			`+fmt.Sprintf(finished, inner, outer)+" ORDER BY ended, job, idx", args...)
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
