package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An app that a submission asked for and that dies is told of: in bjobs -l, and with its last words in bapp.
func TestAnAppThatDiesIsToldOf(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := c.quiet(); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "ttyd"), []byte("#!/bin/sh\necho cannot find my head >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	job := strings.TrimSpace(c.must(t, dir, `PATH="$PWD:$PATH" bsession -apps ttyd`))
	if err := c.waitState(job, "RUN"); err != nil {
		t.Fatal(err)
	}
	const want = "App ttyd could not be started: ttyd ended before it listened at port "
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		got := oneLine(c.must(t, dir, "bjobs -l "+job))
		if strings.Contains(got, want) && strings.Contains(got, "exit status 3") {
			if strings.Contains(got, "my head") {
				t.Errorf("bjobs -l, which everybody may read, has the app's own words:\n%s", got)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("bjobs -l lacks %q:\n%s", want, got)
		}
	}
	if got := oneLine(c.must(t, dir, "bhist -l "+job)); !strings.Contains(got, want) {
		t.Errorf("bhist -l lacks %q:\n%s", want, got)
	}
	out, problems, code := c.try(dir, "bapp -noheader "+job)
	if !strings.Contains(out, "failed") || !strings.Contains(problems, "cannot find my head") || code != 0 {
		t.Errorf("bapp: exit %d, %q, %q", code, out, problems)
	}
	// Apps are checked when a job is modified, too.
	waits := jobNumber.FindStringSubmatch(c.must(t, dir, "bsub -H -apps ttyd true"))[1]
	out, problems, code = c.try(dir, "bmod -apps no-such-app "+waits)
	if want := "no-such-app: the image has no such app; there are: "; code == 0 || !strings.Contains(out+problems, want) {
		t.Errorf("bmod -apps: exit %d, %q, %q", code, out, problems)
	}
	c.must(t, dir, "bmod -apps ttyd,vscode "+waits)
}
