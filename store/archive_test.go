package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/accounting"
	"fairslice/archive"
	"fairslice/queue"
	"fairslice/reports"
	"fairslice/store"
	"fairslice/store/storetest"
)

// old is some days of random jobs, of which those that are over have left the Book, and some were written by an older batchd.
func old(t *testing.T, seed uint64, days int) (m *month, url string) {
	t.Helper()
	url = storetest.URL(t)
	m = newMonth(newWriter(t, storetest.OpenURL(t, url)), seed)
	begin := m.now
	for m.now.Before(begin.AddDate(0, 0, days)) {
		m.step()
		if m.rnd.IntN(4) == 0 {
			m.forget()
		}
	}
	m.forget()
	// Two jobs that an older batchd charged, in a text that JSON lines must survive.
	execute(t, url, `INSERT INTO history VALUES (100001, 'ada', 'gpu', E'a\nb "c" \\ ü', '', '2026-03-01 10:00Z', '2026-03-01 11:00:10.5Z')`,
		`INSERT INTO charges (job, idx, attempt, user_name, account, queue, began, ended, slot_seconds, fgpu_seconds, cpu_ns, max_memory) VALUES
			(100001, 0, 1, 'ada', '', 'gpu', '2026-03-01 11:00:00Z', '2026-03-01 11:00:10.5Z', 21, 2.6251, 7, 8), (100001, 0, 2, 'ada', 'lab', 'gpu', NULL, '2026-03-01 11:00:10.5Z', 0, 0, 0, 0)`,
		`UPDATE events SET body = E'{\n\t"attempt": 0,  "why": "\\u0000\\n"\n}' WHERE seq = (SELECT min(seq) FROM events e JOIN history h USING (job) WHERE kind = 'suspended')`)
	if err := m.s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, m.s)
	return m, url
}

// forget lets go of all jobs that are over.
func (m *month) forget() {
	var over []queue.JobID
	m.book.Each(func(j *queue.Job) bool {
		if j.Finished() {
			over = append(over, j.ID)
		}
		return true
	})
	for _, id := range over {
		m.commit(ev(id, 0, &queue.Forgotten{}))
	}
}

