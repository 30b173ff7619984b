package test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// screen is a command on a terminal of its own.
type screen struct {
	t    *testing.T
	cmd  *exec.Cmd
	file *os.File // our end
	tty  *os.File // its end
	done chan int

	mu   sync.Mutex
	text bytes.Buffer
	read int // how much of it expect has looked at
}

func onTerminal(t *testing.T, c *cluster, dir string, rows, cols uint16, line string) *screen {
	t.Helper()
	file, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(file, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, file: file, tty: tty, done: make(chan int, 1)}
	s.cmd = exec.Command("/bin/sh", "-c", "exec "+line)
	s.cmd.Dir, s.cmd.Env = dir, append(c.environment(dir), "TERM=xterm")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(s, file)
	}()
	go func() {
		_ = s.cmd.Wait()
		s.done <- s.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = tty.Close()
		_ = file.Close()
		<-copied
		if t.Failed() {
			t.Logf("the terminal showed:\n%s", s.text.String())
		}
		if err := c.quiet(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) send(text string) {
	s.t.Helper()
	if _, err := s.file.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits until the text is shown, after what was expected before, and returns what stood before it.
func (s *screen) expect(text string) string {
	s.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		before, _, ok := strings.Cut(s.text.String()[s.read:], text)
		if ok {
			s.read += len(before) + len(text)
		}
		s.mu.Unlock()
		if ok {
			return before
		}
	}
	s.t.Fatalf("%q is not shown", text)
	return ""
}

func (s *screen) exits(want int) {
	s.t.Helper()
	select {
	case got := <-s.done:
		if got != want {
			s.t.Errorf("exit %d, want %d", got, want)
		}
	case <-time.After(patience):
		s.t.Fatal("it does not end")
	}
}

// modes of the terminal, to see whether they are given back.
func (s *screen) modes() unix.Termios {
	m, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *m
}

// job is the number of the job that bsub has just named.
func (s *screen) job() string {
	s.t.Helper()
	s.expect("Job <")
	return s.expect("> is submitted")
}

func TestTerminalSession(t *testing.T) {
	c := running(t)
	s := onTerminal(t, c, t.TempDir(), 33, 91, "bsub -Is /bin/sh")
	before := s.modes()
	s.job()
	s.expect("<<Starting on ")
	s.send("stty size; tty | cut -c1-8; echo TERM=$TERM\n")
	s.expect("33 91")
	s.expect("/dev/pts")
	s.expect("TERM=xterm")
	if s.modes().Lflag&unix.ECHO != 0 {
		t.Error("the terminal is not raw during the session")
	}
	// A new size reaches the job.
	if err := pty.Setsize(s.file, &pty.Winsize{Rows: 44, Cols: 101}); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	s.send("until test \"$(stty size)\" = '44 101'; do :; done; echo re''sized\n")
	s.expect("resized")
	// Ctrl-C ends the command, not the session.
	s.send("sleep 1000; echo inter''rupted\n")
	s.expect("sleep 1000")
	s.send("echo re''ady\n") // read by the shell when the sleep has ended
	time.Sleep(200 * time.Millisecond)
	s.send("\x03")
	s.send("echo still $((40+2)); exit 7\n")
	s.expect("still 42")
	s.expect("<<Job is finished>>")
	s.exits(7)
	if s.modes() != before {
		t.Error("the terminal was not given back as it was")
	}
}

// The job of a session goes on when its bsub is killed, and battach comes back to it.
func TestSessionSurvivesItsClient(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	s := onTerminal(t, c, dir, 24, 80, "bsub -Ip /bin/sh")
	job := s.job()
	s.expect("<<Starting on ")
	s.send("VALUE=kept; echo be''gun\n")
	s.expect("begun")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.exits(-1)
	if out := c.must(t, dir, "bjobs -noheader -o stat "+job); out != "RUN\n" {
		t.Fatalf("without its client the session is %q", out)
	}
	again := onTerminal(t, c, dir, 24, 80, "battach "+job)
	again.send("echo value is $VALUE; exit 3\n")
	again.expect("value is kept")
	again.exits(3)
}

// The session goes on when batchd is killed: batchd dev starts it again, and bsub comes back by itself.
func TestSessionSurvivesTheDaemon(t *testing.T) {
	c := running(t)
	s := onTerminal(t, c, t.TempDir(), 24, 80, "bsub -Is /bin/sh")
	s.job()
	s.expect("<<Starting on ")
	s.send("VALUE=kept; echo be''gun\n")
	s.expect("begun")
	if err := c.killDaemon(); err != nil {
		t.Fatal(err)
	}
	// Typed before bsub is back it is kept, and sent then.
	s.send("echo value is $VALUE; exit 4\n")
	s.expect("value is kept")
	s.exits(4)
}

// bsub -I keeps the streams apart, and ends input with its own.
func TestPipedSession(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	out, errs, code := c.try(dir, `seq 20000 | bsub -I 'wc -l; echo to stderr >&2; exit 9'`)
	if _, rest, _ := strings.Cut(out, "\n"); strings.TrimSpace(rest) != "20000" || code != 9 {
		t.Errorf("exit %d, %q", code, out)
	}
	if !strings.Contains(errs, "to stderr\n") || strings.Contains(out, "to stderr") {
		t.Errorf("stderr %q", errs)
	}
	// A megabyte comes back whole and in order.
	out, errs, code = c.try(dir, `bsub -I 'seq 150000' 2>/dev/null < /dev/null | tail -n +2 | cksum; seq 150000 | cksum`)
	if lines := strings.Fields(out); code != 0 || len(lines) != 4 || lines[0] != lines[2] || lines[1] != lines[3] {
		t.Errorf("exit %d: %q %q", code, out, errs)
	}
}

// Ctrl-C at a session without a terminal goes to the job.
func TestInterruptGoesToTheJob(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	s := onTerminal(t, c, dir, 24, 80, `bsub -I 'trap "echo caught; exit 11" INT; echo re""ady; while :; do sleep 0.05; done'`)
	s.job()
	s.expect("\nready")
	s.send("\x03")
	s.expect("caught")
	s.exits(11)
	// While it waits, it takes the job back.
	c.must(t, dir, "badmin qinact normal")
	w := onTerminal(t, c, dir, 24, 80, "bsub -Is true")
	job := w.job()
	w.expect("<<Waiting for dispatch ...>>")
	if n, err := strconv.Atoi(job); err != nil || n < 100 {
		t.Errorf("job %q", job)
	}
	w.send("\x03")
	w.expect("<<Terminated while pending>>")
	w.exits(126)
}
