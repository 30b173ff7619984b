package store_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/queue"
	"fairslice/reports"
	"fairslice/store"
	"fairslice/store/storetest"
)

// noon is a moment after the writer's first.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// finish runs one attempt of a job and ends it as it is told; the charge's figures are changed by edit.
func (w *writer) finish(job queue.JobID, status int, edit func(c *queue.Charge)) {
	w.t.Helper()
	s := submitted("", nil)
	s.Spec.Name = fmt.Sprint("job", job)
	w.do(ev(job, 0, s), ev(job, 0, started(1, "n1", 0, 50)))
	end := ended(1, status, w.now)
	if status != 0 {
		end.Charge.Outcome = queue.EndingExit
	}
	edit(end.Charge)
	w.do(ev(job, 0, end))
}

// past is a store with a small, known past: ada's two jobs of an hour and of half an hour, bob's of ten hours, one that failed, one that
// was requeued, one that never ran.
func past(t testing.TB) (*writer, *store.Store) {
	s := storetest.Open(t)
	return pastIn(t, s), s
}

func pastIn(t testing.TB, s *store.Store) *writer {
	w := newWriter(t, s)
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}))
	at := func(c *queue.Charge, end time.Time, hours float64) {
		c.Ended, c.Began = end, end.Add(-time.Duration(hours*float64(time.Hour)))
	}
	w.finish(1, 0, func(c *queue.Charge) {
		at(c, noon, 1)
		c.CPU, c.Waited, c.MaxMemory = 30*time.Minute, 10*time.Second, 256<<20
		c.SMTime, c.SMMeasured = 9*time.Minute, time.Hour // of a quarter of the GPU: 60 %
	})
	w.finish(2, 256, func(c *queue.Charge) {
		at(c, noon.Add(time.Hour), 0.5)
		c.CPU, c.Waited, c.SMTime, c.SMMeasured, c.MaxMemory = 0, 20*time.Second, 0, 0, 0
	})
	w.finish(3, 0, func(c *queue.Charge) {
		at(c, noon.AddDate(0, 0, 1), 10)
		c.User, c.Account, c.Queue, c.Project, c.Image = "bob", "physics", "long", "", ""
		c.Slots, c.Memory, c.FGPU, c.GPUs, c.Nodes, c.Slices = 4, 8<<30, 200, 1, "n1=3,gone=1", "GPU-n1-1=200"
		c.CPU, c.Waited, c.SMTime, c.SMMeasured = 40*time.Hour, 30*time.Second, time.Hour, 10*time.Hour
	})
	w.do(ev(4, 0, submitted("", nil)), ev(4, 0, started(1, "n1", 0, 50)))
	again := charge(w.now)
	at(again, noon.Add(time.Minute), 2)
	again.Outcome, again.Verdict, again.Waited, again.SMMeasured, again.SMTime = queue.EndingRequeued, queue.TermRequeueOwner, 0, 0, 0
	w.do(ev(4, 0, &queue.Requeued{Attempt: 1, Charge: again}))
	w.do(ev(4, 0, ended(0, queue.NoStatus, w.now))) // killed as it waited again
	return w
}

func asking(kind reports.Kind, by reports.By) reports.Query {
	return reports.Query{Kind: kind, By: by, Period: reports.Period{From: noon.AddDate(0, 0, -1), To: noon.AddDate(0, 0, 2)}}
}

func rows(t testing.TB, s *store.Store, q reports.Query) []string {
	t.Helper()
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	table, err := s.Report(t.Context(), q, noon.AddDate(0, 0, 10))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range table.Rows {
		if len(r) != len(table.Columns) {
			t.Fatalf("%d cells of %d columns", len(r), len(table.Columns))
		}
		out = append(out, strings.Join(r, " "))
	}
	return out
}

