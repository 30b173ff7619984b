package show

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"fairslice/api/pb"
)

// at is a time in March 2026, UTC.
func at(month time.Month, day, hour, minute int) int64 {
	return time.Date(2026, month, day, hour, minute, 0, 0, time.UTC).UnixNano()
}

func style() *Style {
	return &Style{Now: time.Unix(0, at(3, 18, 2, 10)), Loc: time.UTC}
}

// same compares texts byte by byte and shows blanks at line ends.
func same(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", strings.ReplaceAll(got, " \n", "·\n"), strings.ReplaceAll(want, " \n", "·\n"))
	}
}

func running() *pb.Job {
	return &pb.Job{
		Id: 123, State: "RUN", Queue: "normal", Owner: &pb.Identity{User: "alice", Home: "/home/alice"},
		Spec:      &pb.Spec{Name: "train", SubHost: "sub01", Command: "python t.py"},
		Submitted: at(3, 18, 2, 6), Dispatched: at(3, 18, 2, 7), Began: at(3, 18, 2, 7), Status: noStatus,
		Alloc: []*pb.Allocation{{Node: "gpu01", Slots: 1}, {Node: "gpu02", Slots: 1}},
	}
}

func waiting() *pb.Job {
	return &pb.Job{
		Id: 124, State: "PEND", Queue: "normal", Owner: &pb.Identity{User: "alice"},
		Spec: &pb.Spec{Name: "my_training_run", SubHost: "sub01"}, Submitted: at(3, 8, 12, 6), Status: noStatus,
	}
}

func table(t JobTable, st *Style, jobs ...*pb.Job) string {
	b := t.Header(nil, st)
	for _, j := range jobs {
		b = t.Row(b, j, st)
	}
	return string(b)
}

func TestJobsDefaultForm(t *testing.T) {
	same(t, table(Jobs, style(), running(), waiting()), `JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME
123     alice   RUN   normal     sub01       gpu01       train      Mar 18 02:06
                                             gpu02
124     alice   PEND  normal     sub01                   *ining_run Mar  8 12:06
`)
}

func TestJobsWideForm(t *testing.T) {
	long := running()
	long.Spec.Name = "long_training_run"
	element := waiting()
	element.Spec.Name, element.Index, element.Submitted = "t", 3, at(3, 18, 2, 6)
	st := style()
	st.BareID = true
	same(t, table(JobsWide, st, long, element), `JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME
123     alice   RUN   normal     sub01       gpu01:gpu02 long_training_run Mar 18 02:06
124     alice   PEND  normal     sub01          -        t[3]       Mar 18 02:06
`)
}

func TestElementsHaveTheirIndexInTheIDColumn(t *testing.T) {
	e := running()
	e.Index, e.Alloc = 12, nil
	same(t, table(JobsWide, style(), e), `JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME
123[12] alice   RUN   normal     sub01          -        train[12]  Mar 18 02:06
`)
}

func TestHostsOncePerSlotUnlessShort(t *testing.T) {
	j := running()
	j.Alloc = []*pb.Allocation{{Node: "gpu01", Slots: 2}, {Node: "gpu02", Slots: 1}}
	st := style()
	if got := string(st.Hosts(nil, j.Alloc, ':')); got != "gpu01:gpu01:gpu02" {
		t.Error(got)
	}
	st.ShortHosts = true
	if got := string(st.Hosts(nil, j.Alloc, ':')); got != "2*gpu01:gpu02" {
		t.Error(got)
	}
	same(t, table(Jobs, st, j), `JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME
123     alice   RUN   normal     sub01       2*gpu01     train      Mar 18 02:06
                                             gpu02
`)
}

func TestJobsFullForm(t *testing.T) {
	j := running()
	j.Spec.Project = "default"
	j.Usage = &pb.Usage{Cpu: int64(120 * time.Millisecond), Memory: 5 << 20, Pids: []int32{1, 2, 3}}
	same(t, table(JobsFull, style(), j, waiting()), `JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME  PROJ_NAME CPU_USED MEM SWAP PIDS START_TIME FINISH_TIME
123     alice   RUN   normal     sub01       gpu01:gpu02 train      03/18-02:06:00  default   000:00:00.12 5120   0      1,2,3 03/18-02:07:00 -
124     alice   PEND  normal     sub01          -        my_training_run 03/08-12:06:00  -         000:00:00.00 0      0      - - -
`)
}

