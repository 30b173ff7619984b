package mps

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const uuid = "GPU-5badd04f-0495-89a9-a3e2-bcfb703d9f3e"

// The simulated nvidia-cuda-mps-control, and a program that is a client as the simulated driver is one.
var control, client string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mps-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	control, client = filepath.Join(dir, "nvidia-cuda-mps-control"), filepath.Join(dir, "client")
	for _, args := range [][]string{
		{control, "../simdriver/mps_control.c", "../simdriver/mps_limits.c"},
		{client, "testdata/client.c", "../simdriver/mps.c", "../simdriver/mps_limits.c"},
	} {
		cc := exec.Command("cc", append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined",
			"-fno-sanitize-recover", "-pthread", "-o"}, args...)...)
		if out, err := cc.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "cc: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// config is of a daemon of its own, in a folder whose name is short enough for sockets.
func config(t *testing.T) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "mps-")
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir, 0o755)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return Config{Binary: control, UUID: uuid, PipeDir: filepath.Join(dir, "pipe"), LogDir: filepath.Join(dir, "log"), MinPause: time.Millisecond}
}

func start(t *testing.T, c Config) *Daemon {
	t.Helper()
	d, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := d.Quit(ctx); err != nil {
			t.Error(err)
		}
	})
	return d
}

// kill ends the control daemon as nothing else does. (Process 0 would be all of this test.)
func kill(t *testing.T, d *Daemon) {
	t.Helper()
	pid := d.State().Pid
	if pid <= 0 {
		t.Fatalf("no daemon to kill: %+v", d.State())
	}
	syscall.Kill(pid, syscall.SIGKILL)
}

// process is a running client.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Reader
	in    io.Writer
}

func attach(t *testing.T, c Config, env ...string) (p *process, answer string) {
	t.Helper()
	return begin(t, exec.Command(client, "0", uuid), append([]string{"CUDA_MPS_PIPE_DIRECTORY=" + c.PipeDir}, env...))
}

// begin starts a program that answers, and returns its first line.
func begin(t *testing.T, cmd *exec.Cmd, env []string) (p *process, answer string) {
	t.Helper()
	cmd.Env = env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p = &process{t, cmd, bufio.NewReader(out), in}
	t.Cleanup(p.kill)
	return p, p.read()
}

func (p *process) read() string {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatalf("client: %v", err)
	}
	return strings.TrimSpace(line)
}

func (p *process) check() string { return p.ask("") }

