package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fairslice/nodes/cgroup"
	"fairslice/nodes/shepherd"
	"fairslice/queue"
)

// attempt is one run of one element on this node. Its goroutine owns its life; rec is shared with
// those who ask, under mu.
type attempt struct {
	a      *Agent
	key    string
	id     queue.ElementID
	number int
	orders chan queue.Order
	gone   chan struct{} // closed when run returns

	serving sync.Mutex  // held while the server beside the job is started or forgotten
	server  <-chan exit // of the one that this noded has started, or taken up; guarded by serving

	drained   chan struct{} // closed when somebody has seen all the output of a session
	drainOnce sync.Once

	mu       sync.Mutex
	fetching *queue.AttemptFetch // while its image is on its way
	rec      *record
	usage    meter
	group    *cgroup.Group
	restored bool

	terminals map[queue.Pipe]bool // of people at the session; see tell
}

func newAttempt(a *Agent, key string, r *record) *attempt {
	return &attempt{a: a, key: key, id: r.Assignment.ID, number: r.Assignment.Attempt, rec: r,
		orders: make(chan queue.Order, 64), gone: make(chan struct{}), drained: make(chan struct{})}
}

func (t *attempt) drain() { t.drainOnce.Do(func() { close(t.drained) }) }

// update changes the record and writes it to the spool.
func (t *attempt) update(change func(*record)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t.rec)
	return t.a.spool.update(t.key, t.rec)
}

// mustUpdate is update where there is nothing better to do than to go on: the fact is also in memory.
func (t *attempt) mustUpdate(change func(*record)) {
	if err := t.update(change); err != nil {
		t.a.cfg.Logger.Error("spool record not written", "attempt", t.key, "error", err)
	}
}

func (t *attempt) snapshot() record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *t.rec
}

func (t *attempt) state() queue.AttemptState {
	r := t.snapshot()
	s := queue.AttemptState{ID: t.id, Attempt: t.number, State: string(r.Stage)}
	if r.Stopped {
		s.State = "stopped"
	}
	return s
}

// run lives the attempt's life from whatever stage the record is in. It returns when the end is
// recorded, or when the agent stops.
func (t *attempt) run(ctx context.Context) {
	defer close(t.gone)
	r := t.snapshot()
	var exits <-chan exit
	var err error
	switch {
	case r.Stage == ended:
		t.reportAgain()
		return
	case r.BootID != t.a.bootID:
		t.finish(exit{lost: true, detail: "the node was rebooted", at: t.a.cfg.Now()})
		return
	case t.restored:
		exits, err = t.resume(ctx)
	default:
		exits, err = t.start(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			t.fail(err)
		}
		return
	}
	t.watch(ctx, exits)
}

// exit is how the command ended.
type exit struct {
	status shepherd.Exited
	lost   bool   // nobody knows the exit status
	detail string // why lost
	at     time.Time
}

// watch waits for the end and meanwhile obeys orders, enforces limits and measures.
func (t *attempt) watch(ctx context.Context, exits <-chan exit) {
	sample := time.NewTicker(t.sampleInterval())
	defer sample.Stop()
	tell := t.tellLater()
	k := &killer{t: t}
	if r := t.snapshot(); r.Killing != "" {
		k.begin(false) // noded died while it was killing
	}
	for {
		limit := t.limitTimer()
		select {
		case x := <-exits:
			t.finish(x)
			return
		case o := <-t.orders:
			if tell != nil { // what the order leads to is reported behind it
				t.tellBegan()
				tell = nil
			}
			t.obey(o, k)
		case <-k.next():
			k.step()
		case <-limit:
			t.hitLimit(k)
		case <-tell:
			t.tellBegan()
			tell = nil
		case <-sample.C:
			t.sample(k)
		case <-ctx.Done():
			return
		}
	}
}

// shortest is how long a job must run for its beginning to be written down and reported by itself: that of a shorter
// one goes with its end, which is half the work of both daemons for a job that does little.
const shortest = 50 * time.Millisecond

