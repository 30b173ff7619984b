package agent

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairslice/queue"
)

// enterProgram is the server beside jobs, built once.
var enterProgram = sync.OnceValues(func() (string, error) {
	to := filepath.Join(filepath.Dir(program), "enter")
	build := exec.Command("go", "build", "-o", to, "fairslice/nodes/apptainer/enter")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	return to, build.Run()
})

// wire is a pipe whose other side is the test.
type wire struct {
	in   chan queue.PipeFrame // closed when the user goes
	mu   sync.Mutex
	out  strings.Builder
	err  strings.Builder // apart from out: two pipes have no order between them
	exit int             // -1 before it
	fail string
}

func (w *wire) Recv() (queue.PipeFrame, error) {
	f, ok := <-w.in
	if !ok {
		return f, io.EOF
	}
	return f, nil
}

func (w *wire) Send(o queue.PipeOutput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.Write(o.Data)
	w.err.Write(o.Err)
	if o.Exited {
		w.exit = o.Status
	}
	return nil
}

func (w *wire) Fail(msg string) error { w.fail = msg; return nil }
func (w *wire) Close() error          { return nil }

func (s *site) exec(job queue.JobID, args ...string) *wire {
	w := &wire{in: make(chan queue.PipeFrame), exit: -1}
	o := queue.PipeOrder{Kind: "exec", ID: queue.ElementID{Job: job}, Attempt: 1, Exec: &queue.ExecOrder{}}
	for _, a := range args {
		o.Exec.Args = append(o.Exec.Args, []byte(a))
	}
	s.agent.OpenPipe(o, w)
	close(w.in)
	return w
}

// The server of a job on the bare node is there when it is first asked for, outlives noded, and goes with the job: the site's
// cleanup looks whether anything is left.
func TestTheServerBesideAJobOutlivesNoded(t *testing.T) {
	s := newSite(t)
	enter, err := enterProgram()
	if err != nil {
		t.Fatal(err)
	}
	s.agent.cfg.Enter = enter
	s.assign(s.job(1, "while [ ! -e go ]; do sleep 0.02; done; exit 5"))
	s.assign(s.job(2, "sleep 1000"))
	if w := s.exec(1, "sh", "-c", "echo $LSB_JOBFILENAME; echo oops >&2; exit 7"); w.exit != 7<<8 || !strings.HasSuffix(w.out.String(), "script\n") || w.err.String() != "oops\n" {
		t.Errorf("%q %q %q exit %x", w.out.String(), w.err.String(), w.fail, w.exit)
	}
	if w := s.exec(1, "no-such-program"); w.exit != exitNotFound<<8 {
		t.Errorf("%q %q exit %x", w.out.String(), w.fail, w.exit)
	}
	s.stop()
	s.start()
	s.agent.cfg.Enter = enter
	if w := s.exec(1, "echo", "again"); w.out.String() != "again\n" || w.exit != 0 {
		t.Errorf("%q %q exit %x", w.out.String(), w.fail, w.exit)
	}
	if w := s.exec(2, "echo", "anew"); w.out.String() != "anew\n" || w.exit != 0 {
		t.Errorf("%q %q exit %x", w.out.String(), w.fail, w.exit)
	}
	s.agent.Order(queue.Order{ID: queue.ElementID{Job: 2}, Attempt: 1, Op: queue.OrderStop})
	s.report(2, queue.ReportStopped)
	if w := s.exec(2, "true"); !strings.Contains(w.fail, "suspended") {
		t.Errorf("beside a suspended job: %q %q", w.out.String(), w.fail)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.report(1, queue.ReportEnded); syscall.WaitStatus(r.Status).ExitStatus() != 5 {
		t.Errorf("the job ended with %+v", r)
	}
	began := time.Now()
	if w := s.exec(1, "true"); w.fail == "" || time.Since(began) > 5*time.Second {
		t.Errorf("after the end: %q %q after %s", w.out.String(), w.fail, time.Since(began))
	}
}
