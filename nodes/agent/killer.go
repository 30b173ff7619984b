package agent

import (
	"context"
	"syscall"
	"time"
)

// warnFor is how long a job has after SIGUSR2 at its run limit, at most; the interval where that is shorter.
const warnFor = 10 * time.Second

// killer ends a job step by step: INT, TERM, KILL, each an interval after the other (LSF's
// JOB_TERMINATE_INTERVAL). Its steps are taken by the attempt's own goroutine.
type killer struct {
	t     *attempt
	steps []syscall.Signal // still to send
	timer <-chan time.Time
}

// begin starts the sequence; at once skips to KILL. A sequence under way is not begun again.
func (k *killer) begin(atOnce bool) {
	if atOnce {
		k.steps = []syscall.Signal{syscall.SIGKILL}
		k.step()
		return
	}
	if k.steps == nil {
		k.steps = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}
		k.step()
	}
}

// warn sends USR2 first.
func (k *killer) warn() {
	if k.steps == nil {
		k.steps = []syscall.Signal{syscall.SIGUSR2, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}
		k.step()
	}
}

func (k *killer) next() <-chan time.Time { return k.timer }

// step sends the next signal. KILL is repeated until nothing is left: the attempt's end ends it.
func (k *killer) step() {
	sig := k.steps[0]
	if len(k.steps) > 1 {
		k.steps = k.steps[1:]
	}
	if k.t.snapshot().Stopped {
		k.t.stop(false) // a stopped process acts on no signal but KILL
	}
	if sig == syscall.SIGKILL {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if k.t.group != nil {
			if err := k.t.group.Kill(ctx); err != nil {
				k.t.a.cfg.Logger.Warn("job not killed, trying again", "attempt", k.t.key, "error", err)
			}
		}
		k.timer = time.After(2 * time.Second)
		return
	}
	k.t.signal(sig)
	wait := k.t.a.cfg.Interval
	if sig == syscall.SIGUSR2 {
		wait = min(wait, warnFor)
	}
	k.timer = time.After(wait)
}
