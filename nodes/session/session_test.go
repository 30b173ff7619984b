package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is the server, too, as enter is.
func TestMain(m *testing.M) {
	if os.Args[0] == ProgramName {
		os.Exit(Main(os.Args))
	}
	if len(os.Args) > 1 && os.Args[1] == appWord {
		os.Exit(appMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// job is a process with a server beside it.
type job struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	server *os.Process
}

func newJob(t *testing.T) *job {
	t.Helper()
	dir := t.TempDir()
	j := &job{t: t, dir: dir, cmd: exec.Command("sleep", "1000")}
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "OF_THE_JOB=yes", "SHELL=/bin/sh")
	j.server, err = os.StartProcess(exe, Args(dir, dir, j.cmd.Process.Pid), &os.ProcAttr{Env: env, Files: []*os.File{nil, nil, os.Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = j.cmd.Process.Kill()
		_ = j.cmd.Wait()
		if state, err := j.server.Wait(); err == nil && !state.Success() && !t.Failed() && state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("the server ended with %v", state)
		}
	})
	return j
}

func (j *job) dial() net.Conn {
	j.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("unix", filepath.Join(j.dir, SocketName))
		if err == nil {
			return c
		}
		if time.Now().After(deadline) {
			j.t.Fatal(err)
		}
	}
}

