package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/reports"
)

// GPUHour is what the GPUs of nodes that were up were in an hour, as far as a leader has seen it. The amounts are sums of 1/100
// fGPU × milliseconds, with Lost <= Free <= Capacity.
type GPUHour struct {
	Hour                 time.Time // its beginning; of UTC
	Millis               int64     // of the hour, how much was seen
	Capacity, Free, Lost int64
}

// A row is the whole of what its leader has seen, and only grows: what is written twice, or late, counts once.
const upsertGPUHours = `INSERT INTO gpu_hours AS g (hour, term, ms, capacity_ms, free_ms, lost_ms)
	SELECT h, $1, ms, c, f, l FROM unnest($2::timestamptz[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) t(h, ms, c, f, l)
	ON CONFLICT (hour, term) DO UPDATE SET ms = excluded.ms, capacity_ms = excluded.capacity_ms, free_ms = excluded.free_ms, lost_ms = excluded.lost_ms
	WHERE excluded.ms > g.ms`

func (st *statements) addGPUHours(list []GPUHour) {
	if len(list) == 0 {
		return
	}
	n := len(list)
	hour := make([]time.Time, n)
	ms, capacity, free, lost := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, h := range list {
		hour[i], ms[i], capacity[i], free[i], lost[i] = h.Hour, h.Millis, h.Capacity, h.Free, h.Lost
	}
	st.batch.Queue(upsertGPUHours, st.term, hour, ms, capacity, free, lost)
}

// gpuSums are rows of gpu_hours added up.
type gpuSums struct{ ms, capacity, free, lost float64 }

func (s *gpuSums) plus(t gpuSums) {
	s.ms, s.capacity, s.free, s.lost = s.ms+t.ms, s.capacity+t.capacity, s.free+t.free, s.lost+t.lost
}

const sumGPUHours = "coalesce(sum(ms), 0)::float8, coalesce(sum(capacity_ms), 0)::float8, coalesce(sum(free_ms), 0)::float8, coalesce(sum(lost_ms), 0)::float8"

const lostNote = "lost is what was free of GPUs, in pieces or beside too few slots or too little memory, though with the rest that is free there was " +
	"enough for a request that waited: the mean of all that waited, at each moment; given is what slices held, used or not"

// utilisationReport has a row for each day, week or month, of what the leaders have seen of it.
func utilisationReport(ctx context.Context, tx pgx.Tx, q reports.Query, now time.Time) (*reports.Table, error) {
	until, _, err := utilisation(q, now)
	if err != nil {
		return nil, err
	}
	q.Period.To = until
	parts, err := q.Period.Parts(q.By, q.Zone)
	if err != nil {
		return nil, err
	}
	sums := make([]gpuSums, len(parts))
	rows, err := tx.Query(ctx, `SELECT width_bucket(hour, $1::timestamptz[]), `+sumGPUHours+`
		FROM gpu_hours WHERE hour >= $2 AND hour < $3 GROUP BY 1`, parts, q.Period.From, until)
	if err != nil {
		return nil, err
	}
	var at int
	var one gpuSums
	if _, err := pgx.ForEachRow(rows, []any{&at, &one.ms, &one.capacity, &one.free, &one.lost}, func() error {
		sums[at-1] = one // the first part begins with the period, or before it
		return nil
	}); err != nil {
		return nil, err
	}
	t := &reports.Table{Columns: append([]reports.Column{{Name: string(q.By), Text: true}},
		numbers("known_percent", "fgpu_hours", "given_hours", "given_percent", "free_hours", "lost_hours", "lost_percent")...), Notes: []string{lostNote}}
	add := func(name string, s gpuSums, length time.Duration) {
		if s.ms == 0 { // nothing is known, which is not nothing
			t.Add(name, reports.Percent(0, float64(length.Milliseconds())), "", "", "", "", "", "")
			return
		}
		given := s.capacity - s.free
		t.Add(name, reports.Percent(s.ms, float64(length.Milliseconds())), hours(s.capacity, 100), hours(given, 100), reports.Percent(given, s.capacity),
			hours(s.free, 100), hours(s.lost, 100), reports.Percent(s.lost, s.capacity))
	}
	var all gpuSums
	for i, begin := range parts {
		end := until
		if i+1 < len(parts) {
			end = parts[i+1]
		}
		if i == 0 {
			begin = q.Period.From
		}
		add(reports.PartName(parts[i], q.By), sums[i], end.Sub(begin))
		all.plus(sums[i])
	}
	cut(t, q)
	add(reports.Total, all, until.Sub(q.Period.From))
	if all.ms < 0.999*float64(until.Sub(q.Period.From).Milliseconds()) {
		t.Notes = append(t.Notes, "known_percent is how much of the time a batch daemon looked; an hour counts whole in the day in which it begins, the last one as far as it has come")
	}
	return t, nil
}

// noteLost says below a report of all nodes or GPUs what was lost in its period, where something is known of it.
func noteLost(ctx context.Context, tx pgx.Tx, q reports.Query, t *reports.Table) error {
	if q.Filter != (reports.Filter{}) {
		return nil
	}
	var s gpuSums
	err := tx.QueryRow(ctx, "SELECT "+sumGPUHours+" FROM gpu_hours WHERE hour >= $1 AND hour < $2", q.Period.From, q.Period.To).Scan(&s.ms, &s.capacity, &s.free, &s.lost)
	if err == nil && s.capacity > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("of all GPUs together %s of %s fGPU-hours were free, and %s of these (%s %% of all) lost to fragmentation: see breport utilisation",
			hours(s.free, 100), hours(s.capacity, 100), hours(s.lost, 100), reports.Percent(s.lost, s.capacity)))
	}
	return err
}
