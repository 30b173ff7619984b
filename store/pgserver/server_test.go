package pgserver

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// helperDir, when set, turns the test program into a batchd that starts the server, says so, and waits to be killed.
const helperDir = "PGSERVER_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		s, err := Start(context.Background(), Config{Dir: dir, User: os.Getenv("PGSERVER_TEST_USER")})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println("pid", s.Pid())
		select {}
	}
	os.Exit(m.Run())
}

func TestStartStop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(testDir(t), "pg")
	s := start(t, Config{Dir: dir})
	if got := query(t, s, "select 1"); got != "1" {
		t.Errorf("select 1 = %q", got)
	}
	for setting, want := range map[string]string{
		"listen_addresses": "", "fsync": "on", "synchronous_commit": "on", "shared_buffers": "64MB", "max_connections": "50",
		"server_encoding": "UTF8",
	} {
		if got := query(t, s, "show "+setting); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	if uid := processUID(t, s.Pid()); uid == 0 {
		t.Error("PostgreSQL runs as root")
	}
	if sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(s.Pid()), 0, 0); errno != 0 || int(sid) != s.Pid() {
		t.Errorf("session of the postmaster is %d, %v; want its own", sid, errno)
	}
	st, err := os.Stat(s.c.socket)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("socket directory: mode %v, %v; want 0700", st.Mode(), err)
	}

	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another batchd") {
		t.Errorf("second Start on the same directory: %v", err)
	}

	stop(t, s)
	stop(t, s) // twice is fine
	if err := s.Err(); err != nil {
		t.Errorf("Err after Stop: %v", err)
	}
	wantNone(t, s)
}

func TestRestartKeepsDataAndReadsLocalConf(t *testing.T) {
	dir := testDir(t)
	s := start(t, Config{Dir: dir})
	query(t, s, "create table kept (n int); insert into kept values (7)")
	stop(t, s)
	if err := os.WriteFile(filepath.Join(dir, "local.conf"), []byte("max_connections = 33\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s = start(t, Config{Dir: dir})
	took := time.Since(begin)
	t.Logf("second start took %v", took)
	if took > time.Second {
		t.Errorf("second start took %v, want under 1 s", took)
	}
	if got := query(t, s, "select n from kept"); got != "7" {
		t.Errorf("kept row = %q, want 7", got)
	}
	if got := query(t, s, "show max_connections"); got != "33" {
		t.Errorf("max_connections = %q, want local.conf's 33", got)
	}
}

func TestKilledServerComesBack(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Dir: testDir(t)})
	query(t, s, "create table kept (n int)")
	for i := range 3 {
		query(t, s, fmt.Sprintf("insert into kept values (%d)", i))
		// A busy backend does not see the death of its postmaster by itself.
		busy := exec.Command(s.c.bin.path("psql"), s.URL(), "-c", "do $$ begin loop perform 1; end loop; end $$")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			return query(t, s, "select count(*) from pg_stat_activity where query like 'do %'") == "1"
		})
		old := s.Pid()
		kill([]int{old}, syscall.SIGKILL)
		begin := time.Now()
		waitFor(t, func() bool { p := s.Pid(); return p != 0 && p != old })
		t.Logf("back after %v", time.Since(begin))
		if got, want := query(t, s, "select count(*) from kept"), strconv.Itoa(i+1); got != want {
			t.Errorf("rows after kill %d: %s, want %s", i, got, want)
		}
		_ = busy.Wait() // its connection was cut, as it must be
	}
	stop(t, s)
	wantNone(t, s)
}

