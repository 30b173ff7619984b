package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"fairslice/queue"
)

const upsertPolicy = `INSERT INTO policy (version, text, by_user, at) VALUES ($1, $2, $3, $4)
	ON CONFLICT (one) DO UPDATE SET version = excluded.version, text = excluded.text, by_user = excluded.by_user, at = excluded.at`

func (st *statements) addPolicy(p *queue.PolicyState) {
	if p != nil {
		st.batch.Queue(upsertPolicy, p.Version, text(p.Text), text(p.By), p.At)
	}
}

func (st *State) loadPolicy(ctx context.Context, tx pgx.Tx) error {
	p := &st.Policy
	err := tx.QueryRow(ctx, "SELECT version, text, by_user, at FROM policy").Scan(&p.Version, &p.Text, &p.By, &p.At)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	p.At = p.At.UTC()
	return err
}

// PolicyEvents lists the events that set a policy, newest first, at most limit of them.
func (s *Store) PolicyEvents(ctx context.Context, limit int) ([]queue.Event, error) {
	var out []queue.Event
	err := s.eachEvent(ctx, func(ev queue.Event) error {
		out = append(out, ev)
		return nil
	}, selectEvents+"WHERE kind = 'policy-set' ORDER BY seq DESC LIMIT $1", limit)
	return out, err
}
