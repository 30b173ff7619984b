package store_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/reports"

	"fairslice/store/storetest"
)

// years is a past of random charges over five months, with a change of clocks; some were written by an older batchd.
type years struct {
	t    testing.TB
	url  string
	rnd  *rand.Rand
	rows int
}

var yearsBegin = time.Date(2025, 12, 20, 0, 0, 0, 0, time.UTC)

const yearsDays = 150

func pickOne[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }

// charges writes some, with events for them where they are to be rolled up.
func (y *years) charges(n int, roll bool) {
	y.t.Helper()
	conn, err := pgx.Connect(y.t.Context(), y.url)
	if err != nil {
		y.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	batch := &pgx.Batch{}
	for range n {
		y.rows++
		y.charge(batch, int64(y.rows), roll)
	}
	if roll {
		batch.Queue(`INSERT INTO events (seq, term, at, job, idx, by_user, kind, body) VALUES ($1, 1, now(), 0, 0, '', 'queue-set', '{}')`, y.rows)
	}
	if err := conn.SendBatch(y.t.Context(), batch).Close(); err != nil {
		y.t.Fatal(err)
	}
}

func (y *years) charge(batch *pgx.Batch, job int64, roll bool) {
	rnd := y.rnd
	ended := yearsBegin.Add(time.Duration(rnd.Int64N(yearsDays*24*3600_000)) * time.Millisecond)
	if rnd.IntN(10) == 0 { // at the edge of an interval
		ended = ended.Truncate(pickOne(rnd, 15*time.Minute, time.Hour, 24*time.Hour))
	}
	length := time.Duration(rnd.ExpFloat64()*pickOne(rnd, 60.0, 3600, 90_000)*1000) * time.Millisecond
	began := ended.Add(-length)
	user := fmt.Sprint("user", rnd.IntN(5))
	if rnd.IntN(12) == 0 { // amounts times seconds are all there is
		old, seq := &began, any(nil)
		if !roll {
			seq = pickOne[any](rnd, nil, 0) // 0: in the hourly sums already
		}
		if rnd.IntN(4) == 0 {
			old, length = nil, 0
		}
		batch.Queue(`INSERT INTO charges (job, idx, attempt, seq, user_name, account, queue, began, ended, slot_seconds, fgpu_seconds, cpu_ns, max_memory, outcome)
			VALUES ($1, 0, 1, $2, $3, '', 'gpu', $4, $5, $6, $7, $8, 5, $9)`, job, seq, user, old, ended, 3*length.Seconds(), 0.25*length.Seconds(),
			rnd.Int64N(1e13), pickOne[any](rnd, nil, "done", "exit"))
		return
	}
	outcome, verdict := pickOne(rnd, "done", "done", "exit", "lost", "requeued"), ""
	if outcome == "lost" {
		verdict = pickOne(rnd, "", "TERM_UNKNOWN", "TERM_REQUEUE_OWNER")
	}
	nodes, slices := pickOne(rnd, "n1=4", "n2=1,n1=3", "a=b=2", ""), pickOne(rnd, "", "GPU-a=50", "GPU-b=100,GPU-a=100", "GPU-gone=25")
	measured := rnd.Int64N(2) * length.Nanoseconds()
	wait := pickOne[any](rnd, nil, 0, rnd.Int64N(3000), rnd.Int64N(1e6), rnd.Int64N(1e9))
	submitted := began.Add(-time.Duration(rnd.Int64N(1e14)) / 1000 * 1000)
	if rnd.IntN(3) > 0 {
		batch.Queue(`INSERT INTO history (job, owner, queue, name, token, submitted, ended) VALUES ($1, $2, 'gpu', 'x', '', $3, $4)`, job, user, submitted, ended)
	}
	batch.Queue(`INSERT INTO charges (job, idx, attempt, seq, user_name, account, queue, project, image, nodes, gpu_slices, outcome, verdict, began, ended, slot_seconds, fgpu_seconds,
			slots, memory, fgpu, gpus, consumables, suspended_ms, waited_ms, run_limit_ms, cpu_ns, max_memory, avg_memory, gpu_memory, sm_ns, sm_measured_ns, submitted, gpu_capacity)
		VALUES ($1, 0, 1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 0, 0, $13, $14, $15, $16, '', 0, $17, 0, $18, $19, 0, 0, $20, $21, $22, $23)`,
		job, user, pickOne(rnd, "lab", "physics", ""), pickOne(rnd, "gpu", "long"), pickOne(rnd, "alloys", "", `x "y`), pickOne(rnd, "", "/a.sif", "/b.sif"), nodes, slices, outcome, verdict, began, ended,
		1+rnd.IntN(8), rnd.Int64N(1<<36), pickOne(rnd, 0, 25, 50, 200), rnd.IntN(2), wait, rnd.Int64N(1e13), rnd.Int64N(1<<35), rnd.Int64N(1+measured), measured,
		pickOne[any](rnd, nil, submitted), pickOne[any](rnd, nil, 100, 200))
}

func (y *years) period(zone *time.Location) reports.Period {
	at := func() time.Time {
		t := yearsBegin.AddDate(0, 0, -3).Add(time.Duration(y.rnd.Int64N((yearsDays+6)*24*3600_000_000)) * time.Microsecond)
		switch y.rnd.IntN(5) {
		case 0:
			return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, zone)
		case 1:
			return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, zone)
		case 2:
			return t.Truncate(15 * time.Minute)
		}
		return t
	}
	p := reports.Period{From: at(), To: at()}
	switch {
	case p.To.Before(p.From):
		p.From, p.To = p.To, p.From
	case p.From.Equal(p.To):
		p.To = p.To.Add(time.Minute)
	}
	if y.rnd.IntN(8) == 0 {
		p.To = p.From.Add(time.Duration(1 + y.rnd.Int64N(3e12)))
	}
	return p
}

