package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/reports"
)

// Report makes a report of what was charged; what its figures mean is package reports' word. The query has been checked. now bounds
// what runs still. Whole months, days or hours of the period come from the sums that RollUp keeps, what is left of it from the
// charges: well below a second, however many there are. Some forms read all charges of the period, at about a million a second:
// those of a host; those of nodes and GPUs with any filter; those by day, week or month with a filter, unless the site's days are
// those of UTC (weeks and months then only read the charges around their ends). A filter by user uses an index.
func (s *Store) Report(ctx context.Context, q reports.Query, now time.Time) (*reports.Table, error) {
	return s.report(ctx, q, now, exactWaits)
}

// report reads up to exact attempts one by one for their waits, where their sums would do.
func (s *Store) report(ctx context.Context, q reports.Query, now time.Time, exact int64) (*reports.Table, error) {
	var t *reports.Table
	err := s.reading(ctx, func(tx pgx.Tx) (err error) {
		switch {
		case q.Kind == reports.Nodes:
			t, err = nodeReport(ctx, tx, q, now)
		case q.Kind == reports.GPUs:
			t, err = gpuReport(ctx, tx, q, now)
		case q.Kind == reports.Utilisation:
			t, err = utilisationReport(ctx, tx, q, now)
		case q.By == reports.ByJob:
			t, err = jobReport(ctx, tx, q)
		default:
			t, err = groupReport(ctx, tx, q, exact)
		}
		if err == nil && (q.Kind == reports.Nodes || q.Kind == reports.GPUs) {
			err = noteLost(ctx, tx, q, t)
		}
		return err
	})
	return t, wrap(err, "report")
}

// FirstCharge is when the first attempt ended that was charged; before, where there is none. Where its charge is archived it is up to
// a quarter of an hour earlier.
func (s *Store) FirstCharge(ctx context.Context, before time.Time) (time.Time, error) {
	first := before
	err := s.reading(ctx, func(tx pgx.Tx) error {
		var quarter *time.Time
		if err := tx.QueryRow(ctx, "SELECT min(start) FROM ended_sums WHERE level = 'quarter'").Scan(&quarter); err != nil {
			return err
		}
		if quarter == nil {
			return tx.QueryRow(ctx, "SELECT coalesce(min(ended), $1) FROM charges", before).Scan(&first)
		}
		var v coverage
		c := conditions{}
		if err := tx.QueryRow(ctx, "SELECT seq FROM ended_mark").Scan(&v.mark); err != nil {
			return err
		}
		c.where = append(c.where, v.behind(&c))
		within := *quarter
		return tx.QueryRow(ctx, fmt.Sprintf("SELECT least(coalesce((SELECT min(ended) FROM charges WHERE ended >= %[1]s AND ended < %[2]s), %[1]s), (SELECT min(ended) FROM charges WHERE %[3]s))",
			c.arg(within)+"::timestamptz", c.arg(within.Add(15*time.Minute))+"::timestamptz", &c), c.args...).Scan(&first)
	})
	return first.UTC(), wrap(err, "find the first charge")
}

// reading runs f in one read-only transaction, set up for long queries: compiling them costs more than it saves.
func (s *Store) reading(ctx context.Context, f func(pgx.Tx) error) error {
	return s.reader.with(ctx, func(c *pgx.Conn) error {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if _, err := tx.Exec(ctx, "SET LOCAL jit = off; SET LOCAL work_mem = '128MB'"); err != nil {
			return err
		}
		return f(tx)
	})
}

// conditions are the parts of a WHERE, with their arguments.
type conditions struct {
	where []string
	args  []any
}

// add appends a condition; $$ in it stands for the argument's name.
func (c *conditions) add(cond string, arg any) {
	c.args = append(c.args, arg)
	c.where = append(c.where, strings.ReplaceAll(cond, "$$", fmt.Sprintf("$%d", len(c.args))))
}

// arg appends an argument and returns its name.
func (c *conditions) arg(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}

func (c *conditions) String() string {
	if len(c.where) == 0 {
		return "true"
	}
	return strings.Join(c.where, " AND ")
}

func (c *conditions) period(column string, p reports.Period) {
	if !p.From.IsZero() {
		c.add(column+" >= $$", p.From)
	}
	if !p.To.IsZero() {
		c.add(column+" < $$", p.To)
	}
}

func (c *conditions) filter(f reports.Filter) {
	for _, x := range []struct{ column, value string }{
		{"user_name", f.User}, {accountOf, f.Account}, {"queue", f.Queue}, {"coalesce(project, '')", f.Project},
	} {
		if x.value != "" {
			c.add(x.column+" = $$", text(x.value))
		}
	}
	if f.Host != "" {
		c.add(onHost, onHostPatterns([]string{f.Host}))
	}
}

// Columns of charges, as an older batchd wrote them, too.
const (
	accountOf = "coalesce(nullif(account, ''), 'default')"
	// final are the attempts with which an element ended. A lost attempt that waits again has no verdict, or brequeue's.
	final  = "(outcome IN ('done', 'exit') OR outcome = 'lost' AND verdict <> '' AND NOT starts_with(verdict, 'TERM_REQUEUE'))"
	onHost = "',' || coalesce(nodes, '') LIKE ANY ($$)"
)

// onHostPatterns find a node among the parts 'n1=4,n2=2'.
func onHostPatterns(hosts []string) []string {
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = "%," + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, ",", `\_`).Replace(text(h)) + "=%"
	}
	return out
}

// cut takes the row off that only showed that there were more, and says so.
func cut(t *reports.Table, q reports.Query) {
	if len(t.Rows) <= q.Limit {
		return
	}
	t.Rows = t.Rows[:q.Limit]
	if q.Kind != reports.Wasters { // whose point is the top
		t.Notes = append(t.Notes, fmt.Sprintf("only the first %d rows are shown: there are more (-n N shows up to %d)", q.Limit, reports.MaxLimit))
	}
}

// hours of a sum of amount × milliseconds, one of which is worth unit.
func hours(sum, unit float64) string { return reports.Number(sum/unit/3_600_000, 3) }

const gib = 1 << 30
