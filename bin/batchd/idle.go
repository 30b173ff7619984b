package main

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"fairslice/queue/engine"
)

// An idle hook has hookTime to end; at most maxHooks run at once, and at most maxHooksWaiting wait. What is more is left out: the
// warning itself stands in the job's history.
const (
	hookTime        = 30 * time.Second
	maxHooks        = 4
	maxHooksWaiting = 1000
)

// idleHook runs the site's program for each warning of an idle session.
type idleHook struct {
	log     *slog.Logger
	waiting chan hookCall
}

type hookCall struct {
	program string
	about   engine.IdleWarning
}

func newIdleHook(log *slog.Logger) *idleHook {
	return &idleHook{log.With("service", "idle hook"), make(chan hookCall, maxHooksWaiting)}
}

// warned has a program run, "" for none. It never blocks.
func (h *idleHook) warned(program string, w engine.IdleWarning) {
	if program == "" {
		return
	}
	select {
	case h.waiting <- hookCall{program, w}:
	default:
		h.log.Warn("idle hook left out: too many wait", "job", w.ID.String())
	}
}

// run runs the programs until ctx ends, which ends them.
func (h *idleHook) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for range maxHooks {
		running.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case c := <-h.waiting:
					h.call(ctx, c.program, c.about)
				}
			}
		})
	}
}

// call runs the program with nothing in its environment but a PATH and what it is to know.
func (h *idleHook) call(ctx context.Context, program string, w engine.IdleWarning) {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.WaitDelay = time.Second // for what it has started, and left behind
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"FAIRSLICE_JOB=" + w.ID.String(), "FAIRSLICE_OWNER=" + w.Owner, "FAIRSLICE_JOB_NAME=" + w.Name,
		"FAIRSLICE_IDLE_SINCE=" + w.Since.Format(time.RFC3339), "FAIRSLICE_DEADLINE=" + w.Deadline.Format(time.RFC3339),
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		h.log.Warn("idle hook failed", "job", w.ID.String(), "program", program, "error", err, "output", fmt.Sprintf("%.500q", out))
	}
}