func TestReports(t *testing.T) {
	t.Parallel()
	_, s := past(t)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	zoned := asking(reports.Usage, reports.ByDay)
	zoned.Zone = berlin
	zoned.Period = reports.Period{From: noon.Add(11*time.Hour + 30*time.Minute), To: noon.AddDate(0, 0, 2)} // of the next day there
	ofBob, ofLab, onGone, first := asking(reports.Usage, reports.ByUser), asking(reports.Usage, reports.ByUser), asking(reports.Usage, reports.ByUser), asking(reports.Usage, reports.ByUser)
	ofBob.Filter.User, ofLab.Filter.Account, onGone.Filter.Host, first.Limit = "bob", "lab", "gone", 1
	half := asking(reports.GPUs, "")
	half.Period = reports.Period{From: noon.Add(-30 * time.Minute), To: noon.Add(30 * time.Minute)} // cuts what lies partly in it
	for what, row := range map[string]struct {
		query reports.Query
		want  []string
	}{
		"by user": {asking(reports.Usage, ""), []string{ // jobs done exit, hours of slots, CPU, fGPU, GPUs, GiB
			"bob 1 1 0 40.000 40.000 20.000 10.000 80.000",
			"ada 2 1 1 3.500 0.516 1.750 0.000 3.500"}},
		"by account":       {asking(reports.Usage, reports.ByAccount), []string{"physics 1 1 0 40.000 40.000 20.000 10.000 80.000", "lab 2 1 1 3.500 0.516 1.750 0.000 3.500"}},
		"by project":       {asking(reports.Usage, reports.ByProject), []string{" 1 1 0 40.000 40.000 20.000 10.000 80.000", "alloys 2 1 1 3.500 0.516 1.750 0.000 3.500"}},
		"by day":           {asking(reports.Usage, reports.ByDay), []string{"2026-03-02 2 1 1 3.500 0.516 1.750 0.000 3.500", "2026-03-03 1 1 0 40.000 40.000 20.000 10.000 80.000"}},
		"by month":         {asking(reports.Usage, reports.ByMonth), []string{"2026-03 3 2 1 43.500 40.516 21.750 10.000 83.500"}},
		"by week":          {asking(reports.Usage, reports.ByWeek), []string{"2026-03-02 3 2 1 43.500 40.516 21.750 10.000 83.500"}},
		"of another day":   {zoned, []string{"2026-03-03 1 1 0 40.000 40.000 20.000 10.000 80.000"}},
		"of one user":      {ofBob, []string{"bob 1 1 0 40.000 40.000 20.000 10.000 80.000"}},
		"of an account":    {ofLab, []string{"ada 2 1 1 3.500 0.516 1.750 0.000 3.500"}},
		"of a node":        {onGone, []string{"bob 1 1 0 40.000 40.000 20.000 10.000 80.000"}},
		"the first only":   {first, []string{"bob 1 1 0 40.000 40.000 20.000 10.000 80.000"}},
		"waits":            {asking(reports.Wait, reports.ByQueue), []string{"gpu 3 10.0 10.0 19.0 20.0", "long 1 30.0 30.0 30.0 30.0"}},
		"efficiency":       {asking(reports.Efficiency, ""), []string{"bob 1 40.000 100.0 0.0 20.000 10.0", "ada 2 3.500 14.8 7.2 1.750 60.0"}},
		"who wastes most":  {asking(reports.Wasters, ""), []string{"bob 1 20.000 10.0 18.000 40.000 100.0 0.000 0.0", "ada 2 1.750 60.0 0.200 3.500 14.8 2.984 7.2"}},
		"job by job":       {asking(reports.Efficiency, reports.ByJob), []string{"3 1 bob physics done 40.000 100.0 8.000 0.0 20.000 10.0 0.000", "4 1 ada lab requeued 2.000 0.8 1.000 0.1 1.000  0.000", "1 1 ada lab done 1.000 50.0 1.000 25.0 0.500 60.0 0.000", "2 1 ada lab exit 0.500 0.0 1.000 0.0 0.250  0.000"}},
		"nodes":            {asking(reports.Nodes, ""), []string{"n1 8 33.500 5.8 21.750 7.6", "gone  10.000   ", "TOTAL 8 33.500 5.8 21.750 7.6"}},
		"GPUs":             {asking(reports.GPUs, ""), []string{"GPU-n1-0 n1 Sim 2.00 1.750 1.2", "GPU-n1-1 n1 Sim 2.00 20.000 13.9", "TOTAL   4.00 21.750 7.6"}},
		"GPUs of one hour": {half, []string{"GPU-n1-0 n1 Sim 2.00 0.508 25.4", "GPU-n1-1 n1 Sim 2.00 0.000 0.0", "TOTAL   4.00 0.508 12.7"}},
	} {
		if got := rows(t, s, row.query); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s:\n got %q\nwant %q", what, got, row.want)
		}
	}
	table, err := s.Report(t.Context(), func() reports.Query { q := first; _ = q.Check(); return q }(), noon)
	if err != nil || len(table.Notes) != 1 || !strings.Contains(table.Notes[0], "only the first 1 rows") {
		t.Errorf("a cut report says nothing of it: %v, %v", table, err)
	}
}

