package command

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

func TestCommandsAreFoundByEitherName(t *testing.T) {
	f := &fake{cluster: &pb.ClusterResponse{Name: "lab", Master: "ctl01"}}
	for _, line := range []string{"lsid", "/usr/local/bin/lsid", "bcli lsid", "./bcli lsid"} {
		f.do(line).has(t, 0, "My cluster name is lab\nMy master name is ctl01\n", "")
	}
	f.do("bcli nosuch").has(t, 255, "", "nosuch: no such command")
	f.do("bcli").has(t, 0, "bjobs", "")
}

func TestEveryCommandHelps(t *testing.T) {
	f := &fake{err: io.ErrUnexpectedEOF} // nobody is asked for help
	for _, name := range Names() {
		r := f.do(name + " -h")
		r.has(t, 0, "\nUsage: ", "")
		if !strings.Contains(r.out, "\nExamples:\n  ") {
			t.Errorf("%s has no example", name)
		}
		for _, l := range strings.Split(r.out, "\n") {
			if len([]rune(l)) > 100 {
				t.Errorf("%s: a long line: %q", name, l)
			}
		}
		f.do(name+" -V").has(t, 0, "", "LSF-compatible command set 10.1.0.0, ")
		f.do(name+" -nosuchoption").has(t, 255, "", "unknown option")
	}
}

// Every command that lists something lists it as a document, too.
func TestEveryListingHasJSON(t *testing.T) {
	f := &fake{
		jobs: []*pb.JobsResponse{{Jobs: []*pb.Job{job(1, "RUN")}}}, history: []*pb.HistoryResponse{{Jobs: []*pb.HistoryJob{{Job: job(1, "RUN")}}}},
		queues: &pb.QueuesResponse{Queues: []*pb.Queue{{Name: "normal"}}}, hosts: &pb.HostsResponse{Hosts: []*pb.Host{{Node: &pb.Node{Id: "n1"}}}},
		cluster: &pb.ClusterResponse{Name: "lab"}, why: &pb.WhyResponse{Jobs: []*pb.WhyJob{{Job: job(1, "PEND")}}},
		reserved: &pb.ReservationsResponse{Reservations: []*pb.ListedReservation{{Reservation: &pb.Reservation{Id: "alice#0"}}}},
		finished: []*pb.FinishedResponse{{Jobs: []*pb.FinishedJob{over(1, 0)}}}, report: &pb.ReportResponse{Columns: []*pb.ReportColumn{{Name: "user", Text: true}}},
		shares: &pb.SharesResponse{}, budgets: &pb.BudgetsResponse{Budgets: []*pb.Budget{{Account: "lab"}}}, policy: queue.PolicyState{Text: "account lab\nuser alice account=lab\nlimit account=lab slots=5\n"},
	}
	for _, line := range []string{
		"bjobs -json", "bjobs -l -json", "bjobs -A -json", "bjobs -sum -json", "bjobs -w -json", "bhist -json", "bhist -l -json", "bqueues -json",
		"bqueues -l -json", "bhosts -json", "bhosts -gpu -json", "bhosts -l -json", "bslice -json", "bslice -l -json", "bwhy -json", "brsvs -json", "lsid -json",
		"lsclusters -json", "bparams -json", "badmin showconf mbd -json", "badmin policy show -json", "badmin policy log -json", "badmin limit show -json", "badmin account show -json", "badmin budget show -json",
		"bacct -json", "bacct -b -json", "bacct -l -json 1", "breport usage -json", "bshare -json", "bbudget -json", "busers -json", "busers all -json", "bugroup -json", "bhist -w -json", "lsadmin showconf lim -json",
	} {
		r := f.do(line)
		var doc map[string]any
		if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.code != 0 || doc["COMMAND"] != strings.Fields(line)[0] {
			t.Errorf("%s: %v %+v", line, err, r)
		}
	}
}

const head = "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME\n"

