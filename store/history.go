package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"fairslice/queue"
)

type eventRow struct {
	seq, term, job int64
	idx            int32
	at             time.Time
	by, kind, body string
}

// selectEvents is completed by a condition and an order.
const selectEvents = `SELECT seq, at, job, idx, by_user, kind, body::text FROM events `

// Events calls fn for every event after a number, in order, as they arrive: the whole history need not fit into
// memory. The first error of fn ends it and is returned as it is.
func (s *Store) Events(ctx context.Context, after int64, fn func(queue.Event) error) error {
	return s.eachEvent(ctx, fn, selectEvents+"WHERE seq > $1 ORDER BY seq", after)
}

// EventsOf returns all events of some jobs, in order.
func (s *Store) EventsOf(ctx context.Context, jobs []queue.JobID) ([]queue.Event, error) {
	var out []queue.Event
	err := s.eachEvent(ctx, func(ev queue.Event) error {
		out = append(out, ev)
		return nil
	}, selectEvents+"WHERE job = ANY ($1) AND job <> 0 ORDER BY seq", ints(jobs))
	return out, err
}

func (s *Store) eachEvent(ctx context.Context, fn func(queue.Event) error, sql string, args ...any) error {
	var stop error // fn's own, not to be taken for the database's
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var ev queue.Event
			var kind queue.Kind
			var body pgtype.DriverBytes
			if err := rows.Scan(&ev.Seq, &ev.At, &ev.Job, &ev.Index, &ev.By, &kind, &body); err != nil {
				return err
			}
			ev.At = ev.At.UTC()
			if ev.Body, err = queue.DecodeBody(kind, body); err != nil {
				return fmt.Errorf("event %d: %w", ev.Seq, err)
			}
			if stop = fn(ev); stop != nil {
				return nil
			}
		}
		return rows.Err()
	})
	if stop != nil {
		return stop
	}
	return wrap(err, "read events")
}

// HistoryFilter names jobs that are no longer in the Book. Its parts are ANDed; the zero value means any.
type HistoryFilter struct {
	IDs   []queue.JobID
	User  string
	Queue string    // where it was last
	Name  string    // with * wildcards
	Since time.Time // ended at this time or later
	Until time.Time // submitted before this time
	Limit int       // at most so many, the newest; 0 is all
}

// FindHistory returns the forgotten jobs that f names, by number; EventsOf tells what happened to them.
func (s *Store) FindHistory(ctx context.Context, f HistoryFilter) ([]queue.JobID, error) {
	var where []string
	var args []any
	and := func(cond string, arg any) {
		args = append(args, arg)
		where = append(where, fmt.Sprintf(cond, len(args)))
	}
	if f.IDs != nil {
		and("job = ANY ($%d)", ints(f.IDs))
	}
	if f.User != "" {
		and("owner = $%d", text(f.User))
	}
	if f.Queue != "" {
		and("queue = $%d", text(f.Queue))
	}
	if f.Name != "" {
		and("name LIKE $%d", like(text(f.Name)))
	}
	if !f.Since.IsZero() {
		and("ended >= $%d", f.Since)
	}
	if !f.Until.IsZero() {
		and("submitted < $%d", f.Until)
	}
	sql := "SELECT job FROM history"
	if where != nil {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	sql += " ORDER BY job DESC"
	if f.Limit > 0 {
		args = append(args, f.Limit)
		sql += fmt.Sprintf(" LIMIT $%d", len(args))
	}
	var out []queue.JobID
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT job FROM ("+sql+") newest ORDER BY job", args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowTo[queue.JobID])
		return err
	})
	return out, wrap(err, "find jobs in the history")
}

// like makes a LIKE pattern of a name with * wildcards.
func like(name string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%").Replace(name)
}

// JobByToken finds the job that a user submitted with a token, in the Book or forgotten.
func (s *Store) JobByToken(ctx context.Context, user, token string) (id queue.JobID, found bool, err error) {
	if token == "" {
		return 0, false, nil
	}
	err = s.reader.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT coalesce((SELECT id FROM jobs WHERE owner = $1 AND token = $2 AND token <> ''),
			(SELECT max(job) FROM history WHERE owner = $1 AND token = $2 AND token <> ''), 0)`, text(user), text(token)).Scan(&id)
	})
	return id, id != 0, wrap(err, "find the job of a token")
}

func bound(t time.Time, zero pgtype.InfinityModifier) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: zero, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}

func ints(ids []queue.JobID) []int64 {
	out := make([]int64, len(ids))
	for i, id := range ids {
		out[i] = int64(id)
	}
	return out
}