func execute(t testing.TB, url string, sqls ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range sqls {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// whole is every row of the tables that an archive takes from, of the rollups, and of what is current.
func whole(t testing.TB, url string) string {
	t.Helper()
	var out strings.Builder
	for _, table := range []string{"history", "charges", "cancelled", "events", "usage_hours", "consumable_hours", "usage_mark", "ended_sums", "held_sums", "ended_mark", "jobs", "elements", "nodes", "slices"} {
		fmt.Fprintf(&out, "UNION ALL SELECT '%[1]s ' || t::text FROM %[1]s t ", table)
	}
	rows := query(t, url, strings.TrimPrefix(out.String(), "UNION ALL ")+"ORDER BY 1")
	return strings.Join(rows, "\n")
}

// answers are what people ask of the past.
func answers(t testing.TB, s *store.Store, from, to time.Time) string {
	t.Helper()
	var out strings.Builder
	for _, kind := range []reports.Kind{reports.Usage, reports.Wait, reports.Efficiency, reports.Wasters, reports.Nodes, reports.GPUs} {
		fmt.Fprintln(&out, kind, rows(t, s, reports.Query{Kind: kind, Period: reports.Period{From: from, To: to}}))
	}
	fmt.Fprintln(&out, rows(t, s, reports.Query{Kind: reports.Usage, By: reports.ByDay, Period: reports.Period{From: from, To: to}}))
	sum, err := s.Summarise(t.Context(), &reports.FinishedQuery{Ended: reports.Period{From: from, To: to}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&out, round(sum))
	if err := s.UsageDays(t.Context(), from, to, "Europe/Berlin", func(u *store.UsageSum) error {
		fmt.Fprintf(&out, "%v\n", *u)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// reported are the reports that need no charges where days are whole.
func reported(t testing.TB, s *store.Store, from, to time.Time) string {
	t.Helper()
	var out strings.Builder
	for _, q := range []reports.Query{{Kind: reports.Usage}, {Kind: reports.Usage, By: reports.ByAccount}, {Kind: reports.Usage, By: reports.ByDay}, {Kind: reports.Efficiency},
		{Kind: reports.Nodes}, {Kind: reports.GPUs}} {
		q.Period, q.Zone = reports.Period{From: from, To: to}, time.UTC
		fmt.Fprintln(&out, q.Kind, q.By, rows(t, s, q))
	}
	return out.String()
}

// export is an archive in memory, and its sum, which was read back.
func export(t testing.TB, s *store.Store, before time.Time) ([]byte, archive.Header, string) {
	t.Helper()
	var b bytes.Buffer
	h, sum, err := s.Export(t.Context(), before, &b)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/a"
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, read, err := archive.Verify(file); err != nil || read != sum || again.Counts != h.Counts || !again.Before.Equal(before) {
		t.Fatalf("read back: %+v %s, %v; written: %+v %s", again, read, err, h, sum)
	}
	return b.Bytes(), h, sum
}

func TestWhatIsArchivedComesBackAsItWas(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			m, url := old(t, seed+20, 8)
			s, ctx := m.s, t.Context()
			day := func(n int) time.Time { return time.Date(2026, 3, 1+n, 7, 30, 0, 0, time.UTC) }
			before, all := whole(t, url), answers(t, s, day(-1), day(20))
			recent := answers(t, s, day(6), day(20))
			// Whole days of UTC answer from the sums, which stay.
			whole0, whole1 := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)
			days := reported(t, s, whole0, whole1)
			usage := func() any {
				u, err := accounting.NewUsage(time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.LoadUsage(ctx, u, day(7)); err != nil {
					t.Fatal(err)
				}
				return *u
			}
			fair := fmt.Sprintf("%+v", usage())

			file, h, sum := export(t, s, day(3))
			if h.History == 0 || h.Events == 0 || h.Charges == 0 || h.Cancelled == 0 || h.First.After(h.Last) || !h.Last.Before(day(3)) {
				t.Fatalf("archived: %+v", h)
			}
			if whole(t, url) != before {
				t.Fatal("an export changed the database")
			}
			st, err := s.Purge(ctx, m.term, day(3), sum, "root")
			if err != nil || st.Again || st.Counts != h.Counts {
				t.Fatalf("%+v, %v", st, err)
			}
			gone := whole(t, url)
			left := query(t, url, "SELECT job::text FROM history WHERE ended < $1", day(3))
			if len(left) > 0 {
				t.Errorf("in the history still: %v", left)
			}
			check(t, s)
			sameBooks(t, "the loaded Book", restored(t, s), m.book)
			if got := answers(t, s, day(6), day(20)); got != recent {
				t.Errorf("what is recent changed:\n%s\nwas\n%s", got, recent)
			}
			if got := reported(t, s, whole0, whole1); got != days {
				t.Errorf("reports of whole days changed:\n%s\nwere\n%s", got, days)
			}
			if got := fmt.Sprintf("%+v", usage()); got != fair {
				t.Errorf("fair share is %s, was %s", got, fair)
			}
			if until, err := s.ArchivedUntil(ctx); err != nil || !until.Equal(day(3)) {
				t.Errorf("archived until %s, %v", until, err)
			}
			if st, err = s.Purge(ctx, m.term, day(3), sum, "root"); err != nil || !st.Again || st.Counts != h.Counts || whole(t, url) != gone {
				t.Errorf("a second time: %+v, %v", st, err)
			}
			// A second archive, and back in the other order.
			file2, h2, sum2 := export(t, s, day(5))
			if st, err = s.Purge(ctx, m.term, day(5), sum2, "root"); err != nil || st.Counts != h2.Counts {
				t.Fatalf("%+v, %v", st, err)
			}
			check(t, s)
			if st, err = s.Restore(ctx, m.term, sum, bytes.NewReader(file)); err != nil || st.Again || st.Counts != h.Counts {
				t.Fatalf("%+v, %v", st, err)
			}
			check(t, s)
			if until, err := s.ArchivedUntil(ctx); err != nil || !until.Equal(day(5)) {
				t.Errorf("archived until %s, %v", until, err)
			}
			if st, err = s.Restore(ctx, m.term, sum2, bytes.NewReader(file2)); err != nil || st.Again || st.Counts != h2.Counts {
				t.Fatalf("%+v, %v", st, err)
			}
			if until, err := s.ArchivedUntil(ctx); err != nil || !until.IsZero() {
				t.Errorf("archived until %s, %v", until, err)
			}
			for range 2 {
				if got := whole(t, url); got != before {
					t.Fatal("it did not come back as it was")
				}
				if got := answers(t, s, day(-1), day(20)); got != all {
					t.Errorf("answers changed:\n%s\nwere\n%s", got, all)
				}
				check(t, s)
				if st, err = s.Restore(ctx, m.term, sum2, bytes.NewReader(file2)); err != nil || !st.Again {
					t.Fatalf("a second time: %+v, %v", st, err)
				}
			}
			// The same again gives the same file, which goes again.
			if again, _, sum3 := export(t, s, day(3)); sum3 != sum || !bytes.Equal(again, file) {
				t.Error("the same jobs give another archive")
			}
			if st, err = s.Purge(ctx, m.term, day(3), sum, "root"); err != nil || st.Again || whole(t, url) != gone {
				t.Errorf("%+v, %v", st, err)
			}
			check(t, s)
			m.step() // and life goes on
			m.finish()
			if err := s.RollUp(ctx); err != nil {
				t.Fatal(err)
			}
			check(t, s)
		})
	}
}

// Whichever answer of the database gets lost, all of an archive is in the database or all is out of it, and asking again ends as
// if nothing had been lost.
func TestPurgeAndRestoreSurviveTheLossOfEachAnswer(t *testing.T) {
	t.Parallel()
	m, url := old(t, 30, 2)
	cut := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	file, h, sum := export(t, m.s, cut)
	p := newProxy(t, url)
	s := storetest.OpenURL(t, p.url)
	in := whole(t, url)
	if _, err := m.s.Purge(t.Context(), m.term, cut, sum, "root"); err != nil {
		t.Fatal(err)
	}
	out := whole(t, url)
	if _, err := m.s.Restore(t.Context(), m.term, sum, bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	under := func(what string, from, to string, f func() (store.ArchiveState, error), undo func()) {
		broken, committed := 0, 0
		for skip := int32(0); ; skip++ {
			lost := p.lost.Load()
			p.skip.Store(skip)
			p.lose.Store(true)
			_, err := f()
			p.lose.Store(false)
			if p.lost.Load() == lost { // it needs no more answers than that
				if err != nil {
					t.Fatalf("%s, after %d: %v", what, skip, err)
				}
				break
			}
			broken++
			switch now := whole(t, url); {
			case err == nil && now != to, err != nil && now != from && now != to:
				t.Fatalf("%s: answer %d was lost (%v), and the database is neither as before nor as after", what, skip, err)
			case now == to:
				committed++
			}
			if st, err := f(); err != nil || st.Counts != h.Counts {
				t.Fatalf("%s again: %+v, %v", what, st, err)
			}
			if whole(t, url) != to {
				t.Fatalf("%s: answer %d was lost, and asking again did not end the same", what, skip)
			}
			if committed > 0 || skip == 0 {
				check(t, m.s)
			}
			undo()
			if whole(t, url) != from {
				t.Fatal("not undone")
			}
		}
		if broken < 10 || committed == 0 {
			t.Errorf("%s: %d answers were lost, %d of them after the commit", what, broken, committed)
		}
		t.Logf("%s: %d answers were lost, %d of them after the commit", what, broken, committed)
	}
	purge := func(s *store.Store) func() (store.ArchiveState, error) {
		return func() (store.ArchiveState, error) { return s.Purge(t.Context(), m.term, cut, sum, "root") }
	}
	restore := func(s *store.Store) func() (store.ArchiveState, error) {
		return func() (store.ArchiveState, error) { return s.Restore(t.Context(), m.term, sum, bytes.NewReader(file)) }
	}
	must := func(f func() (store.ArchiveState, error)) func() {
		return func() {
			if _, err := f(); err != nil {
				t.Fatal(err)
			}
		}
	}
	under("purge", in, out, purge(s), must(restore(m.s)))
	must(purge(m.s))()
	under("restore", out, in, restore(s), must(purge(m.s)))
}

func TestOnlyWhatIsInTheFileIsDeleted(t *testing.T) {
	t.Parallel()
	m, url := old(t, 31, 4)
	cut := time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)
	_, _, sum := export(t, m.s, cut)
	refused := func(what string, term int64, before time.Time, sum string) {
		t.Helper()
		was := whole(t, url)
		_, err := m.s.Purge(t.Context(), term, before, sum, "root")
		if _, ok := errors.AsType[*store.ArchiveRefused](err); !ok && what != "an old term" || err == nil || whole(t, url) != was {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("another sum", m.term, cut, strings.Repeat("0", 64))
	refused("no sum", m.term, cut, "")
	refused("another date", m.term, cut.Add(time.Hour*24), sum)
	refused("a date before all", m.term, cut.AddDate(-1, 0, 0), sum)
	refused("an old term", m.term-1, cut, sum)
	for what, sql := range map[string][2]string{
		"a job more":         {"INSERT INTO history VALUES (100002, 'ada', 'gpu', 'x', '', '2026-03-01', '2026-03-02')", "DELETE FROM history WHERE job = 100002"},
		"a changed charge":   {"UPDATE charges SET max_memory = max_memory + 1 WHERE job = 100001", "UPDATE charges SET max_memory = max_memory - 1 WHERE job = 100001"},
		"a charge too few":   {"UPDATE charges SET job = 100003 WHERE job = 100001 AND attempt = 2", "UPDATE charges SET job = 100001 WHERE job = 100003"},
		"one that ends late": {"UPDATE charges SET ended = ended + interval '1 year' WHERE job = 100001 AND attempt = 2", "UPDATE charges SET ended = ended - interval '1 year' WHERE job = 100001 AND attempt = 2"},
	} {
		execute(t, url, sql[0])
		refused(what, m.term, cut, sum)
		execute(t, url, sql[1])
	}
	if st, err := m.s.Purge(t.Context(), m.term, cut, sum, "root"); err != nil || st.Again {
		t.Fatal(st, err)
	}
	if _, _, err := m.s.Export(t.Context(), cut, &bytes.Buffer{}); !errors.Is(err, store.ErrNothing) {
		t.Errorf("once more: %v", err)
	}
	if got := query(t, url, "SELECT by_user || ' ' || jobs FROM archives"); len(got) != 1 || !strings.HasPrefix(got[0], "root ") {
		t.Errorf("archives has %v", got)
	}
}

func TestADamagedOrForeignFileLeavesNothing(t *testing.T) {
	t.Parallel()
	m, url := old(t, 32, 4)
	other, _ := old(t, 33, 4)
	cut := time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)
	file, _, sum := export(t, m.s, cut)
	foreign, _, foreignSum := export(t, other.s, cut)
	try := func(what, sum string, data []byte, want string) {
		t.Helper()
		was := whole(t, url)
		_, err := m.s.Restore(t.Context(), m.term, sum, bytes.NewReader(data))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", what, err, want)
		}
		if whole(t, url) != was {
			t.Fatalf("%s: it left something", what)
		}
	}
	try("only copied", sum, file, "nothing was archived from this database into this file")
	if _, err := m.s.Purge(t.Context(), m.term, cut, sum, "root"); err != nil {
		t.Fatal(err)
	}
	half := bytes.Clone(file)
	half[len(half)/2] ^= 0x10
	try("damaged", sum, half, "line")
	try("cut off", sum, file[:len(file)*2/3], "the file is cut off, or damaged, here")
	try("empty", sum, nil, "line 1: this is no archive")
	try("foreign", foreignSum, foreign, "another cluster's")
	try("foreign under our sum", sum, foreign, "") // its rows may clash, or its sum is another
	if _, err := m.s.Restore(t.Context(), m.term-1, sum, bytes.NewReader(file)); err == nil {
		t.Error("an old term restored")
	}
	if _, err := m.s.Restore(t.Context(), m.term, sum, bytes.NewReader(file)); err != nil {
		t.Error(err)
	}
	check(t, m.s)
}

// When nothing but old jobs is left, the next job and event get the numbers that they would have got.
func TestTheNextNumbersDoNotDependOnWhatIsArchived(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := newWriter(t, storetest.OpenURL(t, url))
	for id := queue.JobID(1); id <= 5; id++ {
		w.do(ev(id, 0, submitted("", nil)), ev(id, 0, ended(0, queue.NoStatus, w.now)))
	}
	for _, id := range []queue.JobID{1, 5, 3, 4, 2} { // the last event is of job 2, the last job is 5
		w.do(ev(id, 0, &queue.Forgotten{}))
	}
	_, h, sum := export(t, w.s, w.now.AddDate(1, 0, 0))
	if _, err := w.s.Purge(t.Context(), w.term, w.now.AddDate(1, 0, 0), sum, "root"); err != nil || h.History != 3 {
		t.Fatal(h, err)
	}
	if left := query(t, url, "SELECT job::text FROM history ORDER BY job"); !slices.Equal(left, []string{"2", "5"}) {
		t.Errorf("left: %v", left)
	}
	sameBooks(t, "the loaded Book", restored(t, w.s), w.book)
	w.do(ev(6, 0, submitted("", nil)))
}

// A check that finds nothing must be able to find something, of what is archived, too.
func TestCheckRollUpCountsWhatIsArchived(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"a sum":         "UPDATE archived_hours SET slot_ms = slot_ms + 1",
		"a row too few": "DELETE FROM archived_hours",
		"a row twice":   "INSERT INTO archived_hours SELECT archive, hour + interval '1 year', account, user_name, queue, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 FROM archived_hours LIMIT 1",
		"a consumable":  "UPDATE archived_consumable_hours SET amount_ms = amount_ms - 1",
		"what ended":    "UPDATE archived_ended_sums SET job_turn_max = 1 + (SELECT max(job_turn_max) FROM ended_sums) WHERE job_turn_max IS NOT NULL",
		"a wait":        "UPDATE archived_ended_sums SET waits = '{}'",
		"what was held": "UPDATE archived_held_sums SET amount_ms = amount_ms + 1",
	} {
		m, url := old(t, 34, 3)
		cut := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
		_, _, sum := export(t, m.s, cut)
		if _, err := m.s.Purge(t.Context(), m.term, cut, sum, "root"); err != nil {
			t.Fatal(err)
		}
		check(t, m.s)
		execute(t, url, sql)
		if wrong, err := m.s.CheckRollUp(t.Context()); err != nil || len(wrong) == 0 {
			t.Errorf("%s: not found (%v)", what, err)
		}
	}
}
