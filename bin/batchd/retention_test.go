package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/archive"
	"fairslice/etc"
	"fairslice/store"
	"fairslice/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// years is a site on 1 December 2026 that ran a job a week for three years, and one an hour before a month's end in its zone, Berlin.
type years struct {
	*archivist
	t    *testing.T
	url  string
	log  *slog.Logger
	conf *etc.Config
	at   time.Time
}

func newYears(t *testing.T) *years {
	t.Helper()
	y := &years{t: t, url: storetest.URL(t), log: slog.New(slog.NewTextHandler(t.Output(), nil)), conf: etc.Default(),
		at: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)}
	s := storetest.OpenURL(t, y.url)
	lease, err := s.Campaign(t.Context(), "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release(t.Context()) }) // stops its goroutine; the context is over by then
	y.conf.TimeZone = "Europe/Berlin"
	y.conf.Scheduler.HalfLife = 24 * time.Hour
	y.conf.Accounting = etc.Accounting{Keep: 24, ArchiveDir: filepath.Join(t.TempDir(), "archives"), MonthlyDir: filepath.Join(t.TempDir(), "months")}
	y.archivist = &archivist{store: s, term: lease.Term(), cfg: func() *etc.Config { return y.conf }, now: func() time.Time { return y.at }}
	y.sql(`CREATE TEMPORARY TABLE j AS SELECT n AS job, at FROM (SELECT row_number() OVER (ORDER BY at) AS n, at FROM (
			SELECT generate_series('2023-12-01 12:00Z'::timestamptz, '2026-11-30', interval '7 days') AS at UNION VALUES ('2026-09-30 21:30Z'::timestamptz), ('2026-09-30 22:30Z')) x) y;
		INSERT INTO history SELECT job, 'ada', 'gpu', 'x', '', at - interval '2 hours', at FROM j;
		INSERT INTO events SELECT job, 1, at, job, 0, '', 'ended', '{}' FROM j;
		INSERT INTO charges (job, idx, attempt, seq, user_name, account, queue, began, ended, slot_seconds, fgpu_seconds, cpu_ns, max_memory, slots, fgpu, gpus, memory, waited_ms, outcome)
			SELECT job, 0, 1, job, CASE WHEN job % 3 = 0 THEN '=1+1' ELSE 'ada' END, 'lab', 'gpu', at - interval '1 hour', at, 14400, 900, 0, 0, 4, 25, 0, 0, 90000, CASE WHEN job % 2 = 0 THEN 'done' ELSE 'exit' END FROM j`)
	y.rollUp()
	return y
}

func (y *years) rollUp() {
	y.t.Helper()
	if err := y.store.RollUp(y.t.Context()); err != nil {
		y.t.Fatal(err)
	}
}

func (y *years) sql(text string) {
	y.t.Helper()
	conn, err := pgx.Connect(y.t.Context(), y.url)
	if err != nil {
		y.t.Fatal(err)
	}
	defer conn.Close(y.t.Context())
	if _, err := conn.Exec(y.t.Context(), text); err != nil {
		y.t.Fatal(err)
	}
}

