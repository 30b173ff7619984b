package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"fairslice/api/pb"
	"fairslice/nodes"
	"fairslice/queue"
)

var submittedAt = time.Date(2026, 4, 12, 17, 23, 38, 0, time.UTC)

// over is what batchd says of a job that ran from 1 s to 36 s after its submission, on two nodes.
func over(id int64, index int32) *pb.FinishedJob {
	return &pb.FinishedJob{Job: id, Index: index, User: "alice", Account: "default", Queue: "gpu", Project: "prj3", Name: "train",
		Submitted: submittedAt.UnixNano(), Dispatched: submittedAt.Add(time.Second).UnixNano(), Ended: submittedAt.Add(36 * time.Second).UnixNano(),
		Cpu: int64(220 * time.Millisecond), MaxMemory: 11 << 20, Done: true, Hosts: []string{"node1", "node2"}}
}

// told is the history of such a job.
func told(t *testing.T, id int64) *pb.HistoryJob {
	t.Helper()
	h := &pb.HistoryJob{Job: &pb.Job{Id: id, Owner: &pb.Identity{User: "alice", Home: "/home/alice"},
		Spec: &pb.Spec{Name: "train", Project: "prj3", Command: "python t.py --- x", SubHost: "sub01", SubCwd: "/home/alice", MinSlots: 3}}}
	slice := func(node string) []nodes.Slice {
		return []nodes.Slice{{UUID: "GPU-" + node, Index: 1, Amount: 25, Memory: 2 << 30, SMShare: 2500}}
	}
	for i, body := range []queue.Body{
		&queue.Submitted{Spec: &queue.Spec{}, Queue: "gpu"},
		&queue.Started{Attempt: 1, Alloc: []nodes.Allocation{{Node: "node1", Slots: 2, Memory: 200 << 20, Slices: slice("node1")}, {Node: "node2", Slots: 1, Memory: 20 << 20, Slices: slice("node2")}}},
		&queue.Ended{Attempt: 1, Done: true, Usage: queue.Usage{GPUs: []queue.GPUUsage{{UUID: "GPU-node1", Index: 1, MaxMemory: 1 << 30, SMTime: 2 * time.Second, Measured: 10 * time.Second}}}},
	} {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		h.Events = append(h.Events, &pb.Event{Seq: int64(i + 1), At: submittedAt.UnixNano(), Job: id, Kind: string(body.Kind()), Body: text})
	}
	return h
}

const bacctHead = "\nAccounting information about jobs that are: \n  - submitted by users alice, \n  - accounted on all projects.\n" +
	"  - completed normally or exited\n  - executed on all hosts.\n  - submitted to all queues.\n  - accounted on all service classes.\n" +
	"------------------------------------------------------------------------------\n"

const bacctNothing = `
SUMMARY:      ( time unit: second ) 
 Total number of done jobs:       0      Total number of exited jobs:     0
 Total CPU time consumed:      0.0      Average CPU time consumed:     0.0
 Maximum CPU time of a job:    0.0      Minimum CPU time of a job:     0.0
 Total wait time in queues:     0.0
 Average wait time in queue:    0.0
 Maximum wait time in queue:    0.0      Minimum wait time in queue:    0.0
 Average turnaround time:         0 (seconds/job)
 Maximum turnaround time:         0      Minimum turnaround time:         0
 Average hog factor of a job:  0.00 ( cpu time / turnaround time )
 Maximum hog factor of a job:  0.00      Minimum hog factor of a job:  0.00
 Average expansion factor of a job:  0.00 ( turnaround time / run time )
 Total Run time consumed:        0       Average Run time consumed:      0
 Total throughput:             0.00 (jobs/hour)  during    0.00 hours
 Beginning time:       -                 Ending time:          -           
`