func TestBjobs(t *testing.T) {
	f := &fake{jobs: []*pb.JobsResponse{{Jobs: []*pb.Job{job(1, "PEND")}, NotFound: []string{"Job <99> is not found"}}, {Jobs: []*pb.Job{job(2, "PEND")}}}}
	f.do("bjobs").want(t, 0, head+
		"1       alice   PEND  normal     sub01                   train      Mar 18 02:06\n"+
		"2       alice   PEND  normal     sub01                   train      Mar 18 02:06\n", "Job <99> is not found\n")
	f.do("bjobs -noheader -o jobid").want(t, 0, "1\n2\n", "Job <99> is not found\n")
	f.do("bjobs", "LSB_BJOBS_FORMAT=jobid stat delimiter='^'").want(t, 0, "JOBID^STAT\n1^PEND\n2^PEND\n", "Job <99> is not found\n")
	f.do("bjobs -w", "LSB_BJOBS_FORMAT=jobid").has(t, 0, head, "Job <99>")
	f.do("bjobs -p").has(t, 0, "\n New job is waiting for scheduling;\n", "Job <99>")
	f.run([]string{"bjobs", "-o", "jobid stat", "1", "-json"}, "").has(t, 0, `"ERROR":"Job <99> is not found"`, "")
	f.run([]string{"bjobs", "-o exit_code", "1"}, "").has(t, 0, "EXIT_CODE\n-\n-\n", "Job <99>")
	f.run([]string{"bjobs", "-o", ""}, "").has(t, 0, "JOBID USER STAT QUEUE FROM_HOST EXEC_HOST JOB_NAME SUBMIT_TIME\n", "Job <99>")
	f.do("bjobs -o nosuch").has(t, 255, "", "known fields: jobid")
	f.do("bjobs abc").want(t, 255, "", "abc: Illegal job ID.\n")
	f.do("bjobs 1[2-").want(t, 255, "", "1[2-: Illegal job ID.\n")
}

func TestBjobsAsks(t *testing.T) {
	for line, want := range map[string]queue.Selection{
		"bjobs":                  {},
		"bjobs 1 2[3-4,7]":       {IDs: []string{"1", "2[3-4,7]"}},
		"bjobs -aJ *x*":          {Name: "*x*", Scope: queue.ScopeAll},
		"bjobs -uall -r":         {User: "all", Scope: queue.ScopeRunning},
		"bjobs -u all -d -q gpu": {User: "all", Queue: "gpu", Scope: queue.ScopeFinished},
		"bjobs -p -s":            {Scope: queue.ScopeAll, States: []queue.State{"PEND", "PSUSP", "PSUSP", "USUSP", "SSUSP"}},
		"bjobs -m h -P p -G g":   {Host: "h", Project: "p", Account: "g"},
		"bjobs -w 7 -u bob":      {IDs: []string{"7"}, User: "bob"},
	} {
		f := &fake{}
		f.do(line)
		if !reflect.DeepEqual(f.selected, want) {
			t.Errorf("%s asks for %+v, want %+v", line, f.selected, want)
		}
	}
	f := &fake{}
	if f.do("bjobs -w"); f.asked.Reasons {
		t.Error("reasons that nobody sees are asked for")
	}
	if f.do("bjobs -l -A"); !f.asked.Arrays {
		t.Error("-A does not ask for arrays")
	}
}

func TestBjobsWithNothingToShow(t *testing.T) {
	f := &fake{jobs: []*pb.JobsResponse{{}}}
	for line, text := range map[string]string{
		"bjobs": "No unfinished job found\n", "bjobs -a": "No job found\n", "bjobs -p": "No pending job found\n", "bjobs -r": "No running job found\n",
		"bjobs -s": "No suspended job found\n", "bjobs -d": "No DONE/EXIT job found\n", "bjobs -q gpu": "No unfinished job found in queue <gpu>\n",
		"bjobs -u bob": "No unfinished job found for user <bob>\n", "bjobs -u all -w": "No unfinished job found\n", "bjobs -J x*": "Job <x*> is not found\n",
	} {
		f.do(line).want(t, 0, "", text)
		f.do(line, "LSB_BJOBS_CONSISTENT_EXIT_CODE=Y").want(t, 255, "", text)
	}
	f.do("bjobs -json").want(t, 0, "{\n  \"COMMAND\":\"bjobs\",\n  \"JOBS\":0,\n  \"RECORDS\":[]\n}\n", "")
	f.jobs[0].NotFound = []string{"Job <5> is not found"}
	f.do("bjobs 5").want(t, 255, "", "Job <5> is not found\n")
	f.do("bjobs -json 5").has(t, 255, `"ERROR":"Job <5> is not found"`, "")
	f.jobs[0].Jobs = []*pb.Job{job(4, "DONE")}
	f.do("bjobs 4 5").has(t, 0, head, "Job <5> is not found\n")
	f.do("bjobs 4 5", "LSB_BJOBS_CONSISTENT_EXIT_CODE=y").has(t, 255, head, "Job <5> is not found\n")
}

func TestElementsInTheIDColumn(t *testing.T) {
	j := job(7, "PEND")
	j.Index = 3
	f := &fake{jobs: []*pb.JobsResponse{{Jobs: []*pb.Job{j}}}}
	f.do("bjobs -noheader -o jobid").want(t, 0, "7[3]\n", "")
	f.do("bjobs -noheader -o jobid", "LSB_BJOBS_DISPLAY_ENH=N").want(t, 0, "7\n", "")
	f.run([]string{"bjobs", "-noheader", "-o", "jobid jobindex"}, "").want(t, 0, "7 3\n", "")
}

