package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// firstDelay and lastDelay bound the wait before a server that died is started again; the wait doubles.
	firstDelay = 50 * time.Millisecond
	lastDelay  = 10 * time.Second
	// steady is how long a server must run for the wait to begin small again.
	steady = time.Minute
	// maxAttempts is how many starts in a row may fail before the Server gives up: about a minute. A person
	// must look then, and a batchd without a database should say so rather than wait for ever.
	maxAttempts = 12
	// lockPatience is how long Start waits for another batchd's lock to go.
	lockPatience = 300 * time.Millisecond
	// restartTimeout bounds one start of the supervisor, the replay of the log after a crash included.
	restartTimeout = 5 * time.Minute
)

// Config says where and how to run the cluster. Only Dir is required.
type Config struct {
	// Dir is the state directory; it is made when missing. Every directory above it must be open (x) to User.
	Dir string
	// BinDir holds initdb and postgres. Empty: the newest installation that is found, or the one that made
	// the cluster.
	BinDir string
	// User is who PostgreSQL runs as when batchd is root. Empty: the owner of the cluster that is there, else
	// "postgres", else "nobody". Ignored when batchd is not root.
	User string
	// Logger gets starts, deaths and stops. Nil: nothing is logged.
	Logger *slog.Logger
}

// Server is a running private cluster. Its methods may be called from any goroutine.
type Server struct {
	c      *cluster
	log    *slog.Logger
	lock   *os.File
	cancel context.CancelFunc // ends the supervisor's waits
	done   chan struct{}

	mu       sync.Mutex
	current  *postmaster // nil while the server is down
	stopping bool
	err      error
}

// Start makes the cluster when there is none, ends what an earlier batchd left running on it, starts the
// server and returns when it accepts connections. ctx bounds the start only; Stop ends the server.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.Dir == "" {
		return nil, errors.New("start PostgreSQL: no directory given")
	}
	begin := time.Now()
	dir, lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	c, err := openCluster(cfg, dir)
	if err != nil {
		unlock(lock)
		return nil, err
	}
	p, err := c.start(ctx)
	if err != nil {
		// The start's error is the one to tell; the directory is made again next time anyway.
		_ = c.removeSocketDir()
		unlock(lock)
		return nil, err
	}
	// Detached: the supervisor outlives the start.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{c: c, log: log.With("service", "pgserver"), lock: lock, cancel: cancel, done: make(chan struct{}), current: p}
	s.log.InfoContext(ctx, "postgresql started", "pid", p.pid, "dir", dir, "version", c.bin.major, "took", time.Since(begin))
	go s.supervise(life, p)
	return s, nil
}

// URL is the connection string of the one database, as its superuser. It stays the same when the server is restarted.
func (s *Server) URL() string { return s.c.url() }

// Pid is the postmaster's process id; 0 while it is down.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0
	}
	return s.current.pid
}

// Done is closed when the server is gone for good: after Stop, or when it could not be started again; Err tells which.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is nil while the server is supervised and after an orderly Stop; else it says why the server is gone.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Stop shuts the server down: open transactions are rolled back, all that was committed is on disk. When ctx ends first,
// the server is ended at once (its log is replayed at the next start) and ctx's error is returned. It may be called twice.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	p := s.current
	s.mu.Unlock()
	s.cancel()
	if p != nil {
		if err := p.signal(syscall.SIGINT); err != nil {
			return err
		}
	}
	select {
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
	}
	// The supervisor may be between two servers, so ask again who is running.
	s.mu.Lock()
	p = s.current
	s.mu.Unlock()
	if p != nil {
		if err := p.signal(syscall.SIGQUIT); err != nil {
			return err
		}
		select {
		case <-s.done:
		case <-time.After(patienceQuit):
			kill([]int{p.pid}, syscall.SIGKILL)
		}
	}
	<-s.done
	return fmt.Errorf("stop PostgreSQL in order: %w", ctx.Err())
}

