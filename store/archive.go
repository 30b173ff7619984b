package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"fairslice/archive"
)

// A job leaves for a file in three steps, and each may be the last one before a power cut:
//
//  1. Export writes the file, and changes nothing.
//  2. The caller puts the file on disk and reads it back: archive.Create.
//  3. Purge makes the same lines again in the transaction that deletes what they were made of. Unless their sum is the file's,
//     nothing is deleted. In that transaction the archive is entered in archives, so that a second Purge changes nothing.
//
// Restore is one transaction, too. So at every moment all jobs of an archive are in the database, or none is.
// A job in history never changes again, so there is nothing between the two that could get lost.

// ErrNothing: no job finished before the date, or those that did are not for archiving.
var ErrNothing = errors.New("no job that finished before this date is in the database")

// ArchiveRefused is a refusal for a reason that the administrator is told.
type ArchiveRefused struct{ Text string }

func (e *ArchiveRefused) Error() string { return e.Text }

// ArchiveState is the outcome of Purge and Restore.
type ArchiveState struct {
	archive.Counts
	Again bool      // it was so before; nothing was changed
	Since time.Time // the moment from which it is so
}

// Export writes an archive of all jobs that finished before a time and have left the Book: all there is about them. It returns
// ErrNothing, and writes nothing, where there are none. It is one snapshot of the database, whatever is committed meanwhile.
func (s *Store) Export(ctx context.Context, before time.Time, w io.Writer) (h archive.Header, sum string, err error) {
	if err := s.RollUp(ctx); err != nil { // it marks what an older batchd charged, and the marks are part of the rows
		return h, "", err
	}
	err = s.archiving(ctx, func(tx pgx.Tx) error {
		h, sum, err = export(ctx, tx, before, w)
		return err
	})
	if errors.Is(err, ErrNothing) {
		return h, "", ErrNothing
	}
	return h, sum, wrap(err, "export jobs")
}

// Purge deletes exactly what the archive of this sum has, which was made for before; it sees to it that the hourly sums have it. by is
// whom the table archives names. Nothing is changed and Again is set where it has been done; where the database has something else
// for this date than the archive, the error is an ArchiveRefused. It needs the term of the lease.
func (s *Store) Purge(ctx context.Context, term int64, before time.Time, sum, by string) (st ArchiveState, err error) {
	known, st, err := s.purged(ctx, sum)
	if err != nil || known {
		return st, err
	}
	if err := s.RollUp(ctx); err != nil {
		return st, err
	}
	err = s.archiving(ctx, func(tx pgx.Tx) error {
		if err := lockArchives(ctx, tx, term); err != nil {
			return err
		}
		h, have, err := export(ctx, tx, before, nil)
		switch {
		case err != nil && !errors.Is(err, ErrNothing):
			return err
		case err != nil || have != sum:
			return &ArchiveRefused{"the database does not have now what the archive has: nothing was deleted. Jobs that finished before this date may have " +
				"come or gone since it was written: archive again, into another file"}
		}
		st = ArchiveState{Counts: h.Counts}
		return purge(ctx, tx, h, sum, by)
	})
	if refused, ok := errors.AsType[*ArchiveRefused](err); ok {
		return st, refused
	}
	return st, wrap(err, "delete archived jobs")
}

// purged says that the jobs of an archive have left, and since when.
func (s *Store) purged(ctx context.Context, sum string) (yes bool, st ArchiveState, err error) {
	err = s.reader.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT jobs, events, charges, cancelled, at FROM archives WHERE sha256 = $1 AND restored IS NULL", text(sum)).
			Scan(&st.History, &st.Events, &st.Charges, &st.Cancelled, &st.Since)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, ArchiveState{}, nil
	}
	st.Again, st.Since = err == nil, st.Since.UTC()
	return err == nil, st, wrap(err, "look for an archive")
}

