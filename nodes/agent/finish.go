package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"fairslice/nodes/shepherd"
	"fairslice/queue"
)

// leftoverGrace is how long processes that a job left behind have after SIGTERM. They must go: what
// they hold is about to be given to others.
const leftoverGrace = 2 * time.Second

// finish gives the verdict, ends what is left, writes the job's report, and reports the end.
func (t *attempt) finish(x exit) {
	r := t.snapshot()
	usage, oom := t.finalUsage(x)
	rep := queue.Report{ID: t.id, Attempt: t.number, At: x.at, Kind: queue.ReportEnded, Usage: usage,
		Ran: r.Began, Status: queue.NoStatus, Lost: x.lost && r.Killing == "", Detail: x.detail, Verdict: r.Killing}
	if !x.lost {
		rep.Status = int(x.status.WaitStatus)
		rep.Detail = r.Detail
	}
	if r.Killing == "" && oom > 0 {
		// Also when the script went on without the process that was killed: its result cannot be trusted.
		rep.Verdict = queue.TermMemLimit
	}
	if rep.Verdict == "" && !x.lost && r.Assignment.Spec.Limits["c"] > 0 && syscall.WaitStatus(x.status.WaitStatus).Signal() == syscall.SIGXCPU {
		rep.Verdict = queue.TermCPULimit
	}
	if rep.Verdict == "" && !x.lost && oom == 0 && syscall.WaitStatus(x.status.WaitStatus).Signaled() && externally(syscall.WaitStatus(x.status.WaitStatus)) {
		rep.Verdict = queue.TermExternalSignal
	}
	if !r.BeganAcked && !r.Began.IsZero() {
		rep.Began = r.howBegan()
	}
	t.endLeftovers()
	t.releaseImage()
	t.removeOverlay()
	t.postExec(r, rep)
	if as := r.Assignment; as.Report && r.Stdout != "" && !x.lost {
		t.append(r.Stdout, jobReport(as, r, rep, t.finishedAt(x)))
	}
	t.mustUpdate(func(rec *record) { rec.Stage, rec.Final = ended, &rep })
	t.a.report(rep)
}

func (t *attempt) finishedAt(x exit) time.Time {
	if x.at.IsZero() {
		return t.a.cfg.Now()
	}
	return x.at
}

// externally says whether a signal came from outside: one that a program does not raise by its own faults.
func externally(s syscall.WaitStatus) bool {
	switch s.Signal() {
	case syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		return true
	}
	return false
}

// endLeftovers ends the processes that the job's command has left behind.
func (t *attempt) endLeftovers() {
	if t.group == nil {
		return
	}
	pids, err := t.group.Pids()
	if err != nil || len(pids) == 0 {
		return
	}
	if t.snapshot().Killing == "" {
		_ = t.group.Signal(syscall.SIGTERM)
		for deadline := time.Now().Add(leftoverGrace); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if pids, err = t.group.Pids(); err == nil && len(pids) == 0 {
				return
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := t.group.Kill(ctx); err != nil {
		t.a.cfg.Logger.Error("processes of an ended job could not be killed", "attempt", t.key, "error", err)
	}
}

// postExec runs -Ep, bounded in time, with the job's rights. How it ends changes nothing.
func (t *attempt) postExec(r record, rep queue.Report) {
	as := r.Assignment
	if as.Spec.PostExec == "" || t.group == nil {
		return
	}
	s := shepherd.Start{
		Key: t.key + ".post", Argv: []string{"/bin/sh", "-c", as.Spec.PostExec}, Dir: r.CWD,
		Env: append(append(t.environment(as, r.CWD), t.group.Env()...), fmt.Sprintf("LSB_JOBEXIT_STAT=%d", max(rep.Status, 0)),
			"LSB_JOBEXIT_INFO="+string(rep.Verdict)),
		UID: as.Owner.UID, GID: as.Owner.GID, Groups: as.Owner.Groups, Setuid: t.a.cfg.SwitchUser,
		Umask: as.Spec.Umask, Cgroup: t.group.Ref(),
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer t.a.flock.forget(s.Key)
	exits, err := t.startBeside(ctx, s)
	if err != nil {
		t.a.cfg.Logger.Warn("post-execution command not started", "attempt", t.key, "error", err)
		return
	}
	select {
	case <-exits:
	case <-ctx.Done():
		_ = t.group.Kill(context.Background())
	}
}

// append writes text to a file of the job with its user's rights.
func (t *attempt) append(path string, text []byte) {
	// A FIFO that nobody reads must not keep the job from ending.
	f, err := shepherd.OpenAs(t.cred(), path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o666)
	if err == nil {
		_ = f.SetWriteDeadline(time.Now().Add(5 * time.Second)) // files of the other kinds have none
		_, err = f.Write(text)
		if err2 := f.Close(); err == nil {
			err = err2
		}
	}
	if err != nil {
		t.a.cfg.Logger.Info("job report not written", "attempt", t.key, "file", path, "error", err)
	}
}

// writeFailure tells the user, where the output would be, why the job did not run.
func (t *attempt) writeFailure(f *failure) {
	as := t.snapshot().Assignment
	if as.Spec.Interactive.Session() {
		return
	}
	file := as.Stdout
	if file == "" {
		dir := filepath.Join(as.Owner.Home, ".lsbatch")
		t.makeFallback(dir)
		file = filepath.Join(dir, t.id.String()+".out")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "fairslice: the job was not run: %s\n", f.detail)
	if as.Report {
		now := t.a.cfg.Now()
		status := queue.NoStatus
		if f.exitCode != 0 {
			status = f.exitCode << 8
		}
		rep := queue.Report{Status: status, Verdict: f.verdict}
		r := t.snapshot()
		r.Began = now
		b.Write(jobReport(as, r, rep, now))
	}
	t.append(file, b.Bytes())
}
