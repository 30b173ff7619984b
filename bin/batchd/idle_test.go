package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairslice/queue"
	"fairslice/queue/engine"
)

// The site's program is told of a warning by its environment, which has nothing else of the daemon's; one that hangs ends with
// the daemon, and nobody waits for one.
func TestIdleHook(t *testing.T) {
	t.Setenv("SECRET", "1")
	dir := t.TempDir()
	fifo, program := filepath.Join(dir, "told"), filepath.Join(dir, "hook")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nenv | sort > "+fifo+".part; mv "+fifo+".part "+fifo+"; echo > "+fifo+".done; exec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := newIdleHook(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); h.run(ctx) }()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h.warned("", engine.IdleWarning{ID: queue.ElementID{Job: 6}})
	h.warned(program, engine.IdleWarning{ID: queue.ElementID{Job: 7, Index: 2}, Owner: "ada", Name: "x[2]", Since: at, Deadline: at.Add(time.Hour)})
	var told []byte
	for deadline := time.Now().Add(10 * time.Second); len(told) == 0; told, _ = os.ReadFile(fifo) {
		if time.Now().After(deadline) {
			t.Fatal("the program was not run")
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, want := range []string{"FAIRSLICE_JOB=7[2]\n", "FAIRSLICE_OWNER=ada\n", "FAIRSLICE_JOB_NAME=x[2]\n", "FAIRSLICE_IDLE_SINCE=2026-03-01T12:00:00Z\n", "FAIRSLICE_DEADLINE=2026-03-01T13:00:00Z\n"} {
		if !strings.Contains(string(told), want) {
			t.Errorf("it was not told %q, but\n%s", want, told)
		}
	}
	if strings.Contains(string(told), "SECRET") {
		t.Errorf("it was told what is the daemon's:\n%s", told)
	}
	for range 2 * maxHooksWaiting { // more than can wait: the caller does not
		h.warned("/nonexistent/hook", engine.IdleWarning{})
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("a program that hangs holds up the end")
	}
}
