package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Commit makes b durable: when it returns nil, all of b is on disk, and when it returns an error other than
// Unavailable, nothing of b is. After Unavailable the caller gives the same b again until it gets another answer.
// ErrStaleTerm, ErrConflict and ErrGap stay, and so does the refusal of a CHECK, which is an error in the writer: stop.
//
// It is one transaction in one round trip: the statements go out together, and PostgreSQL commits at the end of
// such a series, or at the first error undoes it. pgx reports success only after the server's word after the commit.
func (s *Store) Commit(ctx context.Context, b *Batch) error {
	st, err := prepare(b)
	if err != nil {
		return fmt.Errorf("commit %s: %w", b, err)
	}
	err = s.writer.with(ctx, func(c *pgx.Conn) error {
		err := c.SendBatch(ctx, &st.batch).Close()
		pg, ok := errors.AsType[*pgconn.PgError](err)
		switch {
		case !ok:
			return err
		case pg.Code == codeStaleTerm:
			return ErrStaleTerm
		case pg.Code == codeGap:
			return fmt.Errorf("%w: %s", ErrGap, pg.Message)
		case pg.Code == codeTaken,
			// Our own first try was still committing when guard_commit looked.
			pg.Code == codeUniqueViolation && pg.TableName == "events":
			return st.compare(ctx, c)
		}
		return err
	})
	return wrap(err, "commit %s", b)
}

// String names a batch in errors.
func (b *Batch) String() string {
	if len(b.Events) == 0 {
		return "a batch without events"
	}
	return fmt.Sprintf("events %d to %d", b.Events[0].Seq, b.Events[len(b.Events)-1].Seq)
}

// compare is nil when the events that are there are this batch's: an earlier try was committed and its answer got lost.
func (st *statements) compare(ctx context.Context, c *pgx.Conn) error {
	e := &st.events
	rows, err := c.Query(ctx, `SELECT seq, term, at, job, idx, by_user, kind, body::text FROM events
		WHERE seq BETWEEN $1 AND $2 ORDER BY seq`, e.seq[0], e.seq[len(e.seq)-1])
	if err != nil {
		return err
	}
	defer rows.Close()
	i := 0
	for ; rows.Next(); i++ {
		var r eventRow
		if err := rows.Scan(&r.seq, &r.term, &r.at, &r.job, &r.idx, &r.by, &r.kind, &r.body); err != nil {
			return err
		}
		if r.seq != e.seq[i] || r.term != st.term || !r.at.Equal(e.at[i]) || r.job != e.job[i] ||
			r.idx != e.idx[i] || r.by != e.by[i] || r.kind != e.kind[i] || r.body != e.body[i] {
			return fmt.Errorf("%w: event %d is %q of term %d", ErrConflict, r.seq, r.kind, r.term)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if i != len(e.seq) {
		return fmt.Errorf("%w: only the first %d of %d are there", ErrConflict, i, len(e.seq))
	}
	return nil
}
