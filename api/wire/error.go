package wire

import (
	"context"
	"errors"
	"fmt"
)

// Code is the kind of a failure that a user sees: a closed list.
type Code string

// Codes. Internal is for what nobody should see: its text stays in the daemon's log.
const (
	Invalid     Code = "invalid"
	NotFound    Code = "not_found"
	Conflict    Code = "conflict"
	Denied      Code = "denied"
	Unavailable Code = "unavailable" // now; the same call may succeed later
	Internal    Code = "internal"
)

// Error is a failure with a text for the user. Msg is complete as it stands: LSF's own words where LSF has them.
type Error struct {
	Code Code
	Msg  string
}

func (e *Error) Error() string { return e.Msg }

// Errorf makes an Error.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{c, fmt.Sprintf(format, args...)}
}

// The one table: our code, Connect's word for it.
var codes = []struct {
	code    Code
	connect string
}{
	{Invalid, "invalid_argument"},
	{NotFound, "not_found"},
	{Conflict, "failed_precondition"},
	{Denied, "permission_denied"},
	{Unavailable, "unavailable"},
	{Internal, "internal"},
}

// Words of Connect that only its own machinery or a proxy says.
var foreign = map[string]Code{
	"unauthenticated": Denied, "already_exists": Conflict, "aborted": Conflict, "out_of_range": Invalid,
	"resource_exhausted": Invalid, "unimplemented": Invalid, "deadline_exceeded": Unavailable, "canceled": Unavailable,
}

// Connect is Connect's word for the code.
func (c Code) Connect() string {
	for _, row := range codes {
		if row.code == c {
			return row.connect
		}
	}
	return "internal"
}

// CodeOf is the inverse of Connect, for every word Connect has.
func CodeOf(connect string) Code {
	for _, row := range codes {
		if row.connect == connect {
			return row.code
		}
	}
	if c, ok := foreign[connect]; ok {
		return c
	}
	return Internal
}

// AsError finds the Error in err. Ended contexts are Unavailable; anything else is Internal, and its
// text must not reach a user.
func AsError(err error) (e *Error, known bool) {
	switch {
	case errors.As(err, &e):
		return e, true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Error{Unavailable, "the batch daemon is stopping or the call took too long"}, true
	}
	return &Error{Internal, "internal error; the batch daemon's log says more"}, false
}
