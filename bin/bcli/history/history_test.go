package history

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/nodes"
	"fairslice/queue"
)

var start = time.Date(2026, 7, 30, 16, 49, 56, 0, time.UTC)

// story makes a job of events; each is given with the seconds since the submission.
type story []struct {
	after int
	by    string
	body  queue.Body
}

func (s story) job(t *testing.T) *pb.HistoryJob {
	t.Helper()
	h := &pb.HistoryJob{Job: &pb.Job{
		Id: 123, Owner: &pb.Identity{User: "alice", Home: "/home/alice"},
		Spec: &pb.Spec{Name: "train", Project: "default", Command: "python t.py", SubHost: "sub01", SubCwd: "/home/alice/w"},
	}}
	for i, e := range s {
		body, err := json.Marshal(e.body)
		if err != nil {
			t.Fatal(err)
		}
		h.Events = append(h.Events, &pb.Event{
			Seq: int64(i + 1), At: start.Add(time.Duration(e.after) * time.Second).UnixNano(), Job: 123, By: e.by,
			Kind: string(e.body.Kind()), Body: body,
		})
	}
	return h
}

var (
	submitted = &queue.Submitted{Spec: &queue.Spec{}, Queue: "normal"}
	started   = &queue.Started{Attempt: 1, Alloc: []nodes.Allocation{{Node: "gpu01", Slots: 1}}}
	done      = &queue.Ended{Attempt: 1, Done: true, Usage: queue.Usage{CPU: 200 * time.Millisecond}}
)

