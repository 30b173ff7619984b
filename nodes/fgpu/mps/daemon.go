package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	pidFile = "nvidia-cuda-mps-control.pid" // the control daemon writes it into its pipe directory
	// The longest of the sockets that it makes there, and what the address of a socket can hold.
	longestSocket = "control_privileged"
	socketAddress = 107
)

// Config says how the MPS of one GPU is run.
type Config struct {
	Binary  string // nvidia-cuda-mps-control: a path, or a name to be searched in $PATH
	UUID    string // of the GPU
	PipeDir string // absolute; of this daemon alone; made if missing, and given mode 0755, for clients of every user
	LogDir  string // absolute; made if missing

	// Env is added to the daemon's environment, which is otherwise that of this process without what speaks to CUDA.
	Env []string

	// Timeout bounds a command, Patience the start of the daemon until it answers. A daemon that ends is started again
	// after MinPause, twice as long each time up to MaxPause; one that ran for MaxPause begins anew. Zero values are
	// 10 s, 10 s, 1 s, 1 minute.
	Timeout, Patience, MinPause, MaxPause time.Duration

	Log *slog.Logger // nil: none
}

// State is what a Daemon is doing.
type State struct {
	Ready    bool  // it answers
	Pid      int   // of the control daemon; 0 where none runs
	Adopted  bool  // it was there before Start
	Restarts int   // how often it had to be started again
	Problem  error // why it is not ready, or why the last one ended; nil
}

// Daemon is the MPS control daemon of one GPU, kept alive. One that hangs is not ended, for its clients would end with
// it: Servers then fails. Its methods may be called at the same time.
type Daemon struct {
	config Config
	cancel context.CancelFunc
	done   chan struct{} // closed when keep has returned

	mu       sync.Mutex // guards what follows
	state    State
	changed  chan struct{}     // closed and made anew with every change of state
	settings map[string]string // commands for every new daemon, by their name
	quitting bool
}

// Start runs the control daemon of a GPU, or adopts the one that answers in its pipe directory, and returns when it is
// ready. It fails where it is not within Patience, or ctx ends: then nothing of it is left running. The daemon is
// kept alive until Leave or Quit; ctx is for the start alone.
func Start(ctx context.Context, config Config) (*Daemon, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("MPS of GPU %s: %w", config.UUID, err)
	}
	for _, dir := range []string{config.PipeDir, config.LogDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("MPS of GPU %s: %w", config.UUID, err)
		}
	}
	if err := os.Chmod(config.PipeDir, 0o755); err != nil { // whatever the umask is, for clients of every user
		return nil, fmt.Errorf("MPS of GPU %s: %w", config.UUID, err)
	}
	d := &Daemon{config: config, done: make(chan struct{}), changed: make(chan struct{}), settings: map[string]string{}}
	life, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	running, err := d.find(ctx)
	if err == nil && running == nil {
		running, err = d.launch(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	d.put(func(s *State) { s.Ready, s.Pid, s.Adopted = true, running.pid, running.adopted })
	go d.keep(life, running)
	return d, nil
}

func (c *Config) complete() error {
	var problems []error
	if c.Binary == "" {
		problems = append(problems, errors.New("no path of nvidia-cuda-mps-control"))
	}
	if c.UUID == "" || strings.ContainsAny(c.UUID, ",= \n") {
		problems = append(problems, fmt.Errorf("%q is no UUID of a GPU", c.UUID))
	}
	if !filepath.IsAbs(c.PipeDir) || !filepath.IsAbs(c.LogDir) {
		problems = append(problems, fmt.Errorf("pipe directory %q and log directory %q: want absolute paths", c.PipeDir, c.LogDir))
	}
	if n := len(c.PipeDir) + 1 + len(longestSocket); n > socketAddress {
		problems = append(problems, fmt.Errorf("pipe directory %q is %d characters too long for the sockets in it", c.PipeDir, n-socketAddress))
	}
	for value, standard := range map[*time.Duration]time.Duration{&c.Timeout: 10 * time.Second, &c.Patience: 10 * time.Second,
		&c.MinPause: time.Second, &c.MaxPause: time.Minute} {
		if *value == 0 {
			*value = standard
		}
		if *value < 0 {
			problems = append(problems, fmt.Errorf("a time of %s: want none below 0", *value))
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("service", "mps", "gpu", c.UUID)
	return errors.Join(problems...)
}

// State tells what the daemon is doing now.
func (d *Daemon) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}

// Await returns the first state for which is says yes, looking at every change, or the last one and ctx's error.
func (d *Daemon) Await(ctx context.Context, is func(State) bool) (State, error) {
	for {
		d.mu.Lock()
		state, changed := d.state, d.changed
		d.mu.Unlock()
		if is(state) {
			return state, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return state, ctx.Err()
		}
	}
}

// Leave stops keeping the daemon alive, and leaves it running for its clients. It may be called twice.
func (d *Daemon) Leave() {
	d.cancel()
	<-d.done
}

// Quit ends the daemon, and with it the GPU work of all its clients: by its quit command, and by force where ctx ends
// before it does.
func (d *Daemon) Quit(ctx context.Context) error {
	d.mu.Lock()
	d.quitting = true // keep does not start another
	pid := d.state.Pid
	d.mu.Unlock()
	defer d.Leave()
	if pid == 0 {
		return nil
	}
	_, err := d.ask(ctx, "quit")
	if err == nil || errors.Is(err, ErrNoDaemon) {
		if _, err = d.Await(ctx, func(s State) bool { return s.Pid == 0 }); err == nil {
			return nil
		}
	}
	syscall.Kill(pid, syscall.SIGKILL)
	return fmt.Errorf("MPS of GPU %s: it did not quit, and was killed: %w", d.config.UUID, err)
}

func (d *Daemon) put(change func(*State)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.state)
	close(d.changed)
	d.changed = make(chan struct{})
}

// running is a control daemon that answers.
type running struct {
	pid     int
	adopted bool
	ended   <-chan error // receives once, when it has ended, why
}

// keep watches the daemon and starts another when it ends.
func (d *Daemon) keep(life context.Context, r *running) {
	defer close(d.done)
	pause := d.config.MinPause
	for {
		began := time.Now()
		select {
		case <-life.Done():
			if d.isQuitting() { // it was started while Quit was being called
				syscall.Kill(r.pid, syscall.SIGKILL)
			}
			return
		case why := <-r.ended:
			d.put(func(s *State) { s.Ready, s.Pid, s.Adopted, s.Problem = false, 0, false, why })
			if d.isQuitting() {
				return
			}
			d.config.Log.Warn("MPS control daemon ended", "pid", r.pid, "reason", why)
		}
		if time.Since(began) >= d.config.MaxPause {
			pause = d.config.MinPause
		}
		for r = nil; r == nil; pause = min(2*pause, d.config.MaxPause) {
			select {
			case <-life.Done():
				return
			case <-time.After(pause):
			}
			var err error
			if r, err = d.launch(life); err == nil {
				break
			}
			d.config.Log.Error("MPS control daemon did not start", "error", err)
			d.put(func(s *State) { s.Problem = err })
		}
		if r == nil {
			return
		}
		d.config.Log.Info("MPS control daemon started", "pid", r.pid)
		d.put(func(s *State) { s.Ready, s.Pid, s.Problem = true, r.pid, nil; s.Restarts++ })
	}
}

func (d *Daemon) isQuitting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.quitting
}