func TestBacctSummary(t *testing.T) {
	f := &fake{finished: []*pb.FinishedResponse{{Caller: "alice", Summary: &pb.FinishedSummary{}}}}
	f.do("bacct").want(t, 0, bacctHead+bacctNothing, "")
	if f.sought.List || !f.sought.Own {
		t.Errorf("%v", f.sought)
	}
	f.finished[0].Summary = &pb.FinishedSummary{Done: 60, Failed: 32, Started: 90, CpuTotal: 46, CpuMax: 0.1, WaitTotal: 92, WaitMax: 8, TurnaroundTotal: 92 * 36, TurnaroundMax: 82, TurnaroundMin: 2,
		HogTotal: 9.2, HogMax: 0.56, ExpansionTotal: 180, RunTotal: 900, FirstEnd: submittedAt.UnixNano(), LastEnd: submittedAt.Add(8 * time.Hour).UnixNano()}
	r := f.do("bacct -u all")
	for _, line := range []string{
		"  - submitted by all users.\n", " Total number of done jobs:      60      Total number of exited jobs:    32\n",
		" Total CPU time consumed:     46.0      Average CPU time consumed:     0.5\n", " Average wait time in queue:    1.0\n",
		" Average turnaround time:        36 (seconds/job)\n Maximum turnaround time:        82      Minimum turnaround time:         2\n",
		" Average hog factor of a job:  0.10 ( cpu time / turnaround time )\n", " Average expansion factor of a job:  2.00 (",
		" Total Run time consumed:      900       Average Run time consumed:     10\n", " Total throughput:            11.50 (jobs/hour)  during    8.00 hours\n",
		" Beginning time:       Apr 12 17:23      Ending time:          Apr 13 01:23\n",
	} {
		if r.code != 0 || !strings.Contains(r.out, line) {
			t.Errorf("%q is not in\n%s", line, r.out)
		}
	}
	f.do("bacct -json").has(t, 0, `"EXITED":32`, "")
}

func TestBacctAsks(t *testing.T) {
	at := func(d, h, m int) int64 { return time.Date(2026, 3, d, h, m, 0, 0, time.UTC).UnixNano() }
	for line, want := range map[string]*pb.FinishedRequest{
		"bacct":                    {Own: true},
		"bacct 7 8[2]":             {Ids: []string{"7", "8[2]"}},
		"bacct -u bob 7":           {Ids: []string{"7"}, Users: []string{"bob"}},
		"bacct -u all -e -q gpu":   {Failed: true, Queues: []string{"gpu"}},
		"bacct -d -m h1 -P p -b":   {Own: true, Done: true, Hosts: []string{"h1"}, Projects: []string{"p"}, List: true},
		"bacct -w":                 {Own: true, List: true},
		"bacct -u all -C 03/01,.":  {Ended: &pb.Span{From: at(1, 0, 0), To: at(18, 2, 10)}},
		"bacct -S 03/01 -D ,03/02": {Own: true, Submitted: &pb.Span{From: at(1, 0, 0), To: at(2, 0, 0)}, Dispatched: &pb.Span{To: at(3, 0, 0)}},
		"bacct -u all -l -gpu -UF -C 2026/03/01/08:30,2026/03/01/09:00": {List: true, Ended: &pb.Span{From: at(1, 8, 30), To: at(1, 9, 0)}},
	} {
		f := &fake{finished: []*pb.FinishedResponse{{}}}
		f.do(line).has(t, 0, "SUMMARY:", "")
		got := f.sought
		if got.String() != want.String() {
			t.Errorf("%s asks for %v, want %v", line, got, want)
		}
	}
	f := &fake{finished: []*pb.FinishedResponse{{}}}
	f.run([]string{"bacct", "-u", "alice bob"}, "").has(t, 0, "submitted by users alice bob, ", "")
	f.do("bacct x7").want(t, 255, "", "x7: Illegal job ID.\n")
	f.do("bacct -C 2026/02/30,.").has(t, 255, "", "bacct: time \"2026/02/30\": this day does not exist: February 2026 has 28 days")
	f.do("bacct -x").has(t, 0, " Total number of done jobs:       0 ", "exceptions (overrun, underrun, idle) are not defined here")
}

