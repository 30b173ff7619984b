package test

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairslice/api/client"
	"fairslice/queue"
)

// The queue "idle" warns of a session after three seconds without use and ends it six seconds later; its hook says so in a file.
func TestIdleSessions(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := c.quiet(); err != nil {
			t.Error(err)
		}
	})
	lone := strings.TrimSpace(c.must(t, dir, "bsession -q idle"))
	used := strings.TrimSpace(c.must(t, dir, "bsession -q idle"))
	busy := strings.TrimSpace(c.must(t, dir, "bsession -q idle 'while :; do :; done'"))
	for _, job := range []string{lone, used, busy} {
		if err := c.waitState(job, "RUN"); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	attached := make(chan int, 1)
	go func() {
		_, _, code := c.try(dir, "bexec -n "+used+" sleep 15")
		attached <- code
	}()
	if err := c.waitState(lone, "EXIT"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TERM_IDLE: session killed after nobody used it for too long", "nobody has used the session since "} {
		if got := oneLine(c.must(t, dir, "bjobs -l "+lone)); !strings.Contains(got, want) {
			t.Errorf("bjobs -l lacks %q:\n%s", want, got)
		}
	}
	if got := oneLine(c.must(t, dir, "bhist -l "+lone)); !strings.Contains(got, "it will be ended at") || !strings.Contains(got, "TERM_IDLE") {
		t.Errorf("bhist -l lacks the warning or the end:\n%s", got)
	}
	told, err := os.ReadFile(filepath.Join(c.dir, "idle-warnings"))
	if err != nil || !strings.Contains(string(told), lone+" "+c.user+" ") {
		t.Errorf("the hook was told %q: %v", told, err)
	}
	if code := <-attached; code != 0 {
		t.Errorf("a program beside a session ended with %d: the session was not left alone", code)
	}
	if got := c.must(t, dir, "bjobs -noheader -o stat "+busy); strings.TrimSpace(got) != "RUN" {
		t.Errorf("a session that works is %s after %s", got, time.Since(began))
	}
	if err := c.waitState(used, "EXIT"); err != nil { // when nobody is there any more
		t.Fatal(err)
	}
	c.must(t, dir, "bkill "+busy)
	if err := c.waitState(busy, "EXIT"); err != nil {
		t.Fatal(err)
	}
}

// The warning stands on every terminal of the session, a key takes it back, and it is no part of the session's output.
func TestIdleWarningOnTheTerminal(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	const warning = "\r\nfairslice: this session is idle and ends at "
	s := onTerminal(t, c, dir, 24, 80, "bsub -q idle -Is /bin/sh")
	job := s.job()
	s.expect("<<Starting on ")
	s.send("echo be''gun\n")
	s.expect("begun")
	other := onTerminal(t, c, dir, 24, 80, "battach "+job)
	other.expect("begun")
	beside := onTerminal(t, c, dir, 24, 80, "bexec "+job+" /bin/sh")
	beside.send("echo be''side\n")
	beside.expect("beside")
	for _, terminal := range []*screen{s, other, beside} {
		terminal.expect(warning)
		terminal.expect(" unless it is used (a key, a program beside it, an app, the GPU).\r\n")
	}
	s.send("echo still $((40+2))\n")
	s.expect("still 42")
	const goesOn = "the session is in use again, and goes on: somebody is there"
	for deadline := time.Now().Add(patience); !strings.Contains(oneLine(c.must(t, dir, "bjobs -l "+job)), goesOn); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("bjobs -l lacks %q", goesOn)
		}
	}
	late := onTerminal(t, c, dir, 24, 80, "battach "+job)
	if got := late.expect("still 42"); strings.Contains(got, "idle") {
		t.Errorf("what was told is shown again: %q", got)
	}
	late.expect(warning) // the next one
	if err := c.waitState(job, "EXIT"); err != nil {
		t.Fatal(err)
	}
	if got := oneLine(c.must(t, dir, "bjobs -l "+job)); !strings.Contains(got, "TERM_IDLE") {
		t.Errorf("it ended otherwise:\n%s", got)
	}
}

