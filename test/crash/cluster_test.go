package crash

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairslice/etc"
)

// bin is where the programs under test are.
var bin string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if url := os.Getenv(rollUpURL); url != "" {
		return rollUpForever(url)
	}
	if bin = os.Getenv("FAIRSLICE_CRASH_BIN"); bin != "" {
		return m.Run()
	}
	temp, err := os.MkdirTemp("", "crash-bin")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(temp)
	bin = temp
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "build the programs:", err)
		return 1
	}
	return m.Run()
}

// build makes what the Makefile makes, with its flags, so that the build cache serves both.
func build() error {
	plain := []string{"-trimpath", "-ldflags", "-s -w -X main.version=0.1.0"}
	for _, step := range []struct {
		env  []string
		args []string
	}{
		{[]string{"CGO_ENABLED=0"}, append(plain, "-o", bin+"/", "fairslice/bin/batchd", "fairslice/bin/bcli", "fairslice/bin/shepherd")},
		{[]string{"CGO_ENABLED=0"}, []string{"-trimpath", "-ldflags", "-s -w", "-o", bin + "/enter", "fairslice/nodes/apptainer/enter"}},
		{[]string{"CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations"},
			[]string{"-trimpath", "-ldflags", "-s -w -X main.version=0.1.0 -extldflags=-Wl,-z,lazy", "-o", bin + "/noded", "fairslice/bin/noded"}},
	} {
		cmd := exec.Command("go", append([]string{"build"}, step.args...)...)
		cmd.Env = append(os.Environ(), step.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// cluster is a batchd dev under test.
type cluster struct {
	t    *testing.T
	dir  string
	work string // the jobs' files
	args []string
	dev  *exec.Cmd
	done chan struct{} // closed when dev has ended
	log  *os.File
}

const nodeCount = 2

// newCluster starts a cluster whose every trace is gone after the test, however that ends. options are more of batchd dev.
func newCluster(t *testing.T, options ...string) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "crash") // short, for the socket addresses, and open to PostgreSQL's user
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: filepath.Join(dir, "state"), work: filepath.Join(dir, "work")}
	if err := os.Mkdir(c.work, 0o777); err != nil {
		t.Fatal(err)
	}
	c.args = append([]string{"dev", "--state", c.dir, "--nodes", strconv.Itoa(nodeCount), "--slots", "4", "--mem", "4GiB", "--sim-gpus", "1x8GiB",
		"--fgpu-per-gpu", "2", "--terminate-interval", "1s"}, options...)
	if c.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.destroy()
		if t.Failed() {
			t.Logf("state, work and log are kept in %s", dir)
			return
		}
		if run, err := os.Readlink(filepath.Join(c.dir, "run")); err == nil {
			_ = os.RemoveAll(run)
		}
		_ = os.RemoveAll(dir)
	})
	c.start()
	return c
}

// start runs batchd dev and returns when jobs can be submitted.
func (c *cluster) start() {
	c.t.Helper()
	ready, out, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.dev = exec.Command(filepath.Join(bin, "batchd"), c.args...)
	c.dev.Stdout, c.dev.Stderr = out, c.log
	c.dev.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.dev.Start(); err != nil {
		c.t.Fatal(err)
	}
	_ = out.Close()
	done := make(chan struct{})
	c.done = done
	go func(cmd *exec.Cmd) { _ = cmd.Wait(); close(done) }(c.dev)
	said := make(chan string, 1)
	go func() {
		defer ready.Close()
		line, _ := bufio.NewReader(ready).ReadString('\n')
		said <- line
	}()
	select {
	case line := <-said:
		if want := "ready: export FAIRSLICE_ADDR=unix://" + c.dir + "/batchd.sock\n"; line != want {
			c.t.Fatalf("batchd dev said %q, want %q", line, want)
		}
	case <-time.After(time.Minute):
		c.t.Fatal("the cluster does not get ready")
	}
}

// stop ends the cluster as Ctrl-C does, and returns how long that took.
func (c *cluster) stop() time.Duration {
	c.t.Helper()
	began := time.Now()
	_ = c.dev.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		c.t.Fatal("batchd dev does not end")
	}
	return time.Since(began)
}