func TestBacctLong(t *testing.T) {
	f := &fake{history: []*pb.HistoryResponse{{Jobs: []*pb.HistoryJob{told(t, 3)}}}, finished: []*pb.FinishedResponse{{Caller: "alice", Jobs: []*pb.FinishedJob{over(3, 0)}}}}
	r := f.do("bacct -l -gpu -UF 3")
	want := `
Job <3>, Job Name <train>, User <alice>, Project <prj3>, Status <DONE>, Queue <gpu>, Command <python t.py --- x>, Share group charged </alice>
Sun Apr 12 17:23:38 2026: Submitted from host <sub01>, CWD <$HOME>, 3 Task(s);
Sun Apr 12 17:23:39 2026: Dispatched 3 Task(s) on Host(s) <node1> <node1> <node2>, Allocated 3 Slot(s) on Host(s) <node1> <node1> <node2>, Effective RES_REQ <select[type == local] order[r15s:pg] >;
Sun Apr 12 17:24:14 2026: Completed <done>.

GPU_ALLOCATION:
 HOST             TASK GPU_ID  GI_PLACEMENT/SIZE    CI_PLACEMENT/SIZE    MODEL        MTOTAL  FACTOR MRSV    SOCKET NVLINK/XGMI
 node1            0    1       -                    -                    -            -       0.0    2G      0      -
 node2            0    1       -                    -                    -            -       0.0    2G      0      -

Accounting information about this job:
     Share group charged </alice>
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
      0.22        1             36     done         0.0061    11M      0M
     CPU_AVERAGE_EFFICIENCY      MEM_EFFICIENCY
                      0.21%               5.00%
     USED: CPU time 0.22 of 105.00 slot-seconds (0.21 %)
     USED: memory 11 of 220 MiB at most (5.00 %)
     USED: GPU memory 1024 of 2048 MiB at most (50.00 %)
     USED: SM time 2.00 of 2.50 GPU-seconds (80.00 %)
     SLICE: GPU 1 (GPU-node1) on node1: peak 1024 MiB of 2048 MiB, SM 20.0 % of 25.0 %
     SLICE: GPU 1 (GPU-node2) on node2: not measured
------------------------------------------------------------------------------

SUMMARY:`
	if r.code != 0 || !strings.Contains(r.out, want) {
		t.Errorf("got\n%s\nwant\n%s", r.out, want)
	}
	if want := (queue.Selection{IDs: []string{"3"}, User: "all"}); !reflect.DeepEqual(f.selected, want) {
		t.Errorf("the history of %+v is asked for", f.selected)
	}
	if r := f.do("bacct -l 3"); !strings.Contains(r.out, "\nSun Apr 12 17:23:39: Dispatched 3 Task(s) on Host(s) <node1> <node1> <node2>, A\n                     llocated") || strings.Contains(r.out, "GPU_ALLOCATION") {
		t.Errorf("-l is not folded, or has GPUs that nobody asked for:\n%s", r.out)
	}
	f.do("bacct -l -json 3").has(t, 0, `"MEMORY_EFFICIENCY_PERCENT":5.00`, "")
	f.do("bacct -l -json 3").has(t, 0, `"NAME":"SM_SECONDS",
          "USED":2.00,
          "ASKED":2.50,
          "PERCENT":80.00`, "")
	f.do("bacct -b").has(t, 0, "JOBID   U/UID    QUEUE      SUBMIT_TIME       CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR JOB_NAME\n"+
		"3       alice    gpu        Apr 12 17:23       0.22        1             36     done         0.0061 train\n", "")
	f.do("bacct -w -json").has(t, 0, `"TURNAROUND_SECONDS":36.000`, "")
}