func TestErrorsOfTheDaemon(t *testing.T) {
	f := &fake{err: wire.Errorf(wire.Unavailable, "batch system daemon not responding")}
	for _, line := range []string{"bjobs", "bhist", "bqueues", "bhosts", "bslice", "bwhy", "lsid", "lsclusters", "bparams", "bkill 1", "bstop 1", "bpeek 1",
		"badmin reconfig", "badmin showconf mbd", "lsadmin showconf lim", "bsub true", "bmod -W 1 1", "bswitch q 1", "btop 1", "battach 1"} {
		f.do(line).want(t, 255, "", "batch system daemon not responding\n")
	}
}

func TestControl(t *testing.T) {
	for line, want := range map[string]queue.Control{
		"bkill 5 6[2]":         {Op: queue.OpKill, Select: queue.Selection{IDs: []string{"5", "6[2]"}}},
		"bkill -s SIGTERM 5":   {Op: queue.OpSignal, Signal: "TERM", Select: queue.Selection{IDs: []string{"5"}}},
		"bkill -s 15 5":        {Op: queue.OpSignal, Signal: "TERM", Select: queue.Selection{IDs: []string{"5"}}},
		"bkill -s KILL 5":      {Op: queue.OpKill, Signal: "KILL", Select: queue.Selection{IDs: []string{"5"}}},
		"bkill -d -b 5":        {Op: queue.OpKill, AsDone: true, Select: queue.Selection{IDs: []string{"5"}}},
		"bkill -r -C wrong 5":  {Op: queue.OpKill, Force: true, Note: "wrong", Select: queue.Selection{IDs: []string{"5"}}},
		"bkill -J x*":          {Op: queue.OpKill, Latest: true, Select: queue.Selection{Name: "x*"}},
		"bkill -J x* 0":        {Op: queue.OpKill, Select: queue.Selection{Name: "x*", IDs: []string{"0"}}},
		"bstop -u all 0":       {Op: queue.OpStop, Select: queue.Selection{User: "all", IDs: []string{"0"}}},
		"bstop -a":             {Op: queue.OpStop, Select: queue.Selection{IDs: []string{"0"}}},
		"bresume 5":            {Op: queue.OpResume, Select: queue.Selection{IDs: []string{"5"}}},
		"brequeue -e -H 5":     {Op: queue.OpRequeue, Hold: true, Select: queue.Selection{IDs: []string{"5"}, States: []queue.State{"EXIT"}}},
		"btop 5":               {Op: queue.OpTop, Position: 1, Select: queue.Selection{IDs: []string{"5"}}},
		"bbot 5[2] 3":          {Op: queue.OpBottom, Position: 3, Select: queue.Selection{IDs: []string{"5[2]"}}},
		"bswitch night 5 6":    {Op: queue.OpSwitch, Queue: "night", Select: queue.Selection{IDs: []string{"5", "6"}}},
		"bswitch -q a night 0": {Op: queue.OpSwitch, Queue: "night", Select: queue.Selection{Queue: "a", IDs: []string{"0"}}},
	} {
		f := &fake{outcomes: []queue.Outcome{{ID: "5", OK: true, Text: "done"}}}
		f.do(line)
		if !reflect.DeepEqual(f.control, want) {
			t.Errorf("%s asks for %+v, want %+v", line, f.control, want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	f := &fake{outcomes: []queue.Outcome{{ID: "5", OK: true, Text: "Job <5> is being terminated"}, {ID: "6", Text: "Job <6>: No matching job found"}, {ID: "7", OK: true, Text: "Job <7> is being terminated"}}}
	f.do("bkill 5 6 7").want(t, 255, "Job <5> is being terminated\nJob <7> is being terminated\n", "Job <6>: No matching job found\n")
	f.outcomes = f.outcomes[:1]
	f.do("bkill 5").want(t, 0, "Job <5> is being terminated\n", "")
	f.do("btop 5").want(t, 0, "", "Job <5> is being terminated\n") // LSF tells of moves on standard error
	f.do("bkill").want(t, 255, "", "Job ID or one of '-m', '-u' '-q' and '-J' must be specified.\n")
	f.do("bkill abc").want(t, 255, "", "abc: Illegal job ID.\n")
	f.do("bkill -s NOSUCH 5").want(t, 255, "", "NOSUCH: Illegal signal value\n")
	f.do("btop").want(t, 255, "", "Job ID must be specified.\n")
	f.do("bmod -W 1:00 5").want(t, 0, "Job <5> is being terminated\n", "")
	if len(f.control.Options) != 1 || f.control.Options[0].Name != "W" || f.control.Op != queue.OpModify {
		t.Errorf("%+v", f.control)
	}
	f.do("bmodify").has(t, 255, "", "Job ID must be specified")
	f.outcomes = nil
	f.do("bkill 0").want(t, 255, "", "No matching job found\n")
}

func TestBsub(t *testing.T) {
	f := &fake{cluster: &pb.ClusterResponse{MaxArray: 1000}, accepted: queue.Accepted{Job: 22005, Queue: "normal", Default: true, Notes: []string{"a note"}}}
	f.do("bsub -J x sleep 10").want(t, 0, "Job <22005> is submitted to default queue <normal>.\n", "a note\n")
	if s := f.submitted; s.Spec.Name != "x" || s.Spec.Command != "sleep 10" || s.Spec.SubHost != "sub01" || len(s.Token) < 20 {
		t.Errorf("%+v", s)
	}
	first := f.submitted.Token
	f.accepted = queue.Accepted{Job: 22006, Queue: "gpu"}
	f.run([]string{"bsub"}, "#!/bin/sh\n#BSUB -q gpu\ntrue\n").want(t, 0, "Job <22006> is submitted to queue <gpu>.\n", "")
	if f.submitted.Token == first || f.submitted.Spec.Queue != "gpu" || !bytes.Contains(f.submitted.Script, []byte("true")) {
		t.Errorf("%+v", f.submitted)
	}
	f.do("bsub true", "BSUB_QUIET=1").want(t, 0, "", "")
	f.run([]string{"bsub"}, "").has(t, 255, "", "No command is specified. Job not submitted.\n")
	f.err = wire.Errorf(wire.Invalid, "rhel7: No such queue. Job not submitted.")
	f.do("bsub -q rhel7 true").want(t, 255, "", "rhel7: No such queue. Job not submitted.\n")
}

func TestBsubWaits(t *testing.T) {
	pend, run, end := job(9, "PEND"), job(9, "RUN"), job(9, "EXIT")
	run.Alloc = []*pb.Allocation{{Node: "gpu01", Slots: 1}}
	end.Alloc, end.HasResult, end.Status, end.ExitCode, end.Dispatched = run.Alloc, true, 3<<8, 3, 1
	f := &fake{cluster: &pb.ClusterResponse{}, accepted: queue.Accepted{Job: 9, Queue: "normal"},
		watch: []*pb.WatchResponse{{Job: pend, Unfinished: 1}, {Job: run, Unfinished: 1}, {Job: end, Failed: 1}}}
	f.do("bsub -K false").want(t, 3, "Job <9> is submitted to queue <normal>.\n", "<<Waiting for dispatch ...>>\n<<Starting on gpu01>>\n<<Job is finished>>\n")
	killed := job(9, "EXIT")
	killed.Verdict = "TERM_OWNER"
	f.watch = []*pb.WatchResponse{{Job: pend, Unfinished: 1}, {Job: killed, Failed: 1}}
	f.do("bsub -K false").want(t, 126, "Job <9> is submitted to queue <normal>.\n", "<<Waiting for dispatch ...>>\n<<Terminated while pending>>\n")
}

func TestBpeek(t *testing.T) {
	f := &fake{jobs: []*pb.JobsResponse{{Jobs: []*pb.Job{job(1, "RUN"), job(3, "RUN")}}}, peek: []*pb.PeekResponse{{Stdout: []byte("a\n")}, {Stdout: []byte("b\n")}}}
	f.do("bpeek 5").want(t, 0, "<< output from stdout >>\na\nb\n", "")
	if f.do("bpeek"); f.peeked != "3" {
		t.Errorf("without an id, %s is peeked at", f.peeked)
	}
	f.peek = []*pb.PeekResponse{{Stdout: []byte("a\n"), HasStderr: true}, {Stderr: []byte("e\n"), HasStderr: true}}
	f.do("bpeek 5").want(t, 0, "<< output from stdout >>\na\n\n<< output from stderr >>\ne\n", "")
	f.peek, f.err = nil, wire.Errorf(wire.Conflict, "Job <5> : Not yet started.")
	f.do("bpeek 5").want(t, 255, "", "Job <5> : Not yet started.\n")
}

func TestBhist(t *testing.T) {
	f := &fake{history: []*pb.HistoryResponse{{Jobs: []*pb.HistoryJob{{Job: job(1, "PEND")}, {Job: job(2, "PEND")}}, NotFound: []string{"Job <9> is not found"}}}}
	r := f.do("bhist -n2 1 2 9")
	r.has(t, 0, "Summary of time in seconds spent in various states:\nJOBID   USER ", "Job <9> is not found\n")
	if strings.Count(r.out, "JOBID") != 1 {
		t.Error(r.out)
	}
	if r = f.do("bhist -l 1 2"); strings.Count(r.out, strings.Repeat("-", 78)+"\n\nJob <2>") != 1 {
		t.Error(r.out)
	}
	f.history = nil
	f.do("bhist 77").want(t, 255, "No matching job found\n", "")
}

func TestListsOfPlaces(t *testing.T) {
	f := &fake{
		queues: &pb.QueuesResponse{Queues: []*pb.Queue{{Name: "normal", Priority: 30}, {Name: "gpu", Priority: 40}}},
		hosts:  &pb.HostsResponse{Hosts: []*pb.Host{{Node: &pb.Node{Id: "n10", Alive: true}}, {Node: &pb.Node{Id: "n2", Alive: true}}}},
	}
	f.do("bqueues -o queue_name -noheader").want(t, 0, "normal\ngpu\n", "")
	f.do("bqueues -l").has(t, 0, "\nHOSTS:  all\n"+strings.Repeat("-", 79)+"\n\nQUEUE: gpu\n", "")
	f.do("bhosts -o host_name -noheader").want(t, 0, "n2\nn10\n", "")
	f.do("bhosts -w -X").has(t, 0, "HOST_NAME          STATUS ", "")
	f.do("bslice").want(t, 0, "", "No GPU found\n")
	f.queues = &pb.QueuesResponse{NotFound: []string{"rhel7: No such queue"}}
	f.do("bqueues rhel7").want(t, 255, "", "rhel7: No such queue\n")
	f.do("bqueues -json rhel7").has(t, 255, `"ERROR":"rhel7: No such queue"`, "")
}

func TestBadmin(t *testing.T) {
	f := &fake{outcomes: []queue.Outcome{{OK: true, Text: "Host <gpu01> is closed"}}}
	f.run([]string{"badmin", "hclose", "-C", "new disks", "gpu01"}, "").want(t, 0, "Host <gpu01> is closed\n", "")
	if want := (queue.AdminCommand{Op: "hclose", Names: []string{"gpu01"}, Reason: "new disks"}); !reflect.DeepEqual(f.admin, want) {
		t.Errorf("%+v", f.admin)
	}
	if f.do("badmin hopen"); f.admin.Names[0] != "sub01" {
		t.Error("without a name, this host is meant")
	}
	f.do("badmin qopen").has(t, 255, "", "needs the name of a queue")
	f.do("badmin explode").has(t, 255, "", "no such command")
	f.do("badmin").has(t, 255, "", "badmin -h")
}

func TestBwhy(t *testing.T) {
	f := &fake{why: &pb.WhyResponse{Jobs: []*pb.WhyJob{{Job: job(1, "PEND"), Ahead: 4}}}}
	f.do("bwhy").has(t, 0, "4 waiting jobs are before it.", "")
	if f.selected.Scope != queue.ScopePending {
		t.Errorf("%+v", f.selected)
	}
	f.why = &pb.WhyResponse{}
	f.do("bwhy").want(t, 0, "", "No pending job found\n")
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

func TestAReaderThatLeavesIsNoError(t *testing.T) {
	var errors bytes.Buffer
	f := &fake{jobs: []*pb.JobsResponse{{Jobs: []*pb.Job{job(1, "RUN")}}}}
	code := Run([]string{"bjobs"}, strings.NewReader(""), brokenPipe{}, &errors, Env{Now: time.Now}, func(*Env, func(string)) (Users, error) { return f, nil })
	if code != 255 || errors.Len() > 0 {
		t.Errorf("%d %q", code, errors.String())
	}
}

func BenchmarkBjobsWideOfHundredThousand(b *testing.B) {
	f := &fake{}
	for range 100 {
		page := &pb.JobsResponse{}
		for i := range 1000 {
			j := job(int64(i), "RUN")
			j.Alloc = []*pb.Allocation{{Node: "gpu01", Slots: 2}}
			page.Jobs = append(page.Jobs, j)
		}
		f.jobs = append(f.jobs, page)
	}
	for b.Loop() {
		Run([]string{"bjobs", "-u", "all", "-w"}, strings.NewReader(""), io.Discard, io.Discard, Env{Now: time.Now},
			func(*Env, func(string)) (Users, error) { return f, nil })
	}
}
