package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/reports"
)

// Report makes a report over the charges; what its figures mean is package reports' word. The query has been checked. now bounds
// what runs still. It reads the raw charges of the period: about a second for a million.
func (s *Store) Report(ctx context.Context, q reports.Query, now time.Time) (*reports.Table, error) {
	var t *reports.Table
	err := s.reading(ctx, func(tx pgx.Tx) (err error) {
		switch {
		case q.Kind == reports.Nodes:
			t, err = nodeReport(ctx, tx, q, now)
		case q.Kind == reports.GPUs:
			t, err = gpuReport(ctx, tx, q, now)
		case q.By == reports.ByJob:
			t, err = jobReport(ctx, tx, q)
		default:
			t, err = groupReport(ctx, tx, q)
		}
		return err
	})
	return t, wrap(err, "report")
}

// FirstCharge is when the first attempt ended that was charged; before, where there is none.
func (s *Store) FirstCharge(ctx context.Context, before time.Time) (time.Time, error) {
	first := before
	err := s.reading(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT coalesce(min(ended), $1) FROM charges", before).Scan(&first)
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
	// heldMillis is how long an attempt held what it did; null where an older version's never began. It is worked out once for
	// each use, so it is kept short, and is float8, which has sums of whole numbers exactly up to 2^53.
	heldMillis = "date_part('epoch', ended - began) * 1000"
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

// charged are the figures of an attempt that the reports sum.
const charged = `SELECT %s AS key, ms, outcome, waited_ms, began, cpu_ns, sm_ns,
	coalesce(slots * ms, slot_seconds * 1000) AS slot_ms, coalesce(fgpu * ms, fgpu_seconds * 100000) AS fgpu_ms,
	gpus * ms AS gpu_ms, memory * ms AS byte_ms, CASE WHEN memory > 0 THEN max_memory * ms END AS used_byte_ms, ` + final + ` AS final`

// groupReport has a row for each user, queue, day and so on.
func groupReport(ctx context.Context, tx pgx.Tx, q reports.Query) (*reports.Table, error) {
	var c conditions
	c.period("ended", q.Period)
	c.filter(q.Filter)
	var key string
	var parts []time.Time
	switch q.By {
	case reports.ByUser:
		key = "user_name COLLATE \"C\"" // whose comparison is quick
	case reports.ByAccount:
		key = accountOf + " COLLATE \"C\""
	case reports.ByQueue:
		key = "queue COLLATE \"C\""
	case reports.ByProject:
		key = "coalesce(project, '') COLLATE \"C\""
	case reports.ByImage:
		key = "coalesce(image, '') COLLATE \"C\""
	default: // the calendar is Go's: the database need not know the site's time zone
		if q.Period.From.IsZero() || q.Period.To.IsZero() {
			return nil, fmt.Errorf("a calendar needs both ends of the period")
		}
		var err error
		if parts, err = q.Period.Parts(q.By, q.Zone); err != nil {
			return nil, err
		}
		key = "width_bucket(ended, " + c.arg(parts) + "::timestamptz[])"
	}
	f := figures[q.Kind]
	order := f.order
	if parts != nil {
		order = "key"
	}
	from := fmt.Sprintf("FROM (SELECT *, %s AS ms FROM charges WHERE %s) c %s", heldMillis, &c, f.join)
	sql := fmt.Sprintf("SELECT key::text, %s FROM ("+charged+" %s %s) x GROUP BY key ORDER BY %s LIMIT %d", f.columns, key, f.more, from, order, q.Limit+1)
	rows, err := tx.Query(ctx, sql, c.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	t := &reports.Table{Columns: append([]reports.Column{{Name: string(q.By), Text: true}}, f.titles...)}
	for rows.Next() {
		var name string
		cells, err := f.scan(rows, &name)
		if err != nil {
			return nil, err
		}
		if parts != nil {
			var n int
			if _, err := fmt.Sscan(name, &n); err != nil || n < 1 || n > len(parts) {
				return nil, fmt.Errorf("part %q of a calendar of %d", name, len(parts))
			}
			name = reports.PartName(parts[n-1], q.By)
		}
		t.Add(append([]string{name}, cells...)...)
	}
	cut(t, q)
	return t, rows.Err()
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