// CEEMS's collector reads bacct -u all -l -gpu -UF so: records between the first rule's like; in one, the lines of submission,
// dispatch and completion each after the other; then by words. This reads as it does.
func TestBacctAsCEEMSReadsIt(t *testing.T) {
	killed := over(4, 2)
	killed.Done, killed.Dispatched = false, 0
	array := told(t, 4)
	f := &fake{history: []*pb.HistoryResponse{{Jobs: []*pb.HistoryJob{told(t, 3), array}}}, finished: []*pb.FinishedResponse{{Jobs: []*pb.FinishedJob{over(3, 0), killed}}}}
	r := f.do("bacct -u all -l -gpu -UF -C 2026/04/12/17:00,2026/04/12/18:00")
	rule := regexp.MustCompile(`-{3,}`).FindString(r.out)
	records := strings.Split(r.out, rule)
	if len(records) != 4 { // the head, two jobs, the summary
		t.Fatalf("%d records in\n%s", len(records), r.out)
	}
	whole := regexp.MustCompile(`(?m)^Job <3>.*User <alice>.*Project <prj3>.*Status <DONE>.*Queue <gpu>.*Command <.*>.*$\n` +
		`^(.*?): Submitted from host <sub01>.*CWD <.*>.*$\n^(.*?): Dispatched 3 Task\(s\) on Host\(s\) .*, Allocated 3 Slot\(s\) on Host\(s\) (.*?), Effective RES_REQ .*$\n^(.*?): Completed <done>.*\.$\s+` +
		`GPU_ALLOCATION:\s+((?:.|\n)*?)\s+Accounting information about this job:\s+((?:.|\n)*)`).FindStringSubmatch(records[1])
	if whole == nil {
		t.Fatalf("not understood: %s", records[1])
	}
	for _, stamp := range []string{whole[1], whole[2], whole[4]} {
		if _, err := time.Parse("Mon Jan 2 15:04:05 2006", stamp); err != nil {
			t.Error(err)
		}
	}
	if hosts := strings.Fields(whole[3]); len(hosts) != 3 {
		t.Errorf("slots: %q", hosts)
	}
	for _, line := range strings.Split(whole[5], "\n")[1:] {
		if n := len(strings.Fields(line)); n != 11 {
			t.Errorf("a GPU of %d words: %s", n, line)
		}
	}
	memory, efficiency := "", ""
	for _, line := range strings.Split(whole[6], "\n") {
		switch words := strings.Fields(line); {
		case len(words) == 7 && !strings.Contains(line, "MEM"):
			memory = words[5]
		case len(words) == 2 && !strings.Contains(line, "MEM_EFFICIENCY"):
			efficiency = words[1]
		}
	}
	if memory != "11M" || efficiency != "5.00%" {
		t.Errorf("memory %q, efficiency %q", memory, efficiency)
	}
	if !strings.Contains(records[2], "\nJob <4[2]>,") || !strings.Contains(records[2], "Completed <exit>.\n") || strings.Contains(records[2], "Dispatched") {
		t.Errorf("who never ran:\n%s", records[2])
	}
}

