package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/accounting"
	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/store/storetest"
)

const halfLife = 7 * 24 * time.Hour

func newUsage(t testing.TB) *accounting.Usage {
	t.Helper()
	u, err := accounting.NewUsage(halfLife)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A restart charges nobody again (Slurm bug 3162): the usage that is loaded is the usage that there was, to the last bit.
func TestLoadedUsageIsTheUsageThereWas(t *testing.T) {
	t.Parallel()
	w := newWriter(t, storetest.Open(t))
	was := newUsage(t)
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}))
	for job := queue.JobID(1); job <= 9; job++ {
		w.do(ev(job, 0, submitted("", nil)), ev(job, 0, started(1, "n1", 0, 50)))
		end := ended(1, 0, w.now.Add(time.Duration(job)*37*time.Hour))
		end.Charge.User, end.Charge.Slots, end.Charge.FGPU = fmt.Sprint("user", job%3), int(job), 33*nodes.Amount(job)
		end.Charge.Memory = int64(job)*1_234_567_891 + 1
		was.Charge(end.Charge)
		w.do(ev(job, 0, end))
	}
	w.do(ev(10, 0, submitted("", nil)), ev(10, 0, started(1, "n1", 0, 50))) // runs: no charge yet
	now := w.now.AddDate(0, 1, 0)
	for range 2 { // one restart after the other
		is := newUsage(t)
		if err := w.s.LoadUsage(t.Context(), is, now); err != nil {
			t.Fatal(err)
		}
		for _, user := range []string{"user0", "user1", "user2", "ada"} {
			a, b := was.Of(user, now), is.Of(user, now)
			if a != b || (a.SlotSeconds > 0) != (user != "ada") || (a.GiBSeconds > 0) != (user != "ada") {
				t.Errorf("%s: there was %v, loaded %v", user, a, b)
			}
		}
	}
}

func TestLastFinished(t *testing.T) {
	t.Parallel()
	w := newWriter(t, storetest.Open(t))
	if got, err := w.s.LastFinished(t.Context(), time.Time{}, 10); err != nil || len(got) != 0 {
		t.Fatalf("of an empty history: %v, %v", got, err)
	}
	odd := submitted("", &queue.Array{Ranges: []queue.Range{{First: 1, Last: 3, Step: 1}}})
	odd.Spec.Name = "\x00 <name>" // the database must not look into it
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}), ev(1, 0, submitted("", nil)), ev(2, 0, odd), ev(3, 0, submitted("", nil)))
	w.do(ev(1, 0, started(1, "n1", 0, 50)), ev(2, 1, started(1, "n1", 0, 50)), ev(2, 2, started(1, "n1", 1, 50)))
	failed := &queue.Requeued{Attempt: 1, Why: "no image", Failed: true, Charge: charge(w.now)}
	w.do(ev(2, 1, failed), ev(2, 2, ended(1, 256, w.now)), ev(1, 0, ended(1, 0, w.now)))
	middle := w.now
	w.do(ev(3, 0, ended(0, queue.NoStatus, w.now))) // killed while pending
	changed := odd.Plan
	changed.RunLimit = 2 * time.Hour
	w.do(ev(2, 0, &queue.Modified{Spec: odd.Spec, Plan: changed, Words: "-W 120"}))
	w.do(ev(2, 1, started(2, "n1", 0, 50)))
	w.do(ev(2, 1, ended(2, 0, w.now)), ev(1, 0, &queue.Forgotten{}))

	all, err := w.s.LastFinished(t.Context(), time.Time{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range all {
		names = append(names, fmt.Sprint(f.ID, ".", f.Attempt, " ", f.Done, " ", f.Plan.RunLimit))
	}
	want := []string{"2[1].2 true 2h0m0s", "1.1 true 1h0m0s", "2[2].1 false 2h0m0s"}
	if !reflect.DeepEqual(names, want) {
		t.Fatalf("got %v, want %v", names, want)
	}
	if f := all[1]; !reflect.DeepEqual(f.Plan, submitted("", nil).Plan) || f.Charge.User != "ada" || f.Charge.Ended.Sub(f.Charge.Began) != time.Minute ||
		f.Usage.MaxMemory != 7 || f.Usage.Pids != nil {
		t.Errorf("job 1: %+v", f)
	}
	for what, row := range map[string]struct {
		since time.Time
		limit int
		want  int
	}{
		"the newest": {time.Time{}, 1, 1},
		"one of the newest two, as one never ran": {time.Time{}, 2, 1},
		"of late":        {middle, 100, 2},
		"of the future":  {w.now.Add(time.Hour), 100, 0},
		"none asked for": {time.Time{}, 0, 0},
		"less than none": {time.Time{}, -1, 0},
	} {
		if got, err := w.s.LastFinished(t.Context(), row.since, row.limit); err != nil || len(got) != row.want || row.want > 0 && got[0].ID != all[0].ID {
			t.Errorf("%s: %v, %v; want %d", what, got, err, row.want)
		}
	}
}

// fill writes n charges of 200 users over half a year, and as many jobs that ended, straight into the tables.
func fill(b *testing.B, url string, charges, jobs int) {
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(sql string, args ...any) {
		if _, err := conn.Exec(b.Context(), sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec(`INSERT INTO charges (job, idx, attempt, user_name, account, queue, began, ended, slot_seconds, fgpu_seconds, cpu_ns, max_memory)
		SELECT i, 0, 1, 'user' || i % 200, '', 'gpu', e - interval '1 hour', e, 3600 + i % 77, i % 5 * 900, 0, 0
		FROM (SELECT i, timestamptz '2026-01-01' + i * interval '15 seconds' e FROM generate_series(1, $1::bigint) i) x`, charges)
	w := newWriter(b, storetest.OpenURL(b, url))
	enc := func(body queue.Body) string { return encode(b, body) }
	exec(`INSERT INTO events (seq, term, at, job, idx, by_user, kind, body) SELECT 4 * (i - 1) + k, 1, now(), i, 0, '', kind, body::json
		FROM generate_series(1, $1::bigint) i, unnest($2::int[], $3::text[], $4::text[]) t(k, kind, body)`, jobs, []int32{1, 2, 3, 4},
		[]string{"submitted", "started", "began", "ended"},
		[]string{enc(submitted("token", nil)), enc(started(1, "n1", 0, 50)), enc(&queue.Began{Attempt: 1, Ran: w.now}), enc(ended(1, 0, w.now))})
	exec("ANALYZE")
}

func encode(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// BenchmarkLoadUsage reads a million charges.
func BenchmarkLoadUsage(b *testing.B) {
	url := storetest.URL(b)
	fill(b, url, 1_000_000, 1)
	s := storetest.OpenURL(b, url)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.LoadUsage(b.Context(), newUsage(b), time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLastFinished reads what a restart learns from, of half a million jobs.
func BenchmarkLastFinished(b *testing.B) {
	url := storetest.URL(b)
	fill(b, url, 1, 500_000)
	s := storetest.OpenURL(b, url)
	for _, n := range []int{1_000, 20_000} {
		b.Run(fmt.Sprintf("limit=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, err := s.LastFinished(b.Context(), time.Time{}, n); err != nil || len(got) != n {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
