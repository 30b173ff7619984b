package backfill

import (
	"math"
	"time"
)

// instant is a point in time in nanoseconds since 1970. A plan compares times millions of times.
type instant int64

// year stands for the run limit of what has none. A start that waits for the end of such a one is not told to anybody.
const year = instant(365 * 24 * time.Hour)

// foreseeable is how far ahead a start is told.
const foreseeable = year / 2

// never is later than every time: the end of what has no run limit.
const never instant = math.MaxInt64

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return never
	}
	return instant(t.UnixNano())
}

// time is the inverse of instantOf: never is the zero time.
func (i instant) time(loc *time.Location) time.Time {
	if i == never {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).In(loc)
}

// plus is i + d; nothing is later than never (Slurm bug 2032: no sum overflows).
func (i instant) plus(d instant) instant {
	if i > never-d {
		return never
	}
	return i + d
}
