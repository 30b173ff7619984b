package shepherd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const stranger = 12345 // a user id that owns nothing here

var program string

func TestMain(m *testing.M) {
	temp, err := os.MkdirTemp("", "shepherd")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(temp, "shepherd")
	build := exec.Command("go", "build", "-o", program, "fairslice/bin/shepherd")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build shepherd:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(temp)
		os.Exit(code)
	}))
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// spawn starts a shepherd that is surely gone, with its jobs, after the test.
func spawnIn(t testing.TB, dir string) *Client {
	t.Helper()
	c, err := Spawn(deadline(t), program, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := deadline(t)
		jobs, _ := c.List(ctx)
		for _, j := range jobs {
			if j.Exited == nil && j.Pid > 0 {
				unix.Kill(-j.Pid, unix.SIGKILL)
			}
		}
		unix.Kill(c.Pid(), unix.SIGKILL)
		for range c.Events() {
		}
		c.Close()
	})
	return c
}

// wide is a directory every user can reach, unlike t.TempDir.
func wide(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "shepherd-test")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func shell(key, script string) Start {
	return Start{Key: key, Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Umask: 0o022}
}

func start(t testing.TB, c *Client, st Start) Started {
	t.Helper()
	s, err := c.Start(deadline(t), st)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// exit waits for the next exit and acknowledges it.
func exit(t testing.TB, c *Client) Exited {
	t.Helper()
	select {
	case e, ok := <-c.Events():
		if !ok {
			t.Fatal("the shepherd is gone")
		}
		if err := c.Ack(deadline(t), e.Key); err != nil {
			t.Fatal(err)
		}
		return e
	case <-deadline(t).Done():
		t.Fatal("no exit")
	}
	panic("unreachable")
}

func run(t testing.TB, c *Client, st Start) syscall.WaitStatus {
	t.Helper()
	start(t, c, st)
	return syscall.WaitStatus(exit(t, c).WaitStatus)
}

func text(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestStatusIsKeptThenTold(t *testing.T) {
	dir := t.TempDir()
	c := spawnIn(t, dir)
	before := time.Now()
	s := start(t, c, shell("1.1", "exec sleep 300"))
	if got, ok, err := ReadStarted(dir, "1.1"); err != nil || !ok || got.Pid != s.Pid || got.Ticks == 0 {
		t.Errorf("run file: %+v %v %v", got, ok, err)
	}
	if err := c.Signal(deadline(t), "1.1", syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e := <-c.Events()
	if ws := syscall.WaitStatus(e.WaitStatus); !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v", ws)
	}
	if e.Began.Before(before) || !e.Ended.After(e.Began) {
		t.Errorf("times: %v to %v", e.Began, e.Ended)
	}
	disk, ok, err := ReadStatus(dir, "1.1")
	if err != nil || !ok || disk.WaitStatus != e.WaitStatus || !disk.Ended.Equal(e.Ended) {
		t.Errorf("status file: %+v %v %v", disk, ok, err)
	}
	if err := c.Signal(deadline(t), "1.1", syscall.SIGTERM); !errors.Is(err, ErrUnknown) {
		t.Errorf("signal to an ended job: %v", err)
	}
	if err := c.Ack(deadline(t), "1.1"); err != nil {
		t.Error(err)
	}
	if err := c.Ack(deadline(t), "1.1"); !errors.Is(err, ErrUnknown) {
		t.Errorf("second acknowledgement: %v", err)
	}
	if ws := run(t, c, shell("1.2", "exit 3")); ws.ExitStatus() != 3 {
		t.Errorf("ended with %v", ws)
	}
	start(t, c, shell("1.3", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; kill -SEGV $$"))
	if e := exit(t, c); syscall.WaitStatus(e.WaitStatus).Signal() != syscall.SIGSEGV || e.Utime+e.Stime <= 0 || e.MaxRSS < 1<<20 {
		t.Errorf("%+v", e)
	}
}

func TestStartErrors(t *testing.T) {
	dir, work := t.TempDir(), wide(t)
	c := spawnIn(t, dir)
	plain := filepath.Join(work, "plain")
	if err := os.WriteFile(plain, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name  string
		st    Start
		code  Code
		errno syscall.Errno
	}{
		{"missing directory", Start{Argv: []string{"true"}, Dir: "/nonexistent"}, BadCwd, unix.ENOENT},
		{"missing program", Start{Argv: []string{"/nonexistent"}}, BadExec, unix.ENOENT},
		{"missing program in PATH", Start{Argv: []string{"nonexistent"}, Env: []string{"PATH=/bin"}}, BadExec, unix.ENOENT},
		{"not a program", Start{Argv: []string{plain}}, BadExec, unix.EACCES},
		{"no words", Start{}, BadExec, unix.ENOENT},
		{"missing stdin", Start{Argv: []string{"true"}, Stdin: "/nonexistent"}, BadStdin, unix.ENOENT},
		{"bad output", Start{Argv: []string{"true"}, Stdout: Output{Path: "/nonexistent/x"}}, BadOutput, unix.ENOENT},
		{"bad group", Start{Argv: []string{"true"}, Cgroup: "hope"}, Internal, 0},
	} {
		x.st.Key = "k"
		_, err := c.Start(deadline(t), x.st)
		var failed *StartError
		if !errors.As(err, &failed) || failed.Code != x.code || failed.Errno != x.errno {
			t.Errorf("%s: %v", x.name, err)
		}
		if _, err := os.Stat(runFile(dir, "k")); err == nil {
			t.Errorf("%s: a run file is left", x.name)
		}
	}
	if jobs, err := c.List(deadline(t)); err != nil || len(jobs) > 0 {
		t.Errorf("left: %v, %v", jobs, err)
	}
	_, err := c.Start(deadline(t), Start{Key: "../x", Argv: []string{"true"}})
	if err == nil {
		t.Error("a bad key was taken")
	}
}

func TestKeyStartsOnce(t *testing.T) {
	dir := t.TempDir()
	one, other := spawnIn(t, dir), spawnIn(t, dir)
	start(t, one, shell("7.1", "exec sleep 300"))
	for _, c := range []*Client{one, other} {
		var failed *StartError
		if _, err := c.Start(deadline(t), shell("7.1", "exit")); !errors.As(err, &failed) || failed.Code != Exists {
			t.Errorf("second start: %v", err)
		}
	}
}

func TestOutputs(t *testing.T) {
	work := wide(t)
	c := spawnIn(t, t.TempDir())
	st := shell("1", "echo out; echo err >&2")
	st.Dir, st.Stdout = work, Output{Path: "log"}
	for range 2 {
		if s := start(t, c, st); s.StdoutPath != filepath.Join(work, "log") || s.StderrPath != s.StdoutPath || s.Fallback != "" {
			t.Errorf("%+v", s)
		}
		exit(t, c)
		st.Key += "x"
	}
	if got := text(t, filepath.Join(work, "log")); got != "out\nerr\nout\nerr\n" {
		t.Errorf("appended: %q", got)
	}
	st.Stdout.Truncate, st.Stderr.Path = true, "errors"
	st.Key = "2"
	run(t, c, st)
	if out, errs := text(t, filepath.Join(work, "log")), text(t, filepath.Join(work, "errors")); out != "out\n" || errs != "err\n" {
		t.Errorf("separate: %q, %q", out, errs)
	}
	st.Key, st.Stdout.Path, st.Stderr.Path, st.Fallback = "3", "missing/log", "missing/err", filepath.Join(work, ".lsbatch")
	s := start(t, c, st)
	exit(t, c)
	if s.StdoutPath != filepath.Join(work, ".lsbatch/3.out") || s.StderrPath != filepath.Join(work, ".lsbatch/3.err") ||
		!strings.Contains(s.Fallback, "missing/log") {
		t.Errorf("%+v", s)
	}
	if text(t, s.StdoutPath) != "out\n" || text(t, s.StderrPath) != "err\n" {
		t.Error("the fallback files are wrong")
	}
	in := shell("4", "cat")
	in.Stdin, in.Stdout.Path = filepath.Join(work, "errors"), filepath.Join(work, "copy")
	run(t, c, in)
	if got := text(t, in.Stdout.Path); got != "err\n" {
		t.Errorf("stdin: %q", got)
	}
}

func TestUsersRights(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	work := wide(t)
	closed := filepath.Join(work, "root-only")
	private := filepath.Join(work, "his")
	shared := filepath.Join(work, "group")
	for dir, mode := range map[string]os.FileMode{closed: 0o755, private: 0o700, shared: 0o770} {
		if err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(private, stranger, stranger), os.Chown(shared, 0, stranger+1)); err != nil {
		t.Fatal(err)
	}
	c := spawnIn(t, t.TempDir())
	as := func(key, script string) Start {
		st := shell(key, script)
		st.Setuid, st.UID, st.GID, st.Groups, st.Umask = true, stranger, stranger, []int{stranger, stranger + 1}, 0o027
		return st
	}
	st := as("1", "id -u; id -G; umask; pwd")
	st.Dir, st.Stdout.Path = private, "log"
	run(t, c, st)
	if got, want := text(t, filepath.Join(private, "log")), fmt.Sprintf("%d\n%d %d\n0027\n%s\n", stranger, stranger, stranger+1, private); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	info, err := os.Stat(filepath.Join(private, "log"))
	if err != nil || info.Mode() != 0o640 || info.Sys().(*syscall.Stat_t).Uid != stranger {
		t.Errorf("%v %v", info.Mode(), err)
	}
	st = as("2", "true")
	st.Stdout.Path = filepath.Join(shared, "log")
	if s := start(t, c, st); s.Fallback != "" {
		t.Error("the supplementary group's right is missing: ", s.Fallback)
	}
	exit(t, c)
	st.Key, st.Stdout.Path = "3", filepath.Join(closed, "log")
	var failed *StartError
	if _, err := c.Start(deadline(t), st); !errors.As(err, &failed) || failed.Code != BadOutput || failed.Errno != unix.EACCES {
		t.Errorf("output where the user may not write: %v", err)
	}
	st.Fallback = filepath.Join(private, ".lsbatch")
	if s := start(t, c, st); s.StdoutPath != filepath.Join(private, ".lsbatch/3.out") {
		t.Errorf("%+v", s)
	}
	exit(t, c)
	st = as("4", "true")
	st.GID, st.UID, st.Groups, st.Dir = stranger+2, stranger+2, nil, private
	if _, err := c.Start(deadline(t), st); !errors.As(err, &failed) || failed.Code != BadCwd || failed.Errno != unix.EACCES {
		t.Errorf("directory the user may not enter: %v", err)
	}
	testOpenAs(t, private, closed)
}

func testOpenAs(t *testing.T, private, closed string) {
	cred := Cred{UID: stranger, GID: stranger, Setuid: true, Umask: 0o077}
	f, err := OpenAs(cred, filepath.Join(private, "report"), os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if info, err := os.Stat(f.Name()); err != nil || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != stranger {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := OpenAs(cred, filepath.Join(closed, "report"), os.O_CREATE|os.O_WRONLY, 0o666); !errors.Is(err, unix.EACCES) {
		t.Errorf("open as a stranger: %v", err)
	}
	if err := MkdirAs(cred, filepath.Join(private, "dir"), 0o755); err != nil {
		t.Error(err)
	}
	if err := MkdirAs(cred, filepath.Join(closed, "dir"), 0o755); !errors.Is(err, unix.EACCES) {
		t.Errorf("mkdir as a stranger: %v", err)
	}
	// Nothing of it may stick to this process.
	if err := os.WriteFile(filepath.Join(closed, "mine"), nil, 0o644); err != nil {
		t.Error(err)
	}
}

func TestJobInheritsNothing(t *testing.T) {
	work := wide(t)
	leak, err := unix.Open("/dev/zero", unix.O_RDONLY, 0) // no close-on-exec: the daemon itself may inherit such ones
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	c := spawnIn(t, t.TempDir())
	busy := shell("busy", "exec sleep 300")
	busy.Pipe = true
	start(t, c, busy)
	st := shell("1", `ls -l /proc/self/fd | grep -c -- '->'; grep -E 'SigBlk|SigIgn' /proc/self/status; ps -o sid=,pgid= -p $$; echo $$ $FAIRSLICE_ATTEMPT`)
	st.Stdout.Path = filepath.Join(work, "log")
	s := start(t, c, st)
	exit(t, c)
	got := strings.Fields(text(t, st.Stdout.Path))
	pid := fmt.Sprint(s.Pid)
	// ls itself has the directory open as a fourth.
	want := []string{"4", "SigBlk:", "0000000000000000", "SigIgn:", "0000000000000000", pid, pid, pid, "1"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	c := spawnIn(t, dir)
	other, err := Connect(deadline(t), Sockets(dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	if ws := run(t, c, shell("1", "exit 4")); ws.ExitStatus() != 4 {
		t.Error(ws)
	}
}