func (y *years) query(zones []*time.Location) reports.Query {
	q := reports.Query{Zone: pickOne(y.rnd, zones...)}
	for {
		q.Kind = pickOne(y.rnd, reports.Usage, reports.Wait, reports.Efficiency, reports.Wasters, reports.Nodes, reports.GPUs)
		q.By = pickOne(y.rnd, "", reports.ByUser, reports.ByAccount, reports.ByQueue, reports.ByProject, reports.ByImage, reports.ByDay, reports.ByWeek, reports.ByMonth, reports.ByJob)
		q.Period = y.period(q.Zone)
		if try := q; try.Check() == nil {
			break
		}
	}
	for range y.rnd.IntN(3) {
		switch y.rnd.IntN(5) {
		case 0:
			q.Filter.User = "user1"
		case 1:
			q.Filter.Account = pickOne(y.rnd, "default", "lab")
		case 2:
			q.Filter.Queue = "gpu"
		case 3:
			q.Filter.Project = `x "y`
		case 4:
			q.Filter.Host = pickOne(y.rnd, "n1", "a=b")
		}
	}
	_ = q.Check()
	return q
}

func (y *years) finished() *reports.FinishedQuery {
	q := &reports.FinishedQuery{}
	for range y.rnd.IntN(4) {
		switch y.rnd.IntN(5) {
		case 0:
			q.Users = []string{"user1", "user3"}
		case 1:
			q.Queues = []string{"long"}
		case 2:
			q.Projects = []string{"alloys", ""}
		default:
			q.Ended = y.period(time.UTC)
			if y.rnd.IntN(3) == 0 {
				q.Ended.From = time.Time{}
			} else if y.rnd.IntN(3) == 0 {
				q.Ended.To = time.Time{}
			}
		}
	}
	return q
}

