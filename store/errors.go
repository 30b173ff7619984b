package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Errors of Commit that no retry can mend. Each means that this process must stop writing.
var (
	// ErrStaleTerm: another process leads by now. Nothing was written.
	ErrStaleTerm = errors.New("the term is over: another process leads")
	// ErrConflict: the batch's numbers belong to other events. Two writers under one term, or a retry that was
	// not the same batch.
	ErrConflict = errors.New("other events have these numbers")
	// ErrGap: the batch does not follow the last event.
	ErrGap = errors.New("the batch does not follow the last event")
)

// SQLSTATEs raised by guard_commit, and PostgreSQL's own that are handled.
const (
	codeStaleTerm       = "FS001"
	codeTaken           = "FS002"
	codeGap             = "FS003"
	codeUniqueViolation = "23505"
)

// Unavailable is an error that may pass: PostgreSQL is away, starting, full, or was too slow. What was asked
// for may or may not have been done; Commit may be given the same batch again.
type Unavailable struct{ err error }

func (u *Unavailable) Error() string { return u.err.Error() }
func (u *Unavailable) Unwrap() error { return u.err }

// Temporary lets those who cannot import this package tell it from an error that stays.
func (u *Unavailable) Temporary() bool { return true }

// wrap says what was being done and marks what may pass.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf(format+": %w", append(args, err)...)
	if passing(err) {
		return &Unavailable{wrapped}
	}
	return wrapped
}

// passing tells errors of the connection and of the server's condition from errors of what was asked.
func passing(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case strings.HasPrefix(pg.Code, "08"), // connection
			strings.HasPrefix(pg.Code, "40"),                            // rolled back: deadlock, serialization
			strings.HasPrefix(pg.Code, "53"),                            // out of disk, memory, connections
			strings.HasPrefix(pg.Code, "57"),                            // shutdown, crash, cancel
			strings.HasPrefix(pg.Code, "58"),                            // I/O error
			pg.Code == "55P03", pg.Code == "25006", pg.Code[:2] == "XX": // lock not got; a standby server answers; its own failure
			return true
		}
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	// pgx gives a connection that broke as any of these, or as a text only.
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		pgconn.SafeToRetry(err) || errors.Is(err, errBroken)
}

// errBroken is joined to an error after which the connection was found closed.
var errBroken = errors.New("connection lost")