// What runs still counts in the utilisation, until now, and in nothing else.
func TestReportOfWhatRuns(t *testing.T) {
	t.Parallel()
	w := newWriter(t, storetest.Open(t))
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}), ev(1, 0, submitted("", nil)), ev(1, 0, started(1, "n1", 0, 50)))
	began := w.now
	q := reports.Query{Kind: reports.GPUs, Period: reports.Period{From: began.Add(-time.Hour), To: began.AddDate(0, 0, 9)}}
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	table, err := w.s.Report(t.Context(), q, began.Add(time.Hour))
	if err != nil || strings.Join(table.Rows[0], " ") != "GPU-n1-0 n1 Sim 2.00 0.500 12.5" {
		t.Errorf("%v, %v", table, err)
	}
	q.Kind, q.By = reports.Usage, reports.ByUser
	if got := rows(t, w.s, q); len(got) != 0 {
		t.Errorf("charged already: %q", got)
	}
}

func TestFinished(t *testing.T) {
	t.Parallel()
	w, s := past(t)
	array := submitted("", &queue.Array{Ranges: []queue.Range{{First: 1, Last: 4, Step: 1}}})
	array.Spec.Name, array.Spec.Project = "\x00%", `a "b`
	w.do(ev(5, 0, array), ev(5, 2, ended(0, queue.NoStatus, w.now)))
	w.do(ev(5, 1, started(1, "n1", 0, 50)))
	lost := ended(1, queue.NoStatus, w.now)
	lost.Charge.Outcome, lost.Charge.Verdict, lost.Charge.Began, lost.Charge.Ended = queue.EndingLost, queue.TermUnknown, noon.Add(time.Hour), noon.Add(2*time.Hour)
	w.do(ev(5, 1, lost))
	w.do(ev(1, 0, &queue.Forgotten{}), ev(4, 0, &queue.Forgotten{})) // found in the history, then

	day := reports.Period{From: noon, To: noon.AddDate(0, 0, 1)}
	for what, row := range map[string]struct {
		query reports.FinishedQuery
		want  string
	}{
		"all":                       {reports.FinishedQuery{}, "4 5[2] 1 2 5[1] 3"},
		"of a user":                 {reports.FinishedQuery{Users: []string{"bob", "eve"}}, "3"},
		"of a queue":                {reports.FinishedQuery{Queues: []string{"long"}}, "3"},
		"of no queue there is":      {reports.FinishedQuery{Queues: []string{"x"}}, ""},
		"of a project":              {reports.FinishedQuery{Projects: []string{"alloys"}}, "1 2 5[1]"},
		"on a host":                 {reports.FinishedQuery{Hosts: []string{"gone"}}, "3"},
		"on a host with a wildcard": {reports.FinishedQuery{Hosts: []string{"gon_", "%"}}, ""},
		"done":                      {reports.FinishedQuery{Done: true}, "1 3"},
		"failed":                    {reports.FinishedQuery{Failed: true}, "4 5[2] 2 5[1]"},
		"done and failed":           {reports.FinishedQuery{Done: true, Failed: true}, "4 5[2] 1 2 5[1] 3"},
		"ended in a day":            {reports.FinishedQuery{Ended: day}, "1 2 5[1]"},
		"dispatched in a day":       {reports.FinishedQuery{Dispatched: day}, "2 5[1] 3"},
		"submitted in a day":        {reports.FinishedQuery{Submitted: day}, ""},
		"named":                     {reports.FinishedQuery{IDs: []reports.Ref{{Job: 3, Last: 1 << 30, Step: 1}, {Job: 1, Last: 1 << 30, Step: 1}}}, "1 3"},
		"some of an array":          {reports.FinishedQuery{IDs: []reports.Ref{{Job: 5, First: 2, Last: 4, Step: 2}}}, "5[2]"},
		"no job there is":           {reports.FinishedQuery{IDs: []reports.Ref{{Job: 99, Last: 1 << 30, Step: 1}}}, ""},
		"a period of nothing":       {reports.FinishedQuery{Ended: reports.Period{To: noon.AddDate(-1, 0, 0)}}, ""},
	} {
		var ids []string
		var sum reports.Summary
		if err := s.Finished(t.Context(), &row.query, func(f *reports.Finished) error {
			ids = append(ids, (queue.ElementID{Job: queue.JobID(f.Job), Index: f.Index}).String())
			sum.Add(f)
			return nil
		}); err != nil {
			t.Fatal(what, err)
		}
		if got := strings.Join(ids, " "); got != row.want {
			t.Errorf("%s: %s, want %s", what, got, row.want)
		}
		// The database and the command sum alike.
		got, err := s.Summarise(t.Context(), &row.query)
		if err != nil || round(got) != round(sum) {
			t.Errorf("%s: summed %+v, want %+v (%v)", what, got, sum, err)
		}
	}
}