// TestReportsFromSums compares what reports say from the sums with what they say from the charges alone.
func TestReportsFromSums(t *testing.T) {
	t.Parallel()
	const queries = 200
	url := storetest.URL(t)
	s := storetest.OpenURL(t, url)
	y := &years{t: t, url: url, rnd: rand.New(rand.NewPCG(5, 1))}
	y.charges(1500, true)
	if err := s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, s)
	y.charges(150, false) // behind the sums
	var zones []*time.Location
	for _, name := range []string{"UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones = append(zones, zone)
	}
	now := yearsBegin.AddDate(0, 0, yearsDays+9)
	of := make([]reports.Query, queries)
	ask := func(q reports.Query) []string {
		table, err := s.ReportBy(t.Context(), q, now, 0)
		if err != nil {
			t.Fatal(q, err)
		}
		var out []string
		for _, r := range table.Rows {
			out = append(out, strings.Join(r, "|"))
		}
		return out
	}
	sum := func(q *reports.FinishedQuery) reports.Summary {
		m, err := s.Summarise(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	summed, summaries, finished := make([][]string, queries), make([]reports.Summary, queries), make([]*reports.FinishedQuery, queries)
	for i := range of {
		of[i], finished[i] = y.query(zones), y.finished()
		summed[i], summaries[i] = ask(of[i]), sum(finished[i])
	}
	// Most of these do use the sums.
	query(t, url, "UPDATE ended_sums SET attempts = attempts + 1, jobs = jobs + 1, starts = starts + 1")
	query(t, url, "UPDATE held_sums SET amount_ms = amount_ms + 360000")
	using := 0
	for i, q := range of {
		if !slices.Equal(summed[i], ask(q)) {
			using++
		}
	}
	if using < queries/3 {
		t.Errorf("only %d of %d reports depend on the sums", using, queries)
	}
	t.Logf("%d of %d reports depend on the sums", using, queries)
	query(t, url, "TRUNCATE ended_sums, held_sums")
	for i, q := range of {
		title := fmt.Sprintf("%s (%s) of %+v", q.Title(), q.Zone, q.Filter)
		if raw := ask(q); q.Kind == reports.Wait {
			sameWaits(t, title, summed[i], raw)
		} else if !slices.Equal(summed[i], raw) {
			t.Errorf("%s:\n the sums say %q\nthe charges say %q", title, summed[i], raw)
		}
		if got, want := summaries[i], sum(finished[i]); !nearly(got, want) {
			t.Errorf("%+v:\n the sums say %+v\nthe charges say %+v", *finished[i], got, want)
		}
	}
}

// sameWaits allows percentiles what they are allowed.
func sameWaits(t *testing.T, title string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %q, want %q", title, got, want)
		return
	}
	for i := range got {
		g, w := strings.Split(got[i], "|"), strings.Split(want[i], "|")
		for k := range g {
			a, errA := strconv.ParseFloat(g[k], 64)
			b, errB := strconv.ParseFloat(w[k], 64)
			if percentile := k == 3 || k == 4; percentile && errA == nil && errB == nil && math.Abs(a-b) <= b*reports.WaitError+0.11 {
				continue // within a twentieth, rounded twice
			}
			if g[k] != w[k] {
				t.Errorf("%s: %q, want %q", title, got[i], want[i])
				break
			}
		}
	}
}

// nearly allows what hog and expansion factors are rounded by, and what the order of additions changes.
func nearly(a, b reports.Summary) bool {
	flat := func(m reports.Summary) []float64 {
		out := []float64{float64(m.Done), float64(m.Failed), float64(m.Started), m.Expansion, m.Run, float64(m.First.UnixMicro()), float64(m.Last.UnixMicro())}
		for _, s := range []reports.Spread{m.CPU, m.Wait, m.Turnaround, m.Hog} {
			out = append(out, s.Sum, s.Max, s.Min)
		}
		return out
	}
	x, y := flat(a), flat(b)
	for i := range x {
		if math.Abs(x[i]-y[i]) > 1e-5+1e-12*math.Abs(y[i]) {
			return false
		}
	}
	return true
}