// The application and the reservation are words of the submission: the jobs are looked up, and those that said others are not counted.
func TestBacctOfApplicationsAndReservations(t *testing.T) {
	said := func(id int64, app, reservation string) *pb.HistoryJob {
		h := told(t, id)
		h.Job.Spec.App, h.Job.Spec.Reservation = app, reservation
		return h
	}
	f := &fake{history: []*pb.HistoryResponse{{Jobs: []*pb.HistoryJob{said(3, "fluent", ""), said(4, "fluent", "alice#0"), said(5, "", "bob#1")}}},
		finished: []*pb.FinishedResponse{{Caller: "alice", Jobs: []*pb.FinishedJob{over(3, 0), over(4, 1), over(4, 2)}}, {Jobs: []*pb.FinishedJob{over(5, 0), over(6, 0)}}}} // 6 has no history
	for _, c := range []struct {
		args []string
		done int
		head string
	}{
		{[]string{"-app", "fluent"}, 3, "  - associated with application fluent, \n  - accounted on all service classes.\n"},
		{[]string{"-app", "none"}, 0, "  - associated with application none, \n"},
		{[]string{"-U", "all"}, 3, "  - that used an advance reservation.\n  - accounted on all service classes.\n"},
		{[]string{"-U", "bob#1 carol#7"}, 1, "  - that used advance reservations bob#1 carol#7, \n"},
		{[]string{"-U", "alice#0", "-app", "fluent", "-u", "all"}, 2, "  - associated with application fluent, \n  - that used advance reservations alice#0, \n"},
	} {
		r := f.run(append([]string{"bacct"}, c.args...), "")
		r.has(t, 0, fmt.Sprintf(" Total number of done jobs:%8d      Total number of exited jobs:     0\n", c.done), "")
		if !strings.Contains(r.out, c.head) || strings.Contains(r.out, "JOBID") {
			t.Errorf("%v prints\n%s", c.args, r.out)
		}
		if !f.sought.List {
			t.Errorf("%v does not ask for the jobs", c.args)
		}
	}
	r := f.run([]string{"bacct", "-U", "alice#0", "-b"}, "")
	if strings.Count(r.out, " train\n") != 2 || !strings.Contains(r.out, "\n4[1] ") {
		t.Errorf("-b lists\n%s", r.out)
	}
	f.run([]string{"bacct", "-U", "bob#1", "-json"}, "").has(t, 0, `"DONE":1`, "")
	f.run([]string{"bacct", "-U", "bob#1", "-l", "-json"}, "").has(t, 0, `"JOBS":1,`, "")
	f.run([]string{"bacct", "-U", " "}, "").want(t, 255, "", "bacct: -U: want the IDs of reservations, or all\n")
	f.run([]string{"bacct", "-app", ""}, "").want(t, 255, "", "bacct: -app: want the name of an application\n")
}

func TestBreport(t *testing.T) {
	f := &fake{report: &pb.ReportResponse{Title: "usage by user", Columns: []*pb.ReportColumn{{Name: "user", Text: true}, {Name: "jobs"}, {Name: "fgpu_hours"}},
		Rows: []*pb.ReportRow{{Cells: []string{"=cmd()", "12", "1.500"}}, {Cells: []string{"bob", "3"}}}, Notes: []string{"only the first 2 rows are shown"}, Svg: []byte("<svg/>")}}
	note := "note: only the first 2 rows are shown\n"
	f.do("breport usage").want(t, 0, "usage by user\nUSER    JOBS  FGPU_HOURS\n=cmd()    12       1.500\nbob        3           -\n", note)
	f.do("breport usage -csv").want(t, 0, "user,jobs,fgpu_hours\n'=cmd(),12,1.500\nbob,3,\n", note)
	f.do("breport usage -json").want(t, 0, "{\n  \"COMMAND\":\"breport\",\n  \"ROWS\":2,\n  \"RECORDS\":[\n    {\n      \"USER\":\"=cmd()\",\n      \"JOBS\":12,\n      \"FGPU_HOURS\":1.500\n    },\n"+
		"    {\n      \"USER\":\"bob\",\n      \"JOBS\":3\n    }\n  ]\n}\n", note)
	f.do("breport efficiency -by job -C 2026/03 -u bob -G g -q q -P p -m h -n 5").has(t, 0, "usage by user", "note")
	want := &pb.ReportRequest{Kind: "efficiency", By: "job", Period: "2026/03", User: "bob", Account: "g", Queue: "q", Project: "p", Host: "h", Limit: 5}
	if f.reported.String() != want.String() {
		t.Errorf("asks for %v", f.reported)
	}
	if f.do("breport usage -u all"); f.reported.User != "" {
		t.Errorf("all is nobody's name: %v", f.reported)
	}
	file := filepath.Join(t.TempDir(), "a.svg")
	f.do("breport usage -plot "+file).has(t, 0, "usage", "note")
	if text, err := os.ReadFile(file); err != nil || string(text) != "<svg/>" || !f.reported.Plot {
		t.Errorf("%q, %v", text, err)
	}
	f.do("breport").has(t, 255, "", "One of usage, wait, efficiency, wasters, nodes, gpus and utilisation")
	f.do("breport usage wait").has(t, 255, "", "One of usage")
	f.do("breport usage -csv -json").has(t, 255, "", "not both")
	f.do("breport usage -plot a.png").has(t, 255, "", "ends in .svg")
	f.do("breport usage -n 0").has(t, 255, "", "1 to 100000 rows")
	f.do("breport usage -n 7x").has(t, 255, "", "-n 7x: a report has 1 to 100000 rows")
}

