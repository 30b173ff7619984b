package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"fairslice/accounting"
	"fairslice/api"
	"fairslice/api/pki"
	"fairslice/etc"
	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/engine"
	"fairslice/store"
	"fairslice/store/pgserver"
)

const (
	// leaseLife is how long a dead leader keeps a standby waiting.
	leaseLife = 3 * time.Second
	// privateLife is for a database of batchd's own, which no standby can reach: a busy machine must not end its term.
	privateLife = 15 * time.Second
)

func tokenFile(cfg *etc.Config) string { return filepath.Join(cfg.StateDir, "tokens.json") }

// serve runs the daemon until ctx ends or it can no longer lead. reload reads the configuration again.
func serve(ctx context.Context, cfg *etc.Config, reload func() (*etc.Config, error), log *slog.Logger) (err error) {
	if err := os.MkdirAll(cfg.StateDir, 0o755); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	unlock, err := lockDir(cfg.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := writeLSFConf(cfg); err != nil {
		return fmt.Errorf("files for LSF clients: %w", err)
	}
	url, stopDB, err := database(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer stopDB()
	st, err := store.Open(ctx, store.Config{URL: url, Logger: log})
	if err != nil {
		return err
	}
	defer st.Close()
	host, _ := os.Hostname()
	life := leaseLife
	if cfg.DatabaseURL == "" {
		life = privateLife
	}
	lease, err := st.Campaign(ctx, host+":"+cfg.StateDir, life)
	if err != nil {
		return err
	}
	defer func() {
		out, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = lease.Release(out) // it runs out by itself
	}()
	return lead(ctx, cfg, reload, log, st, lease, host)
}

// lead restores the book and serves it while the lease lasts.
func lead(ctx context.Context, cfg *etc.Config, reload func() (*etc.Config, error), log *slog.Logger, st *store.Store, lease *store.Lease, host string) error {
	began := time.Now()
	state, err := st.Load(ctx)
	if err != nil {
		return err
	}
	book := queue.NewBook()
	if err := book.Restore(state.Jobs, state.Nodes, state.Queues, state.LastSeq, state.LastJob); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := book.RestoreReservations(state.Reservations); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if _, err := accounting.ParsePolicy(state.Policy.Text); err != nil {
		return fmt.Errorf("restore: version %d of the policy is not understood by this version of batchd: %w", state.Policy.Version, err)
	}
	book.RestorePolicy(state.Policy)
	if err := state.Images.Restore(book.Images); err != nil {
		return fmt.Errorf("restore the images: %w", err)
	}
	hub := api.NewHub(api.HubConfig{Cluster: cfg.Cluster, HeartbeatEvery: cfg.Heartbeat, HeartbeatTimeout: cfg.NodeTimeout}, log)
	hook := newIdleHook(log)
	eng := engine.New(engineConfig(cfg, hook, log), &ledger{st, lease}, hub, book)
	learnt, err := past(ctx, st, cfg, log)
	if err != nil {
		return err
	}
	eng.Learn(learnt)
	if err := eng.LoadBudgets(ctx, st); err != nil {
		return err
	}
	metrics := newMetrics(eng, eng)
	eng.Observe(metrics)
	tokens, err := api.OpenTokens(tokenFile(cfg), time.Now)
	if err != nil {
		return err
	}
	back := newBackend(eng, st, lease.Term(), cfg, host, reload, log)
	files, err := openDepot(ctx, back.cfg.Load, log)
	if err != nil {
		return err
	}
	defer files.Close()
	back.depot, hub.Files, back.hook = files, files, hook
	back.committer = newCommitter(eng, hub, files, back.cfg.Load, log)
	site, err := newAppSite(back, cfg, host)
	if err != nil {
		return err
	}
	srv := api.New(api.Config{Admins: cfg.Admins, Web: cfg.Web.Address(host), Apps: site}, back, hub, tokens, log)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	back.starter = newAppStarter(ctx, eng, srv, log)
	var working sync.WaitGroup // in the depot
	defer func() {
		cancel(nil)
		back.starter.alive.Wait()
		working.Wait()
	}()
	back.starter.resume()
	ended := make(chan error, 8)
	stopped := make(chan struct{}) // the engine is
	go func() {
		defer close(stopped)
		ended <- eng.Run(ctx)
	}()
	unix, err := api.ListenUnix(cfg.Socket)
	if err != nil {
		return err
	}
	go func() { ended <- srv.Serve(unix) }()
	if cfg.Listen != "" {
		if err := listenTLS(cfg, host, srv, ended); err != nil {
			return err
		}
	}
	if cfg.Metrics != "" {
		l, err := net.Listen("tcp", cfg.Metrics)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		web := &http.Server{Handler: metrics.handler(), ReadHeaderTimeout: 10 * time.Second}
		go func() { ended <- closedIsNil(web.Serve(l)) }()
		defer web.Close()
	}
	stopWeb, err := serveWeb(cfg, host, back, srv, site, log, ended)
	if err != nil {
		return err
	}
	defer stopWeb()
	watchNodes(ctx, eng, book, cfg.NodeTimeout, log)
	go sweepBlobs(ctx, st, log)
	go rollUp(ctx, st, log)
	go sweepImages(ctx, files, eng, log)
	working.Go(func() { back.run(ctx) })
	working.Go(func() { hook.run(ctx) })
	go keepHouse(ctx, back.archivist, log)
	log.Info("serving", "cluster", cfg.Cluster, "socket", cfg.Socket, "term", lease.Term(), "jobs", len(state.Jobs), "took", time.Since(began))
	select {
	case <-ctx.Done():
	case <-lease.Lost():
		err = engine.ErrStale
	case err = <-ended:
	}
	stop, cancelStop := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancelStop()
	cancel(err)
	_ = srv.Stop(stop)
	select {
	case <-stopped: // it writes what it has seen of the GPUs last
	case <-stop.Done():
	}
	log.Info("stopped", "cause", err)
	return err
}

// watchNodes marks as gone the nodes that were alive in the book and do not connect again in time.
func watchNodes(ctx context.Context, eng *engine.Engine, book *queue.Book, timeout time.Duration, log *slog.Logger) {
	var alive []nodes.ID
	eng.View(func(v queue.View) {
		for id, n := range v.Book().Nodes {
			if n.Alive {
				alive = append(alive, id)
			}
		}
	})
	if len(alive) == 0 {
		return
	}
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(timeout):
		}
		for _, id := range alive {
			if eng.Connected(id) {
				continue
			}
			if err := eng.NodeGone(ctx, id, "it did not connect again after batchd was restarted"); err != nil && ctx.Err() == nil {
				log.Error("lost node not noted", "node", id, "error", err)
			}
		}
	}()
}