// purge deletes the jobs of the temporary table archiving.
func purge(ctx context.Context, tx pgx.Tx, h archive.Header, sum, by string) error {
	var late int64
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM charges JOIN archiving USING (job) WHERE `+notRolledUp).Scan(&late); err != nil {
		return err
	}
	if late > 0 {
		return &ArchiveRefused{fmt.Sprintf("%d of the charges are in no hourly sum yet: nothing was deleted. Try again in a minute", late)}
	}
	var id int
	if err := tx.QueryRow(ctx, `INSERT INTO archives (sha256, before, first_ended, last_ended, jobs, events, charges, cancelled, by_user, at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now())
		ON CONFLICT (sha256) DO UPDATE SET restored = NULL, by_user = excluded.by_user, at = excluded.at RETURNING id`,
		sum, h.Before, h.First, h.Last, h.History, h.Events, h.Charges, h.Cancelled, text(by)).Scan(&id); err != nil {
		return err
	}
	if err := keepSums(ctx, tx, id); err != nil {
		return err
	}
	for _, t := range archive.Tables {
		tag, err := tx.Exec(ctx, fmt.Sprintf("DELETE FROM %s t USING archiving a WHERE t.job = a.job", t))
		if err != nil {
			return err
		}
		if got, want := tag.RowsAffected(), *h.Of(t); got != want {
			return fmt.Errorf("%d rows of %s would go in place of %d", got, t, want)
		}
	}
	return moveMark(ctx, tx)
}

// archiving runs f in a transaction that sees one moment of the database and may write. JSON has times in UTC.
func (s *Store) archiving(ctx context.Context, f func(pgx.Tx) error) error {
	return s.reader.with(ctx, func(c *pgx.Conn) error {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if _, err := tx.Exec(ctx, "SET LOCAL jit = off; SET LOCAL work_mem = '128MB'; SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'"); err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
}

// lockArchives lets one transaction at a time change what is archived, and only while the term lasts.
func lockArchives(ctx context.Context, tx pgx.Tx, term int64) error {
	if _, err := tx.Exec(ctx, "SELECT guard_commit($1, $2, 0)", leaseName, term); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "SELECT FROM archive_mark FOR UPDATE")
	return err
}

// moveMark makes the mark follow from archives.
func moveMark(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "UPDATE archive_mark SET until = (SELECT coalesce(max(before), '-infinity') FROM archives WHERE restored IS NULL)")
	return err
}

// The jobs that may go. The last job and the one of the last event stay, as the next numbers follow from them; and a job whose
// clock was set back while it ran stays until each of its charges is old.
const chooseJobs = `INSERT INTO archiving SELECT job FROM history h WHERE ended < $1
	AND job <> (SELECT coalesce(max(job), 0) FROM events WHERE job <> 0)
	AND job <> coalesce((SELECT job FROM events ORDER BY seq DESC LIMIT 1), 0)
	AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = h.job)
	AND NOT EXISTS (SELECT FROM charges c WHERE c.job = h.job AND c.ended >= $1)
	AND NOT EXISTS (SELECT FROM cancelled x WHERE x.job = h.job AND x.ended >= $1)`

// export chooses the jobs, which stand in the temporary table archiving until the transaction ends, and writes their archive.
func export(ctx context.Context, tx pgx.Tx, before time.Time, w io.Writer) (h archive.Header, sum string, err error) {
	if _, err := tx.Exec(ctx, "CREATE TEMPORARY TABLE archiving (job bigint PRIMARY KEY) ON COMMIT DROP"); err != nil {
		return h, "", err
	}
	if _, err := tx.Exec(ctx, chooseJobs, before); err != nil {
		return h, "", err
	}
	if _, err := tx.Exec(ctx, "ANALYZE archiving"); err != nil {
		return h, "", err
	}
	var first, last *time.Time
	if err := tx.QueryRow(ctx, `SELECT (SELECT cluster_id::text FROM meta), min(ended), max(ended), count(*), (SELECT count(*) FROM events JOIN archiving USING (job)),
		(SELECT count(*) FROM charges JOIN archiving USING (job)), (SELECT count(*) FROM cancelled JOIN archiving USING (job))
		FROM history JOIN archiving USING (job)`).Scan(&h.Cluster, &first, &last, &h.History, &h.Events, &h.Charges, &h.Cancelled); err != nil {
		return h, "", err
	}
	if first == nil {
		return h, "", ErrNothing
	}
	h.Before, h.First, h.Last = before.UTC(), first.UTC(), last.UTC()
	to, err := archive.NewWriter(w, h)
	if err != nil {
		return h, "", err
	}
	for _, t := range archive.Tables {
		if err := exportTable(ctx, tx, t, to); err != nil {
			return h, "", fmt.Errorf("%s: %w", t, err)
		}
	}
	sum, err = to.Close()
	return h, sum, err
}

// rowOrder makes the lines of the same rows the same.
var rowOrder = map[archive.Table]string{archive.History: "job", archive.Events: "job, seq", archive.Charges: "job, idx, attempt", archive.Cancelled: "job, idx"}

func exportTable(ctx context.Context, tx pgx.Tx, t archive.Table, to *archive.Writer) error {
	columns, err := columnsOf(ctx, tx, t)
	if err != nil {
		return err
	}
	list := ""
	for i, c := range columns {
		if i > 0 {
			list += ", "
		}
		list += c.read
	}
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT row_to_json(r)::text FROM (SELECT %s FROM %s t JOIN archiving USING (job)) r ORDER BY %s", list, t, rowOrder[t]))
	if err != nil {
		return err
	}
	var line pgtype.DriverBytes
	_, err = pgx.ForEachRow(rows, []any{&line}, func() error { return to.Add(t, line) })
	return err
}

// column is one column of an archived table, as the database has it now.
type column struct {
	name, typ string
	read      string // the SQL that gives it
}

// columnsOf asks the database, so that no column that a later version adds is left behind. A text in JSON is read as a text: it may
// have line ends, and comes back as it was to the byte.
func columnsOf(ctx context.Context, tx pgx.Tx, t archive.Table) ([]column, error) {
	rows, err := tx.Query(ctx, `SELECT attname, format_type(atttypid, atttypmod), CASE WHEN atttypid = 'json'::regtype THEN format('%1$I::text AS %1$I', attname) ELSE quote_ident(attname) END
		FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`, string(t))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) { return c, row.Scan(&c.name, &c.typ, &c.read) })
}

// ArchivedUntil is the time before which jobs that finished may be in files only; zero where none is.
func (s *Store) ArchivedUntil(ctx context.Context) (until time.Time, err error) {
	var t *time.Time
	err = s.reader.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT nullif(until, '-infinity') FROM archive_mark").Scan(&t)
	})
	if t != nil {
		until = t.UTC()
	}
	return until, wrap(err, "read how far jobs are archived")
}