// find adopts the daemon that answers in the pipe directory. Without one it returns nil.
func (d *Daemon) find(ctx context.Context) (*running, error) {
	_, err := d.serverList(ctx)
	if errors.Is(err, ErrNoDaemon) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pid, err := d.readPid()
	if err != nil {
		return nil, fmt.Errorf("MPS of GPU %s: a daemon answers, but which: %w", d.config.UUID, err)
	}
	ended, err := whenEnded(pid)
	if err != nil {
		return nil, fmt.Errorf("MPS of GPU %s: watch daemon %d: %w", d.config.UUID, pid, err)
	}
	return &running{pid, true, ended}, nil
}

// readPid tells which daemon has the pipe directory.
func (d *Daemon) readPid() (int, error) {
	path := filepath.Join(d.config.PipeDir, pidFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	pids, err := ParsePids(string(text))
	if err != nil || len(pids) != 1 {
		return 0, fmt.Errorf("%s has %q: want a process id", path, clip(string(text)))
	}
	return pids[0], nil
}

// whenEnded watches a process that is not a child.
func whenEnded(pid int) (<-chan error, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	// The goroutine ends with the process it watches: where the daemon outlives this program, at its end.
	go func() {
		defer unix.Close(fd)
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				ended <- errors.New("it has ended")
				return
			}
		}
	}()
	return ended, nil
}

// launch starts a daemon and waits until it answers and has its settings.
func (d *Daemon) launch(ctx context.Context) (*running, error) {
	out, err := os.OpenFile(filepath.Join(d.config.LogDir, "output.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("MPS of GPU %s: %w", d.config.UUID, err)
	}
	defer out.Close()
	cmd := exec.Command(d.config.Binary, "-f")
	cmd.Env = d.environment()
	cmd.Dir = d.config.LogDir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // rule 1
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("MPS of GPU %s: %w", d.config.UUID, err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("it has ended by itself")
		}
		ended <- err
	}()
	ctx, cancel := context.WithTimeout(ctx, d.config.Patience)
	defer cancel()
	if err := d.untilReady(ctx, cmd.Process.Pid, ended); err != nil {
		cmd.Process.Kill()
		return nil, fmt.Errorf("MPS of GPU %s: %s -f: %w (see %s)", d.config.UUID, d.config.Binary, err, d.config.LogDir)
	}
	return &running{pid: cmd.Process.Pid, ended: ended}, nil
}

// untilReady asks until the daemon pid answers, for it tells nobody when it is ready.
func (d *Daemon) untilReady(ctx context.Context, pid int, ended chan error) error {
	const between = 20 * time.Millisecond
	for {
		_, err := d.serverList(ctx)
		if err == nil {
			// Who answers may still be the one before, whose place ours then cannot take.
			if now, err := d.readPid(); err == nil && now == pid {
				break
			}
		} else if !errors.Is(err, ErrNoDaemon) && ctx.Err() == nil {
			return err
		}
		select {
		case why := <-ended:
			return why
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", ctx.Err())
		case <-time.After(between):
		}
	}
	d.mu.Lock()
	commands := slices.Sorted(maps.Values(d.settings))
	d.mu.Unlock()
	for _, command := range commands {
		if err := d.tell(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// environment is that of the daemon and of its commands. Variables for clients would be its defaults.
func (d *Daemon) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "CUDA_") })
	return append(append(env, d.config.Env...),
		"CUDA_VISIBLE_DEVICES="+d.config.UUID,
		"CUDA_MPS_PIPE_DIRECTORY="+d.config.PipeDir,
		"CUDA_MPS_LOG_DIRECTORY="+d.config.LogDir)
}
