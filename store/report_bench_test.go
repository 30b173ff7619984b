package store_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/reports"
	"fairslice/store"
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
	for _, table := range []string{"charges", "history", "cancelled", "ended_sums", "held_sums"} {
		exec("ALTER TABLE " + table + " SET UNLOGGED") // it is reading that is timed
	}
	indexes := query(b, url, "SELECT indexdef FROM pg_indexes WHERE tablename = 'charges' AND indexname <> 'charges_pkey'")
	for _, name := range query(b, url, "SELECT indexname::text FROM pg_indexes WHERE tablename = 'charges' AND indexname <> 'charges_pkey'") {
		exec("DROP INDEX " + name) // made again at once below, which is quicker than row by row
	}
	exec(`INSERT INTO charges (seq, job, idx, attempt, user_name, account, queue, project, image, nodes, gpu_slices, outcome, verdict, began, ended, slot_seconds, fgpu_seconds,
			slots, memory, fgpu, gpus, consumables, suspended_ms, waited_ms, run_limit_ms, cpu_ns, max_memory, avg_memory, gpu_memory, sm_ns, sm_measured_ns, submitted, gpu_capacity)
		SELECT i, i, 0, 1, 'user' || h % 200, 'account' || h % 20, 'queue' || h % 6, 'project' || h % 50, '/images/i' || h % 7 || '.sif', 'gpu' || h % 100 || '=' || s,
			'GPU-' || h % 100 || '-' || h / 100 % 8 || '=' || f, CASE WHEN h % 10 = 0 THEN 'exit' ELSE 'done' END, '', e - ms * interval '1 millisecond', e, 0, 0,
			s, s * 4294967296, f, (f = 100)::int, '', 0, h % 7200000, 86400000, ms * 600000, s * 1073741824, s * 536870912, 1073741824, ms * f * 3000, ms * 1000000,
			e - (ms + h % 7200000) * interval '1 millisecond', 100
		FROM (SELECT i, h, timestamptz '2026-01-01' + i * interval '15.5 seconds' * (1000000.0 / $1) AS e, 1 + h % 8 AS s, (h % 4 + 1) * 25 AS f, 1000 + h % 14400000 AS ms
			FROM (SELECT i, hashint8extended(i, 7) & 2147483647 AS h FROM generate_series(1, $1::bigint) i) x) y ORDER BY i`, n)
	for _, def := range indexes {
		exec(def)
	}
	if n <= 1_000_000 { // reports look into it only for what an older batchd charged
		exec(`INSERT INTO history (job, owner, queue, name, token, submitted, ended) SELECT job, user_name, queue, 'train', '', submitted, ended FROM charges ORDER BY job`)
	}
	exec(`INSERT INTO cancelled (job, idx, user_name, account, queue, project, name, submitted, ended)
		SELECT job, 1, user_name, account, queue, project, 'train', submitted, ended FROM charges WHERE job % 50 = 0 ORDER BY job`)
	exec(`INSERT INTO events (seq, term, at, job, idx, by_user, kind, body) VALUES ($1, 1, now(), 0, 0, '', 'queue-set', '{}')`, n)
	exec("VACUUM ANALYZE")
}

// BenchmarkReports times each form of breport, and bacct's summary: over all of the past, and over months whose ends are in the midst of
// a day ("odd"). 10,000,000 jobs take half an hour and 6 GB: they are only there for -bench 'Reports/jobs=10000000'.
func BenchmarkReports(b *testing.B) {
	sizes := []int{200_000, 1_000_000}
	if strings.Contains(flag.Lookup("test.bench").Value.String(), "10000000") {
		sizes = append(sizes, 10_000_000)
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			url := storetest.URL(b)
			s := storetest.OpenURL(b, url) // migrated
			fillPast(b, url, n)
			query(b, url, "UPDATE usage_mark SET seq = $1", n) // usage_hours are not for reports
			began := time.Now()
			if err := s.RollUpBy(b.Context(), 500_000); err != nil {
				b.Fatal(err)
			}
			b.Logf("rolled up %.0f jobs/s", float64(n)/time.Since(began).Seconds())
			query(b, url, "VACUUM ANALYZE ended_sums, held_sums")
			for _, line := range query(b, url, `SELECT relname || ' ' || pg_size_pretty(pg_total_relation_size(oid)) || ', ' || reltuples || ' rows'
				FROM pg_class WHERE relname IN ('charges', 'charges_given', 'charges_unused', 'ended_sums', 'held_sums', 'usage_hours')`) {
				b.Log(line)
			}
			benchReports(b, s)
		})
	}
}

