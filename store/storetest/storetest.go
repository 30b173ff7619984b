// Package storetest gives each test a database of its own in a real PostgreSQL: one private cluster per test
// program, started at the first need, and in it a copy of an empty, migrated database per test (some 50 ms), so that
// tests run in parallel. A package that uses it has
//
//	func TestMain(m *testing.M) { storetest.Main(m) }
//
// Without the PostgreSQL programs tests fail; they are never skipped. fsync is off, which a killed process does not
// notice, only a machine that crashes; it is on where benchmarks run.
package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/store"
	"fairslice/store/pgserver"
)

const (
	dirPattern = "fairslice-storetest-"
	template   = "storetest_template"
	hint       = "the tests need PostgreSQL's server programs: type \"apt-get install postgresql\" (Debian, Ubuntu) or " +
		"\"dnf install postgresql-server\" (EL)"
	startTimeout = 2 * time.Minute
)

// Runner is a *testing.M, or something that wraps one.
type Runner interface{ Run() int }

// Main runs the tests, stops the cluster, and exits.
func Main(m Runner) { os.Exit(Wrap(m).Run()) }

// Wrap returns a Runner that stops the cluster after the tests: for goleak.VerifyTestMain(storetest.Wrap(m)).
func Wrap(m Runner) Runner { return runner{m} }

type runner struct{ m Runner }

func (r runner) Run() int {
	mains.Store(true)
	code := r.m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "storetest: stop PostgreSQL:", err)
		code = max(code, 1)
	}
	return code
}

var (
	mains   atomic.Bool // Main or Wrap runs the tests
	numbers atomic.Int64

	// cluster is the one of this program; the mutex guards its making.
	mu      sync.Mutex
	cluster struct {
		server *pgserver.Server
		dir    string
		err    error // why it could not be started: told to each test, tried once
	}
)

// Open returns a Store on an empty database of its own. It is closed when the test ends.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return OpenURL(t, URL(t))
}

// OpenURL opens a Store on a database made by URL, such as a second one on the same database.
func OpenURL(t testing.TB, u string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{URL: u, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// URL makes an empty, migrated database and returns its connection string.
func URL(t testing.TB) string {
	t.Helper()
	if !mains.Load() {
		t.Fatal(`storetest: add "func TestMain(m *testing.M) { storetest.Main(m) }" to the package's tests`)
	}
	base, err := serverURL()
	if err != nil {
		t.Fatalf("storetest: %v\n%s", err, hint)
	}
	name := fmt.Sprintf("test_%d", numbers.Add(1))
	if err := execute(t.Context(), base, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatal("storetest: ", err)
	}
	u, err := database(base, name)
	if err != nil {
		t.Fatal("storetest: ", err)
	}
	return u
}

func serverURL() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	if cluster.server == nil && cluster.err == nil {
		cluster.err = start()
	}
	if cluster.err != nil {
		return "", cluster.err
	}
	return cluster.server.URL(), nil
}

func start() error {
	removeStale()
	dir, err := os.MkdirTemp("", dirPattern)
	if err != nil {
		return err
	}
	cluster.dir = dir
	// PostgreSQL runs as another user when the tests run as root, and must get through.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "local.conf"), []byte(settings()), 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if cluster.server, err = pgserver.Start(ctx, pgserver.Config{Dir: dir}); err != nil {
		return err
	}
	base := cluster.server.URL()
	if err := execute(ctx, base, "CREATE DATABASE "+template); err != nil {
		return err
	}
	u, err := database(base, template)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, store.Config{URL: u})
	if err != nil {
		return err
	}
	s.Close() // a template must have no users
	return nil
}

// settings are for data that is thrown away. Benchmarks want to see what a commit costs, so they keep fsync.
func settings() string {
	if f := flag.Lookup("test.bench"); f != nil && f.Value.String() != "" {
		return ""
	}
	return "fsync = off\nfull_page_writes = off\n"
}

func stop() error {
	mu.Lock()
	defer mu.Unlock()
	if cluster.dir == "" {
		return nil
	}
	var err error
	if cluster.server != nil {
		// At once: an orderly stop would first write all databases to disk, and they are removed next.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err = cluster.server.Stop(ctx); errors.Is(err, context.Canceled) {
			err = nil
		}
		cluster.server = nil
	}
	err = errors.Join(err, os.RemoveAll(cluster.dir))
	cluster.dir, cluster.err = "", errors.New("the tests are over")
	return err
}

// removeStale removes what test programs left that were killed. Their PostgreSQL went with them; pgserver's lock
// tells who still runs.
func removeStale() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPattern+"*"))
	for _, dir := range dirs {
		lock, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue // just being made, or not ours
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) // the next one tries again
		}
		lock.Close()
	}
}

func execute(ctx context.Context, u, sql string) error {
	conn, err := pgx.Connect(ctx, u)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// database is u with another database name.
func database(u, name string) (string, error) {
	parsed, err := url.Parse(u)
	if err != nil {
		return "", err
	}
	parsed.Path = "/" + name
	return parsed.String(), nil
}
