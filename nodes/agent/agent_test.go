package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairslice/nodes"
	"fairslice/nodes/imagecache"
	"fairslice/nodes/shepherd"
	"fairslice/queue"
)

var program string // the shepherd

func TestMain(m *testing.M) {
	temp, err := os.MkdirTemp("", "agent")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(temp, "shepherd")
	build := exec.Command("go", "build", "-o", program, "fairslice/bin/shepherd")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build shepherd:", err)
		os.Exit(1)
	}
	time.Local = time.UTC
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(temp)
		os.Exit(code)
	}))
}

// site is a node whose batchd is the test.
type site struct {
	t     *testing.T
	dir   string
	boot  string
	files imagecache.Source // of the catalogue's images; nil: none
	agent *Agent
	end   context.CancelFunc

	mu      sync.Mutex
	reports []queue.Report
	ack     bool
}

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: t.TempDir(), boot: "boot-1", ack: true}
	s.start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		s.mu.Lock()
		s.ack = true
		s.mu.Unlock()
		s.agent.Connected(s, time.Hour)
		s.agent.EndJobs(ctx)
		if ctx.Err() != nil {
			t.Errorf("jobs could not be ended: %+v", s.agent.Hello().Attempts)
		}
		forgotten := func() bool { return len(s.agent.flock.keys()) == 0 }
		for end := time.Now().Add(10 * time.Second); !forgotten() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		s.stop()
		groups, err := s.agent.cgroups.List()
		if err != nil || len(groups) > 0 {
			t.Errorf("groups left: %v %v", groups, err)
		}
		for _, sub := range []string{"spool", "jobs"} {
			if left, _ := filepath.Glob(filepath.Join(s.dir, sub, "*[0-9]*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		}
		if keys := s.agent.flock.keys(); len(keys) > 0 {
			t.Errorf("left by the shepherd: %v", keys)
		}
	})
	return s
}

// start is noded's start, stop its death: jobs go on.
func (s *site) start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	var kept *imagecache.Cache
	if s.files != nil {
		var err error
		if kept, err = imagecache.Open(imagecache.Config{Dir: filepath.Join(s.dir, "images"), Pause: time.Millisecond, Now: time.Now}, s.files); err != nil {
			s.t.Fatal(err)
		}
	}
	a, err := New(ctx, Config{
		Images: kept,
		Dir:    s.dir, Shepherd: program, Interval: 300 * time.Millisecond, BootID: s.boot,
		Inventory:    func() (nodes.Node, error) { return nodes.Node{ID: "n1", Slots: 4}, nil },
		CgroupParent: fmt.Sprintf("fairslice-test/agent-%d", os.Getpid()),
		Logger:       slog.New(slog.NewTextHandler(s.t.Output(), nil)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.agent = a
	a.Restore()
	a.Connected(s, time.Hour)
}

func (s *site) stop() {
	s.agent.Disconnected(nil)
	s.end()
	s.agent.Stop()
}

// Report is batchd's side.
func (s *site) Report(r queue.Report) error {
	s.mu.Lock()
	s.reports = append(s.reports, r)
	ack := s.ack
	s.mu.Unlock()
	if ack {
		go s.agent.Acknowledged(r.ID, r.Attempt, r.Kind)
	}
	return nil
}

func (s *site) Heartbeat(queue.Heartbeat) error { return nil }

// report waits for the first report of this kind about a job.
func (s *site) report(job queue.JobID, kinds ...queue.ReportKind) queue.Report {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		all := slices.Clone(s.reports)
		s.mu.Unlock()
		for _, r := range all {
			if r.ID.Job == job && slices.Contains(kinds, r.Kind) {
				return r
			}
		}
	}
	s.t.Fatalf("job %d: no report of kind %v", job, kinds)
	return queue.Report{}
}

// job is an assignment of a script that runs in the site's directory.
func (s *site) job(id queue.JobID, script string) queue.Assignment {
	return queue.Assignment{
		ID: queue.ElementID{Job: id}, Attempt: 1, Spec: &queue.Spec{Command: script, Umask: 0o022},
		Owner:  queue.Identity{User: "ada", UID: os.Getuid(), GID: os.Getgid(), Home: s.dir},
		Script: []byte(script), CWD: s.dir, Stdout: filepath.Join(s.dir, fmt.Sprintf("out.%d", id)),
		Alloc: []nodes.Allocation{{Node: "n1", Slots: 1}},
	}
}

// assign gives the node a job and waits until it runs.
func (s *site) assign(as queue.Assignment) {
	s.t.Helper()
	s.agent.Assign(as)
	s.report(as.ID.Job, queue.ReportBegan)
}

func (s *site) output(id queue.JobID) string {
	text, err := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("out.%d", id)))
	if err != nil {
		s.t.Error(err)
	}
	return string(text)
}

