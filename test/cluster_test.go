package test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairslice/api/client"
	"fairslice/bin/bcli/command"
	"fairslice/queue"
)

// patience is how long a test waits for what should come at once: the machine may be busy.
const patience = 60 * time.Second

// theCluster is the one cluster of all tests, started by the first that asks for it.
var theCluster struct {
	once sync.Once
	c    *cluster
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if c := theCluster.c; c != nil {
		if err := c.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "the cluster did not end cleanly:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// cluster is a running `batchd dev`.
type cluster struct {
	dir   string // its state
	bin   string // the programs, and a link for each command
	addr  string
	home  string // of the user of the tests, as the cluster knows it
	user  string
	host  string
	kept  map[string]bool // what was in ~/.lsbatch before
	cmd   *exec.Cmd
	ended chan error
	log   *os.File
}

// running gives the cluster, or ends the test where it cannot be started.
func running(t *testing.T) *cluster {
	t.Helper()
	theCluster.once.Do(func() { theCluster.c, theCluster.err = start() })
	if theCluster.err != nil {
		t.Fatal("start the cluster: ", theCluster.err)
	}
	return theCluster.c
}

// extra is what the scripts need beside the defaults: the state directory, and two administrators. Placement is best fit,
// because the default one learns from what was submitted before, so that a transcript would depend on those before it.
const extra = `cluster = "lab"
time_zone = "UTC"
admins = [%[2]q, %[3]q]
[scheduler]
placement = "best-fit"
[[queue]]
name = "normal"
description = "For jobs that say no queue."
priority = 30
default_run_limit = "24h"
unfenced = "watchdog"
writable = true
overlay_size = "200MiB"
[[queue]]
name = "short"
description = "Small and soon."
priority = 50
default_run_limit = "10m"
max_run_limit = "1h"
max_memory = "1GiB"
max_slots = 4
exclusive = false
interactive = false
[[queue]]
name = "closed"
description = "For others."
users = ["nobody-at-all"]
[[queue]]
name = "idle"
description = "Whose sessions must be used."
idle_after = "3s"
idle_warn = "6s"
[session]
idle_hook = "%[1]s/idle-hook"
[[resource]]
name = "licence"
per_node = 2
[[image]]
name = "sample"
file = "%[1]s/images/sample.sif"
[[image]]
name = "corrupt"
file = "%[1]s/corrupt.sif"
`

func start() (*cluster, error) {
	dir, err := os.MkdirTemp("", "fs-e2e-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL and the jobs of other users come through it
		return nil, err
	}
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: filepath.Join(dir, "state"), bin: filepath.Join(dir, "bin"), home: me.HomeDir, user: me.Username, host: host,
		kept: map[string]bool{}, ended: make(chan error, 1)}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	for _, name := range c.unmailed() {
		c.kept[name] = true
	}
	if err := c.programs(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(c.dir, "corrupt.sif"), bytes.Repeat([]byte("no image at all\n"), 4096), 0o644); err != nil {
		return nil, err
	}
	hook := fmt.Sprintf("#!/bin/sh\numask 077\necho \"$FAIRSLICE_JOB $FAIRSLICE_OWNER $FAIRSLICE_DEADLINE\" >> %s/idle-warnings\n", c.dir)
	if err := os.WriteFile(filepath.Join(c.dir, "idle-hook"), []byte(hook), 0o700); err != nil {
		return nil, err
	}
	extraFile := filepath.Join(dir, "extra.toml")
	if err := os.WriteFile(extraFile, fmt.Appendf(nil, extra, c.dir, c.user, c.otherAdmin()), 0o644); err != nil {
		return nil, err
	}
	if err := c.boot(extraFile); err != nil {
		return c, fmt.Errorf("%w\n%s", err, c.logTail())
	}
	return c, c.skipShortIDs()
}

// otherAdmin fills the list of administrators, in which none may be twice.
func (c *cluster) otherAdmin() string {
	if c.user == "root" {
		return "admin"
	}
	return "root"
}

// programs fills bin.
func (c *cluster) programs() error {
	if err := os.MkdirAll(c.bin, 0o755); err != nil {
		return err
	}
	built := []string{"batchd", "bcli", "bsim", "shepherd", "enter", "noded"}
	if from := os.Getenv("FAIRSLICE_BIN"); from != "" {
		// Copies: what is rebuilt meanwhile must not change under the tests.
		for _, name := range append(built, fencePrograms...) {
			data, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				return err
			}
			to := filepath.Join(c.bin, name)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(to, data, 0o755); err != nil {
				return err
			}
		}
	} else if err := c.build(); err != nil {
		return err
	}
	for _, name := range command.Names() {
		if err := os.Symlink("bcli", filepath.Join(c.bin, name)); err != nil {
			return err
		}
	}
	return nil
}

