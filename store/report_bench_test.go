package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/reports"
	"fairslice/store/storetest"
)

// fillPast writes n jobs that are over straight into the tables: 200 users in 20 accounts, 6 queues, 50 projects, 100 nodes with 8 GPUs each,
// over half a year. The figures are drawn from the number of the job, so the same n gives the same past.
func fillPast(b *testing.B, url string, n int) {
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(sql string, args ...any) {
		b.Helper()
		if _, err := conn.Exec(b.Context(), sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec(`INSERT INTO nodes (id, slots, memory, used_slots, used_memory, row) SELECT 'gpu' || i, 64, 549755813888, 0, 0, '{}' FROM generate_series(0, 99) i`)
	exec(`INSERT INTO gpus (node, uuid, model, capacity, used) SELECT 'gpu' || i, 'GPU-' || i || '-' || g, 'Sim', 100, 0 FROM generate_series(0, 99) i, generate_series(0, 7) g`)
	exec(`INSERT INTO charges (seq, job, idx, attempt, user_name, account, queue, project, image, nodes, gpu_slices, outcome, verdict, began, ended, slot_seconds, fgpu_seconds,
			slots, memory, fgpu, gpus, consumables, suspended_ms, waited_ms, run_limit_ms, cpu_ns, max_memory, avg_memory, gpu_memory, sm_ns, sm_measured_ns)
		SELECT i, i, 0, 1, 'user' || h % 200, 'account' || h % 20, 'queue' || h % 6, 'project' || h % 50, '/images/i' || h % 7 || '.sif', 'gpu' || h % 100 || '=' || s,
			'GPU-' || h % 100 || '-' || h / 100 % 8 || '=' || f, CASE WHEN h % 10 = 0 THEN 'exit' ELSE 'done' END, '', e - ms * interval '1 millisecond', e, 0, 0,
			s, s * 4294967296, f, (f = 100)::int, '', 0, h % 7200000, 86400000, ms * 600000, s * 1073741824, s * 536870912, 1073741824, ms * f * 3000, ms * 1000000
		FROM (SELECT i, h, timestamptz '2026-01-01' + i * interval '15.5 seconds' * (1000000.0 / $1) AS e, 1 + h % 8 AS s, (h % 4 + 1) * 25 AS f, 1000 + h % 14400000 AS ms
			FROM (SELECT i, hashint8extended(i, 7) & 2147483647 AS h FROM generate_series(1, $1::bigint) i) x) y ORDER BY i`, n)
	exec(`INSERT INTO history (job, owner, queue, name, token, submitted, ended)
		SELECT job, user_name, queue, 'train', '', began - waited_ms * interval '1 millisecond', ended FROM charges ORDER BY job`)
	exec("VACUUM ANALYZE")
}

// BenchmarkReports times each form of breport, and bacct's summary, over all of the past.
func BenchmarkReports(b *testing.B) {
	for _, n := range []int{200_000, 1_000_000} {
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			url := storetest.URL(b)
			s := storetest.OpenURL(b, url) // migrated
			fillPast(b, url, n)
			now := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
			all := reports.Period{From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), To: now}
			for _, q := range []reports.Query{
				{Kind: reports.Usage, By: reports.ByUser}, {Kind: reports.Usage, By: reports.ByAccount}, {Kind: reports.Usage, By: reports.ByQueue}, {Kind: reports.Usage, By: reports.ByProject},
				{Kind: reports.Usage, By: reports.ByImage}, {Kind: reports.Usage, By: reports.ByDay}, {Kind: reports.Usage, By: reports.ByMonth}, {Kind: reports.Wait, By: reports.ByUser}, {Kind: reports.Wait, By: reports.ByQueue},
				{Kind: reports.Wait, By: reports.ByDay}, {Kind: reports.Efficiency, By: reports.ByUser}, {Kind: reports.Efficiency, By: reports.ByJob, Limit: 100},
				{Kind: reports.Wasters, By: reports.ByUser}, {Kind: reports.Wasters, By: reports.ByJob}, {Kind: reports.Nodes}, {Kind: reports.GPUs},
			} {
				q.Period = all
				if err := q.Check(); err != nil {
					b.Fatal(err)
				}
				b.Run(fmt.Sprintf("%s-by-%s", q.Kind, q.By), func(b *testing.B) {
					for b.Loop() {
						if t, err := s.Report(b.Context(), q, now); err != nil || len(t.Rows) == 0 {
							b.Fatal(t, err)
						}
					}
				})
			}
			for what, q := range map[string]*reports.FinishedQuery{"bacct-all": {}, "bacct-user": {Users: []string{"user7"}}} {
				b.Run(what, func(b *testing.B) {
					for b.Loop() {
						if m, err := s.Summarise(b.Context(), q); err != nil || m.Jobs() == 0 {
							b.Fatal(m, err)
						}
					}
				})
			}
		})
	}
}
