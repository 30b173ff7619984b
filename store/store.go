package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// readers is how many reads run at once; more wait.
const readers = 6

// Config says which database to use.
type Config struct {
	// URL is a PostgreSQL connection string.
	URL string
	// Logger gets changes of leadership and doubts about the server's settings. Nil: nothing is logged.
	Logger *slog.Logger
}

// Store is the connection to the database. Its methods may be called from any goroutine; Commit is meant for
// one, and calls of it wait for one another.
type Store struct {
	log    *slog.Logger
	writer *pool
	lease  *pool
	reader *pool
}

// Open connects, brings the schema up to date, and returns a Store that is ready for Campaign. It refuses a
// database of a newer version.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cc, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return nil, wrap(err, "read the database's connection string")
	}
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = 5 * time.Second
	}
	set := func(name, value string) {
		if _, given := cc.RuntimeParams[name]; !given {
			cc.RuntimeParams[name] = value
		}
	}
	set("application_name", "batchd")
	// A leader cut off in mid-transaction holds its lease's row: the server must notice well before two hours.
	set("tcp_keepalives_idle", "4")
	set("tcp_keepalives_interval", "2")
	set("tcp_keepalives_count", "3")
	set("tcp_user_timeout", "10000")

	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, wrap(err, "connect to the database")
	}
	defer closeConn(conn)
	var sync, fsync string
	if err := conn.QueryRow(ctx, "SELECT current_setting('synchronous_commit'), current_setting('fsync')").Scan(&sync, &fsync); err != nil {
		return nil, wrap(err, "read the server's settings")
	}
	if sync == "off" {
		cc.RuntimeParams["synchronous_commit"] = "on" // acknowledged must mean durable; stronger settings stay
	}
	if fsync == "off" {
		log.WarnContext(ctx, "database has fsync off: acknowledged jobs are lost when its machine crashes")
	}
	if err := migrateUp(ctx, conn); err != nil {
		return nil, wrap(err, "open the database")
	}
	wc := cc.Copy()
	// The writer finds rows by key and nothing else. A plan that was cached while a table was small must not scan it
	// for each commit when it has grown.
	wc.RuntimeParams["enable_seqscan"] = "off"
	return &Store{log: log.With("service", "store"), writer: newPool(wc, 1), lease: newPool(cc, 1), reader: newPool(cc, readers)}, nil
}

// Close gives the connections back. Leases must be released first; a lease that was not runs out by itself.
func (s *Store) Close() {
	s.writer.close()
	s.lease.close()
	s.reader.close()
}

// ClusterID names this cluster for ever: a database that is restored elsewhere keeps it.
func (s *Store) ClusterID(ctx context.Context) (id string, created time.Time, err error) {
	err = s.reader.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT cluster_id::text, created FROM meta").Scan(&id, &created)
	})
	return id, created.UTC(), wrap(err, "read the cluster's id")
}
