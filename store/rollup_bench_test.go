package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/store/storetest"
)

// BenchmarkRollUp sums up charges of 200 users, half an hour long on the average, that nobody has yet, and checks the sums.
func BenchmarkRollUp(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("charges=%d", n), func(b *testing.B) {
			url := storetest.URL(b)
			s := storetest.OpenURL(b, url)
			conn, err := pgx.Connect(b.Context(), url)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close(b.Context())
			exec := func(sql string, args ...any) {
				if _, err := conn.Exec(b.Context(), sql, args...); err != nil {
					b.Fatal(err)
				}
			}
			charges := func(from, to int) {
				exec(`INSERT INTO charges (job, idx, attempt, seq, user_name, account, queue, began, ended, slot_seconds, fgpu_seconds, slots, memory, fgpu, gpus,
				consumables, outcome, cpu_ns, max_memory)
				SELECT i, 0, 1, 4 * i, 'user' || i % 200, 'account' || i % 20, 'gpu', e - i % 3600 * interval '1 second', e, 1, 1, 1 + i % 64, 1::bigint << 33, i % 4 * 50, 0,
				'', CASE WHEN i % 5 = 0 THEN 'exit' ELSE 'done' END, 0, 0
				FROM (SELECT i, timestamptz '2026-01-01' + i * interval '3 seconds' e FROM generate_series($1::bigint, $2::bigint) i) x`, from, to)
				exec(`INSERT INTO events (seq, term, at, job, idx, by_user, kind, body) VALUES ($1, 1, now(), 0, 0, '', 'queue-set', '{}')`, 4*to)
			}
			charges(1, n)
			exec("ANALYZE")
			for b.Loop() {
				exec("UPDATE usage_mark SET seq = 0")
				exec("UPDATE ended_mark SET seq = 0")
				exec("TRUNCATE usage_hours, consumable_hours, ended_sums, held_sums")
				began := time.Now()
				if err := s.RollUp(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(n)/time.Since(began).Seconds(), "charges/s")
				began = time.Now()
				if wrong, err := s.CheckRollUp(b.Context()); err != nil || len(wrong) > 0 {
					b.Fatal(wrong, err)
				}
				b.ReportMetric(time.Since(began).Seconds(), "s/check")
				charges(n+1, n+700) // of a minute, at a million a day
				began = time.Now()
				if err := s.RollUp(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/minute")
				exec("DELETE FROM charges WHERE job > $1", n)
				exec("DELETE FROM events WHERE seq > $1", 4*n)
			}
		})
	}
}