func TestJobsPendingForm(t *testing.T) {
	j := waiting()
	j.Reasons = []*pb.Reason{{Text: "Not enough job slot(s)", Hosts: 3}, {Text: "Job dependency condition not satisfied;"}}
	same(t, table(JobsPending, style(), j, waiting()), `JOBID   USER    STAT  QUEUE       FROM_HOST      JOB_NAME           SUBMIT_TIME
124     alice   PEND  normal      sub01          my_training_run    Mar  8 12:06
 Not enough job slot(s): 3 hosts;
 Job dependency condition not satisfied;
124     alice   PEND  normal      sub01          my_training_run    Mar  8 12:06
 New job is waiting for scheduling;
`)
}

func TestArrays(t *testing.T) {
	j := &pb.Job{
		Id: 456, Owner: &pb.Identity{User: "alice"},
		Spec:   &pb.Spec{Name: "arr", Array: &pb.Array{Ranges: []*pb.Range{{First: 1, Last: 10, Step: 1}}}},
		Counts: &pb.Counts{Total: 10, Pend: 5, Done: 3, Run: 2},
	}
	same(t, table(JobArrays, style(), j), `JOBID    ARRAY_SPEC  OWNER   NJOBS PEND DONE  RUN EXIT SSUSP USUSP PSUSP
456      arr[1-10   alice       10    5    3    2    0     0     0     0
`)
	a := &pb.Array{Ranges: []*pb.Range{{First: 1, Last: 9, Step: 2}, {First: 20, Last: 20, Step: 1}}, Limit: 5}
	if got := ArraySpec(a); got != "[1-9:2,20]%5" {
		t.Error(got)
	}
}

func TestSum(t *testing.T) {
	var s Sum
	s.Add(running())
	s.Add(waiting())
	same(t, SumHeader+string(s.Row(nil)), `RUN        SSUSP       USUSP      UNKNOWN    PEND       FWD_PEND  PSUSP
2          0           0          0          1          0         0
`)
}

func TestQueues(t *testing.T) {
	q := &pb.Queue{Name: "normal", Priority: 30, Njobs: 2, Run: 2}
	same(t, string(QueueRow(QueuesHeader(nil, false), q, false)), `QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP
normal           30  Open:Active       -    -    -    -     2     0     2     0
`)
	q.MaxSlots, q.Closed, q.Inactive, q.Ususp, q.Pend = 128, true, true, 1, 7
	same(t, string(QueueRow(QueuesHeader(nil, true), q, true)), `QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP  RSV PJOBS
normal           30  Closed:Inact    128    -    -    -     2     7     2     1    0     7
`)
}

func TestQueueLong(t *testing.T) {
	q := &pb.Queue{
		Name: "normal", Description: "For normal low priority jobs.", IsDefault: true, Priority: 30, Njobs: 2, Run: 2,
		DefaultRunLimit: int64(time.Hour), MaxRunLimit: int64(12 * time.Hour), MaxMemory: 39 << 30 / 10, Exclusive: true,
		OverlaySize: 200 << 20, IdleAfter: int64(time.Hour), IdleWarn: int64(10 * time.Minute), IdleGpuBelow: 5, IdleCpuBelow: 7,
	}
	same(t, string(QueueLong(nil, q)), `
QUEUE: normal
  -- For normal low priority jobs.  This is the default queue.

PARAMETERS/STATISTICS
PRIO NICE STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN SSUSP USUSP  RSV
 30    0  Open:Active       -    -    -    -     2     0     2     0     0    0
Interval for a host to accept two jobs is 0 seconds

DEFAULT LIMITS:
 RUNLIMIT                
 60.0 min

MAXIMUM LIMITS:
 RUNLIMIT                
 720.0 min

 MEMLIMIT
    3.9 G 

SCHEDULING PARAMETERS
           r15s   r1m  r15m   ut      pg    io   ls    it    tmp    swp    mem
 loadSched   -     -     -     -       -     -    -     -     -      -      -  
 loadStop    -     -     -     -       -     -    -     -     -      -      -  

SCHEDULING POLICIES:  FAIRSHARE  BACKFILL  EXCLUSIVE

USERS: all
HOSTS:  all
WRITABLE:  up to 200 M
IDLE:  a session is warned after 1 h without use, and ended 10 min later
       (use is a key, a program beside it, an app, or 5 % of its share of the GPU; without one, 7 % of its slots)
`)
	f, err := ParseFormat(QueueFields, "overlay_size idle_after idle_warn idle_gpu_below idle_cpu_below")
	if err != nil {
		t.Fatal(err)
	}
	same(t, strings.Join(strings.Fields(string(f.Row(nil, q, &Style{}))), " "), "200 Mbytes 3600 600 5 7")
	same(t, strings.TrimSpace(string(f.Row(nil, &pb.Queue{}, &Style{}))), "- - - - -")
}

