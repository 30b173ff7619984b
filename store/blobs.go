package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Blob returns a script or an environment by its hash, and whether it is there.
func (s *Store) Blob(ctx context.Context, hash string) (data []byte, found bool, err error) {
	blobs, err := s.Blobs(ctx, []string{hash})
	data, found = blobs[hash]
	return data, found, err
}

// Blobs returns those of the hashes that are there.
func (s *Store) Blobs(ctx context.Context, hashes []string) (map[string][]byte, error) {
	out := make(map[string][]byte, len(hashes))
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT hash, data FROM blobs WHERE hash = ANY ($1)", hashes)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var hash string
			var data []byte
			if err := rows.Scan(&hash, &data); err != nil {
				return err
			}
			out[hash] = data
		}
		return rows.Err()
	})
	return out, wrap(err, "read scripts")
}

// sweepMin is the youngest that may be swept: a use is written down to the hour (blobTouch), and a blob that
// was used in the last hour looks up to an hour older than that.
const sweepMin = 2 * blobTouch

// SweepBlobs removes what no job in the Book names and no submission has used for a while, at least two hours, and
// returns how many went. It may run beside Commit: a batch that uses a blob again either locks it first,
// and the sweep leaves it, or comes after the sweep and writes it anew. That is why a batch always brings its blobs.
func (s *Store) SweepBlobs(ctx context.Context, unused time.Duration) (int64, error) {
	if unused < sweepMin {
		return 0, fmt.Errorf("sweep scripts: %v is too young, want at least %v", unused, sweepMin)
	}
	var n int64
	err := s.reader.with(ctx, func(c *pgx.Conn) error {
		tag, err := c.Exec(ctx, `DELETE FROM blobs b WHERE created < now() - $1::interval
			AND NOT EXISTS (SELECT FROM jobs WHERE script = b.hash) AND NOT EXISTS (SELECT FROM jobs WHERE env = b.hash)`, unused)
		n = tag.RowsAffected()
		return err
	})
	return n, wrap(err, "sweep scripts")
}