// destroy kills whatever a failed test has left.
func (c *cluster) destroy() {
	select {
	case <-c.done:
	default:
		_ = c.dev.Process.Signal(syscall.SIGCONT)
		_ = c.dev.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.done:
		case <-time.After(15 * time.Second):
			_ = c.dev.Process.Kill()
			<-c.done
		}
	}
	for try := 0; try < 50; try++ {
		left := c.processes()
		if len(left) == 0 {
			break
		}
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, g := range c.groups() {
		_ = os.Remove(g)
	}
	_ = c.log.Close()
}

// env is a user's environment. Whatever runs because of it carries the mark by which leftovers are found.
func (c *cluster) env() []string {
	return append(os.Environ(), "FAIRSLICE_ADDR=unix://"+c.dir+"/batchd.sock", "CRASH_TEST="+c.dir, "W="+c.work)
}

// command runs one of bcli's commands.
func (c *cluster) command(name string, args ...string) (stdout string, err error) {
	cmd := exec.Command(filepath.Join(bin, "bcli"), append([]string{name}, args...)...)
	cmd.Env = c.env()
	cmd.Dir = c.work
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%s %q: %w: %s", name, args, err, problem.String())
	}
	return out.String(), err
}

// must is command where a failure ends the test.
func (c *cluster) must(name string, args ...string) string {
	c.t.Helper()
	out, err := c.command(name, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

var submittedLine = regexp.MustCompile(`^Job <(\d+)> is submitted `)

// submit runs bsub; the id is set only when it was acknowledged.
func (c *cluster) submit(args ...string) (id int, err error) {
	out, err := c.command("bsub", args...)
	if err != nil {
		return 0, err
	}
	m := submittedLine.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("bsub said %q", out)
	}
	return strconv.Atoi(m[1])
}

func (c *cluster) mustSubmit(args ...string) int {
	c.t.Helper()
	id, err := c.submit(args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

// jobState is a line of bjobs.
type jobState struct {
	id    string // 12 or 12[3]
	state string
	code  int // -1 where there is none
	why   string
	host  string
}

// jobs lists every element.
func (c *cluster) jobs() (map[string]jobState, error) {
	out, err := c.command("bjobs", "-a", "-noheader", "-o", "jobid jobindex stat exit_code exec_host exit_reason delimiter='|'")
	if err != nil {
		return nil, err
	}
	all := map[string]jobState{}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 6)
		if len(f) != 6 {
			return nil, fmt.Errorf("bjobs said %q", line)
		}
		id, _, _ := strings.Cut(f[0], "[")
		j := jobState{id: id, state: f[2], code: -1, host: f[4], why: f[5]}
		if f[1] != "0" {
			j.id += "[" + f[1] + "]"
		}
		if n, err := strconv.Atoi(f[3]); err == nil {
			j.code = n
		}
		if _, twice := all[j.id]; twice {
			return nil, fmt.Errorf("job %s is listed twice", j.id)
		}
		all[j.id] = j
	}
	return all, nil
}

func (c *cluster) job(id int) jobState {
	all, _ := c.jobs() // empty while batchd does not answer
	return all[strconv.Itoa(id)]
}

// until waits for a fact of the cluster.
func (c *cluster) until(what string, within time.Duration, fact func() bool) {
	c.t.Helper()
	for end := time.Now().Add(within); !fact(); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			out, _ := c.command("bjobs", "-a", "-w")
			c.t.Fatalf("not within %s: %s\n%s", within, what, out)
		}
	}
}

// ends waits for a job's end.
func (c *cluster) ends(id int) jobState {
	c.t.Helper()
	var j jobState
	c.until(fmt.Sprintf("job %d ends", id), 40*time.Second, func() bool {
		j = c.job(id)
		return j.state == "DONE" || j.state == "EXIT"
	})
	return j
}

// file is a path in the jobs' directory.
func (c *cluster) file(name string) string { return filepath.Join(c.work, name) }