func host(name string, slots, used int32) *pb.Host {
	return &pb.Host{Node: &pb.Node{Id: name, Alive: true, Slots: slots, UsedSlots: used}, Njobs: used, Run: used}
}

func TestHosts(t *testing.T) {
	full := host("gpu02", 4, 4)
	same(t, HostsHeader+string(HostRow(HostRow(nil, host("gpu01", 4, 2), false), full, false)), `HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV `+`
gpu01              ok              -      4      2      2      0      0      0
gpu02              closed          -      4      4      4      0      0      0
`)
	same(t, string(HostRow(nil, full, true)), "gpu02              closed_Full     -      4      4      4      0      0      0\n")
	full.Node.Unenforced = []string{"no cgroups", "not root"}
	if got := string(HostLong(nil, full)); !strings.HasSuffix(got, "\n NOT ENFORCED:\n  no cgroups\n  not root\n") {
		t.Errorf("bhosts -l says %s", got)
	}
	full.Node.Closed = true
	if got := HostStatus(full); got != "closed_Adm" {
		t.Error(got)
	}
	full.Node.Alive = false
	if got := HostStatus(full); got != "unreach" {
		t.Error(got)
	}
	for in, want := range map[string]string{"gpu10,gpu2,gpu1": "gpu1,gpu2,gpu10", "b,a1x,a01x": "a01x,a1x,b"} {
		var hosts []*pb.Host
		for _, n := range strings.Split(in, ",") {
			hosts = append(hosts, host(n, 1, 0))
		}
		SortHosts(hosts)
		var names []string
		for _, h := range hosts {
			names = append(names, h.Node.Id)
		}
		if got := strings.Join(names, ","); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func gpuHost() *pb.Host {
	h := host("gpu01", 8, 2)
	h.Node.Gpus = []*pb.GPU{
		{Index: 0, Uuid: "GPU-a", Model: "Sim-8G", Memory: 8 << 30, Capacity: 200, Used: 50, Mode: "shim", Simulated: true},
		{Index: 1, Uuid: "GPU-b", Model: "Sim-8G", Memory: 8 << 30, Capacity: 200},
	}
	h.Slices = []*pb.HeldSlice{{Job: 12, Index: 3, User: "alice", Queue: "gpu", Since: at(3, 18, 2, 6), Used: 512 << 20, Util: 2130,
		Slice: &pb.Slice{Uuid: "GPU-a", Amount: 50, Memory: 2 << 30, SmShare: 2500, Mode: "shim"}}}
	return h
}

func TestSlices(t *testing.T) {
	same(t, SlicesHeader+string(Slices(nil, gpuHost(), style(), true)), `HOST_NAME           GPU MODEL                    MEMORY  FGPU  USED  FREE  MODE   JOBS
gpu01                 0 Sim-8G                 8192 MiB     2   0.5   1.5  shim     1  simulated
    job 12[3]      alice        0.5 fGPU   2048 MiB     25 % of the SMs  shim   since Mar 18 02:06 (4 min), uses 512 MiB and 21.3 % of the GPU's time
gpu01                 1 Sim-8G                 8192 MiB     2     0     2  -        0
`)
}

// markedHost has a GPU of each kind that is out of the ordinary.
func markedHost() *pb.Host {
	h := host("gpu02", 8, 0)
	h.Node.Gpus = []*pb.GPU{
		{Index: 0, Uuid: "MIG-1", Model: "A100 3g.20gb", Memory: 20 << 30, Capacity: 85, Used: 85, Mode: "mig", Parent: "GPU-p", Fraction: 4285},
		{Index: 1, Uuid: "GPU-l", Model: "A100", Memory: 40 << 30, Capacity: 200, Used: 50, Mode: "mps", Lost: true, Holder: "alice"},
		{Index: 2, Uuid: "GPU-u", Model: "A100", Memory: 40 << 30, Capacity: 200, Mode: "shim", Unfenced: "probe\nfailed", Simulated: true},
		{Index: 3, Uuid: "GPU-c", Model: "A100", Memory: 40 << 30, Capacity: 200, Mode: "count"},
	}
	return h
}

func TestGPUsThatAreOutOfTheOrdinaryAreMarked(t *testing.T) {
	same(t, SlicesHeader+string(Slices(nil, markedHost(), style(), false)), `HOST_NAME           GPU MODEL                    MEMORY  FGPU  USED  FREE  MODE   JOBS
gpu02                 0 A100 3g.20gb          20480 MiB  0.85  0.85     0  mig      0  instance of GPU-p
gpu02                 1 A100                  40960 MiB     2   0.5     0  mps      0  lost
gpu02                 2 A100                  40960 MiB     2     0     0  shim     0  simulated  unfenced: probe\nfailed
gpu02                 3 A100                  40960 MiB     2     0     2  count    0
`)
	same(t, GPUHeader+string(GPURows(nil, markedHost())), `HOST_NAME           ID           MODEL     MUSED      MRSV  NJOBS    RUN   SUSP    RSV  MODE
gpu02                0    A100 3g.20gb        0M        0M      0      0      0      0  mig  instance of GPU-p
                     1            A100        0M        0M      0      0      0      0  mps  lost
                     2            A100        0M        0M      0      0      0      0  shim  simulated  unfenced: probe\nfailed
                     3            A100        0M        0M      0      0      0      0  count
`)
}

func TestSlicesRecord(t *testing.T) {
	h := markedHost()
	h.Node.Gpus = h.Node.Gpus[:3]
	h.Slices = []*pb.HeldSlice{{Job: 12, User: "alice", Queue: "gpu", Since: at(3, 18, 2, 6), Slice: &pb.Slice{Uuid: "GPU-l", Amount: 50, Memory: 10 << 30, SmShare: 2500, Mode: "mps"}}}
	d := NewJSON("bslice", "GPUS")
	SlicesRecord(d, h, style())
	text := d.End(nil)
	var doc struct {
		Records []struct {
			GPU                                   int
			MODE, UNFENCED, PARENT, HOLDER        string
			LOST, SIMULATED                       bool
			FGPU_TOTAL, FGPU_FREE, PARENT_PERCENT float64
			SLICES                                []struct{ JOBID, MODE string }
		} `json:"RECORDS"`
	}
	if err := json.Unmarshal(text, &doc); err != nil || len(doc.Records) != 3 {
		t.Fatalf("%v in\n%s", err, text)
	}
	if r := doc.Records[0]; r.MODE != "mig" || r.PARENT != "GPU-p" || r.PARENT_PERCENT != 42.85 || r.LOST || len(r.SLICES) != 0 {
		t.Errorf("the instance: %+v", r)
	}
	if r := doc.Records[1]; r.MODE != "mps" || !r.LOST || r.HOLDER != "alice" || r.FGPU_TOTAL != 2 || r.FGPU_FREE != 0 || len(r.SLICES) != 1 || r.SLICES[0].MODE != "mps" {
		t.Errorf("the lost one: %+v", r)
	}
	if r := doc.Records[2]; r.UNFENCED != "probe\nfailed" || !r.SIMULATED || r.FGPU_FREE != 0 {
		t.Errorf("the unfenced one: %+v", r)
	}
}

func TestHostGPUs(t *testing.T) {
	same(t, GPUHeader+string(GPURows(nil, gpuHost())), `HOST_NAME           ID           MODEL     MUSED      MRSV  NJOBS    RUN   SUSP    RSV  MODE
gpu01                0          Sim-8G      512M        2G      1      1      0      0  shim  simulated
                     1          Sim-8G        0M        0M      0      0      0      0  -
`)
}

func TestWhy(t *testing.T) {
	j := waiting()
	j.Fgpu, j.ExpectedStart = 50, at(3, 18, 3, 10)
	j.Reasons = []*pb.Reason{{Kind: "gpu", Text: "Not enough free fGPU", Hosts: 4, Nodes: []string{"gpu01", "gpu02"}}, {Kind: "held", Text: "Held"}}
	same(t, string(Why(nil, &pb.WhyJob{Job: j, Ahead: 2, PlannedAt: at(3, 18, 2, 10) - 3e9}, style())), `Job <124>, my_training_run, 1 slot, 0.5 fGPU, queue normal
  Waits since Mar  8 12:06 (9 d 14 h).
  Why it does not start:
   1. Not enough free fGPU: 4 hosts (gpu01, gpu02, and 2 more)
   2. Held
  2 waiting jobs are before it.
  Expected start: Wed Mar 18 03:10:00 2026, in 1 h.
  (as of the plan made 3 s ago)
`)
}

// A job that is started waits for its image on the node, and says so wherever reasons are shown.
func TestWhyOfAnImageThatIsFetched(t *testing.T) {
	j := running()
	j.Reasons = []*pb.Reason{{Kind: "image", Text: "PROV: the image python:3.11 is being fetched, 37 %", Nodes: []string{"gpu01"}}}
	if got := string(Why(nil, &pb.WhyJob{Job: j}, style())); !strings.Contains(got, "\n  Is started on ") || !strings.Contains(got, ", and waits there: PROV: the image python:3.11 is being fetched, 37 %.\n") {
		t.Errorf("bwhy: %q", got)
	}
	if got := pendReason(j); got != "PROV: the image python:3.11 is being fetched, 37 %;" {
		t.Errorf("pend_reason: %q", got)
	}
	if got := string(jobsPendingRow(nil, j, style())); !strings.HasSuffix(got, "\n PROV: the image python:3.11 is being fetched, 37 %;\n") {
		t.Errorf("bjobs -p: %q", got)
	}
}

func TestCluster(t *testing.T) {
	c := &pb.ClusterResponse{Name: "lab", Master: "ctl01", Version: "0.1.0", DefaultQueue: "normal", Params: []*pb.Param{
		{Name: "LSF_UNIT_FOR_LIMITS", Value: "MB", Section: "conf"}, {Name: "LSB_SHAREDIR", Value: "/s", Section: "conf"},
		{Name: "MAX_JOB_ARRAY_SIZE", Value: "1000", Help: "The largest index of an array.", Section: "params"},
	}}
	same(t, string(Cluster(nil, c, style())), `Fairslice 0.1.0, LSF-compatible command set 10.1.0.0, Mar 18 2026

My cluster name is lab
My master name is ctl01
`)
	same(t, string(Conf(nil, c, "MBD", style())), `MBD configuration at Wed Mar 18 02:10:00 2026
 LSF_MASTER_LIST = "ctl01"
 LSF_CLUSTER = lab
 LSB_SHAREDIR = /s
 LSF_UNIT_FOR_LIMITS = MB
`)
	same(t, string(ParamsLong(nil, c)), "\nThe largest index of an array:\n    MAX_JOB_ARRAY_SIZE = 1000\n\n")
	same(t, string(Params(nil, c)), "Default Queues:  normal\nJob Dispatch Interval:  1 seconds\nJob Checking Interval:  1 seconds\nJob Accepting Interval:  0 seconds\n")
}

// nasty values must break neither a table nor a document.
var nasty = []string{
	"a\nb", "tab\there", "\x1b[31mred\x1b[0m", "\xff\xfe", "quote\"back\\slash", "DONE", "日本語の名前です長い", "a b | c^d",
	"\u202eright to left", "\u2028line", "nul\x00", "", "*", "e\u0301", "\x7f", "\U000e0001",
}

func TestNothingBreaksALine(t *testing.T) {
	for _, s := range nasty {
		c := Clean(s)
		if strings.ContainsAny(c, "\n\r\t\x1b\x00") || !utf8.ValidString(c) {
			t.Errorf("Clean(%q) = %q", s, c)
		}
		j := running()
		j.Spec.Name, j.Owner.User, j.Queue, j.Spec.SubHost = s, s, s, s
		j.Alloc = []*pb.Allocation{{Node: "n" + s, Slots: 1}}
		for name, form := range map[string]JobTable{"default": Jobs, "wide": JobsWide, "full": JobsFull, "array": JobArrays} {
			if got := string(form.Row(nil, j, style())); strings.Count(got, "\n") != 1 || !utf8.ValidString(got) {
				t.Errorf("%s form of %q is %q", name, s, got)
			}
		}
		// Every column of the default form has its width, in characters.
		row := []rune(strings.TrimSuffix(string(Jobs.Row(nil, j, style())), "\n"))
		if string(row[len(row)-12:]) != "Mar 18 02:06" || len(row) != 68+12 {
			t.Errorf("default form of %q is %q, %d characters", s, string(row), len(row))
		}
	}
}

func TestCutsAreAtCharacters(t *testing.T) {
	for _, s := range nasty {
		for n := 1; n < 12; n++ {
			for name, got := range map[string]string{"Left": string(Left(nil, s, n)), "LeftTail": string(LeftTail(nil, s, n))} {
				if !utf8.ValidString(got) || utf8.RuneCountInString(got) != n {
					t.Errorf("%s(%q, %d) = %q", name, s, n, got)
				}
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for v, want := range map[int64]string{0: "0 Kbytes", 812 << 10: "812 Kbytes", 9 << 20: "9 Mbytes", 5<<30 + 2<<27: "5.2 Gbytes", 2 << 40: "2 Tbytes"} {
		if got := string(Bytes(nil, v, 0)); got != want {
			t.Errorf("%d: %q, want %q", v, got, want)
		}
	}
	if got := string(Bytes(nil, 5<<30, 'M')); got != "5120 Mbytes" {
		t.Error(got)
	}
	for d, want := range map[time.Duration]string{0: "0 s", 59 * time.Second: "59 s", 61 * time.Second: "1 min 1 s", time.Hour: "1 h", 27 * time.Hour: "1 d 3 h"} {
		if got := Span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestImages(t *testing.T) {
	st := &Style{Loc: time.UTC, Now: time.Date(2026, 3, 18, 2, 10, 0, 0, time.UTC)}
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC).UnixNano()
	list := []*pb.Image{
		{Id: 1, Name: "ada/python:3.11", Digest: "sha256:00", Size: 46 << 20, Visibility: "groups", Groups: []string{"physics", "chem"}, Added: at, By: "ada", Source: "x.sif",
			Description: "two\x1b[31mlines", Labels: map[string]string{"fairslice.min.cpu": "2", "fairslice.min.mem": "1g", "fairslice.apps": "jupyter:http:8091", "fairslice.corecount-env": "OMP_NUM_THREADS"}},
		{Id: 2, Name: "old:1", Size: 1 << 30, Visibility: "public", Added: at, Removed: at},
		{Name: "sample:latest", File: "/images/sample.sif", Visibility: "public"},
	}
	want := "" +
		"NAME    TAG     OWNER  SIZE  VISIBLE       ADDED             DESCRIPTION\n" +
		"python  3.11    ada     46M  physics,chem  2026-03-01 10:00  two\\x1b[31mlines\n" +
		"old     1       -        1G  (removed)     2026-03-01 10:00  -\n" +
		"sample  latest  -         -  public        -                 on nodes: /images/sample.sif\n"
	if got := string(Images(nil, list, true, st)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	long := string(ImageLong(nil, list[0], st))
	for _, line := range []string{"Visible to:    groups physics, chem\n", "Apps:          jupyter (http, port 8091)\n", "At least:      2 cores, 1G memory\n", "Core count in: OMP_NUM_THREADS\n", "Size:          46M (48234496 bytes)\n"} {
		if !strings.Contains(long, line) {
			t.Errorf("%q is not in\n%s", line, long)
		}
	}
	j := &pb.Job{Spec: &pb.Spec{Image: "python:3.11"}, Fetch: &pb.ImageFetch{Node: "n1", Done: 12 << 27, Total: 26 << 27}}
	if got := FetchText(j); got != "Image python:3.11 is being fetched to n1: 46 %, 1.5G of 3.2G" {
		t.Error(got)
	}
	if got := FetchText(&pb.Job{}); got != "" {
		t.Error(got)
	}
	long = string(ImageLong(nil, &pb.Image{Id: 3, Name: "x:1", Signed: []string{"Ada <ada@example.org> (8BE1)", "release.pem"}}, st))
	if want := "Signed by:     Ada <ada@example.org> (8BE1), release.pem\n"; !strings.Contains(long, want) {
		t.Errorf("%q is not in\n%s", want, long)
	}
}