// fencePrograms are the fence's own, the simulated driver's, and what the tests run on it.
var fencePrograms = []string{"fgpu-smi", "libfgpu.so", "fence-probe", "tenant", "simdriver/libnvidia-ml.so.1",
	"simdriver/libcuda.so.1", "simdriver/sim-ioctl"}

func (c *cluster) build() error {
	for _, script := range []string{"shim", "tenant", "simdriver"} {
		cmd := exec.Command("sh", "../nodes/fgpu/"+script+"/build.sh")
		cmd.Env = append(os.Environ(), "OUT="+c.bin)
		if script == "simdriver" {
			cmd.Env = append(cmd.Env, "OUT="+filepath.Join(c.bin, script))
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	for _, b := range []struct {
		cgo  string
		args []string
	}{
		{"0", []string{"../bin/batchd", "../bin/bcli", "../bin/bsim", "../bin/shepherd", "../bin/fgpu-smi", "../nodes/apptainer/enter"}},
		// go-nvml binds its symbols when they are first used.
		{"1", []string{"-ldflags", "-extldflags=-Wl,-z,lazy", "../bin/noded"}},
	} {
		cmd := exec.Command("go", append([]string{"build", "-o", c.bin + "/"}, b.args...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+b.cgo, "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// boot starts batchd dev and waits until it says that it is ready.
func (c *cluster) boot(extraFile string) error {
	logFile := os.Getenv("FAIRSLICE_TEST_LOG")
	if logFile == "" {
		logFile = filepath.Join(filepath.Dir(c.dir), "log")
	}
	var err error
	if c.log, err = os.Create(logFile); err != nil {
		return err
	}
	c.cmd = exec.Command(filepath.Join(c.bin, "batchd"), "dev", "--state", c.dir, "--nodes", "2", "--slots", "4", "--mem", "4GiB",
		"--sim-gpus", "1x8GiB", "--fgpu-per-gpu", "2", "--terminate-interval", "1s", "--extra", extraFile)
	c.cmd.Env = append(os.Environ(), "TZ=UTC")
	c.cmd.Stderr = c.log
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // a test that is killed leaves nothing either
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // that death is the one of the thread: this one lives as long as the program
		started <- c.cmd.Start()
		select {}
	}()
	if err := <-started; err != nil {
		return err
	}
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		ready <- line
		_, _ = io.Copy(io.Discard, out)
		c.ended <- c.cmd.Wait()
	}()
	select {
	case line := <-ready:
		addr, ok := strings.CutPrefix(strings.TrimSpace(line), "ready: export FAIRSLICE_ADDR=")
		if !ok {
			return fmt.Errorf("batchd dev said %q instead of the ready line", line)
		}
		c.addr = addr
		return nil
	case <-time.After(2 * time.Minute): // it may have to build an image
		return fmt.Errorf("batchd dev was not ready in time")
	}
}

// skipShortIDs makes the first job of a test have three digits, as all that follow: what is as wide can
// be compared.
func (c *cluster) skipShortIDs() error {
	u, err := client.NewUsers(client.Config{Address: c.addr})
	if err != nil {
		return err
	}
	defer u.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		spec := &queue.Spec{Command: "true", Hold: true, MinSlots: 1, MaxSlots: 1, SubCWD: "/", SubHost: "here"}
		job, err := u.Submit(ctx, queue.Submission{Token: rand.Text(), Spec: spec, Script: []byte("true\n")})
		if err != nil {
			return err
		}
		if job.Job >= 99 {
			break
		}
	}
	_, err = u.Control(ctx, queue.Control{Op: queue.OpKill, Select: queue.Selection{IDs: []string{"0"}}})
	return err
}

// stop ends the cluster as Ctrl-C does, and looks whether anything of it is left.
func (c *cluster) stop() error {
	if c.cmd == nil || c.cmd.Process == nil {
		return nil
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	var err error
	select {
	case err = <-c.ended:
	case <-time.After(patience):
		_ = c.cmd.Process.Kill()
		err = fmt.Errorf("it still ran %s after SIGTERM", patience)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.logTail())
	}
	left := c.processes()
	for deadline := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(deadline); left = c.processes() {
		time.Sleep(50 * time.Millisecond) // the last shepherds end by themselves
	}
	if len(left) > 0 {
		return fmt.Errorf("left running:\n%s", strings.Join(left, "\n"))
	}
	for _, name := range c.unmailed() {
		if !c.kept[name] {
			_ = os.Remove(name)
		}
	}
	_ = os.Remove(filepath.Join(c.home, ".lsbatch")) // if nothing was in it before
	return os.RemoveAll(filepath.Dir(c.dir))
}

// unmailed is the output that jobs without -o have left in the home directory, which the commands' HOME does
// not move.
func (c *cluster) unmailed() []string {
	names, _ := filepath.Glob(filepath.Join(c.home, ".lsbatch", "*"))
	return names
}

// processes lists what has the state directory in its command line or its environment.
func (c *cluster) processes() []string {
	var out []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if filepath.Base(d) == fmt.Sprint(os.Getpid()) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(d, "environ"))
		if bytes.Contains(line, []byte(c.dir)) || bytes.Contains(env, []byte(c.dir)) {
			out = append(out, filepath.Base(d)+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return out
}

// pids of the parts that are called so; what tells them apart is a word of their command line.
func (c *cluster) pids(word string) []int {
	var out []int
	for _, p := range c.processes() {
		var pid int
		if _, err := fmt.Sscan(p, &pid); err == nil && strings.Contains(p, word) {
			out = append(out, pid)
		}
	}
	return out
}

// killDaemon kills batchd and waits until batchd dev has started it again.
func (c *cluster) killDaemon() error {
	const word = "batchd --config"
	old := c.pids(word)
	if len(old) != 1 {
		return fmt.Errorf("batchd is %v", old)
	}
	if err := syscall.Kill(old[0], syscall.SIGKILL); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if now := c.pids(word); len(now) == 1 && now[0] != old[0] {
			return nil
		}
	}
	return fmt.Errorf("batchd is not started again after %s", patience)
}

func (c *cluster) logTail() string {
	data, _ := os.ReadFile(c.log.Name())
	return "the end of its log:\n" + string(data[max(0, len(data)-4000):])
}

// environment of a command.
func (c *cluster) environment(home string) []string {
	return []string{"PATH=" + c.bin + ":" + os.Getenv("PATH"), "FAIRSLICE_ADDR=" + c.addr, "HOME=" + home, "TZ=UTC", "USER=" + c.user}
}

// try runs a command line in dir and returns what it printed and its exit status.
func (c *cluster) try(dir, line string, env ...string) (stdout, stderr string, code int) {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(c.environment(dir), env...)
	return capture(cmd)
}

func capture(cmd *exec.Cmd) (stdout, stderr string, code int) {
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	timer := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return "", err.Error(), -1
	}
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return o.String(), e.String(), 128 + int(s.Signal())
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// must is try for what has to succeed.
func (c *cluster) must(t *testing.T, dir, line string, env ...string) string {
	t.Helper()
	out, errs, code := c.try(dir, line, env...)
	if code != 0 {
		t.Fatalf("%s: exit %d\n%s%s", line, code, out, errs)
	}
	return out
}

// waitState waits until the job, or all elements of the array, are in one of the states ("DONE|EXIT").
func (c *cluster) waitState(job, states string) error {
	want := strings.Split(states, "|")
	var last string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(30 * time.Millisecond) {
		out, errs, _ := c.try("/", "bjobs -noheader -o stat '"+job+"'")
		last = out + errs
		good, words := 0, strings.Fields(out)
		for _, s := range words {
			for _, w := range want {
				if s == w {
					good++
				}
			}
		}
		if good > 0 && good == len(words) {
			return nil
		}
	}
	out, errs, _ := c.try("/", "bjobs -l '"+job+"'; bwhy '"+job+"'")
	return fmt.Errorf("job %s is %q, not %s, after %s\n%s%s", job, last, states, patience, out, errs)
}

// quiet ends what the tests have left in the queues.
func (c *cluster) quiet() error {
	_, _, _ = c.try("/", "bkill -u all 0; badmin hopen node1 node2; badmin qopen normal short; badmin qact normal short")
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(30 * time.Millisecond) {
		if out, _, _ := c.try("/", "bjobs -u all"); out == "" {
			return nil
		}
	}
	out, errs, _ := c.try("/", "bjobs -u all -w")
	return fmt.Errorf("jobs do not end:\n%s%s", out, errs)
}