func (p *process) ask(command string) string {
	p.t.Helper()
	fmt.Fprintln(p.in, command)
	return p.read()
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

func server(t *testing.T, d *Daemon) Server {
	t.Helper()
	list, err := d.Servers(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("servers: %v, %v", list, err)
	}
	return list[0]
}

func TestClientsGetTheirShare(t *testing.T) {
	c := config(t)
	d := start(t, c)
	if s := d.State(); !s.Ready || s.Pid == 0 || s.Adopted || s.Restarts != 0 {
		t.Errorf("state %+v", s)
	}
	if list, err := d.Servers(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("before the first client: %v, %v", list, err)
	}
	for _, test := range []struct {
		name string
		env  []string
		want string // result, client, SMs of 100, MiB
	}{
		{"no limit", nil, "0 1 100 -1"},
		{"a quarter, rounded up to a unit of SMs", []string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25"}, "0 1 26 -1"},
		{"a fraction", []string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12.5"}, "0 1 14 -1"},
		{"memory by UUID", []string{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=" + uuid + "=2048M"}, "0 1 100 2048"},
		{"memory by number, in gigabytes", []string{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1=9G,0=2GB"}, "0 1 100 2048"},
		{"of another GPU", []string{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=GPU-other=1M"}, "0 1 100 -1"},
		{"nonsense", []string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=0"}, "1 0 100 -1"},
		{"nonsense memory", []string{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2T"}, "1 0 100 -1"},
	} {
		if _, got := attach(t, c, test.env...); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	if s := server(t, d); s.Status != StatusActive || len(s.Clients) != 6 {
		t.Errorf("server %+v", s)
	}
}

func TestADaemonsLimitIsAboveItsClients(t *testing.T) {
	c := config(t)
	d := start(t, c)
	if err := d.SetDefaultPercentage(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	if err := d.SetDefaultMemory(t.Context(), 3<<30); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []error{d.SetDefaultPercentage(t.Context(), 0), d.SetDefaultPercentage(t.Context(), 100.5), d.SetDefaultMemory(t.Context(), 1<<20-1)} {
		if bad == nil {
			t.Error("nonsense was set")
		}
	}
	check := func(when string) {
		t.Helper()
		if _, got := attach(t, c, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=9G,"+uuid+"=9G"); got != "0 1 50 3072" {
			t.Errorf("%s: more than the daemon allows: %s", when, got)
		}
		if _, got := attach(t, c, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G"); got != "0 1 10 1024" {
			t.Errorf("%s: less than the daemon allows: %s", when, got)
		}
	}
	check("first")
	kill(t, d)
	if _, err := d.Await(t.Context(), func(s State) bool { return s.Ready && s.Restarts == 1 }); err != nil {
		t.Fatal(err)
	}
	check("after a restart")
}

func TestADaemonThatDiesIsStartedAgain(t *testing.T) {
	c := config(t)
	d := start(t, c)
	before := d.State()
	p, got := attach(t, c)
	if got != "0 1 100 -1" {
		t.Fatalf("attached: %s", got)
	}
	for n := 1; n <= 3; n++ {
		kill(t, d)
		after, err := d.Await(t.Context(), func(s State) bool { return s.Ready && s.Restarts == n })
		if err != nil || after.Pid == before.Pid {
			t.Fatalf("%+v, %v", after, err)
		}
	}
	if got := p.check(); got != "806" {
		t.Errorf("a client of the one that died sees %s", got)
	}
	if _, got := attach(t, c); got != "0 1 100 -1" {
		t.Errorf("a new client: %s", got)
	}
}

func TestFaultOfOneIsFaultOfAll(t *testing.T) {
	c := config(t)
	d := start(t, c)
	a, _ := attach(t, c)
	b, _ := attach(t, c)
	if got := a.check(); got != "0" {
		t.Fatalf("healthy: %s", got)
	}
	if err := d.tell(t.Context(), fmt.Sprint("simulate_fault ", server(t, d).Pid)); err != nil {
		t.Fatal(err)
	}
	if s := server(t, d); s.Status != StatusFault {
		t.Errorf("server %+v", s)
	}
	if got := a.check() + " " + b.check(); got != "719 719" {
		t.Errorf("its clients see %s", got)
	}
	if _, got := attach(t, c); got != "807 0 100 -1" {
		t.Errorf("a new client: %s", got)
	}
	a.kill()
	b.kill()
	for server(t, d).Status != StatusActive { // the daemon learns of their end when it next looks at its sockets
	}
	if _, got := attach(t, c); got != "0 1 100 -1" {
		t.Errorf("when they have gone: %s", got)
	}
}

func TestTerminatedClient(t *testing.T) {
	c := config(t)
	d := start(t, c)
	a, _ := attach(t, c)
	b, _ := attach(t, c)
	if err := d.tell(t.Context(), fmt.Sprint("terminate_client ", server(t, d).Pid, " ", a.cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if got := a.check() + " " + b.check(); got != "810 0" {
		t.Errorf("they see %s", got)
	}
}

func TestServerThatDies(t *testing.T) {
	c := config(t)
	d := start(t, c)
	p, _ := attach(t, c)
	syscall.Kill(server(t, d).Pid, syscall.SIGKILL)
	for {
		if list, err := d.Servers(t.Context()); err != nil {
			t.Fatal(err)
		} else if len(list) == 0 {
			break
		}
	}
	if got := p.check(); got != "806" {
		t.Errorf("its client sees %s", got)
	}
	if s := d.State(); !s.Ready || s.Restarts != 0 {
		t.Errorf("state %+v", s)
	}
	if _, got := attach(t, c); got != "0 1 100 -1" {
		t.Errorf("a new client: %s", got)
	}
}

func TestAnotherUserWaits(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	c := config(t)
	d := start(t, c)
	os.Chmod(filepath.Dir(client), 0o755)
	first, _ := attach(t, c)
	cmd := exec.Command(client, "0", uuid)
	cmd.Env = []string{"CUDA_MPS_PIPE_DIRECTORY=" + c.PipeDir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	before := server(t, d)
	first.kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "0 1 100 -1\n" {
		t.Fatalf("when the first has gone: %q, %v", line, err)
	}
	after := server(t, d)
	info, err := os.Stat(fmt.Sprint("/proc/", after.Pid))
	if err != nil || after.Pid == before.Pid || info.Sys().(*syscall.Stat_t).Uid != 65534 {
		t.Errorf("the server is %+v of %v, %v; before, it was %+v", after, info, err, before)
	}
}

func TestWithoutADaemon(t *testing.T) {
	c := config(t)
	if err := os.MkdirAll(c.PipeDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, got := attach(t, c); got != "0 0 100 -1" {
		t.Errorf("in an empty directory: %s", got)
	}
	d, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	d.Leave()
	kill(t, d) // it leaves its socket behind
	if why := <-mustEnd(t, d); why == nil {
		t.Error("it has not ended")
	}
	if _, got := attach(t, c, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25"); got != "805 0 100 -1" {
		t.Errorf("with a daemon that was killed: %s", got)
	}
	if _, err := d.Servers(t.Context()); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("servers: %v", err)
	}
}

func mustEnd(t *testing.T, d *Daemon) <-chan error {
	ended, err := whenEnded(d.State().Pid)
	if errors.Is(err, syscall.ESRCH) { // already
		done := make(chan error, 1)
		done <- err
		return done
	}
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

func TestADaemonThatIsThereIsAdopted(t *testing.T) {
	c := config(t)
	first, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := attach(t, c)
	first.Leave()
	first.Leave()
	second := start(t, c)
	if s := second.State(); !s.Adopted || s.Pid != first.State().Pid {
		t.Fatalf("%+v, after %+v", s, first.State())
	}
	if got := p.check(); got != "0" {
		t.Errorf("the client sees %s", got)
	}
	kill(t, second)
	if s, err := second.Await(t.Context(), func(s State) bool { return s.Ready && s.Restarts == 1 }); err != nil || s.Adopted {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestQuitEndsTheDaemonAndItsServer(t *testing.T) {
	c := config(t)
	d, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := attach(t, c)
	pid := d.State().Pid
	for range 2 {
		if err := d.Quit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d: %v", pid, err)
	}
	if s := d.State(); s.Ready || s.Pid != 0 || s.Restarts != 0 {
		t.Errorf("state %+v", s)
	}
	if got := p.check(); got != "806" {
		t.Errorf("its client sees %s", got)
	}
	if _, got := attach(t, c); got != "0 0 100 -1" {
		t.Errorf("a new client: %s", got)
	}
}

func TestAnAdoptedDaemonQuits(t *testing.T) {
	c := config(t)
	first, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	first.Leave()
	second, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Quit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := second.State(); s.Pid != 0 || s.Restarts != 0 {
		t.Errorf("state %+v", s)
	}
	if _, err := second.Servers(t.Context()); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("servers: %v", err)
	}
}

func TestWhatAnswersButIsNotKnownIsNotAdopted(t *testing.T) {
	c := config(t)
	first := start(t, c)
	path := filepath.Join(c.PipeDir, pidFile)
	for text, want := range map[string]string{"": "want a process id", "x\n": "want a process id", "-1\n": "want a process id", "2147483647\n": "no such process"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if s := first.State(); !s.Ready || s.Restarts != 0 {
		t.Errorf("state %+v", s)
	}
}

func TestBadConfigsSayAllThatIsWrong(t *testing.T) {
	_, err := Start(t.Context(), Config{PipeDir: "/" + strings.Repeat("x", 100), LogDir: "log", MinPause: -1})
	for _, want := range []string{"nvidia-cuda-mps-control", "no UUID", "too long for the sockets", "absolute", "-1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestADaemonThatDoesNotStart(t *testing.T) {
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "nvidia-cuda-mps-control")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const none = `[ $# = 0 ] && { echo "Cannot find MPS control daemon process"; exit 1; }; `
	for _, c := range []struct{ name, binary, want string }{
		{"no such file", "/nonexistent/nvidia-cuda-mps-control", "no such file"},
		{"it ends at once", script(none + "exit 3"), "exit status 3"},
		{"it never answers", script(none + "exec sleep 600"), "does not answer"},
		{"it answers nonsense", script("echo who are you"), "want a process id"},
	} {
		config := config(t)
		config.Binary, config.Patience = c.binary, 500*time.Millisecond
		if _, err := Start(t.Context(), config); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), uuid) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func TestControlProgram(t *testing.T) {
	c := config(t)
	d := start(t, c)
	attach(t, c)
	pid := server(t, d).Pid
	for _, test := range []struct{ command, want string }{
		{"get_server_list", fmt.Sprintln(pid)},
		{"  get_server_list  ", fmt.Sprintln(pid)},
		{"get_default_active_thread_percentage", "100.0\n"},
		{"set_default_active_thread_percentage 37.5", "37.5\n"},
		{"get_default_active_thread_percentage", "37.5\n"},
		{"set_default_active_thread_percentage 0", "Invalid active thread percentage 0\n"},
		{"set_default_active_thread_percentage 101", "Invalid active thread percentage 101\n"},
		{"set_default_active_thread_percentage abc", "Invalid active thread percentage abc\n"},
		{"get_default_active_thread_percentage", "37.5\n"},
		{fmt.Sprint("get_active_thread_percentage ", pid), "100.0\n"}, // the server keeps what it began with
		{fmt.Sprint("set_active_thread_percentage ", pid, " 20"), "20.0\n"},
		{fmt.Sprint("get_active_thread_percentage ", pid), "20.0\n"},
		{"set_default_device_pinned_mem_limit 0 10G", ""},
		{"get_default_device_pinned_mem_limit 0", "10240M\n"},
		{"get_default_device_pinned_mem_limit 1", ""},
		{"set_default_device_pinned_mem_limit 0 10", "Invalid pinned memory limit 10 for device 0\n"},
		{fmt.Sprint("set_device_pinned_mem_limit ", pid, " 0 900M"), ""},
		{fmt.Sprint("get_device_pinned_mem_limit ", pid, " 0"), "900M\n"},
		{"get_server_status 1", "Server 1 not found\n"},
		{"get_server_status " + strings.Repeat("9", 200), "Server " + strings.Repeat("9", 200) + " not found\n"},
		{"get_server_status", "Unknown command: get_server_status (simulated)\n"},
		{"make_tea", "Unknown command: make_tea (simulated)\n"},
		{"get_server_list\nget_default_active_thread_percentage", fmt.Sprint(pid, "\n37.5\n")},
	} {
		cmd := exec.Command(control)
		cmd.Env = d.environment()
		cmd.Stdin = strings.NewReader(test.command + "\n")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.command, out, err, test.want)
		}
	}
	second := exec.Command(control, "-f")
	second.Env = d.environment()
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "already running") {
		t.Errorf("a second daemon: %q, %v", out, err)
	}
	if out, err := exec.Command(control, "-v").Output(); err != nil || !bytes.Contains(out, []byte("simulated")) {
		t.Errorf("version: %q, %v", out, err)
	}
	if log, err := os.ReadFile(filepath.Join(c.LogDir, "control.log")); err != nil || !bytes.Contains(log, []byte("devices: "+uuid)) {
		t.Errorf("log: %q, %v", log, err)
	}
}
