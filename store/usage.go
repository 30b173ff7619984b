package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"fairslice/accounting"
	"fairslice/queue"
)

// LoadUsage adds every charge that still counts at a time to u, for its user in its account. Each attempt has one row in charges, so u counts each
// once, however often batchd was restarted; what runs has none yet. Decay is accounting's: nothing of it is reckoned here,
// so a loaded Usage is the same, to the last bit, as one that was told of each charge when it was made.
//
// It takes about as long as a second for a million charges. They are read as they arrive; memory does not grow with them.
func (s *Store) LoadUsage(ctx context.Context, u *accounting.Usage, now time.Time) error {
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, `SELECT user_name, coalesce(nullif(account, ''), 'default'), ended, slot_seconds, fgpu_seconds,
			coalesce(began, ended), coalesce(memory, 0) FROM charges WHERE ended >= $1`, u.Since(now))
		if err != nil {
			return err
		}
		var user, account pgtype.DriverBytes
		var ch queue.Charge // what its GiBSeconds needs
		var used accounting.Used
		leaves := map[string]accounting.Leaf{} // strings for each user in an account, not for each charge
		var key []byte
		_, err = pgx.ForEachRow(rows, []any{&user, &account, &ch.Ended, &used.SlotSeconds, &used.FGPUSeconds, &ch.Began, &ch.Memory}, func() error {
			key = append(append(append(key[:0], account...), 0), user...)
			leaf, known := leaves[string(key)]
			if !known {
				leaf = accounting.Leaf{Account: string(account), User: string(user)}
				leaves[string(key)] = leaf
			}
			used.GiBSeconds = ch.GiBSeconds()
			u.AddTo(leaf, ch.Ended, used)
			return nil
		})
		return err
	})
	return wrap(err, "load usage")
}

// Finished is an element that has ended after it ran: what may be learnt from it about others of its shape.
type Finished struct {
	ID      queue.ElementID
	Attempt int
	Done    bool // it ended as DONE
	Result  queue.Result
	Usage   queue.Usage
	Charge  queue.Charge // with the user; from Began, which is the dispatch, to Ended
	Plan    queue.Shape  // the job's, as it was last
}

// eventsPerEnd bounds how far back LastFinished looks: a job of one element has four events, of which one is its end.
const eventsPerEnd = 16

// LastFinished returns those of the last limit ends that were of elements that had run, and not before since, the newest
// first. Those killed while they waited count as ends, and are left out; requeued is not ended. It looks at no more
// than the last 16 × limit events, so it may find fewer.
func (s *Store) LastFinished(ctx context.Context, since time.Time, limit int) ([]Finished, error) {
	if limit <= 0 {
		return nil, nil
	}
	var out []Finished
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if out, err = lastEnds(ctx, tx, since, limit); err != nil {
			return err
		}
		return addPlans(ctx, tx, out)
	})
	return out, wrap(err, "read what finished last")
}

func lastEnds(ctx context.Context, tx pgx.Tx, since time.Time, limit int) ([]Finished, error) {
	rows, err := tx.Query(ctx, `SELECT job, idx, body::text FROM events
		WHERE seq > (SELECT coalesce(max(seq), 0) FROM events) - $1 AND kind = 'ended' AND at >= $2
		ORDER BY seq DESC LIMIT $3`, int64(limit)*eventsPerEnd, bound(since, pgtype.NegativeInfinity), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Finished
	for rows.Next() {
		var f Finished
		var text pgtype.DriverBytes
		if err := rows.Scan(&f.ID.Job, &f.ID.Index, &text); err != nil {
			return nil, err
		}
		var end queue.Ended
		if err := json.Unmarshal(text, &end); err != nil {
			return nil, fmt.Errorf("the end of %s: %w", f.ID, err)
		}
		if end.Attempt == 0 || end.Charge == nil {
			continue
		}
		f.Attempt, f.Done, f.Result, f.Usage, f.Charge = end.Attempt, end.Done, end.Result, end.Usage, *end.Charge
		f.Usage.Pids = nil // of a machine as it was then
		out = append(out, f)
	}
	return out, rows.Err()
}

// addPlans looks up what the jobs asked for. An array has one plan, however many of its elements ended.
func addPlans(ctx context.Context, tx pgx.Tx, ends []Finished) error {
	var ids []queue.JobID
	seen := map[queue.JobID]bool{}
	for i := range ends {
		if id := ends[i].ID.Job; !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	rows, err := tx.Query(ctx, `SELECT j, e.body::text FROM unnest($1::bigint[]) j CROSS JOIN LATERAL (SELECT body FROM events
		WHERE job = j AND job <> 0 AND kind IN ('submitted', 'modified', 'switched') ORDER BY seq DESC LIMIT 1) e`, ints(ids))
	if err != nil {
		return err
	}
	defer rows.Close()
	plans := make(map[queue.JobID]queue.Shape, len(ids))
	for rows.Next() {
		var id queue.JobID
		var text pgtype.DriverBytes
		var body struct {
			Plan queue.Shape `json:"plan"` // Submitted, Modified and Switched all have it
		}
		if err := rows.Scan(&id, &text); err != nil {
			return err
		}
		if err := json.Unmarshal(text, &body); err != nil {
			return fmt.Errorf("the plan of job %d: %w", id, err)
		}
		plans[id] = body.Plan
	}
	for i := range ends {
		ends[i].Plan = plans[ends[i].ID.Job]
	}
	return rows.Err()
}