func TestFold(t *testing.T) {
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for _, c := range []struct {
		name  string
		now   int
		story story
		want  Times
	}{
		{"waits still", 30, story{{0, "", submitted}}, Times{Pend: s(30)}},
		{"was held from the start", 30, story{{0, "", &queue.Submitted{Spec: &queue.Spec{Hold: true}}}, {10, "", &queue.Resumed{}}}, Times{PSusp: s(10), Pend: s(20)}},
		{"ran and ended long ago", 9999, story{{0, "", submitted}, {2, "", started}, {36, "", done}}, Times{Pend: s(2), Run: s(34)}},
		{"was stopped twice", 100, story{{0, "", submitted}, {1, "", &queue.Suspended{}}, {3, "", &queue.Resumed{}}, {6, "", started},
			{10, "", &queue.Suspended{}}, {15, "", &queue.Resumed{}}, {21, "", &queue.Suspended{System: true}}, {28, "", &queue.Resumed{}}},
			Times{Pend: s(4), PSusp: s(2), Run: s(4 + 6 + 72), USusp: s(5), SSusp: s(7)}},
		{"lost its node for a while", 50, story{{0, "", submitted}, {1, "", started}, {5, "", &queue.Lost{}}, {15, "", &queue.Found{State: queue.Run}}, {20, "", done}},
			Times{Pend: s(1), Run: s(9), Unkwn: s(10)}},
		{"was requeued", 60, story{{0, "", submitted}, {5, "", started}, {10, "", &queue.Requeued{Attempt: 1}}, {30, "", started}, {40, "", &queue.Ended{Attempt: 2}}},
			Times{Pend: s(25), Run: s(15)}},
		{"signals and changes take no time", 20, story{{0, "", submitted}, {3, "", &queue.Signalled{Signal: "USR1"}}, {4, "", &queue.Switched{Queue: "x"}}, {5, "", &queue.KillRequested{}}}, Times{Pend: s(20)}},
		{"has clocks that went back", 20, story{{10, "", submitted}, {5, "", started}, {8, "", done}}, Times{Run: s(3)}},
		{"has no events", 20, nil, Times{}},
	} {
		got := Fold(c.story.job(t), start.Add(s(c.now)))
		got.Until = time.Time{}
		if got != c.want {
			t.Errorf("a job that %s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestEventsOfOtherElementsDoNotCount(t *testing.T) {
	h := story{{0, "", submitted}, {10, "", started}, {20, "", started}}.job(t)
	h.Job.Index, h.Events[1].Index, h.Events[2].Index = 2, 1, 2
	if got := Fold(h, start.Add(30*time.Second)); got.Pend != 20*time.Second || got.Run != 10*time.Second {
		t.Errorf("%+v", got)
	}
}

func st(after int) *show.Style {
	return &show.Style{Now: start.Add(time.Duration(after) * time.Second), Loc: time.UTC}
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", strings.ReplaceAll(got, " \n", "·\n"), strings.ReplaceAll(want, " \n", "·\n"))
	}
}

func TestRow(t *testing.T) {
	h := story{{0, "", submitted}, {2, "", started}, {36, "", done}}.job(t)
	same(t, Header+string(Row(nil, h, st(99), false)), "Summary of time in seconds spent in various states:\n"+
		"JOBID   USER    JOB_NAME  PEND    PSUSP   RUN     USUSP   SSUSP   UNKWN   TOTAL\n"+
		"123     alice   train     2       0       34      0       0       0       36        \n")
	h.Job.Spec.Name = "long_training\n"
	if got := string(Row(nil, h, st(99), false)); !strings.HasPrefix(got, "123     alice   *aining\\n 2 ") {
		t.Errorf("%q", got)
	}
}

func TestLong(t *testing.T) {
	h := story{
		{0, "alice", submitted}, {328, "", started}, {328, "", &queue.Began{Attempt: 1, Pid: 10643, Home: "/home/alice", CWD: "/home/alice/w"}},
		{840, "alice", &queue.KillRequested{Verdict: queue.TermOwner}},
		{846, "", &queue.Ended{Attempt: 1, Result: queue.Result{Status: 2 << 8, Verdict: queue.TermRunLimit}, Usage: queue.Usage{CPU: 200 * time.Millisecond}}},
	}.job(t)
	same(t, string(Long(nil, h, st(99999), true)), `
Job <123>, Job Name <train>, User <alice>, Project <default>, Command <python t
                     .py>
Thu Jul 30 16:49:56: Submitted from host <sub01>, to Queue <normal>, CWD <$HOME
                     /w>;
Thu Jul 30 16:55:24: Dispatched 1 Task(s) on Host(s) <gpu01>, Allocated 1 Slot(
                     s) on Host(s) <gpu01>;
Thu Jul 30 16:55:24: Starting (Pid 10643);
Thu Jul 30 16:55:24: Running with execution home </home/alice>, Execution CWD <
                     /home/alice/w>, Execution Pid <10643>;
Thu Jul 30 17:03:56: Signal <KILL> requested by user or administrator <alice>;
Thu Jul 30 17:04:02: Exited with exit code 2. The CPU time used is 0.2 seconds;
Thu Jul 30 17:04:02: Completed <exit>; TERM_RUNLIMIT: job killed after reaching
                      LSF run time limit;

Summary of time in seconds spent in various states by  Thu Jul 30 17:04:02
  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL
  328      0        518      0        0        0        846         
`)
}

func TestTextsOfEvents(t *testing.T) {
	for want, s := range map[string]story{
		"Done successfully. The CPU time used is 0.2 seconds;":                                    {{0, "", submitted}, {1, "", started}, {2, "", done}},
		"Exited; job has been forced to exit with exit code 0.":                                   {{0, "", submitted}, {2, "", &queue.Ended{Result: queue.Result{Status: queue.NoStatus, Verdict: queue.TermOwner}}}},
		"Completed <exit>; TERM_OWNER: job killed by owner;":                                      {{0, "", submitted}, {2, "", &queue.Ended{Result: queue.Result{Status: queue.NoStatus, Verdict: queue.TermOwner}}}},
		"Exited by signal 11. The CPU time used is 0.0 seconds;":                                  {{0, "", submitted}, {1, "", started}, {2, "", &queue.Ended{Attempt: 1, Result: queue.Result{Status: 11}}}},
		"Signal <TERM> requested by user or administrator <bob>;":                                 {{0, "bob", &queue.Signalled{Signal: "SIGTERM"}}},
		"Suspended by user or administrator <bob>;":                                               {{0, "", submitted}, {1, "bob", &queue.Suspended{}}},
		"Switch to queue <night> by user or administrator <bob>;":                                 {{0, "bob", &queue.Switched{Queue: "night"}}},
		"Job moved to position 3 relative to <bottom> by user or administrator <bob>;":            {{0, "bob", &queue.Moved{Rank: 3, Bottom: true}}},
		"Parameters of Job are changed by user or administrator <bob>: -W 4:00;":                  {{0, "bob", &queue.Modified{Words: "-W 4:00"}}},
		"Waiting for scheduling after resumed by user or administrator <bob>;":                    {{0, "", submitted}, {1, "", &queue.Suspended{}}, {2, "bob", &queue.Resumed{}}},
		"Running after continued by user;":                                                        {{0, "", started}, {1, "", &queue.Suspended{}}, {2, "", &queue.Resumed{}}},
		"Pending: the job could not be started: image not found;":                                 {{0, "", &queue.Requeued{Failed: true, Why: "image not found"}}},
		"Signal <KILL> requested by user or administrator <bob>, with the comment <wrong input>;": {{0, "bob", &queue.KillRequested{Verdict: queue.TermOwner, Note: "wrong input"}}},
		"Signal <KILL> requested, TERM_RUNLIMIT;":                                                 {{0, "", &queue.KillRequested{Verdict: queue.TermRunLimit}}},
		"Unknown; the execution host does not answer;":                                            {{0, "", &queue.Lost{}}},
	} {
		found := false
		for _, l := range Lines(s.job(t)) {
			found = found || l.Text == want
		}
		if !found {
			t.Errorf("no %q in %+v", want, Lines(s.job(t)))
		}
	}
}

func TestSlicesAreToldByAttempt(t *testing.T) {
	on := func(uuid string) *queue.Started {
		return &queue.Started{Attempt: 1, Alloc: []nodes.Allocation{{Node: "gpu01", Slots: 1, Slices: []nodes.Slice{{UUID: uuid, Index: 2, Memory: 2 << 30, SMShare: 2500}}}}}
	}
	measured := func(uuid string, peak int64) queue.Usage {
		return queue.Usage{GPUs: []queue.GPUUsage{{UUID: uuid, Index: 2, MaxMemory: peak, SMTime: time.Second, Measured: 10 * time.Second}}}
	}
	h := story{
		{0, "", submitted}, {1, "", on("GPU-a")}, {2, "", &queue.Requeued{Attempt: 1, Why: "node lost", Usage: measured("GPU-a", 1<<30)}},
		{3, "", on("GPU-b")}, {9, "", &queue.Ended{Attempt: 2, Done: true, Usage: measured("GPU-b", 1536<<20)}},
	}.job(t)
	var got []string
	for _, l := range Lines(h) {
		if strings.HasPrefix(l.Text, "GPU ") {
			got = append(got, l.Kind+": "+l.Text)
		}
	}
	want := "requeued: GPU 2 (GPU-a): peak 1024 MiB of 2048 MiB, SM 10.0 % of 25.0 %;\n" +
		"ended: GPU 2 (GPU-b): peak 1536 MiB of 2048 MiB, SM 10.0 % of 25.0 %;"
	same(t, strings.Join(got, "\n"), want)

	d := show.NewJSON("bhist", "JOBS")
	Record(d, h, st(99), true)
	text := string(d.End(nil))
	if strings.Count(text, `"GPU_USAGE"`) != 1 || !strings.Contains(text, `"MAX_MEMORY_BYTES":1610612736`) || strings.Contains(text, `:1073741824`) {
		t.Errorf("the record does not tell of the last attempt alone:\n%s", text)
	}
	d = show.NewJSON("bhist", "JOBS")
	Record(d, story{{0, "", submitted}, {1, "", started}, {2, "", done}}.job(t), st(99), true)
	if strings.Contains(string(d.End(nil)), "GPU_USAGE") {
		t.Error("a job without slices has slices")
	}
}

func TestUnknownKindsAreTold(t *testing.T) {
	h := story{{0, "", submitted}}.job(t)
	h.Events = append(h.Events, &pb.Event{Kind: "from-the-future", At: start.UnixNano(), Body: []byte("{}")})
	lines := Lines(h)
	if len(lines) != 2 || lines[1].Text != "Event <from-the-future>;" {
		t.Errorf("%+v", lines)
	}
	if got := Fold(h, start.Add(time.Second)); got.Pend != time.Second {
		t.Errorf("%+v", got)
	}
}

func TestRecord(t *testing.T) {
	d := show.NewJSON("bhist", "JOBS")
	h := story{{0, "a\nb", submitted}, {2, "", started}, {36, "", done}}.job(t)
	h.Job.Spec.Name = "x\xff\"\n"
	Record(d, h, st(99), true)
	var doc struct {
		Records []struct {
			RUN    string
			EVENTS []struct{ TEXT, BY string }
		} `json:"RECORDS"`
	}
	b := d.End(nil)
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatalf("%v in\n%s", err, b)
	}
	if r := doc.Records[0]; r.RUN != "34" || len(r.EVENTS) != 3 || r.EVENTS[0].BY != "a\nb" {
		t.Errorf("%+v", doc)
	}
}