// start runs every step to a server that accepts connections. Nothing is left running when it fails.
func (c *cluster) start(ctx context.Context) (*postmaster, error) {
	if err := c.initialize(ctx); err != nil {
		return nil, err
	}
	if err := c.clear(ctx); err != nil {
		return nil, err
	}
	if err := c.writeConfig(); err != nil {
		return nil, err
	}
	p, err := c.launch()
	if err != nil {
		return nil, err
	}
	if err := c.waitReady(ctx, p); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

// end stops a server that nobody uses yet, and waits for it.
func (p *postmaster) end() error {
	if err := p.signal(syscall.SIGQUIT); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(patienceQuit):
		kill([]int{p.pid}, syscall.SIGKILL)
		<-p.done
	}
	return nil
}

// supervise starts the server again whenever it ends without being told to, until Stop or until it
// cannot be started any more. It is the only one that sets current after Start.
func (s *Server) supervise(ctx context.Context, p *postmaster) {
	defer s.finish()
	delay := firstDelay
	for {
		since := time.Now()
		<-p.done
		if !s.setCurrent(nil) {
			if p.err != nil {
				s.fail(fmt.Errorf("PostgreSQL stopped out of order: %w", p.err))
			}
			return
		}
		s.log.WarnContext(ctx, "postgresql died", "pid", p.pid, "error", p.err, "ran", time.Since(since))
		if time.Since(since) > steady {
			delay = firstDelay
		}
		var err error
		if p, err = s.restart(ctx, &delay); err != nil {
			if ctx.Err() == nil {
				s.fail(fmt.Errorf("PostgreSQL died and could not be started again: %w", err))
				s.log.ErrorContext(ctx, "postgresql given up", "error", err)
			}
			return
		}
		if !s.setCurrent(p) {
			// Stop came while we were starting, and did not see this one.
			if err := p.signal(syscall.SIGINT); err != nil {
				s.fail(err)
				return
			}
			<-p.done
			return
		}
		s.log.InfoContext(ctx, "postgresql restarted", "pid", p.pid, "took", time.Since(since))
	}
}

// restart waits delay before each try and doubles it.
func (s *Server) restart(ctx context.Context, delay *time.Duration) (*postmaster, error) {
	for attempt := 1; ; attempt++ {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(*delay):
		}
		*delay = min(2**delay, lastDelay)
		p, err := s.tryStart(ctx)
		if err == nil || ctx.Err() != nil || attempt == maxAttempts {
			return p, err
		}
		s.log.WarnContext(ctx, "postgresql did not start", "attempt", attempt, "next_in", *delay, "error", err)
	}
}

func (s *Server) tryStart(ctx context.Context) (*postmaster, error) {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	return s.c.start(ctx)
}

// setCurrent notes the running server; false when the Server is being stopped.
func (s *Server) setCurrent(p *postmaster) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = p
	return !s.stopping
}

func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// finish gives back what the Server holds; the lock last, because the next owner starts from there.
func (s *Server) finish() {
	s.cancel()
	if err := s.c.removeSocketDir(); err != nil {
		s.log.Warn("socket directory left behind", "error", err)
	}
	unlock(s.lock)
	s.log.Info("postgresql stopped")
	close(s.done)
}

// lockDir makes dir and locks it for this process. The lock ends with the process, however that ends. The returned
// path has no links left in it, because the kernel tells paths of processes that way.
func lockDir(dir string) (string, *os.File, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", nil, fmt.Errorf("make PostgreSQL's directory: %w", err)
		}
		// Whatever the umask; the user that PostgreSQL runs as must get through.
		if err := os.Chmod(dir, 0o755); err != nil {
			return "", nil, fmt.Errorf("open PostgreSQL's directory: %w", err)
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, fmt.Errorf("find PostgreSQL's directory: %w", err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return "", nil, fmt.Errorf("find PostgreSQL's directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(abs, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, fmt.Errorf("lock PostgreSQL's directory: %w", err)
	}
	if err := tryLock(lock); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return "", nil, fmt.Errorf("the PostgreSQL in %s is run by another batchd; stop that one first, or choose another directory", abs)
		}
		return "", nil, fmt.Errorf("lock %s: %w", abs, err)
	}
	return abs, lock, nil
}

// tryLock waits a moment for a lock that is held: a killed batchd may leave a child between fork and exec, which
// still has the file open.
func tryLock(f *os.File) error {
	for end := time.Now().Add(lockPatience); ; time.Sleep(poll) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			return err
		}
	}
}

// unlock does not leave it to Close, which would keep the lock while a child that is being started shares the file.
func unlock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // of our own lock: it cannot fail
	f.Close()
}
