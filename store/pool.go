package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// idleTrust is how long an idle connection is taken to be alive without asking: PostgreSQL may have been restarted.
const idleTrust = time.Second

// pool is a few connections, opened when needed. (pgxpool would bring a second module for what is 80 lines here,
// and three of these are wanted: readers must never keep the writer or the lease waiting.)
type pool struct {
	cfg   *pgx.ConnConfig
	slots chan struct{} // one token per connection in use

	mu     sync.Mutex
	free   []idleConn
	closed bool
}

type idleConn struct {
	conn  *pgx.Conn
	since time.Time
}

func newPool(cfg *pgx.ConnConfig, size int) *pool {
	return &pool{cfg: cfg, slots: make(chan struct{}, size)}
}

// with runs f on a connection. The connection is closed afterwards when it is broken or in a transaction.
func (p *pool) with(ctx context.Context, f func(*pgx.Conn) error) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.slots }()
	conn, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer p.put(conn) // also when f panics
	if err = f(conn); err != nil && conn.IsClosed() {
		err = errors.Join(err, errBroken)
	}
	return err
}

func (p *pool) take(ctx context.Context) (*pgx.Conn, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, errors.New("the store is closed")
		}
		n := len(p.free)
		if n == 0 {
			p.mu.Unlock()
			return pgx.ConnectConfig(ctx, p.cfg)
		}
		idle := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		if time.Since(idle.since) < idleTrust || idle.conn.Ping(ctx) == nil {
			return idle.conn, nil
		}
		closeConn(idle.conn)
	}
}

func (p *pool) put(conn *pgx.Conn) {
	p.mu.Lock()
	keep := !p.closed && !conn.IsClosed() && !conn.PgConn().IsBusy() && conn.PgConn().TxStatus() == 'I'
	if keep {
		p.free = append(p.free, idleConn{conn, time.Now()})
	}
	p.mu.Unlock()
	if !keep {
		closeConn(conn)
	}
}

func (p *pool) close() {
	p.mu.Lock()
	free := p.free
	p.free, p.closed = nil, true
	p.mu.Unlock()
	for _, idle := range free {
		closeConn(idle.conn)
	}
}

// closeConn says goodbye, but not for long: the server notices by itself.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // nothing depends on it
}
