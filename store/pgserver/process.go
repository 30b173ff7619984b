package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// poll is how often the state of a starting or stopping server is looked at; a look is one small file.
	poll = 5 * time.Millisecond
	// Patience with processes of an earlier server, from the moment they are found: idle orphans end by themselves
	// when they see their postmaster gone (busy ones do not look), a postmaster when its fast shutdown is done.
	patienceOrphans    = 100 * time.Millisecond
	patiencePostmaster = 20 * time.Second
	patienceQuit       = 5 * time.Second
)

// postmaster is one running server process, our child.
type postmaster struct {
	cmd  *exec.Cmd
	pid  int
	done chan struct{} // closed after the process has been waited for
	said int64         // where in the log its own words begin
	err  error         // how it ended; read only after done
}

// launch starts a postmaster and returns at once; the data directory must be free (see clear).
func (c *cluster) launch() (*postmaster, error) {
	if err := rotate(c.logFile()); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the server's log: %w", err)
	}
	defer log.Close()

	// In a list of directories, quotes keep commas and spaces of the path.
	quoted := `"` + strings.ReplaceAll(c.socket, `"`, `""`) + `"`
	cmd := c.command(context.Background(), "postgres", "-D", c.data(), "-p", port,
		"-c", "config_file="+c.configFile(), "-c", "hba_file="+c.hbaFile(),
		"-c", "unix_socket_directories="+quoted, "-c", "unix_socket_permissions=0700", "-c", "listen_addresses=")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = c.data() // it would go there by itself, but processes must find it from its first instruction
	// A batchd that is killed takes its database down in order; nobody else would.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT

	st, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the server's log: %w", err)
	}
	p := &postmaster{cmd: cmd, done: make(chan struct{}), said: st.Size()}
	started := make(chan error)
	go func() {
		// The kernel means the death of the thread that forked, so this thread must live as long as the server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// signal tells the postmaster; one that is gone already is no error.
func (p *postmaster) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal PostgreSQL: %w", err)
	}
	return nil
}

// waitReady returns when the server accepts connections. The server itself writes that into its pid
// file, so neither a client nor a password is needed to ask.
func (c *cluster) waitReady(ctx context.Context, p *postmaster) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if pid, status := c.pidFile(); pid == p.pid && status == "ready" {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("PostgreSQL ended while starting (%v); its log says:\n%s", p.err, tail(c.logFile(), p.said))
		case <-ctx.Done():
			return fmt.Errorf("wait for PostgreSQL to start: %w; its log says:\n%s", ctx.Err(), tail(c.logFile(), p.said))
		case <-tick.C:
		}
	}
}

// pidFile reads postmaster.pid: the pid in line 1, the status in line 8. pid is 0 when there is no such file.
func (c *cluster) pidFile() (pid int, status string) {
	b, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return 0, ""
	}
	lines := strings.Split(string(b), "\n")
	pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	if len(lines) >= 8 {
		status = strings.TrimSpace(lines[7])
	}
	return pid, status
}

// clear ends whatever an earlier postmaster left running on the data directory, and returns when it is gone.
// A new postmaster beside old backends would corrupt the data; PostgreSQL guards against that itself,
// but only refuses. It removes stale lock files too: the pid in them may be another process of the same user by now
// (usual after a reboot, and in containers), or a dead one that nobody has waited for, and PostgreSQL would refuse.
func (c *cluster) clear(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var begin time.Time
	step := 0
	for {
		pids, err := c.processes()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			if err := errors.Join(removeFile(filepath.Join(c.data(), "postmaster.pid")), removeSocket(c.socket)); err != nil {
				return fmt.Errorf("remove stale lock files: %w", err)
			}
			return nil
		}
		if begin.IsZero() {
			begin = time.Now()
		}
		pid, _ := c.pidFile()
		hasPostmaster := contains(pids, pid)
		patience := patienceOrphans
		if hasPostmaster {
			patience = patiencePostmaster
		}
		switch waited := time.Since(begin); {
		case step == 0 && hasPostmaster:
			kill([]int{pid}, syscall.SIGINT) // fast shutdown
			step = 1
		case step <= 1 && waited > patience:
			kill(pids, syscall.SIGQUIT) // immediate; the log is replayed at the next start
			step = 2
		case step == 2 && waited > patience+patienceQuit:
			kill(pids, syscall.SIGKILL)
			step = 3
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for processes %v of an earlier PostgreSQL on %s: %w", pids, c.data(), ctx.Err())
		case <-tick.C:
		}
	}
}

// processes lists the PostgreSQL processes that work in the data directory, whoever started them. All of
// them have it as their working directory, so this also finds backends whose postmaster was killed, and
// cannot be fooled by a pid that was given to another process.
func (c *cluster) processes() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// Unreadable means another user's, gone, or dead but not yet waited for; none of them is ours.
		if cwd, err := os.Readlink("/proc/" + e.Name() + "/cwd"); err != nil || cwd != c.data() {
			continue
		}
		exe, err := os.Readlink("/proc/" + e.Name() + "/exe")
		// " (deleted)" follows the name after an upgrade of the package.
		if err != nil || filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != "postgres" {
			continue
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

func kill(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		// The next look says what came of it.
		_ = syscall.Kill(pid, sig)
	}
}

func contains(pids []int, pid int) bool {
	for _, p := range pids {
		if p == pid {
			return true
		}
	}
	return false
}

// rotate sets a large log aside. The server writes little (warnings and errors), so once a start is enough.
func rotate(path string) error {
	st, err := os.Stat(path)
	if err != nil || st.Size() < maxLog {
		return nil
	}
	if err := os.Rename(path, path+".1"); err != nil {
		return fmt.Errorf("set the server's log aside: %w", err)
	}
	return nil
}

// tail returns the last lines of a log, from a given place on, for an error text.
func tail(path string, from int64) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if from < int64(len(b)) {
		b = b[from:]
	}
	const size = 2000
	if len(b) > size {
		b = b[len(b)-size:]
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			b = b[i+1:]
		}
	}
	return strings.TrimSpace(string(b))
}