func (c *cluster) read(name string) string {
	text, err := os.ReadFile(c.file(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.t.Error(err)
	}
	return string(text)
}

// process is a running program of the cluster.
type process struct {
	pid  int
	args string // separated by spaces
}

// processes lists whatever belongs to the cluster, jobs included.
func (c *cluster) processes() []process {
	entries, _ := os.ReadDir("/proc")
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		if len(args) == 0 {
			continue // a zombie or a kernel's thread
		}
		if bytes.Contains(args, []byte(c.dir)) || bytes.Contains(env, []byte("CRASH_TEST="+c.dir+"\x00")) {
			out = append(out, process{pid, strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))})
		}
	}
	return out
}

// part is a process of the cluster that may be killed.
type part struct {
	kind string // batchd, noded, shepherd, postgres
	node int    // from 1, of noded and shepherd
}

func (p part) String() string {
	if p.node > 0 {
		return p.kind + strconv.Itoa(p.node)
	}
	return p.kind
}

// find returns the part's process; the newest, where several shepherds serve a node.
func (c *cluster) find(p part) (pid int, ok bool) {
	if p.kind == "postgres" {
		text, err := os.ReadFile(filepath.Join(c.dir, "postgres/data/postmaster.pid"))
		if err != nil {
			return 0, false
		}
		line, _, _ := strings.Cut(string(text), "\n")
		pid, err = strconv.Atoi(line)
		return pid, err == nil && syscall.Kill(pid, 0) == nil
	}
	want := map[string]string{
		"batchd":   filepath.Join(bin, "batchd") + " --config " + c.dir + "/fairslice.toml",
		"noded":    fmt.Sprintf("%s/noded --config %s/node%d.toml", bin, c.dir, p.node),
		"shepherd": fmt.Sprintf("shepherd %s/shepherd", c.nodeDir(p.node)),
	}[p.kind]
	for _, q := range c.processes() {
		if !strings.HasPrefix(q.args, want) {
			continue
		}
		if _, err := os.Stat(fmt.Sprintf("%s/shepherd/shepherd-%d.sock", c.nodeDir(p.node), q.pid)); err != nil && p.kind == "shepherd" {
			continue // a job that is being started, not yet by its own name
		}
		pid = max(pid, q.pid)
	}
	return pid, pid > 0
}

// kill9 kills a part as the kernel would. false: it does not run just now.
func (c *cluster) kill9(p part) bool {
	pid, ok := c.find(p)
	return ok && syscall.Kill(pid, syscall.SIGKILL) == nil
}

func (c *cluster) mustKill9(p part) {
	c.t.Helper()
	c.until(p.String()+" runs", 10*time.Second, func() bool { return c.kill9(p) })
}

// up says whether the daemon answers and sees every node.
func (c *cluster) up() bool {
	out, err := c.command("bhosts", "-noheader")
	if err != nil {
		return false
	}
	n := 0
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 1 && (f[1] == "ok" || f[1] == "closed_Full") {
			n++
		}
	}
	return n == nodeCount
}

// groups lists the cgroups of the cluster's nodes, deepest first.
func (c *cluster) groups() []string {
	var out []string
	for n := 1; n <= nodeCount; n++ {
		text, err := os.ReadFile(fmt.Sprintf("%s/node%d.toml", c.dir, n))
		if err != nil {
			continue
		}
		m := regexp.MustCompile(`cgroup_parent = "([^"]+)"`).FindSubmatch(text)
		if m == nil {
			c.t.Error("node's configuration without cgroup_parent")
			continue
		}
		tops, _ := filepath.Glob("/sys/fs/cgroup/*/" + string(m[1]))
		two, _ := filepath.Glob("/sys/fs/cgroup/" + string(m[1]))
		for _, top := range append(tops, two...) {
			_ = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					out = append(out, p)
				}
				return nil
			})
		}
	}
	slices.Reverse(out)
	return out
}

// query is ask where a failure ends the test.
func (c *cluster) query(sql string) string {
	c.t.Helper()
	out, err := c.ask(sql)
	if err != nil {
		c.t.Fatalf("%s: %v: %s", sql, err, out)
	}
	return out
}

