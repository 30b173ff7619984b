package agent

import (
	"context"
	"fmt"
	"syscall"

	"fairslice/nodes/shepherd"
	"fairslice/queue"
)

// preExec runs -E before the job, with the job's rights, in its group. Failing sends the job back to
// wait; LSF's abort status (LSB_EXIT_PRE_ABORT, 99) ends it.
func (t *attempt) preExec(ctx context.Context, as queue.Assignment, job shepherd.Start) error {
	if as.Spec.PreExec == "" {
		return nil
	}
	s := job
	s.Key = t.key + ".pre"
	s.Argv = []string{"/bin/sh", "-c", as.Spec.PreExec}
	s.Env, s.TTY, s.Pipe, s.Stdin, s.Fallback = append(t.environment(as, job.Dir), t.group.Env()...), false, false, "", ""
	s.Stdout, s.Stderr = shepherd.Output{}, shepherd.Output{}
	defer t.a.flock.forget(s.Key)
	exits, err := t.startBeside(ctx, s)
	if err != nil {
		return t.startFailure(err, as)
	}
	for {
		select {
		case x := <-exits:
			return preExecVerdict(x)
		case o := <-t.orders:
			if o.Op == queue.OrderKill || o.Op == queue.OrderForget {
				_ = t.group.Kill(context.Background())
				return t.killedEarly(o)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// startBeside starts a command that goes with the job, or takes up the one that an earlier noded has started.
func (t *attempt) startBeside(ctx context.Context, s shepherd.Start) (<-chan exit, error) {
	_, started, exits, err := t.a.flock.resume(ctx, s.Key)
	if err == nil && !started {
		_, exits, err = t.a.flock.start(ctx, s)
	}
	return exits, err
}

func preExecVerdict(x exit) error {
	status := syscall.WaitStatus(x.status.WaitStatus)
	switch {
	case x.lost:
		return &failure{code: "pre-exec", detail: x.detail}
	case status.Exited() && status.ExitStatus() == 0:
		return nil
	case status.Exited() && status.ExitStatus() == 99:
		return &failure{code: "pre-exec", detail: "the pre-execution command asked for the job's end (exit status 99)",
			jobFault: true, verdict: queue.TermPreExecFail, exitCode: 99}
	}
	return &failure{code: "pre-exec", detail: fmt.Sprintf("the pre-execution command ended with status %d", x.status.WaitStatus>>8&0xff)}
}