func (j *job) open(q Request) (*Conn, error) {
	c, err := Open(j.dial(), &q)
	if err == nil {
		j.t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func args(list ...string) [][]byte {
	out := make([][]byte, len(list))
	for i, a := range list {
		out[i] = []byte(a)
	}
	return out
}

// result reads to the exit.
func result(t *testing.T, c *Conn) (out, problems string, status syscall.WaitStatus) {
	t.Helper()
	for {
		o, err := c.Next()
		if err != nil {
			t.Fatalf("%v after %q %q", err, out, problems)
		}
		out += string(o.Data)
		problems += string(o.Err)
		if o.Exited {
			return out, problems, syscall.WaitStatus(o.Status)
		}
	}
}

func (j *job) run(r Run) (out, problems string, status syscall.WaitStatus) {
	j.t.Helper()
	c, err := j.open(Request{Run: &r})
	if err != nil {
		j.t.Fatal(err)
	}
	return result(j.t, c)
}

func TestAProgramBesideAJob(t *testing.T) {
	j := newJob(t)
	out, problems, status := j.run(Run{Args: args("sh", "-c", `echo $OF_THE_JOB $MORE; pwd; echo oops >&2; printf %s "$1"; exit 7`, "x", "\xff \n'"), Env: args("MORE=1", "MORE=2")})
	if want := "yes 2\n" + j.dir + "\n\xff \n'"; out != want || problems != "oops\n" || status.ExitStatus() != 7 {
		t.Errorf("%q %q %v", out, problems, status)
	}
	if out, _, _ := j.run(Run{Args: args("pwd"), Dir: []byte("/")}); out != "/\n" {
		t.Errorf("in / it is %q", out)
	}
	if _, _, status := j.run(Run{Args: args("sh", "-c", "kill -KILL $$")}); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("killed, it is %v", status)
	}
	// The job's descriptors and signals are not the program's, and it is a session of its own. Signals 32 and 33 are glibc's own, whose
	// posix_spawn leaves them ignored: so they are below make.
	out, _, _ = j.run(Run{Args: args("sh", "-c", `ls /proc/self/fd | wc -l; grep ^SigBlk /proc/self/status; echo $((0x$(sed -n 's/^SigIgn:.//p' /proc/self/status) & ~0x180000000)); [ $$ = $(cut -d' ' -f6 /proc/$$/stat) ] && echo leads`)})
	if want := "4\nSigBlk:\t0000000000000000\n0\nleads\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func TestInputAndItsEnd(t *testing.T) {
	j := newJob(t)
	c, err := j.open(Request{Run: &Run{Args: args("cat")}})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB, four windows
	go func() {
		free := Window
		for rest := text; len(rest) > 0; {
			if free == 0 {
				return // the reader below goes on for us
			}
			n := min(len(rest), free, 10_000)
			if c.Input([]byte(rest[:n])) != nil {
				return
			}
			rest, free = rest[n:], free-n
		}
	}()
	var got strings.Builder
	sent := Window
	for got.Len() < len(text) {
		o, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		got.Write(o.Data)
		if n := min(o.Taken, len(text)-sent); n > 0 {
			if err := c.Input([]byte(text[sent : sent+n])); err != nil {
				t.Fatal(err)
			}
			sent += n
		}
	}
	if got.String() != text {
		t.Error("what came back is something else")
	}
	if err := c.EndInput(); err != nil {
		t.Fatal(err)
	}
	if _, _, status := result(t, c); status != 0 {
		t.Error(status)
	}
}

// A program that reads nothing must still hear a signal.
func TestASignalPassesInputThatNobodyReads(t *testing.T) {
	j := newJob(t)
	c, err := j.open(Request{Run: &Run{Args: args("sleep", "1000")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Input(make([]byte, Window)); err != nil {
		t.Fatal(err)
	}
	if err := c.Signal(int(unix.SIGINT)); err != nil {
		t.Fatal(err)
	}
	if _, _, status := result(t, c); status.Signal() != unix.SIGINT {
		t.Errorf("it ended with %v", status)
	}
	// More than the window is no input any more: the connection ends, and the program with it.
	if c, err = j.open(Request{Run: &Run{Args: args("sh", "-c", "trap 'exit 9' HUP; while :; do sleep 0.01; done")}}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		_ = c.Input(make([]byte, Window)) // refused at the latest when the server has closed
	}
	if _, _, status := result(t, c); status.ExitStatus() != 9 && status.Signal() != unix.SIGHUP {
		t.Errorf("it ended with %v", status)
	}
}

func TestATerminal(t *testing.T) {
	j := newJob(t)
	c, err := j.open(Request{Run: &Run{TTY: true, Rows: 33, Cols: 77, Term: "vt100"}}) // the shell
	if err != nil {
		t.Fatal(err)
	}
	seen := ""
	until := func(text string) {
		t.Helper()
		for !strings.Contains(seen, text) {
			o, err := c.Next()
			if err != nil || o.Exited {
				t.Fatalf("%v %v; it showed %q", err, o, seen)
			}
			seen += string(o.Data)
		}
		seen = ""
	}
	type_ := func(text string) {
		t.Helper()
		if err := c.Input([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	type_("stty size; echo $TERM; tty\n")
	until("33 77\r\nvt100\r\n/dev/")
	if err := c.Resize(44, 101); err != nil {
		t.Fatal(err)
	}
	type_("stty size\n")
	until("44 101")
	// Who says so is in the foreground already: a shell between two commands may miss the signal.
	type_("sh -c 'echo begun; exec sleep 1000'\n")
	until("begun\r\n")
	type_("\x03")
	type_("echo status $?\n")
	until("status 130")
	type_("exit 3\n")
	if _, _, status := result(t, c); status.ExitStatus() != 3 {
		t.Error(status)
	}
	// The end of input is what its user would type.
	if c, err = j.open(Request{Run: &Run{TTY: true, Args: args("cat")}}); err != nil {
		t.Fatal(err)
	}
	type_("a line\n")
	until("a line\r\na line\r\n")
	if err := c.EndInput(); err != nil {
		t.Fatal(err)
	}
	if _, _, status := result(t, c); status != 0 {
		t.Error(status)
	}
}

func TestWhoLeavesTakesTheProgramAlong(t *testing.T) {
	for _, tty := range []bool{false, true} {
		j := newJob(t)
		mark := filepath.Join(j.dir, "hung up")
		c, err := j.open(Request{Run: &Run{TTY: tty, Args: args("sh", "-c", "trap 'echo > \"$0\"; exit' HUP; echo ready; while :; do sleep 0.01; done", mark)}})
		if err != nil {
			t.Fatal(err)
		}
		if o, err := c.Next(); err != nil || !strings.HasPrefix(string(o.Data), "ready") {
			t.Fatal(err, o)
		}
		_ = c.Close()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(mark); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("it goes on")
			}
		}
	}
}

// Processes in the background do not hold up the end, and what was written before it is not lost.
func TestTheEndDoesNotWaitForTheBackground(t *testing.T) {
	j := newJob(t)
	out, _, status := j.run(Run{Args: args("sh", "-c", "sleep 1000 & head -c 300000 /dev/zero | tr '\\0' x; exit 3")})
	if len(out) != 300000 || status.ExitStatus() != 3 {
		t.Errorf("%d bytes, %v", len(out), status)
	}
}

func TestRefusals(t *testing.T) {
	j := newJob(t)
	if err := os.WriteFile(filepath.Join(j.dir, "data"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		q    Request
		kind Refusal
		want string
	}{
		{Request{Run: &Run{Args: args("no-such-program")}}, NotFound, "not in the session's PATH"},
		{Request{Run: &Run{Args: args("./data")}}, Denied, "permission denied"},
		{Request{Run: &Run{Args: args("true"), Dir: []byte("/nowhere")}}, NotFound, "/nowhere"},
		{Request{Run: &Run{Args: args("true"), Dir: []byte("data")}}, NotFound, "not a directory"},
		{Request{Run: &Run{Args: args("")}}, Invalid, "empty"},
		{Request{Run: &Run{Args: args("a\x00b")}}, Invalid, "zero byte"},
		{Request{Run: &Run{Args: args("true"), Env: args("=x")}}, Invalid, "NAME=value"},
		{Request{Dial: &Dial{Port: 70000}}, Invalid, "1 to 65535"},
		{Request{Dial: &Dial{Path: "relative"}}, Invalid, "absolute"},
		{Request{Dial: &Dial{Path: j.dir + "/nobody"}}, NotFound, "no such file"},
		{Request{Copy: &Copy{}}, Invalid, "one way"},
		{Request{}, Invalid, "0 things"},
		{Request{Run: &Run{}, Dial: &Dial{Port: 1}}, Invalid, "2 things"},
		{Request{Run: &Run{Args: args(strings.Repeat("x", 2<<20))}}, Invalid, "are allowed"},
	} {
		_, err := j.open(row.q)
		var no *RefusedError
		if !errors.As(err, &no) || no.Kind != row.kind || !strings.Contains(no.Text, row.want) {
			t.Errorf("%.80s: %v, want %q of kind %c", fmt.Sprintf("%+v", row.q), err, row.want, row.kind)
		}
	}
}

func TestDial(t *testing.T) {
	j := newJob(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unixSocket, err := net.Listen("unix", filepath.Join(j.dir, "app"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []net.Listener{tcp, unixSocket} {
		defer l.Close()
		go func() { // says back what it heard, when that is over
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					heard, _ := io.ReadAll(c)
					_, _ = c.Write(append([]byte("heard "), heard...))
				}()
			}
		}()
	}
	for _, q := range []Dial{{Port: tcp.Addr().(*net.TCPAddr).Port}, {Path: unixSocket.Addr().String()}} {
		c, err := j.open(Request{Dial: &q})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Input([]byte("hello")), c.EndInput()); err != nil {
			t.Fatal(err)
		}
		got, ended := "", false
		for {
			o, err := c.Next()
			if err != nil {
				break // both ends have ended
			}
			got += string(o.Data)
			ended = ended || o.End
		}
		if got != "heard hello" || !ended {
			t.Errorf("%s: %q, ended %v", &q, got, ended)
		}
	}
}

// The server does not outlive the job's first process, whatever runs beside it.
func TestTheServerEndsWithTheJob(t *testing.T) {
	j := newJob(t)
	c, err := j.open(Request{Run: &Run{Args: args("sleep", "1000")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGTSTP} {
		if err := j.server.Signal(sig); err != nil { // what the job's processes get does not end it
			t.Fatal(err)
		}
	}
	if out, _, _ := j.run(Run{Args: args("echo", "there")}); out != "there\n" {
		t.Errorf("after signals: %q", out)
	}
	if err := j.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := c.Next(); err != nil {
			break
		}
	}
}

// Whoever is neither root nor the user is not even answered.
func TestStrangersAreNotServed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be somebody else")
	}
	j := newJob(t)
	j.dial().Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// The other way round, since root is served everywhere: a server of another user than the caller's.
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(dir, "server")
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, data, 0o755); err != nil {
		t.Fatal(err)
	}
	pid := j.cmd.Process.Pid
	server, err := os.StartProcess(copied, Args(dir, "/", pid), &os.ProcAttr{Files: []*os.File{nil, nil, os.Stderr},
		Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 31001, Gid: 31001}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.cmd.Process.Kill(); _, _ = server.Wait() }()
	socket := filepath.Join(dir, SocketName)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		st, err := os.Stat(socket)
		if err == nil && st.Mode().Perm() == 0o600 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err, st)
		}
	}
	if err := os.Chmod(socket, 0o666); err != nil { // so that only the server's own look at its peer is left
		t.Fatal(err)
	}
	probe := exec.Command("python3", "-c", `
import socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(sys.argv[1])
try:
    s.sendall(b'q' + (2).to_bytes(4, 'big') + b'{}')
    print(len(s.recv(100)))
except OSError:
    print(0)`, socket)
	for uid, want := range map[uint32]bool{31002: false, 31001: true, 0: true} {
		cmd := *probe
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.Output()
		if err != nil {
			t.Skip("no python to speak as others: ", err)
		}
		if answered := strings.TrimSpace(string(out)) != "0"; answered != want {
			t.Errorf("user %d: answered %v", uid, answered)
		}
	}
}

func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	w := &writer{w: &b}
	_ = w.frame(frameInput, []byte("abc"))
	_ = w.number(frameExit, 256)
	f.Add(b.Bytes())
	f.Add([]byte("q\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newReader(bytes.NewReader(in))
		var out bytes.Buffer
		w := &writer{w: &out}
		for {
			kind, payload, err := r.next()
			if err != nil {
				break
			}
			if err := w.frame(kind, payload); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(in, out.Bytes()) {
			t.Errorf("%q was read as %q", in, out.Bytes())
		}
		if cap(r.buf) > maxRequest {
			t.Errorf("a frame of %d bytes was taken", cap(r.buf))
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"run":{"args":["bHM="],"env":["QT1i"],"tty":true}}`))
	f.Add([]byte(`{"dial":{"port":8888}}`))
	f.Add([]byte(`{"copy":{"to":"Lw==","into":true}} x`))
	f.Fuzz(func(t *testing.T, in []byte) {
		q, err := parseRequest(in)
		if err == nil && q.check() != nil {
			t.Errorf("%q was taken: %+v", in, q)
		}
	})
}