// ask asks the database, as its own user.
func (c *cluster) ask(sql string) (string, error) {
	st, err := os.Stat(filepath.Join(c.dir, "postgres/data"))
	if err != nil {
		return "", err
	}
	sys := st.Sys().(*syscall.Stat_t)
	cmd := exec.Command("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", filepath.Join(c.dir, "postgres/run"), "-U", "fairslice", "-d", "fairslice", "-c", sql)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: sys.Uid, Gid: sys.Gid}}
		cmd.Env = append(os.Environ(), "HOME=/")
	}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// settled checks that nothing of any job is left, anywhere: everything has ended.
func (c *cluster) settled() {
	c.t.Helper()
	check := func(what, got, want string) {
		c.t.Helper()
		if got != want {
			c.t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	// The node lets go of a job when the end is acknowledged, which is after the user can see it.
	var left []string
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if left = c.leftovers(); len(left) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(left) > 0 {
		c.t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
	c.until("the database answers", 20*time.Second, func() bool { _, err := c.ask("SELECT 1"); return err == nil })
	check("slices", c.query("SELECT count(*) FROM slices"), "0")
	check("nodes that hold something", c.query("SELECT count(*) FROM nodes WHERE used_slots <> 0 OR used_memory <> 0"), "0")
	check("GPUs that hold something", c.query("SELECT count(*) FROM gpus WHERE used <> 0"), "0")
	check("live elements", c.query("SELECT count(*) FROM elements WHERE live_attempt IS NOT NULL"), "0")
	// The key of charges allows no second one; each attempt needs its first.
	check("attempts without exactly one charge",
		c.query("SELECT count(*) FROM elements e WHERE e.attempts <> (SELECT count(*) FROM charges x WHERE x.job = e.job AND x.idx = e.idx)"), "0")
	check("starts that are not charges", c.query(`SELECT (SELECT count(*) FROM events WHERE kind = 'started') - (SELECT count(*) FROM charges)`), "0")
	for line := range strings.Lines(c.must("bhosts", "-noheader")) {
		f := strings.Fields(line)
		check("state of "+f[0], f[1], "ok")
		check("jobs on "+f[0], f[4], "0")
	}
}

// nodeDir is where a node keeps its spool, the directories of its jobs, and its shepherds.
func (c *cluster) nodeDir(n int) string {
	cfg, err := etc.Load(fmt.Sprintf("%s/node%d.toml", c.dir, n))
	if err != nil {
		return fmt.Sprintf("%s/node%d", c.dir, n) // not yet there
	}
	return cmp.Or(cfg.Node.RunDir, cfg.Node.StateDir)
}

// leftovers names what a job may have left on the nodes.
func (c *cluster) leftovers() []string {
	var out []string
	for n := 1; n <= nodeCount; n++ {
		node := c.nodeDir(n)
		for _, sub := range []string{"jobs", "spool"} {
			entries, _ := os.ReadDir(filepath.Join(node, sub))
			for _, e := range entries {
				out = append(out, filepath.Join(node, sub, e.Name()))
			}
		}
		entries, _ := os.ReadDir(filepath.Join(node, "shepherd"))
		shepherds := 0
		for _, e := range entries {
			switch {
			case e.IsDir():
				out = append(out, filepath.Join(node, "shepherd", e.Name()))
			case strings.HasSuffix(e.Name(), ".sock"):
				if shepherds++; shepherds > 1 {
					out = append(out, filepath.Join(node, "shepherd", e.Name()))
				}
			}
		}
	}
	for _, g := range c.groups() {
		if !strings.HasPrefix(filepath.Base(g), "node") {
			out = append(out, g)
		}
	}
	parts := 0
	for _, p := range c.processes() {
		if !strings.Contains(p.args, c.dir) {
			out = append(out, fmt.Sprintf("process %d: %s", p.pid, p.args))
		} else if strings.HasPrefix(p.args, "shepherd ") {
			parts++
		}
	}
	if parts > nodeCount {
		out = append(out, fmt.Sprintf("%d shepherds", parts))
	}
	return out
}

// gone checks that nothing runs any more.
func (c *cluster) gone() {
	c.t.Helper()
	for _, p := range c.processes() {
		c.t.Errorf("left behind: process %d: %s", p.pid, p.args)
	}
}

// parallel runs f n times at once.
func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}