func (s *site) wait(what string, fact func() bool) {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); !fact(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("not within 10 s: " + what)
		}
	}
}

func TestJobPastItsRunLimitIsWarnedAskedAndKilled(t *testing.T) {
	s := newSite(t)
	as := s.job(1, `for s in USR2 INT TERM; do trap "echo $s" $s; done; echo ready; while :; do sleep 0.02; done 2> /dev/null`)
	as.RunLimit = 500 * time.Millisecond
	s.assign(as)
	r := s.report(1, queue.ReportEnded)
	if want := "ready\nUSR2\nINT\nTERM\n"; s.output(1) != want {
		t.Errorf("signals seen: %q, want %q", s.output(1), want)
	}
	if r.Verdict != queue.TermRunLimit || !syscall.WaitStatus(r.Status).Signaled() || syscall.WaitStatus(r.Status).Signal() != syscall.SIGKILL {
		t.Errorf("%+v", r)
	}
}

func TestSignalOfTheRunLimitCanBeObeyed(t *testing.T) {
	s := newSite(t)
	as := s.job(1, `trap "echo saved; exit 3" USR2; while :; do sleep 0.02; done 2> /dev/null`)
	as.RunLimit = 300 * time.Millisecond
	s.assign(as)
	if r := s.report(1, queue.ReportEnded); r.Verdict != queue.TermRunLimit || r.Status != 3<<8 || s.output(1) != "saved\n" {
		t.Errorf("%+v %q", r, s.output(1))
	}
}

func TestJobAboveItsMemoryEnds(t *testing.T) {
	s := newSite(t)
	as := s.job(1, "head -c 300000000 /dev/zero | tail | wc -c; sleep 60")
	as.MemoryLimit = 64 << 20
	s.assign(as)
	if r := s.report(1, queue.ReportEnded); r.Verdict != queue.TermMemLimit {
		t.Errorf("%+v", r)
	}
}

func TestWhatAJobLeavesBehindIsEnded(t *testing.T) {
	s := newSite(t)
	s.assign(s.job(1, `setsid sh -c 'trap "" TERM; echo $$; exec sleep 300' & sleep 300 & sleep 0.2; exit 4`))
	r := s.report(1, queue.ReportEnded)
	if r.Status != 4<<8 || r.Verdict != queue.TermNone {
		t.Errorf("%+v", r)
	}
	pid := 0
	if _, err := fmt.Sscan(s.output(1), &pid); err != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
		t.Errorf("process %d: %v %v", pid, err, syscall.Kill(pid, 0))
	}
}

