package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"fairslice/queue"
)

const upsertReservations = `INSERT INTO reservations (id, creator, begins, ends, row)
	SELECT i, c, b, e, r::json FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::text[]) t(i, c, b, e, r)
	ON CONFLICT (id) DO UPDATE SET creator = excluded.creator, begins = excluded.begins, ends = excluded.ends, row = excluded.row`

const deleteReservations = `DELETE FROM reservations WHERE id = ANY ($1::text[])`

// addReservations writes the rows of those that are there, and deletes those that are nil.
func (st *statements) addReservations(enc *encoder, reservations map[string]*queue.Reservation) {
	var id, creator, row, gone []string
	var begins, ends []*time.Time
	for name, r := range reservations {
		if r == nil {
			gone = append(gone, text(name))
			continue
		}
		id, creator, row = append(id, text(name)), append(creator, text(r.Creator)), append(row, enc.json(r))
		var b, e *time.Time
		if r.Recurring == nil {
			b, e = &r.Begin, &r.End
		}
		begins, ends = append(begins, b), append(ends, e)
	}
	if len(id) > 0 {
		st.batch.Queue(upsertReservations, id, creator, begins, ends, row)
	}
	if len(gone) > 0 {
		st.batch.Queue(deleteReservations, gone)
	}
}

func (st *State) loadReservations(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "SELECT row::text FROM reservations ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var row pgtype.DriverBytes
		r := new(queue.Reservation)
		if err := rows.Scan(&row); err != nil {
			return err
		}
		if err := json.Unmarshal(row, r); err != nil {
			return fmt.Errorf("read a reservation: %w", err)
		}
		st.Reservations = append(st.Reservations, r)
	}
	return rows.Err()
}