// oneLine undoes the folding of long listings.
func oneLine(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		if trimmed := strings.TrimLeft(line, " "); len(line)-len(trimmed) > 10 {
			line = trimmed
		}
		out.WriteString(strings.TrimSuffix(line, "\n"))
	}
	return out.String()
}

// An extension counts for the job that runs: it lives past the run limit that it was started with, and ends at the new one.
func TestAnExtendedJobEndsAtItsNewLimit(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := c.quiet(); err != nil {
			t.Error(err)
		}
	})
	u, err := client.NewUsers(client.Config{Address: c.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// bsub -W and bextend count in minutes; the protocol does not.
	const limit, more = 8 * time.Second, 4 * time.Second
	spec := &queue.Spec{Command: "sleep 300", RunLimit: limit, MinSlots: 1, MaxSlots: 1, SubCWD: "/", SubHost: "here", Stdout: "/dev/null"}
	accepted, err := u.Submit(ctx, queue.Submission{Token: rand.Text(), Spec: spec, Script: []byte("exec sleep 300\n")})
	if err != nil {
		t.Fatal(err)
	}
	job := strconv.Itoa(int(accepted.Job))
	if err := c.waitState(job, "RUN"); err != nil {
		t.Fatal(err)
	}
	x, err := u.Extend(ctx, job, more, 0)
	if err != nil || !x.Granted || time.Duration(x.RunLimit) != limit+more {
		t.Fatalf("asked for %s more: %+v, %v", more, x, err)
	}
	if err := c.waitState(job, "EXIT"); err != nil {
		t.Fatal(err)
	}
	got := c.must(t, dir, "bjobs -noheader -o 'exit_reason run_time delimiter=\"|\"' "+job)
	reason, ran, _ := strings.Cut(strings.TrimSpace(got), "|")
	seconds, err := strconv.Atoi(strings.Fields(ran + " ?")[0])
	if !strings.Contains(reason, "TERM_RUNLIMIT") || err != nil || seconds < int((limit+more)/time.Second) {
		t.Errorf("with %s, and %s more, it ended as %q", limit, more, got)
	}
}

func TestExtensions(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := c.quiet(); err != nil {
			t.Error(err)
		}
	})
	job := jobNumber.FindStringSubmatch(c.must(t, dir, "bsub -q short -W 30 sleep 300"))[1]
	if err := c.waitState(job, "RUN"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		line, out, problems string
		code                int
	}{
		{"bextend JOB +15", "Job <JOB> may run for 0:45, until ", "", 0},
		{"bextend JOB 0:40", "", "Job <JOB>: its run limit is 0:45 already", 255},
		{"bextend JOB 2:00", "", "Job <JOB> is not extended: queue short: Cannot exceed queue's hard limit(s). Its run limit is 0:45, until ", 1},
		{"bextend JOB 2:00", "", "; the longest possible now is 1:00", 1},
		{"bextend -json JOB 1:00", `"RUN_LIMIT":3600`, "", 0},
		{"bextend 999999 +1", "", "Job <999999> is not found", 255},
		{"bhist -l JOB", "Run limit is extended by user or administrator", "", 0},
		{"bhist -l JOB", "to 60 min;", "", 0},
	} {
		out, problems, code := c.try(dir, strings.ReplaceAll(row.line, "JOB", job))
		want, wrong := strings.ReplaceAll(row.out, "JOB", job), strings.ReplaceAll(row.problems, "JOB", job)
		if !strings.Contains(oneLine(out), want) || !strings.Contains(problems, wrong) || code != row.code {
			t.Errorf("%s\n got  %d %q %q\n want %d %q %q", row.line, code, out, problems, row.code, want, wrong)
		}
	}
	c.must(t, dir, "bkill "+job)
	if err := c.waitState(job, "EXIT"); err != nil {
		t.Fatal(err)
	}
}