// What is archived is no longer in the charges; whole days stay in the reports as they were.
func TestReportsOfWhatIsArchived(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	s := storetest.OpenURL(t, url)
	y := &years{t: t, url: url, rnd: rand.New(rand.NewPCG(6, 1))}
	y.charges(500, true)
	if err := s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	var before [][]string
	for range 2 {
		for _, kind := range []reports.Kind{reports.Usage, reports.Wait, reports.Efficiency, reports.Wasters, reports.Nodes, reports.GPUs} {
			q := reports.Query{Kind: kind, Period: reports.Period{From: yearsBegin, To: yearsBegin.AddDate(0, 0, yearsDays)}}
			if err := q.Check(); err != nil {
				t.Fatal(err)
			}
			table, err := s.ReportBy(t.Context(), q, q.Period.To, 0)
			if err != nil || len(table.Rows) == 0 {
				t.Fatal(err, table)
			}
			before = append(before, slices.Concat(table.Rows...))
		}
		query(t, url, "DELETE FROM charges WHERE ended < '2026-03-01' AND began < '2026-03-01'")
	}
	for i := range 6 {
		if !slices.Equal(before[i], before[6+i]) {
			t.Errorf("report %d was %q, and is %q", i, before[i], before[6+i])
		}
	}
	first, err := s.FirstCharge(t.Context(), time.Now())
	if err != nil || first.After(yearsBegin.AddDate(0, 0, 2)) {
		t.Errorf("the first charge was at %s, %v", first, err)
	}
	// Percentiles are exact only as long as each wait is there.
	q := reports.Query{Kind: reports.Wait, Period: reports.Period{From: yearsBegin, To: yearsBegin.AddDate(0, 0, yearsDays)}}
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	table, err := s.Report(t.Context(), q, q.Period.To)
	if err != nil || len(table.Notes) != 1 || !slices.Equal(slices.Concat(table.Rows...), before[1]) {
		t.Errorf("waits of what is archived: %v, %v", table, err)
	}
}

// The lengths of waits are numbered alike by the database and by package reports.
func TestWaitBuckets(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	for _, line := range query(t, url, `SELECT v || ' ' || wait_bucket(v) FROM (SELECT generate_series(0, 300) UNION SELECT (1.07 ^ i)::int FROM generate_series(40, 317) i
		UNION SELECT least(2 ^ i + d, 2147483647)::int FROM generate_series(5, 31) i, generate_series(-1, 1) d) x(v)`) {
		var v uint32
		var bucket int
		if _, err := fmt.Sscan(line, &v, &bucket); err != nil || reports.WaitBucket(v) != bucket {
			t.Errorf("%d: %d in the database, %d in package reports (%v)", v, bucket, reports.WaitBucket(v), err)
		}
	}
}

// A charge says when its job was submitted, and what its GPU was worth.
func TestChargeSaysWhatReportsNeed(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	pastIn(t, storetest.OpenURL(t, url))
	got := query(t, url, "SELECT c.job || ' ' || (c.submitted = j.submitted) || ' ' || c.gpu_capacity FROM charges c JOIN jobs j ON j.id = c.job ORDER BY c.job")
	if want := []string{"1 true 200", "2 true 200", "3 true 200", "4 true 200"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// What an older batchd did not say is looked up by the migration, where a GPU is not worth 100.
	text, err := os.ReadFile("migrations/006_rollups.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, repair, _ := strings.Cut(string(text), "without one nothing is rewritten.\n")
	repair, _, _ = strings.Cut(repair, ";")
	query(t, url, "UPDATE charges SET gpu_capacity = NULL")
	if got := query(t, url, repair+" RETURNING c.job || ' ' || c.gpu_capacity"); len(got) != 2 || !slices.Contains(got, "3 200") { // two were measured
		t.Errorf("repaired %q", got)
	}
}
