package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// campaignPoll is how often a standby asks; a round trip a second is nothing, and the wait is part of a takeover.
const campaignPoll = time.Second

// Lease is the right to write, for one term. It renews itself until Release, or until it is lost for good.
type Lease struct {
	s      *Store
	term   int64
	ttl    time.Duration
	lost   chan struct{}
	cancel context.CancelFunc
	done   chan struct{} // closed when the renewing goroutine is gone

	mu     sync.Mutex
	closed bool // lost is
}

// The row's lock is waited for where a commit of the old term is under way; then the condition is looked at again.
const takeLease = `INSERT INTO leases AS l (name, holder, term, expires)
	VALUES ($1, $2, 1, clock_timestamp() + $3::interval)
	ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, term = l.term + 1, expires = clock_timestamp() + $3::interval
	WHERE l.expires < clock_timestamp() OR l.holder = excluded.holder
	RETURNING term`

const renewLease = `UPDATE leases SET expires = clock_timestamp() + $3::interval WHERE name = $1 AND term = $2`

const leaveLease = `UPDATE leases SET expires = '-infinity' WHERE name = $1 AND term = $2`

// Campaign returns when this process leads. Until then it asks every second; a database that is away is waited for. It
// ends early only with ctx, or with an error that waiting cannot mend. A takeover follows at most ttl and a second
// after a leader's death.
//
// holder names the place that leads, such as a host and a state directory. A holder that campaigns again takes
// its own lease at once: a batchd that was killed need not wait for itself. Whoever uses a name must see to it (by
// a lock on the state directory) that one process does; if two did, they would end each other's terms, not corrupt anything.
func (s *Store) Campaign(ctx context.Context, holder string, ttl time.Duration) (*Lease, error) {
	if ttl < time.Second {
		return nil, fmt.Errorf("campaign: a lease of %v is too short, want at least a second", ttl)
	}
	waiting := false
	for {
		var term int64
		asked := time.Now()
		// An attempt may hang with the network; the next one may not.
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := s.lease.with(try, func(c *pgx.Conn) error {
			return c.QueryRow(try, takeLease, leaseName, text(holder), ttl).Scan(&term)
		})
		cancel()
		switch {
		case err == nil:
			// Whatever the time in the answer's way: the lease counts from when it was asked for.
			if l := s.newLease(term, ttl, asked); l != nil {
				s.log.InfoContext(ctx, "leadership taken", "holder", holder, "term", term)
				return l, nil
			}
			continue
		case ctx.Err() != nil:
			return nil, fmt.Errorf("campaign: %w", context.Cause(ctx))
		case errors.Is(err, pgx.ErrNoRows):
			if !waiting {
				s.log.InfoContext(ctx, "leadership awaited", "holder", holder)
				waiting = true
			}
		case !passing(err):
			return nil, fmt.Errorf("campaign: %w", err)
		default:
			s.log.WarnContext(ctx, "database did not answer the campaign", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("campaign: %w", context.Cause(ctx))
		case <-time.After(campaignPoll):
		}
	}
}

// newLease starts renewing; nil when the answer came so late that the lease is over.
func (s *Store) newLease(term int64, ttl time.Duration, asked time.Time) *Lease {
	l := &Lease{s: s, term: term, ttl: ttl, lost: make(chan struct{}), done: make(chan struct{})}
	if time.Since(asked) >= l.trust() {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background()) // Release ends it
	l.cancel = cancel
	go l.renew(ctx, asked)
	return l
}

// Term is the number of this leadership: every change of leader makes it larger. It goes into each Batch.
func (l *Lease) Term() int64 { return l.term }

// Lost is closed when this process must no longer act as the leader; also by Release.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// trust is how long a renewal is relied on, counted from before it was sent and by our own monotonic clock. The tenth
// is for clocks that run at different rates: we stop before the database gives the lease away.
func (l *Lease) trust() time.Duration { return l.ttl - l.ttl/10 }

func (l *Lease) renew(ctx context.Context, asked time.Time) {
	defer close(l.done)
	defer l.lose()
	deadline := asked.Add(l.trust())
	wait := l.ttl / 3
	for {
		// Lost is told at the deadline, also while a renewal hangs.
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(wait, time.Until(deadline))):
		}
		if !time.Now().Before(deadline) {
			l.s.log.Warn("leadership lost", "term", l.term, "reason", "the database did not answer in time")
			return
		}
		asked := time.Now()
		try, cancel := context.WithDeadline(ctx, earlier(deadline, asked.Add(l.ttl/3)))
		var held bool
		err := l.s.lease.with(try, func(c *pgx.Conn) error {
			tag, err := c.Exec(try, renewLease, leaseName, l.term, l.ttl)
			held = tag.RowsAffected() == 1
			return err
		})
		cancel()
		switch {
		case err == nil && !held:
			l.s.log.Warn("leadership lost", "term", l.term, "reason", "another process leads")
			return
		case err == nil:
			deadline, wait = asked.Add(l.trust()), l.ttl/3
		default:
			wait = l.ttl / 20 // PostgreSQL may be back in a moment
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (l *Lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.lost)
	}
}

// Release stops renewing and gives the lease to whoever waits. The caller writes nothing after it. It may be called twice.
func (l *Lease) Release(ctx context.Context) error {
	l.cancel()
	<-l.done
	err := l.s.lease.with(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, leaveLease, leaseName, l.term)
		return err
	})
	return wrap(err, "release the lease")
}
