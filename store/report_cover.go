package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/reports"
)

// level is a length of the intervals that ended_sums and held_sums have rows of. They are those of UTC.
type level struct {
	name  string
	floor func(time.Time) time.Time // the begin of the interval that t is in
	next  func(begin time.Time) time.Time
}

func fixed(name string, d time.Duration) level {
	return level{name, func(t time.Time) time.Time { return t.Truncate(d) }, func(t time.Time) time.Time { return t.Add(d) }}
}

var (
	months = level{"month", func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC) },
		func(t time.Time) time.Time { return t.AddDate(0, 1, 0) }}
	// keyed rows are by account, user, queue, project and image; unkeyed ones are of everybody.
	keyed   = []level{months, fixed("day", 24*time.Hour)}
	unkeyed = []level{fixed("hour", time.Hour), fixed("quarter", 15*time.Minute)} // whole in the days of every zone of today
)

// coverage says from where the figures of a period come: from the rows of spans; from the charges that ended in raw, and from those that
// are not rolled up yet. Every charge of the period is in exactly one of them.
type coverage struct {
	period reports.Period
	levels []string // of the spans
	since  []time.Time
	until  []time.Time
	raw    []reports.Period
	mark   int64 // charges of events after it are not rolled up
}

// maxRaw bounds the stretches that are read from the charges. Where it takes more, all is read.
const maxRaw = 100

// cover cuts the time between bounds so that no piece lies on two sides of one of them, and takes as many of the longest intervals as fit.
func (v *coverage) cover(bounds []time.Time, ladder []level) {
	for i := 1; i < len(bounds); i++ {
		v.fill(bounds[i-1].UTC(), bounds[i].UTC(), ladder)
	}
	if len(v.raw) > maxRaw {
		v.levels, v.raw = nil, nil
	}
}

func (v *coverage) fill(from, to time.Time, ladder []level) {
	if !from.Before(to) {
		return
	}
	if len(ladder) == 0 {
		if n := len(v.raw); n > 0 && v.raw[n-1].To.Equal(from) {
			v.raw[n-1].To = to
		} else {
			v.raw = append(v.raw, reports.Period{From: from, To: to})
		}
		return
	}
	l := ladder[0]
	begin, end := l.floor(from), l.floor(to)
	if begin.Before(from) {
		begin = l.next(begin)
	}
	if !begin.Before(end) {
		v.fill(from, to, ladder[1:])
		return
	}
	v.fill(from, begin, ladder[1:])
	if n := len(v.levels); n > 0 && v.levels[n-1] == l.name && v.until[n-1].Equal(begin) {
		v.until[n-1] = end
	} else {
		v.levels, v.since, v.until = append(v.levels, l.name), append(v.since, begin), append(v.until, end)
	}
	v.fill(end, to, ladder[1:])
}

// coverageOf finds out how to cover a period that is cut at bounds, which begin and end with it. A zero time in the period is no bound.
func coverageOf(ctx context.Context, tx pgx.Tx, p reports.Period, cuts []time.Time, ladder []level) (*coverage, error) {
	v := &coverage{period: p}
	var first, last *time.Time
	if err := tx.QueryRow(ctx, `SELECT seq, (SELECT min(start) FROM ended_sums WHERE level = 'month'), (SELECT max(start) FROM ended_sums WHERE level = 'month')
		FROM ended_mark`).Scan(&v.mark, &first, &last); err != nil {
		return nil, err
	}
	if first == nil {
		return v, nil
	}
	from, to := p.From, p.To
	if from.IsZero() {
		from = first.UTC()
	}
	if end := months.next(last.UTC()); to.IsZero() {
		to = end
	}
	bounds := []time.Time{from}
	for _, t := range cuts {
		if t.After(from) && t.Before(to) {
			bounds = append(bounds, t)
		}
	}
	v.cover(append(bounds, to), ladder)
	return v, nil
}

// covered says that there are spans.
func (v *coverage) covered() bool { return len(v.levels) > 0 }

// begin and end are where the spans do; without a cut in the period they leave no gap.
func (v *coverage) begin() time.Time { return slices.MinFunc(v.since, time.Time.Compare) }
func (v *coverage) end() time.Time   { return slices.MaxFunc(v.until, time.Time.Compare) }

// maxSpans is up to how many the planner looks at each; more are joined.
const maxSpans = 24

// spans is a FROM item: the rows of a table of sums, called s.
func (v *coverage) spans(c *conditions, table string) string {
	if len(v.levels) > maxSpans {
		return fmt.Sprintf(`(SELECT t.* FROM %s t JOIN unnest(%s::text[], %s::timestamptz[], %s::timestamptz[]) span(level, since, until)
			ON t.level = span.level AND t.start >= span.since AND t.start < span.until) s`, table, c.arg(v.levels), c.arg(v.since), c.arg(v.until))
	}
	any := make([]string, len(v.levels))
	for i, level := range v.levels {
		any[i] = fmt.Sprintf("level = '%s' AND start >= %s AND start < %s", level, c.arg(v.since[i]), c.arg(v.until[i]))
	}
	return fmt.Sprintf("(SELECT * FROM %s WHERE %s) s", table, strings.Join(any, " OR "))
}

// behind are charges that are in no sum yet.
func (v *coverage) behind(c *conditions) string {
	return "(seq > " + c.arg(v.mark) + " OR seq = 0 OR seq IS NULL)"
}

// unsummed is the condition on charges of the period that are in no span.
func (v *coverage) unsummed(c *conditions) string {
	any := []string{v.behind(c)}
	for _, p := range v.raw {
		any = append(any, fmt.Sprintf("ended >= %s AND ended < %s", c.arg(p.From), c.arg(p.To)))
	}
	return "(" + strings.Join(any, " OR ") + ")"
}

// rest adds the conditions on the charges that are to be read.
func (v *coverage) rest(c *conditions) {
	c.period("ended", v.period)
	if v.covered() {
		c.where = append(c.where, v.unsummed(c))
	}
}