// sweepBlobs removes, now and then, scripts and environments that no job names any more.
func sweepBlobs(ctx context.Context, st *store.Store, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Hour):
		}
		if _, err := st.SweepBlobs(ctx, 24*time.Hour); err != nil && ctx.Err() == nil {
			log.Warn("unused scripts not removed", "error", err)
		}
	}
}

// rollUp keeps the hourly sums of charges up to date, behind the commits.
func rollUp(ctx context.Context, st *store.Store, log *slog.Logger) {
	for {
		if err := st.RollUp(ctx); err != nil && ctx.Err() == nil {
			log.Warn("usage not rolled up: reports lack the last charges until it is", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
		}
	}
}

func listenTLS(cfg *etc.Config, host string, srv *api.Server, ended chan<- error) error {
	names := cfg.TLSNames
	if len(names) == 0 {
		names = []string{host, "localhost", "127.0.0.1"}
	}
	authority, err := pki.Open(filepath.Join(cfg.StateDir, "pki"), names, time.Now)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return err
	}
	go func() { ended <- srv.ServeTLS(l, authority.TLS()) }()
	return nil
}

func closedIsNil(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// database is the site's own, or a private one that this daemon runs.
func database(ctx context.Context, cfg *etc.Config, log *slog.Logger) (url string, stop func(), err error) {
	if cfg.DatabaseURL != "" {
		return cfg.DatabaseURL, func() {}, nil
	}
	pg, err := pgserver.Start(ctx, pgserver.Config{
		Dir: filepath.Join(cfg.StateDir, "postgres"), BinDir: cfg.PostgresBin, User: cfg.PostgresUser, Logger: log})
	if err != nil {
		return "", nil, err
	}
	return pg.URL(), func() {
		out, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := pg.Stop(out); err != nil {
			log.Error("database not stopped", "error", err)
		}
	}, nil
}

// lockDir makes sure that one daemon uses a state directory.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "batchd.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another batchd uses %s", dir)
	}
	return func() { _ = f.Close() }, nil
}

// ledger is the store as the engine sees it, under one lease.
type ledger struct {
	*store.Store
	lease *store.Lease
}

func (l *ledger) Commit(ctx context.Context, b *engine.Batch) error {
	rows := make([]store.ElementRow, len(b.Elements))
	for i, r := range b.Elements {
		rows[i] = store.ElementRow(r)
	}
	hours := make([]store.GPUHour, len(b.GPUHours))
	for i, h := range b.GPUHours {
		hours[i] = store.GPUHour(h)
	}
	err := l.Store.Commit(ctx, &store.Batch{Term: l.lease.Term(), Events: b.Events, GPUHours: hours, Jobs: b.Jobs, Elements: rows,
		Nodes: b.Nodes, Queues: b.Queues, Reservations: b.Reservations, Policy: b.Policy, Images: b.Images, Commits: b.Commits, Forgotten: b.Forgotten, Blobs: b.Blobs})
	if errors.Is(err, store.ErrStaleTerm) {
		return fmt.Errorf("%w: %w", engine.ErrStale, err)
	}
	return err
}

func (l *ledger) Blob(ctx context.Context, hash string) ([]byte, error) {
	data, found, err := l.Store.Blob(ctx, hash)
	if err == nil && !found {
		err = fmt.Errorf("blob %s is not stored", hash)
	}
	return data, err
}

func (l *ledger) FindHistory(ctx context.Context, sel queue.Selection, user string) ([]queue.JobID, error) {
	if user == "all" {
		user = ""
	}
	return l.Store.FindHistory(ctx, store.HistoryFilter{User: user, Queue: sel.Queue, Name: sel.Name, Since: sel.Since, Until: sel.Until})
}