func TestPreExecution(t *testing.T) {
	s := newSite(t)
	again, abort, good := s.job(1, "echo job"), s.job(2, "echo job"), s.job(3, "echo job")
	again.Spec.PreExec, abort.Spec.PreExec, good.Spec.PreExec = "exit 7", "exit 99", "echo before > before; exit 0"
	for _, as := range []queue.Assignment{again, abort, good} {
		s.agent.Assign(as)
	}
	if r := s.report(1, queue.ReportFailed); r.JobFault || r.Code != "pre-exec" || !strings.Contains(r.Detail, "status 7") {
		t.Errorf("%+v", r)
	}
	if r := s.report(2, queue.ReportFailed); !r.JobFault || r.Verdict != queue.TermPreExecFail || r.ExitCode != 99 {
		t.Errorf("%+v", r)
	}
	if r := s.report(3, queue.ReportEnded); r.Status != 0 || s.output(3) != "job\n" {
		t.Errorf("%+v %q", r, s.output(3))
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "before")); err != nil || string(text) != "before\n" {
		t.Errorf("%q %v", text, err)
	}
}

func TestRestartedAgentKeepsItsJobs(t *testing.T) {
	s := newSite(t)
	fifo := filepath.Join(s.dir, "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	s.assign(s.job(1, "echo began; read x < go; exit 5"))
	s.assign(s.job(2, "echo began; sleep 0.1; exit 6"))
	s.stop()
	time.Sleep(200 * time.Millisecond) // 2 ends while nobody is there
	s.start()
	if r := s.report(2, queue.ReportEnded); r.Status != 6<<8 || r.Lost {
		t.Errorf("%+v", r)
	}
	s.agent.Assign(s.job(1, "echo twice")) // batchd may say it again
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if r := s.report(1, queue.ReportEnded); r.Status != 5<<8 || s.output(1) != "began\n" {
		t.Errorf("%+v %q", r, s.output(1))
	}
}

func TestRebootLosesWhatRanAndNothingElse(t *testing.T) {
	s := newSite(t)
	s.ack = false
	s.assign(s.job(1, "sleep 300"))
	s.agent.Assign(s.job(2, "exit 7"))
	s.report(2, queue.ReportEnded)
	s.wait("the end is recorded", func() bool { return s.agent.attempts["2.0.1"].snapshot().Stage == ended })
	pid := s.agent.attempts["1.0.1"].snapshot().Pid
	s.stop()
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.boot, s.reports, s.ack = "boot-2", nil, true
	s.start()
	if r := s.report(1, queue.ReportEnded); !r.Lost || r.Status != queue.NoStatus || r.Detail != "the node was rebooted" {
		t.Errorf("%+v", r)
	}
	if r := s.report(2, queue.ReportEnded); r.Lost || r.Status != 7<<8 {
		t.Errorf("%+v", r)
	}
}

// Whatever a dying shepherd was doing, each job is run once, and its end is known.
func TestShepherdsThatDieAroundStarts(t *testing.T) {
	s := newSite(t)
	const jobs = 40
	killed := make(chan int)
	stop := make(chan struct{})
	go func() {
		n := 0
		var last *shepherd.Client
		defer func() { killed <- n }()
		for {
			s.agent.flock.mu.Lock()
			c := s.agent.flock.current
			s.agent.flock.mu.Unlock()
			if c != nil && c != last && syscall.Kill(c.Pid(), syscall.SIGKILL) == nil {
				n, last = n+1, c
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(20+7*(n%5)) * time.Millisecond):
			}
		}
	}()
	for i := queue.JobID(1); i <= jobs; i++ {
		s.agent.Assign(s.job(i, fmt.Sprintf("echo run; sleep 0.0%d; exit %d", i%7, i)))
		time.Sleep(5 * time.Millisecond)
	}
	for i := queue.JobID(1); i <= jobs; i++ {
		r := s.report(i, queue.ReportEnded, queue.ReportFailed)
		if r.Kind != queue.ReportEnded || r.Status != int(i)<<8 || r.Lost || s.output(i) != "run\n" {
			t.Errorf("job %d: %+v, output %q", i, r, s.output(i))
		}
	}
	close(stop)
	t.Logf("%d shepherds killed", <-killed)
	s.wait("a shepherd is back", func() bool {
		s.agent.flock.mu.Lock()
		defer s.agent.flock.mu.Unlock()
		return s.agent.flock.current != nil
	})
}