// What an older version left behind is found as well: the migration looks it up in the events.
func TestFinishedOfBefore(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := pastIn(t, storetest.OpenURL(t, url))
	odd := submitted("", nil)
	odd.Spec.Name, odd.Spec.Project, odd.Spec.Account = "\x00", `"attempt":7`, "lab"
	w.do(ev(5, 0, odd), ev(5, 0, ended(0, queue.NoStatus, w.now)), ev(4, 0, &queue.Forgotten{}))
	list := func() (out []string) {
		if err := w.s.Finished(t.Context(), &reports.FinishedQuery{}, func(f *reports.Finished) error {
			out = append(out, fmt.Sprintf("%+v", *f))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := list()
	text, err := os.ReadFile("migrations/005_cancelled.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, repair, _ := strings.Cut(string(text), "-- Those of before")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{"DELETE FROM cancelled; UPDATE charges SET outcome = NULL, verdict = NULL", "-- Those of before" + repair} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(); len(want) != 5 || !reflect.DeepEqual(got, want) {
		t.Errorf("after the migration\n%s\nbefore\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// round takes away what the order of additions changes.
func round(m reports.Summary) string {
	return fmt.Sprintf("%d %d %d %.3f %.3f %.3f %.6f %.3f %.3f %s %s", m.Done, m.Failed, m.Started, m.CPU, m.Wait, m.Turnaround, m.Hog, m.Expansion, m.Run,
		m.First.Format(time.RFC3339Nano), m.Last.Format(time.RFC3339Nano))
}

// What fn does not want more of ends, and its error is its own.
func TestFinishedStops(t *testing.T) {
	t.Parallel()
	_, s := past(t)
	stop := fmt.Errorf("enough")
	n := 0
	if err := s.Finished(t.Context(), &reports.FinishedQuery{}, func(*reports.Finished) error { n++; return stop }); err != stop || n != 1 {
		t.Errorf("%v after %d", err, n)
	}
}
