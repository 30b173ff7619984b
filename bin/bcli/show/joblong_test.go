package show

import (
	"strings"
	"testing"
	"time"

	"fairslice/api/pb"
)

func on(month time.Month, day, hour, minute, second int) int64 {
	return time.Date(2026, month, day, hour, minute, second, 0, time.UTC).UnixNano()
}

// sample is the job of the manual's long listing.
func sample() (*pb.Job, *Style) {
	j := &pb.Job{
		Id: 101, State: "RUN", Queue: "normal", Owner: &pb.Identity{User: "alice", Home: "/home/alice"},
		Spec: &pb.Spec{Name: "train", Project: "default", Priority: 50, Command: "python t.py", SubHost: "sub01",
			SubCwd: "/home/alice", Stdout: "o.101", MinSlots: 2, ResReq: "span[hosts=1] rusage[mem=123]"},
		Submitted: on(10, 26, 17, 43, 7), Dispatched: on(10, 26, 17, 43, 8), Began: on(10, 26, 17, 43, 8),
		Alloc: []*pb.Allocation{{Node: "gpu01", Slots: 2}}, Home: "/home/alice", Cwd: "/home/alice",
		RunLimit: int64(time.Hour), Status: noStatus, EffectiveResreq: "select[type == local] order[r15s:pg] rusage[mem=123.00] span[hosts=1]",
		Usage: &pb.Usage{Cpu: 13065e9, Memory: 2 << 20, MaxMemory: 2 << 20, AvgMemory: 2 << 20, Threads: 4, Pgid: 10643, Pids: []int32{10643, 10644, 10646}},
	}
	return j, &Style{Now: time.Unix(0, on(10, 26, 17, 46, 17)), Loc: time.UTC}
}

// The year of the manual's sample is another: ours has other days of the week, and no swap.
const sampleLong = `
Job <101>, Job Name <train>, User <alice>, Project <default>, Status <RUN>, Que
                     ue <normal>, Job Priority <50>, Command <python t.py>, Sha
                     re group charged </alice>
Mon Oct 26 17:43:07: Submitted from host <sub01>, CWD <$HOME>, Output File <o.1
                     01>, 2 Task(s), Requested Resources <span[hosts=1] rusage[
                     mem=123]>;
Mon Oct 26 17:43:08: Started 2 Task(s) on Host(s) <2*gpu01>, Allocated 2 Slot(s
                     ) on Host(s) <2*gpu01>, Execution Home </home/alice>, Exec
                     ution CWD </home/alice>;
Mon Oct 26 17:46:17: Resource usage collected.
                     The CPU time used is 13065 seconds.
                     MEM: 2 Mbytes;  SWAP: 0 Mbytes;  NTHREAD: 4
                     PGID: 10643;  PIDs: 10643 10644 10646 

 RUNLIMIT                
 60.0 min

 MEMORY USAGE:
 MAX MEM: 2 Mbytes;  AVG MEM: 2 Mbytes

 SCHEDULING PARAMETERS:
           r15s   r1m  r15m   ut      pg    io   ls    it    tmp    swp    mem
 loadSched   -     -     -     -       -     -    -     -     -      -      -  
 loadStop    -     -     -     -       -     -    -     -     -      -      -  

 RESOURCE REQUIREMENT DETAILS:
 Combined: select[type == local] order[r15s:pg] rusage[mem=123.00] span[hosts=1]
 Effective: select[type == local] order[r15s:pg] rusage[mem=123.00] span[hosts=
                     1] 
`

func TestJobLong(t *testing.T) {
	j, st := sample()
	same(t, string(JobLong(nil, j, st, true)), sampleLong)
	flat := string(JobLong(nil, j, st, false))
	// Who joins a folded listing again gets the one that never was folded.
	joined := strings.ReplaceAll(sampleLong, "\n                     ", "")
	for _, line := range strings.Split(joined, "\n") {
		if !strings.Contains(line, "Resource usage") && !strings.Contains(flat, line+"\n") {
			t.Errorf("-UF lacks %q", line)
		}
	}
	if !strings.Contains(flat, "Resource usage collected. The CPU time used is 13065 seconds. MEM: 2 Mbytes;") {
		t.Error(flat)
	}
}

func TestJobLongEnds(t *testing.T) {
	for _, c := range []struct {
		state, verdict string
		status, code   int32
		has            bool
		want           string
	}{
		{"DONE", "", 0, 0, true, "Done successfully. The CPU time used is 1.1 seconds."},
		{"EXIT", "", 127 << 8, 127, true, "Exited with exit code 127. The CPU time used is 1.1 seconds."},
		{"EXIT", "", 9, 137, true, "Exited by signal 9. The CPU time used is 1.1 seconds."},
		{"EXIT", "TERM_OWNER", 2, 130, true, "Exited with exit code 130. The CPU time used is 1.1 seconds.|Completed <exit>; TERM_OWNER: job killed by owner."},
		{"EXIT", "TERM_OWNER", noStatus, 0, true, "Exited. The CPU time used is 1.1 seconds.|Completed <exit>; TERM_OWNER: job killed by owner."},
		{"RUN", "", noStatus, 0, false, ""},
	} {
		j := &pb.Job{State: c.state, Verdict: c.verdict, Status: c.status, ExitCode: c.code, HasResult: c.has, Usage: &pb.Usage{Cpu: 11e8}}
		if c.verdict != "" {
			j.VerdictText = "job killed by owner"
		}
		if got := strings.Join(EndTexts(j), "|"); got != c.want {
			t.Errorf("%v: %q", c, got)
		}
	}
}

func TestJobLongPendingAndGPU(t *testing.T) {
	j, st := sample()
	j.State, j.Alloc, j.Dispatched, j.Began, j.Usage = "PEND", nil, 0, 0, nil
	j.Fgpu, j.MemoryLimit = 50, 1<<30
	got := string(JobLong(nil, j, st, true))
	for _, want := range []string{
		"\n PENDING REASONS:\n New job is waiting for scheduling;\n",
		"\n MEMLIMIT\n      1 G \n",
		"\n GPU REQUIREMENT DETAILS:\n Combined: num=1:mode=shared:mps=no:j_exclusive=no:fgpu=0.5\n Effective: num=1",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestParagraph(t *testing.T) {
	for n := range 300 {
		for _, unit := range []string{"x", "é", "語"} {
			text := strings.Repeat(unit, n)
			lines := strings.Split(strings.TrimSuffix(string(Paragraph(nil, text, true)), "\n"), "\n")
			for i, l := range lines {
				if w := len([]rune(l)); w > wrapAt || i < len(lines)-1 && w != wrapAt {
					t.Fatalf("%d times %s: line %d has %d characters", n, unit, i, w)
				}
			}
			if strings.Join(lines, "\n") != text && strings.ReplaceAll(strings.Join(lines, "\n"), "\n                     ", "") != text {
				t.Fatalf("%d times %s does not join again", n, unit)
			}
		}
	}
}