func TestBusers(t *testing.T) {
	other := job(2, "PEND")
	other.Owner, other.Spec.MinSlots = &pb.Identity{User: "bob"}, 4
	running := job(1, "RUN")
	running.Alloc = []*pb.Allocation{{Node: "n1", Slots: 2}, {Node: "n2", Slots: 1}}
	stopped := job(3, "USUSP")
	stopped.Alloc = []*pb.Allocation{{Node: "n1", Slots: 1}}
	f := &fake{jobs: []*pb.JobsResponse{{Jobs: []*pb.Job{running, other}}, {Jobs: []*pb.Job{stopped, job(4, "SSUSP"), job(5, "UNKWN")}}}}
	head := "USER/GROUP          JL/P    MAX  NJOBS   PEND    RUN  SSUSP  USUSP    RSV \n"
	f.do("busers all").want(t, 0, head+
		"alice                  -      -      6      0      4      1      1      0\n"+
		"bob                    -      -      4      4      0      0      0      0\n", "")
	f.do("busers carol bob -noheader").want(t, 0, ""+
		"carol                  -      -      0      0      0      0      0      0\n"+
		"bob                    -      -      4      4      0      0      0      0\n", "")
	f.do("busers all -json").has(t, 0, `"USER/GROUP":"bob"`, "")
	f.policy.Text = "account lab\naccount chem parent=lab\nuser bob account=chem\nlimit user=alice slots=9\nlimit each-user slots=1000000\nlimit account=lab slots=0 running=2\n"
	f.do("busers all").want(t, 0, head+
		"alice                  -      9      6      0      4      1      1      0\n"+
		"bob                    - 1000000      4      4      0      0      0      0\n"+
		"chem                   -      -      4      4      0      0      0      0\n"+
		"lab                    -      0      4      4      0      0      0      0\n", "")
	f.do("busers lab alice -json").has(t, 0, `"USER/GROUP":"lab",
      "MAX":0,
      "NJOBS":4,`, "")
	f.policy.Text = "limit user=alice running=3\nlimit each-user slots=5\n" // of his own: each-user is not for her
	f.do("busers alice bob nobody -noheader").want(t, 0, ""+
		"alice                  -      -      6      0      4      1      1      0\n"+
		"bob                    -      5      4      4      0      0      0      0\n"+
		"nobody                 -      5      0      0      0      0      0      0\n", "")
	f.policy.Text = "what\n"
	f.do("busers").has(t, 255, "", "busers: the policy of the daemon is not understood: line 1: what")
	f.policy.Text = ""
	f.jobs = nil
	f.do("busers", "USER=alice").has(t, 0, head+"alice ", "")
	if f.selected.User != "" || f.selected.Scope != queue.ScopeUnfinished {
		t.Errorf("%+v", f.selected)
	}
}

func TestBugroup(t *testing.T) {
	f := &fake{policy: queue.PolicyState{Version: 3, Text: "account physics\naccount solid parent=physics\nuser bob account=solid default\nuser alice account=physics\nuser bob account=physics\n"}}
	f.do("bugroup").want(t, 0, "GROUP_NAME    USERS\nphysics       alice bob solid/\nsolid         bob\n", "")
	f.do("bugroup -r -noheader physics").want(t, 0, "physics       alice bob\n", "")
	f.do("bugroup nosuch").want(t, 255, "", "nosuch: No such user/host group or user/host is not in group\n")
	f.do("bugroup -json").has(t, 0, `"USERS":["alice","bob","solid/"]`, "")
	f.policy.Text = ""
	f.do("bugroup").want(t, 0, "", "No user group found\n")
}