// count is how many jobs of the history finished before a time.
func (y *years) count(before time.Time) (n int) {
	y.t.Helper()
	conn, err := pgx.Connect(y.t.Context(), y.url)
	if err != nil {
		y.t.Fatal(err)
	}
	defer conn.Close(y.t.Context())
	if err := conn.QueryRow(y.t.Context(), "SELECT count(*) FROM history WHERE ended < $1", before).Scan(&n); err != nil {
		y.t.Fatal(err)
	}
	return n
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// archived checks that the files have all jobs that left, each once, and nothing is pending. It says how many files there are.
func (y *years) archived(all int) int {
	y.t.Helper()
	dir := y.conf.Accounting.ArchiveDir
	var jobs int64
	files := 0
	for _, name := range names(y.t, dir) {
		if strings.HasPrefix(name, "damaged-") {
			continue
		}
		h, sum, err := archive.Verify(filepath.Join(dir, name))
		if err != nil || name != fmt.Sprintf("fairslice-before-%s-%s.jsonl.zst", h.Before.In(y.conf.Location()).Format("2006-01-02"), sum[:8]) {
			y.t.Errorf("%s: %v", name, err)
		}
		jobs += h.History
		files++
	}
	if left := y.count(y.at); jobs+int64(left) != int64(all) {
		y.t.Errorf("%d jobs in files and %d in the database, of %d", jobs, left, all)
	}
	wrong, err := y.store.CheckRollUp(y.t.Context())
	if err != nil || len(wrong) > 0 {
		y.t.Errorf("the rollup: %v, %v", wrong, err)
	}
	return files
}

func TestOldJobsAreArchivedByThemselves(t *testing.T) {
	t.Parallel()
	y := newYears(t)
	all := y.count(y.at)
	off := *y.conf
	off.Accounting.Keep = 0
	if err := (&retention{archivist: &archivist{y.store, y.term, func() *etc.Config { return &off }, y.now}, log: y.log}).run(t.Context()); err != nil || len(names(t, off.Accounting.ArchiveDir)) > 0 {
		t.Errorf("off: %v", err)
	}
	r := &retention{archivist: y.archivist, log: y.log}
	for range 2 {
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := y.archived(all); n != 12 { // one for each month of December 2023 to November 2024
			t.Errorf("%d files: %v", n, names(t, y.conf.Accounting.ArchiveDir))
		}
		cut := time.Date(2024, 12, 1, 0, 0, 0, 0, y.conf.Location())
		if n := y.count(cut); n != 0 {
			t.Errorf("%d old jobs are left", n)
		}
		if n := y.count(cut.AddDate(0, 0, 10)); n == 0 {
			t.Error("a younger job went, too")
		}
		r = &retention{archivist: y.archivist, log: y.log} // restarted
	}
	y.at = y.at.AddDate(0, 0, 7) // each week one more
	if err := r.run(t.Context()); err != nil || y.archived(all) != 13 {
		t.Errorf("a week later: %v, %v", err, names(t, y.conf.Accounting.ArchiveDir))
	}
	// However short a time a site keeps, what counts for fair share and budgets stays.
	y.conf.Accounting.Keep = 1
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	quarter := time.Date(2026, 7, 1, 0, 0, 0, 0, y.conf.Location())
	if y.count(quarter) != 0 || y.count(quarter.AddDate(0, 0, 7)) == 0 {
		t.Errorf("%d jobs before the last quarter, %d with its first week", y.count(quarter), y.count(quarter.AddDate(0, 0, 7)))
	}
	y.archived(all)
}

// Killed between any two steps, and started again, it ends as if it had not been.
func TestArchivingGoesOnWhereItWasKilled(t *testing.T) {
	t.Parallel()
	y := newYears(t)
	all := y.count(y.at)
	r := &retention{archivist: y.archivist, log: y.log}
	dir := y.conf.Accounting.ArchiveDir
	pending := filepath.Join(dir, pendingName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cut := time.Date(2024, 3, 1, 0, 0, 0, 0, y.conf.Location())
	create := func(before time.Time) (archive.Header, string) {
		t.Helper()
		h, sum, err := archive.Create(pending, func(w io.Writer) error {
			_, _, err := y.store.Export(t.Context(), before, w)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return h, sum
	}
	settled := func(what string) {
		t.Helper()
		if err := r.settle(t.Context(), pending); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if slices.Contains(names(t, dir), pendingName) {
			t.Errorf("%s: still pending", what)
		}
		y.archived(all)
	}
	// While it was written.
	if err := os.WriteFile(pending+".partial", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	// When it was whole.
	create(cut)
	settled("whole")
	// When its jobs had left.
	cut = cut.AddDate(0, 1, 0)
	h, sum := create(cut)
	if _, err := y.store.Purge(t.Context(), y.term, h.Before, sum, "batchd"); err != nil {
		t.Fatal(err)
	}
	settled("purged")
	if n := len(names(t, dir)); n != 2 {
		t.Errorf("%d files", n)
	}
	// When it was whole, and another job came into the history before it was started again: the file is not what the database has.
	cut = cut.AddDate(0, 1, 0)
	create(cut)
	y.sql("INSERT INTO history SELECT 900, owner, queue, name, token, submitted, ended FROM history ORDER BY ended LIMIT 1")
	all++
	if err := r.settle(t.Context(), pending); err != nil || len(names(t, dir)) != 2 {
		t.Errorf("outdated: %v, %v", err, names(t, dir))
	}
	// And the disk changed a bit: the file may be all there is, and stays.
	create(cut)
	data, err := os.ReadFile(pending)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(pending, data, 0o600); err != nil {
		t.Fatal(err)
	}
	settled("damaged")
	if n := names(t, dir); len(n) != 3 || !strings.HasPrefix(n[0], "damaged-") {
		t.Errorf("files: %v", n)
	}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if y.archived(all); y.count(time.Date(2024, 12, 1, 0, 0, 0, 0, y.conf.Location())) != 0 {
		t.Error("old jobs are left")
	}
}

func TestWhatWasRestoredStaysForAWeek(t *testing.T) {
	t.Parallel()
	y := newYears(t)
	y.at = time.Now() // restores are dated by the database's clock
	r := &retention{archivist: y.archivist, log: y.log}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, dir := y.count(y.at), y.conf.Accounting.ArchiveDir
	file := filepath.Join(dir, names(t, dir)[0])
	_, sum, err := archive.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if out, err := y.Restore(t.Context(), sum, f); err != nil || out.Again {
		t.Fatal(out, err)
	}
	for days, back := range []bool{0: true, 3: true, 8: false} {
		if days != 0 && days != 3 && days != 8 {
			continue
		}
		y.at = time.Now().AddDate(0, 0, days)
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := y.count(y.at) > before; got != back {
			t.Errorf("after %d days the restored jobs are there: %v", days, got)
		}
	}
}

func TestDatesOfArchives(t *testing.T) {
	t.Parallel()
	y := newYears(t)
	for text, want := range map[string]string{
		"2026-07-01": "", "2026/07/01": "", "2026-07-02": "the latest date that is allowed is 2026-07-01", "2027-01-01": "2026-07-01", "1969-01-01": "want a date",
		"": "want a date", "yesterday": "want a date", "2026-02-30": "want a date", "2026-7-1": "want a date", "2026-07-01 ": "want a date",
	} {
		got, err := y.before(text, false)
		if want == "" && (err != nil || !got.Equal(time.Date(2026, 7, 1, 0, 0, 0, 0, y.conf.Location()))) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	// A long half-life spares more.
	y.conf.Scheduler.HalfLife = 365 * 24 * time.Hour
	if since, err := y.spared(); err != nil || since.After(y.at.AddDate(-9, 0, 0)) {
		t.Errorf("%s, %v", since, err)
	}
	if _, err := y.before("2026-11-30", true); err != nil {
		t.Errorf("a copy: %v", err)
	}
	if _, err := y.before("2026-12-02", true); err == nil {
		t.Error("a copy of the future")
	}
	if _, _, err := y.store.Export(t.Context(), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), io.Discard); err != store.ErrNothing {
		t.Errorf("of a time without jobs: %v", err)
	}
	// The end of February.
	y.conf.Scheduler.HalfLife, y.at = time.Hour, time.Date(2026, 8, 31, 9, 0, 0, 0, time.UTC)
	y.conf.Accounting.Keep = 18
	if due, err := (&retention{archivist: y.archivist}).due(); err != nil || !due.Equal(time.Date(2025, 2, 28, 0, 0, 0, 0, y.conf.Location())) {
		t.Errorf("due %s, %v", due, err)
	}
}

// A date is read as it is written, or not at all.
func FuzzParseDate(f *testing.F) {
	for _, s := range []string{"2026-01-01", "2026/12/31", "1969-12-31", "0000-00-00", "2026-1-1", "９-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parseDate(s, time.UTC); err == nil && d.Format(dateForms[0]) != strings.ReplaceAll(s, "/", "-") {
			t.Errorf("%q became %s", s, d)
		}
	})
}
