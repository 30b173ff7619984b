package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/archive"
)

// Rows go back in lots, of so many or of about so many bytes.
const (
	restoreRows  = 1000
	restoreBytes = 8 << 20
)

// Restore brings the jobs of an archive back, which it reads to its end. sum is the file's, as the caller has read it before. Only what
// was archived from this database, by the sum, comes back, in one transaction: a file that turns out to be another, or damaged,
// leaves nothing, and the error is an *archive.Damage or an ArchiveRefused. Again is set where the jobs are back already.
// It needs the term of the lease.
func (s *Store) Restore(ctx context.Context, term int64, sum string, from io.Reader) (st ArchiveState, err error) {
	err = s.archiving(ctx, func(tx pgx.Tx) error {
		if err := lockArchives(ctx, tx, term); err != nil {
			return err
		}
		var id int
		var back *time.Time
		err := tx.QueryRow(ctx, "SELECT id, jobs, events, charges, cancelled, restored FROM archives WHERE sha256 = $1", text(sum)).
			Scan(&id, &st.History, &st.Events, &st.Charges, &st.Cancelled, &back)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return &ArchiveRefused{"nothing was archived from this database into this file: it is another cluster's, or its jobs were only copied into it (archive -keep)"}
		case err != nil:
			return err
		case back != nil:
			st.Again, st.Since = true, back.UTC()
			return nil
		}
		if err := restoreRowsOf(ctx, tx, sum, from); err != nil {
			return err
		}
		if err := dropSums(ctx, tx, id); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE archives SET restored = now() WHERE id = $1", id); err != nil {
			return err
		}
		return moveMark(ctx, tx)
	})
	if refused, ok := errors.AsType[*ArchiveRefused](err); ok {
		return ArchiveState{}, refused
	}
	if damage, ok := errors.AsType[*archive.Damage](err); ok {
		return ArchiveState{}, damage
	}
	return st, wrap(err, "restore archived jobs")
}

// restoreRowsOf inserts all rows of an archive, and is an error unless it is sound and has the sum.
func restoreRowsOf(ctx context.Context, tx pgx.Tx, sum string, from io.Reader) error {
	r, err := archive.NewReader(from)
	if err != nil {
		return err
	}
	defer r.Close()
	var l lot
	for {
		row, err := r.Next()
		if err != nil && err != io.EOF {
			return err
		}
		if err == io.EOF || !l.takes(&row) {
			if err := l.insert(ctx, tx); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		l.add(row)
	}
	if r.Sum() != sum {
		return &ArchiveRefused{"the file was changed while it was read: nothing was restored"}
	}
	return nil
}

// lot is some rows of a table with the same columns.
type lot struct {
	table   archive.Table
	columns []string
	values  [][]*string // by column
	rows    int
	bytes   int
}

// takes says that row may go with those that are in the lot.
func (l *lot) takes(row *archive.Row) bool {
	return l.rows == 0 || l.table == row.Table && l.rows < restoreRows && l.bytes < restoreBytes && slices.Equal(l.columns, row.Columns)
}

func (l *lot) add(row archive.Row) {
	if l.rows == 0 {
		l.table, l.columns, l.values = row.Table, row.Columns, make([][]*string, len(row.Columns))
	}
	for i, v := range row.Values {
		l.values[i] = append(l.values[i], v)
		if v != nil {
			l.bytes += len(*v)
		}
	}
	l.rows++
}

// insert writes the lot and empties it. Columns that the file does not have, as it was written by an older version, are null.
func (l *lot) insert(ctx context.Context, tx pgx.Tx) error {
	if l.rows == 0 {
		return nil
	}
	known, err := columnsOf(ctx, tx, l.table)
	if err != nil {
		return err
	}
	names, given, casts, arrays := make([]string, len(l.columns)), make([]string, len(l.columns)), make([]string, len(l.columns)), make([]any, len(l.columns))
	for i, name := range l.columns {
		k := slices.IndexFunc(known, func(c column) bool { return c.name == name })
		if k < 0 {
			return &ArchiveRefused{fmt.Sprintf("the file has a column %.80q of %s, which this version does not know: it was written by a newer one. Nothing was restored", name, l.table)}
		}
		names[i] = pgx.Identifier{name}.Sanitize()
		given[i] = fmt.Sprintf("$%d::text[]", i+1)
		casts[i] = fmt.Sprintf("c%d::%s", i, known[k].typ)
		arrays[i] = l.values[i]
	}
	as := make([]string, len(names))
	for i := range as {
		as[i] = fmt.Sprintf("c%d", i)
	}
	sql := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM unnest(%s) AS u(%s)", l.table, strings.Join(names, ", "), strings.Join(casts, ", "),
		strings.Join(given, ", "), strings.Join(as, ", "))
	if _, err := tx.Exec(ctx, sql, arrays...); err != nil {
		return fmt.Errorf("rows of %s: %w", l.table, err)
	}
	*l = lot{}
	return nil
}