// tellLater tells when the beginning is due. Whoever looks at a session does so at once.
func (t *attempt) tellLater() <-chan time.Time {
	r := t.snapshot()
	if !r.untold {
		return nil
	}
	if r.Assignment.Spec.Interactive.Session() {
		t.tellBegan()
		return nil
	}
	return time.After(shortest - t.a.cfg.Now().Sub(r.Began))
}

// tellBegan writes down and reports that the command runs.
func (t *attempt) tellBegan() {
	t.mustUpdate(func(r *record) { r.untold = false })
	t.a.report(t.beganReport(t.snapshot()))
}

// order queues an order; a flood of them is cut off, since each is repeated by who needs it.
func (t *attempt) order(o queue.Order) {
	if o.Op == queue.OrderForget {
		t.mu.Lock()
		done := t.rec.Stage == ended
		t.mu.Unlock()
		if done {
			t.a.forget(t)
			return
		}
	}
	select {
	case t.orders <- o:
	case <-t.gone:
	default:
		t.a.cfg.Logger.Warn("order dropped: too many at once", "attempt", t.key, "op", string(o.Op))
	}
}

func (t *attempt) obey(o queue.Order, k *killer) {
	switch o.Op {
	case queue.OrderKill:
		t.mustUpdate(func(r *record) {
			if r.Killing == "" || o.AtOnce {
				r.Killing = o.Verdict
			}
		})
		k.begin(o.AtOnce)
	case queue.OrderForget:
		t.mustUpdate(func(r *record) { r.Killing, r.Detail = queue.TermZombi, "batchd no longer knows this attempt" })
		k.begin(true)
	case queue.OrderSignal:
		t.signal(syscall.Signal(queue.SignalNumber(o.Signal)))
	case queue.OrderStop:
		t.stop(true)
	case queue.OrderResume:
		t.stop(false)
	case queue.OrderLimit:
		t.mustUpdate(func(r *record) { r.RunLimit, r.MemoryLimit = o.RunLimit, o.MemoryLimit })
		if t.group != nil {
			if _, err := t.a.cgroups.Create(t.key, t.groupLimits()); err != nil {
				t.a.cfg.Logger.Warn("new memory limit not set", "attempt", t.key, "error", err)
			}
		}
	case queue.OrderTell:
		t.tell(o.Text)
	}
}

// signal sends to every process of the job.
func (t *attempt) signal(sig syscall.Signal) {
	if t.group == nil || sig == 0 {
		return
	}
	if err := t.signalAll(sig); err != nil {
		t.a.cfg.Logger.Debug("signal not delivered", "attempt", t.key, "signal", sig.String(), "error", err)
	}
}

// stop freezes or thaws every process of the job; the time does not count against its run limit.
func (t *attempt) stop(on bool) {
	if t.group == nil || t.snapshot().Stopped == on {
		return
	}
	act := t.group.Thaw
	if on {
		act = t.group.Freeze
	}
	if err := act(); err != nil {
		t.a.cfg.Logger.Warn("job not stopped or resumed", "attempt", t.key, "stop", on, "error", err)
		return
	}
	now := t.a.cfg.Now()
	t.mustUpdate(func(r *record) {
		r.Stopped = on
		if on {
			r.StoppedAt = now
		} else {
			r.StoppedFor += now.Sub(r.StoppedAt)
		}
	})
	t.a.report(queue.Report{ID: t.id, Attempt: t.number, At: now, Kind: queue.ReportStopped, Stopped: on})
}

// limitTimer fires when the run limit or the deadline is reached; never while stopped or being killed.
func (t *attempt) limitTimer() <-chan time.Time {
	r := t.snapshot()
	if r.Stopped || r.Killing != "" || r.Began.IsZero() {
		return nil
	}
	var at time.Time
	if l := r.RunLimit; l > 0 {
		at = r.Began.Add(l + r.StoppedFor)
	}
	if d := r.Assignment.Deadline; !d.IsZero() && (at.IsZero() || d.Before(at)) {
		at = d
	}
	if at.IsZero() {
		return nil
	}
	return time.After(at.Sub(t.a.cfg.Now()))
}

