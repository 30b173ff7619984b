package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"fairslice/nodes"
	"fairslice/queue"
)

// State is all that a Book is restored from. It is the caller's alone.
type State struct {
	Jobs   []*queue.Job  // by number, all their elements filled in
	Nodes  []*nodes.Node // by id, with nothing held: Book.Restore counts that from the live attempts
	Queues map[string]queue.QueueState
	// Reservations are for Book.RestoreReservations, by ID.
	Reservations []*queue.Reservation

	Policy queue.PolicyState // for Book.RestorePolicy; version 0 where none was set

	Images StoredImages // for Book.Images.Restore

	LastSeq int64       // of the last event
	LastJob queue.JobID // the highest number ever given, also to jobs that are forgotten
}

// Load reads the current rows, all as of one moment. Call it after Campaign: before, another process may still write.
func (s *Store) Load(ctx context.Context) (*State, error) {
	st := &State{Queues: map[string]queue.QueueState{}}
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(seq), 0), (SELECT coalesce(max(job), 0) FROM events WHERE job <> 0)
			FROM events`).Scan(&st.LastSeq, &st.LastJob); err != nil {
			return err
		}
		if err := st.loadNodes(ctx, tx); err != nil {
			return err
		}
		if err := st.loadQueues(ctx, tx); err != nil {
			return err
		}
		if err := st.loadReservations(ctx, tx); err != nil {
			return err
		}
		if err := st.loadPolicy(ctx, tx); err != nil {
			return err
		}
		if err := st.loadImages(ctx, tx); err != nil {
			return err
		}
		if err := st.loadJobs(ctx, tx); err != nil {
			return err
		}
		return st.loadElements(ctx, tx)
	})
	if err != nil {
		return nil, wrap(err, "load the state")
	}
	return st, nil
}

func (st *State) loadNodes(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "SELECT row::text FROM nodes ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var row pgtype.DriverBytes
		n := new(nodes.Node)
		if err := rows.Scan(&row); err != nil {
			return err
		}
		if err := json.Unmarshal(row, n); err != nil {
			return fmt.Errorf("read a node: %w", err)
		}
		st.Nodes = append(st.Nodes, n.Empty()) // what the text says of it is as old as the last event about the node
	}
	return rows.Err()
}

func (st *State) loadQueues(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "SELECT name, closed, inactive, reason FROM queue_states")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var q queue.QueueState
		if err := rows.Scan(&name, &q.Closed, &q.Inact, &q.Reason); err != nil {
			return err
		}
		st.Queues[name] = q
	}
	return rows.Err()
}

// loadJobs streams the jobs; their specs, the bulk of the work, are decoded beside the reading. Plans and identities
// repeat (a thousand shapes, a few hundred users), so each text is decoded once.
func (st *State) loadJobs(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT id, submitted, token, queue, position, first_state = 'PSUSP',
		spec::text, plan::text, identity::text FROM jobs ORDER BY id`)
	if err != nil {
		return err
	}
	defer rows.Close()
	plans, identities := map[string]queue.Shape{}, map[string]queue.Identity{}
	w := startWorkers()
	defer w.wait()
	for rows.Next() {
		j := &queue.Job{Spec: new(queue.Spec)}
		var held bool
		var spec []byte // a copy: the worker reads it later
		var plan, identity pgtype.DriverBytes
		if err := rows.Scan(&j.ID, &j.Submitted, &j.Token, &j.Queue, &j.Position, &held, &spec, &plan, &identity); err != nil {
			return err
		}
		j.Submitted = j.Submitted.UTC()
		if err := cached(plans, plan, &j.Plan); err != nil {
			return fmt.Errorf("read the plan of job %d: %w", j.ID, err)
		}
		if err := cached(identities, identity, &j.Owner); err != nil {
			return fmt.Errorf("read the owner of job %d: %w", j.ID, err)
		}
		st.Jobs = append(st.Jobs, j)
		w.do(func() error {
			if err := json.Unmarshal(spec, j.Spec); err != nil {
				return fmt.Errorf("read the spec of job %d: %w", j.ID, err)
			}
			j.Elements = firstElements(j, held)
			return nil
		})
	}
	return errors.Join(rows.Err(), w.wait())
}

