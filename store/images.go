package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"fairslice/images"
)

// StoredImages is what a catalogue is restored from.
type StoredImages struct {
	Images     []*images.Image
	Commits    []*images.Commit
	LastImage  images.ID // the highest numbers ever given
	LastCommit images.CommitID
}

// Restore fills an empty catalogue.
func (s *StoredImages) Restore(c *images.Catalogue) error {
	return c.Restore(s.Images, s.Commits, s.LastImage, s.LastCommit)
}

// Images are written one by one, in two rounds: one that is removed must leave its name before another takes it.
const (
	upsertImage = `INSERT INTO images (id, owner, name, digest, removed, row) VALUES ($1, $2, $3, $4, $5, $6)
	ON CONFLICT (id) DO UPDATE SET removed = excluded.removed, row = excluded.row`
	forgetImage  = `UPDATE images SET row = NULL WHERE id = $1`
	upsertCommit = `INSERT INTO image_commits (id, owner, job, idx, open, row) VALUES ($1, $2, $3, $4, $5, $6)
	ON CONFLICT (id) DO UPDATE SET open = excluded.open, row = excluded.row`
)

func (st *statements) addImages(enc *encoder, list map[images.ID]*images.Image, commits []*images.Commit) {
	for _, removed := range []bool{true, false} {
		for id, i := range list {
			switch {
			case i != nil && i.Removed.IsZero() != removed:
				st.batch.Queue(upsertImage, int64(id), text(i.Ref.Owner), text(i.Ref.Short()), string(i.Digest), removed, enc.json(i))
			case i == nil && removed:
				st.batch.Queue(forgetImage, int64(id))
			}
		}
	}
	for _, open := range []bool{false, true} {
		for _, c := range commits {
			if c.State.Open() == open {
				st.batch.Queue(upsertCommit, int64(c.ID), text(c.Ref.Owner), c.Job, c.Index, open, enc.json(c))
			}
		}
	}
}

func (st *State) loadImages(ctx context.Context, tx pgx.Tx) error {
	s := &st.Images
	var err error
	if s.Images, s.LastImage, err = loadRows[images.Image, images.ID](ctx, tx, selectImages); err != nil {
		return err
	}
	s.Commits, s.LastCommit, err = loadRows[images.Commit, images.CommitID](ctx, tx, selectCommits, images.KeptCommits)
	return err
}

// What a catalogue is restored from: all images, and of the requests those that it would know (images.KeptCommits), with the last of all.
const (
	selectImages  = `SELECT id, row::text FROM images ORDER BY id`
	selectCommits = `SELECT id, row::text FROM (
		SELECT *, row_number() OVER (PARTITION BY owner, open ORDER BY id DESC) AS nth FROM image_commits) AS c
	WHERE open OR nth <= $1 ORDER BY id`
)

// loadRows reads what a query finds, by id, and the highest id.
func loadRows[T any, ID ~int64](ctx context.Context, tx pgx.Tx, query string, args ...any) (out []*T, last ID, err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var row pgtype.DriverBytes
		var id int64
		if err := rows.Scan(&id, &row); err != nil {
			return nil, 0, err
		}
		last = ID(id)
		if row == nil {
			continue
		}
		v := new(T)
		if err := json.Unmarshal(row, v); err != nil {
			return nil, 0, fmt.Errorf("read image or request %d: %w", last, err)
		}
		out = append(out, v)
	}
	return out, last, rows.Err()
}