// hitLimit begins the end for the run limit or the deadline: SIGUSR2 first, as LSF does, so that a
// program can save its work, then INT, TERM and KILL.
func (t *attempt) hitLimit(k *killer) {
	r := t.snapshot()
	verdict := queue.TermRunLimit
	if d := r.Assignment.Deadline; !d.IsZero() && !d.After(t.a.cfg.Now()) {
		verdict = queue.TermDeadline
	}
	t.mustUpdate(func(r *record) { r.Killing = verdict })
	k.warn()
}

// fail reports that the command never ran.
func (t *attempt) fail(err error) {
	f := asFailure(err)
	t.a.cfg.Logger.Info("job not started", "attempt", t.key, "code", f.code, "detail", f.detail)
	rep := &queue.Report{ID: t.id, Attempt: t.number, At: t.a.cfg.Now(), Kind: queue.ReportFailed,
		Code: f.code, Detail: f.detail, JobFault: f.jobFault, ExitCode: f.exitCode, Verdict: f.verdict}
	if t.group != nil {
		_ = t.group.Kill(context.Background())
		t.liftLimits()
		_ = t.group.Remove()
	}
	t.releaseImage()
	t.removeOverlay()
	if err := t.removeRegion(); err != nil {
		t.a.cfg.Logger.Warn("attempt left files behind", "attempt", t.key, "error", err)
	}
	if f.jobFault {
		t.writeFailure(f)
	}
	t.mustUpdate(func(r *record) { r.Stage, r.Final = ended, rep })
	t.a.report(*rep)
}

// reportAgain repeats what has not been acknowledged.
func (t *attempt) reportAgain() {
	r := t.snapshot()
	switch {
	case r.Stage == ended && r.Final != nil:
		t.a.report(*r.Final)
	case r.Stage == running && !r.BeganAcked && !r.untold:
		t.a.report(t.beganReport(r))
	}
}

func (t *attempt) beganReport(r record) queue.Report {
	return queue.Report{ID: t.id, Attempt: t.number, At: r.Began, Kind: queue.ReportBegan, Began: r.howBegan()}
}

func (t *attempt) acknowledged(kind queue.ReportKind) {
	switch kind {
	case queue.ReportBegan:
		t.mu.Lock()
		t.rec.BeganAcked = true // repeated at worst once after a restart: not worth a write
		t.mu.Unlock()
	case queue.ReportEnded, queue.ReportFailed:
		if r := t.snapshot(); r.Stage == ended {
			t.a.forget(t)
		}
	}
}

// removeDir removes a directory that mostly holds just these files; RemoveAll asks the kernel three times as much.
func removeDir(dir string, files ...string) error {
	for _, f := range files {
		_ = unix.Unlink(filepath.Join(dir, f))
	}
	if unix.Rmdir(dir) == nil {
		return nil
	}
	return os.RemoveAll(dir)
}

func (t *attempt) jobDir() string { return filepath.Join(t.a.cfg.Dir, "jobs", t.key) }

// removeFiles removes everything of an ended attempt, its record last.
func (t *attempt) removeFiles() error {
	t.liftLimits()
	if g, ok := t.a.cgroups.Open(t.key); ok { // also that of an attempt which had ended in an earlier life of noded
		if err := g.Remove(); err != nil {
			t.a.cfg.Logger.Warn("group not removed", "attempt", t.key, "error", err)
		}
	}
	t.a.flock.forget(t.key)
	t.forgetServer()
	t.removeOverlay()
	err := removeDir(t.jobDir(), "script", "hosts")
	if err2 := t.removeRegion(); err == nil {
		err = err2
	}
	if err2 := t.a.spool.remove(t.key); err == nil {
		err = err2
	}
	return err
}

func (t *attempt) String() string { return fmt.Sprintf("attempt %s", t.key) }