// firstElements is what elements without a row are. bmod may have changed Spec.Hold since, so the row says what
// it was at submission.
func firstElements(j *queue.Job, held bool) []queue.Element {
	es := queue.InitialElements(j.Spec, j.Submitted)
	state := queue.Pend
	if held {
		state = queue.PSusp
	}
	for i := range es {
		es[i].State = state
	}
	return es
}

func (st *State) loadElements(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT job, idx, state, attempts, since, attempt::text, result::text, more::text
		FROM elements ORDER BY job, idx`)
	if err != nil {
		return err
	}
	defer rows.Close()
	w := startWorkers()
	defer w.wait()
	next := 0
	for rows.Next() {
		var job queue.JobID
		var r queue.Element
		var attempt, result, extra []byte
		if err := rows.Scan(&job, &r.Index, &r.State, &r.Attempts, &r.Since, &attempt, &result, &extra); err != nil {
			return err
		}
		// Both are in order, so one walk finds each job.
		for next < len(st.Jobs) && st.Jobs[next].ID < job {
			next++
		}
		if next == len(st.Jobs) || st.Jobs[next].ID != job {
			return fmt.Errorf("element %d[%d] has no job", job, r.Index)
		}
		e := st.Jobs[next].Element(r.Index)
		if e == nil {
			return fmt.Errorf("job %d has no element %d", job, r.Index)
		}
		r.Since = r.Since.UTC()
		*e = r
		w.do(func() error {
			if err := decodeElement(e, attempt, result, extra); err != nil {
				return fmt.Errorf("read element %d[%d]: %w", job, e.Index, err)
			}
			return nil
		})
	}
	return errors.Join(rows.Err(), w.wait())
}

func decodeElement(e *queue.Element, attempt, result, extra []byte) error {
	if attempt != nil {
		e.Attempt = new(queue.Attempt)
		if err := json.Unmarshal(attempt, e.Attempt); err != nil {
			return err
		}
	}
	if result != nil {
		e.Result = new(queue.Result)
		if err := json.Unmarshal(result, e.Result); err != nil {
			return err
		}
	}
	if extra != nil {
		var m more
		if err := json.Unmarshal(extra, &m); err != nil {
			return err
		}
		m.give(e)
	}
	return nil
}

// cached decodes data into v, or copies what the same text gave before. Sharing what v points at is safe for
// shapes (no pointers) and identities (Groups is never changed).
func cached[T any](cache map[string]T, data []byte, v *T) error {
	if known, ok := cache[string(data)]; ok {
		*v = known
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	cache[string(data)] = *v
	return nil
}

// workers run small tasks on all cores, handed over in lots so that a hand-over costs little.
type workers struct {
	lots chan []func() error
	lot  []func() error
	wg   sync.WaitGroup
	once sync.Once

	mu  sync.Mutex
	err error
}

const lotSize = 256

func startWorkers() *workers {
	n := runtime.GOMAXPROCS(0)
	w := &workers{lots: make(chan []func() error, 2*n)}
	for range n {
		w.wg.Go(func() {
			for lot := range w.lots {
				for _, f := range lot {
					if err := f(); err != nil {
						w.mu.Lock()
						w.err = errors.Join(w.err, err)
						w.mu.Unlock()
						break // the load fails; one mistake of a lot is told
					}
				}
			}
		})
	}
	return w
}

func (w *workers) do(f func() error) {
	if w.lot = append(w.lot, f); len(w.lot) == lotSize {
		w.lots <- w.lot
		w.lot = make([]func() error, 0, lotSize)
	}
}

// wait ends the workers and returns their error. It may be called twice.
func (w *workers) wait() error {
	w.once.Do(func() {
		w.lots <- w.lot
		close(w.lots)
	})
	w.wg.Wait()
	return w.err
}