func benchReports(b *testing.B, s *store.Store) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	now := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	all := reports.Period{From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), To: now}
	odd := reports.Period{From: time.Date(2026, 1, 1, 12, 34, 0, 0, zone), To: time.Date(2026, 6, 17, 12, 34, 0, 0, zone)}
	forms := []reports.Query{
		{Kind: reports.Usage, By: reports.ByUser}, {Kind: reports.Usage, By: reports.ByAccount}, {Kind: reports.Usage, By: reports.ByQueue}, {Kind: reports.Usage, By: reports.ByProject},
		{Kind: reports.Usage, By: reports.ByImage}, {Kind: reports.Usage, By: reports.ByDay}, {Kind: reports.Usage, By: reports.ByWeek}, {Kind: reports.Usage, By: reports.ByMonth},
		{Kind: reports.Wait, By: reports.ByUser}, {Kind: reports.Wait, By: reports.ByQueue}, {Kind: reports.Wait, By: reports.ByDay},
		{Kind: reports.Efficiency, By: reports.ByUser}, {Kind: reports.Efficiency, By: reports.ByDay}, {Kind: reports.Efficiency, By: reports.ByJob, Limit: 100}, {Kind: reports.Efficiency, By: reports.ByJob},
		{Kind: reports.Wasters, By: reports.ByUser}, {Kind: reports.Wasters, By: reports.ByJob}, {Kind: reports.Nodes}, {Kind: reports.GPUs},
		// With a filter; these are slower the more jobs there are.
		{Kind: reports.Usage, By: reports.ByProject, Filter: reports.Filter{Account: "account7"}}, {Kind: reports.Usage, By: reports.ByDay, Filter: reports.Filter{User: "user7"}},
		{Kind: reports.Usage, By: reports.ByMonth, Filter: reports.Filter{Account: "account7"}}, {Kind: reports.Usage, By: reports.ByDay, Filter: reports.Filter{Account: "account7"}},
		{Kind: reports.Wait, By: reports.ByQueue, Filter: reports.Filter{User: "user7"}}, {Kind: reports.Efficiency, By: reports.ByJob, Filter: reports.Filter{User: "user7"}},
		{Kind: reports.Usage, By: reports.ByUser, Filter: reports.Filter{Host: "gpu7"}}, {Kind: reports.Nodes, Filter: reports.Filter{User: "user7"}}, {Kind: reports.Nodes, Filter: reports.Filter{Account: "account7"}},
	}
	for name, period := range map[string]reports.Period{"all": all, "odd": odd} {
		for _, q := range forms {
			q.Period, q.Zone = period, zone
			if err := q.Check(); err != nil {
				b.Fatal(err)
			}
			form := fmt.Sprintf("%s/%s-by-%s", name, q.Kind, q.By)
			if q.Filter != (reports.Filter{}) {
				form += fmt.Sprintf("-of-%s%s%s", q.Filter.User, q.Filter.Account, q.Filter.Host)
			}
			if q.Limit == 100 {
				form += "-100"
			}
			b.Run(form, func(b *testing.B) {
				for b.Loop() {
					if t, err := s.Report(b.Context(), q, now); err != nil || len(t.Rows) == 0 {
						b.Fatal(t, err)
					}
				}
			})
		}
	}
	for what, q := range map[string]*reports.FinishedQuery{"bacct-all": {}, "bacct-user": {Users: []string{"user7"}}, "bacct-odd": {Ended: odd}, "bacct-queue-odd": {Queues: []string{"queue1"}, Ended: odd},
		"bacct-failed": {Failed: true}, "bacct-host": {Hosts: []string{"gpu7"}}} {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				if m, err := s.Summarise(b.Context(), q); err != nil || m.Jobs() == 0 {
					b.Fatal(m, err)
				}
			}
		})
	}
}