func TestStopWhileDown(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	s := start(t, Config{Dir: dir})
	if err := os.WriteFile(filepath.Join(dir, "local.conf"), []byte("no_such_setting = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	kill([]int{s.Pid()}, syscall.SIGKILL)
	waitFor(t, func() bool { return s.Pid() == 0 })
	stop(t, s) // while it is down, waiting for its next try
	_, err := Start(t.Context(), Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("Start with a wrong local.conf: %v; want the server's own words", err)
	}
	wantNone(t, s)
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	s := start(t, Config{Dir: dir})
	stop(t, s)
	if err := os.WriteFile(filepath.Join(dir, "local.conf"), []byte("no_such_setting = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.c.makeSocketDir(); err != nil {
		t.Fatal(err)
	}
	delay := time.Millisecond
	if _, err := s.restart(t.Context(), &delay); err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("restart with a wrong local.conf: %v", err)
	}
	if want := time.Millisecond << maxAttempts; delay != want {
		t.Errorf("delay after %d tries = %v, want %v", maxAttempts, delay, want)
	}
}

func TestParentKilled(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	for i, killServer := range []bool{false, true, false} {
		parent, pid := startHelper(t, dir)
		if killServer {
			kill([]int{pid}, syscall.SIGKILL)
		}
		if err := parent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = parent.Wait()
		s := start(t, Config{Dir: dir})
		if i == 0 {
			query(t, s, "create table kept (n int)")
		}
		query(t, s, "insert into kept values (1)")
		if got, want := query(t, s, "select count(*) from kept"), strconv.Itoa(i+1); got != want {
			t.Errorf("rows after parent %d: %s, want %s", i, got, want)
		}
		stop(t, s)
	}
}

// The kernel ends a server whose batchd was killed; nothing stays behind on a machine where no new one comes.
func TestParentKilledTakesServerDown(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	parent, pid := startHelper(t, dir)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	waitFor(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
}

// A server that nobody told to end (started by hand, or its parent's death unseen) is stopped and replaced.
func TestForeignServerIsReplaced(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	s := start(t, Config{Dir: dir})
	query(t, s, "create table kept (n int)")
	stop(t, s)
	foreign, err := s.c.relaunchByHand(t)
	if err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Dir: dir})
	select {
	case <-foreign.done:
		if foreign.err != nil {
			t.Errorf("the earlier server did not end in order: %v", foreign.err)
		}
	default:
		t.Error("the earlier server still runs")
	}
	if got := query(t, s, "select count(*) from kept"); got != "0" {
		t.Errorf("rows = %q, want 0", got)
	}
}

func (c *cluster) relaunchByHand(t *testing.T) (*postmaster, error) {
	t.Helper()
	if err := c.makeSocketDir(); err != nil {
		return nil, err
	}
	p, err := c.launch()
	if err != nil {
		return nil, err
	}
	return p, c.waitReady(t.Context(), p)
}

func TestStalePidFile(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	s := start(t, Config{Dir: dir})
	uid, gid := s.c.uid, s.c.gid
	stop(t, s)
	// The pid is alive and belongs to PostgreSQL's user, but is something else: PostgreSQL itself would refuse.
	other := exec.Command("sleep", "100")
	if os.Geteuid() == 0 {
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	text := fmt.Sprintf("%d\n%s\n1700000000\n5432\n\n\n  1  1\nready   \n", other.Process.Pid, s.c.data())
	pidFile := filepath.Join(s.c.data(), "postmaster.pid")
	if err := os.WriteFile(pidFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(pidFile, uid, gid); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Dir: dir})
	if s.Pid() == other.Process.Pid {
		t.Error("took another process for the server")
	}
	if err := syscall.Kill(other.Process.Pid, 0); err != nil {
		t.Errorf("the other process was ended: %v", err)
	}
}

func TestUnfinishedClusterIsMadeAgain(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	half := filepath.Join(dir, "data.new-123")
	if err := os.MkdirAll(filepath.Join(half, "base"), 0o755); err != nil {
		t.Fatal(err)
	}
	start(t, Config{Dir: dir})
	if _, err := os.Stat(half); err == nil {
		t.Error("the unfinished cluster is still there")
	}
}

func TestForeignDataIsNotTouched(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	mine := filepath.Join(dir, "data", "thesis.txt")
	if err := os.MkdirAll(filepath.Dir(mine), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("Start over someone's data: %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

func TestMissingBinaries(t *testing.T) {
	_, err := Start(t.Context(), Config{Dir: testDir(t), BinDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "initdb") || !strings.Contains(err.Error(), "etc/setup.sh") {
		t.Errorf("Start without binaries: %v; want what is missing and what to type", err)
	}
	// Nothing on the machine at all.
	old := installPatterns
	installPatterns = []string{filepath.Join(t.TempDir(), "*")}
	defer func() { installPatterns = old }()
	t.Setenv("PATH", t.TempDir())
	if _, err := Start(t.Context(), Config{Dir: testDir(t)}); err == nil || !strings.Contains(err.Error(), "etc/setup.sh") {
		t.Errorf("Start without binaries: %v", err)
	}
}

func TestClusterOfAnotherVersion(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	s := start(t, Config{Dir: dir})
	stop(t, s)
	if err := os.WriteFile(filepath.Join(s.c.data(), "PG_VERSION"), []byte("9999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "PostgreSQL 9999") {
		t.Errorf("Start of another version's cluster: %v", err)
	}
}

func TestLongPathWithOddCharacters(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(testDir(t), strings.Repeat("long ", 20)+`+,"'%`)
	s := start(t, Config{Dir: dir})
	short := s.c.socket
	if strings.HasPrefix(short, dir) {
		t.Fatalf("socket in %s does not fit", short)
	}
	if got := query(t, s, "select 1"); got != "1" {
		t.Errorf("select 1 = %q", got)
	}
	stop(t, s)
	if _, err := os.Stat(short); err == nil {
		t.Errorf("%s was left behind", short)
	}
}

func TestOddCharactersInSocketPath(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Dir: filepath.Join(testDir(t), `a b+c"'%d`)})
	if got := query(t, s, "select 1"); got != "1" {
		t.Errorf("select 1 = %q", got)
	}
}

func TestStartGivesUpWithContext(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if s, err := Start(ctx, Config{Dir: dir}); err == nil {
		stop(t, s)
		t.Fatal("initdb in 30 ms?")
	}
	start(t, Config{Dir: dir}) // and the next one is not hurt by it
}

func TestParseMajor(t *testing.T) {
	for text, want := range map[string]int{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": 15, "postgres (PostgreSQL) 17beta1\n": 17,
		"postgres (PostgreSQL) 18": 18, "postgres (PostgreSQL) 9.6.24": 9, "mysqld 8": 0, "": 0,
	} {
		if got, err := parseMajor(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("parseMajor(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

// As an ordinary user everything runs as that user. The test program runs itself again as nobody.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the other tests ran as an ordinary user already")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, gid, err := ids(nobody)
	if err != nil {
		t.Fatal(err)
	}
	dir := testDir(t)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	// The test program lies where only root can go.
	program := filepath.Join(testDir(t), "helper")
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	pid := runHelper(t, cmd, dir)
	if got := processUID(t, pid); got != uid {
		t.Errorf("PostgreSQL runs as uid %d, want %d", got, uid)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	// Root finds the cluster and keeps its owner.
	s := start(t, Config{Dir: dir})
	if got := processUID(t, s.Pid()); got != uid {
		t.Errorf("PostgreSQL runs as uid %d, want the cluster's owner %d", got, uid)
	}
}

// ---- helpers --------------------------------------------------------------------------------------------------

// testDir is a directory that PostgreSQL's user can reach.
func testDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is open after Stop")
	}
}

// query asks by psql, which comes with the server: only package store may use the Go driver.
func query(t *testing.T, s *Server, sql string) string {
	t.Helper()
	out, err := exec.Command(s.c.bin.path("psql"), s.URL(), "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql).CombinedOutput()
	if err != nil {
		t.Fatalf("psql %q: %v: %s", sql, err, out)
	}
	return strings.TrimSpace(string(out))
}

func wantNone(t *testing.T, s *Server) {
	t.Helper()
	if pids, err := s.c.processes(); err != nil || len(pids) > 0 {
		t.Errorf("processes left: %v, %v", pids, err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited 30 s in vain")
		}
	}
}

func startHelper(t *testing.T, dir string) (*exec.Cmd, int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	return cmd, runHelper(t, cmd, dir)
}

// runHelper starts cmd as a batchd on dir and returns the server's pid.
func runHelper(t *testing.T, cmd *exec.Cmd, dir string) int {
	t.Helper()
	cmd.Env = append(os.Environ(), helperDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, scanErr := fmt.Sscanf(line, "pid %d", &pid); err != nil || scanErr != nil {
		t.Fatalf("the helper said %q, %v", line, err)
	}
	return pid
}

func processUID(t *testing.T, pid int) int {
	t.Helper()
	st, err := os.Stat("/proc/" + strconv.Itoa(pid))
	if err != nil {
		t.Fatal(err)
	}
	return int(st.Sys().(*syscall.Stat_t).Uid)
}
