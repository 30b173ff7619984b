package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"fairslice/accounting"
	"fairslice/api"
	"fairslice/etc"
	"fairslice/images/depot"
	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/engine"
	"fairslice/store"
)

// backend is the engine as the server sees it: the same calls, with errors that users may read marked as such.
type backend struct {
	*engine.Engine
	*reporter
	*archivist
	*committer
	depot   *depot.Depot
	cfg     atomic.Pointer[etc.Config]
	host    string
	starter *appStarter
	hook    *idleHook
	reload  func() (*etc.Config, error)
	log     *slog.Logger
}

func newBackend(eng *engine.Engine, st *store.Store, term int64, cfg *etc.Config, host string, reload func() (*etc.Config, error), log *slog.Logger) *backend {
	b := &backend{Engine: eng, host: host, reload: reload, log: log}
	b.cfg.Store(cfg)
	b.reporter = &reporter{store: st, zone: func() *time.Location { return b.cfg.Load().Location() }, now: time.Now}
	b.archivist = &archivist{store: st, term: term, cfg: b.cfg.Load, now: time.Now}
	return b
}

// speak turns the engine's errors into the server's.
func speak(err error) error {
	var r engine.Refusal
	switch {
	case errors.As(err, &r):
		return &api.Error{Code: api.Invalid, Msg: r.Text}
	case errors.Is(err, engine.ErrStopped), errors.Is(err, engine.ErrStale):
		return &api.Error{Code: api.Unavailable, Msg: err.Error()}
	}
	return err
}

func (b *backend) Submit(ctx context.Context, s queue.Submission) (queue.Accepted, error) {
	if s.Spec.Project == "" {
		s.Spec.Project = b.cfg.Load().DefaultProject
	}
	a, err := b.Engine.Submit(ctx, s)
	var r engine.Refusal
	if errors.As(err, &r) { // LSF's words: clients look for them
		return a, &api.Error{Code: api.Invalid, Msg: strings.TrimSuffix(r.Text, ".") + ". Job not submitted."}
	}
	return a, speak(err)
}

func (b *backend) Control(ctx context.Context, c queue.Control) ([]queue.Outcome, error) {
	out, err := b.Engine.Control(ctx, c)
	return out, speak(err)
}

func (b *backend) Extend(ctx context.Context, q queue.Extend) (queue.Extension, error) {
	x, err := b.Engine.Extend(ctx, q)
	return x, speak(err)
}

func (b *backend) Admin(ctx context.Context, a queue.AdminCommand) ([]queue.Outcome, error) {
	if a.Op == "reconfig" && a.By.Admin {
		return b.reconfigure(ctx)
	}
	out, err := b.Engine.Admin(ctx, a)
	return out, speak(err)
}

func (b *backend) AddReservation(ctx context.Context, q queue.ReservationRequest) (string, error) {
	id, err := b.Engine.AddReservation(ctx, q)
	return id, speak(err)
}

func (b *backend) SetPolicy(ctx context.Context, c queue.PolicyChange) (queue.PolicyOutcome, error) {
	out, err := b.Engine.SetPolicy(ctx, c)
	return out, speak(err)
}

func (b *backend) Shares(ctx context.Context, compare []string) (accounting.Shares, error) {
	out, err := b.Engine.Shares(ctx, compare)
	return out, speak(err)
}

func (b *backend) Budgets(ctx context.Context, account string, by queue.Identity) (accounting.BudgetList, error) {
	out, err := b.Engine.Budgets(ctx, account, by)
	return out, speak(err)
}

// reconfigure reads the configuration again. A file with mistakes changes nothing.
func (b *backend) reconfigure(ctx context.Context) ([]queue.Outcome, error) {
	cfg, err := b.reload()
	if err != nil {
		return nil, &api.Error{Code: api.Invalid, Msg: err.Error()}
	}
	if err := writeLSFConf(cfg); err != nil {
		return nil, err
	}
	b.Reconfigure(engineConfig(cfg, b.hook, b.log))
	b.cfg.Store(cfg)
	if err := b.RereadBudgets(ctx); err != nil {
		b.log.Warn("what the budgets have spent was not read again, and counts too much if the time zone has changed: badmin reconfig tries again", "error", err)
	}
	b.log.Info("configuration read again", "queues", len(cfg.Queues))
	text := "Reconfiguration is done. Addresses, directories, the database and heartbeats change with the next start only."
	return []queue.Outcome{{ID: cfg.Cluster, OK: true, Text: text}}, nil
}

func (b *backend) Select(v queue.View, s queue.Selection, by queue.Identity) ([]api.Found, []string, error) {
	found, missing, err := b.Engine.Select(v, s, by)
	out := make([]api.Found, len(found))
	for i, f := range found {
		out[i] = api.Found(f)
	}
	return out, missing, speak(err)
}

func (b *backend) History(ctx context.Context, s queue.Selection, by queue.Identity) ([]api.HistoryJob, []string, error) {
	jobs, missing, err := b.Engine.History(ctx, s, by)
	out := make([]api.HistoryJob, len(jobs))
	for i, j := range jobs {
		out[i] = api.HistoryJob(j)
	}
	return out, missing, speak(err)
}

// NodeReport passes a report on, and starts the apps of a session that has begun.
func (b *backend) NodeReport(ctx context.Context, id nodes.ID, r queue.Report) error {
	err := b.Engine.NodeReport(ctx, id, r)
	if err == nil && r.Kind == queue.ReportBegan && b.starter != nil {
		b.starter.began(r.ID, r.Attempt)
	}
	return err
}

func (b *backend) NodeJoined(ctx context.Context, h queue.Hello) error {
	return speak(b.Engine.NodeJoined(ctx, h))
}

// engineConfig is what the engine needs of the site's configuration.
func engineConfig(cfg *etc.Config, hook *idleHook, log *slog.Logger) engine.Config {
	known := new(fileApps)
	c := engine.Config{
		FileApps: func(file string) ([]string, bool) { return known.of(cfg, file) },
		Cluster:  cfg.Cluster, DefaultQueue: cfg.DefaultQueue, Images: cfg.ImageFiles(),
		DefaultImage: cfg.Container.DefaultImage, Binds: cfg.Container.Binds,
		MaxArray: cfg.MaxJobArraySize, CleanPeriod: cfg.CleanPeriod, MemoryUnit: cfg.MemoryUnit(),
		Consumables: cfg.ResourceNames(), JobReport: cfg.JobReport, RerunAfter: cfg.NodeTimeout, Location: cfg.Location(),
		MaxStarts: cfg.Scheduler.MaxStarts, Scheduling: scheduling(&cfg.Scheduler), Logger: log.With("service", "engine"), Now: time.Now,
		GPUCapacity:   func(model string) nodes.Amount { return nodes.Amount(cfg.GPU.Capacity(model)) },
		MaxUserImages: cfg.Catalogue.UserCount, MaxUserImageBytes: cfg.Catalogue.UserQuota,
		UsersPublish: cfg.Catalogue.Publish == "users", ApproveCommits: cfg.Catalogue.Approve == "admin",
		IdleWarned: func(w engine.IdleWarning) { hook.warned(cfg.Session.IdleHook, w) },
		NodeSupply: func(id nodes.ID) nodes.Consumables { return nodes.MakeConsumables(cfg.Supply(string(id))) },
	}
	for _, a := range cfg.Apps {
		c.Apps = append(c.Apps, a.Name)
	}
	for _, q := range cfg.Queues {
		c.Queues = append(c.Queues, engine.Queue{
			Name: q.Name, Description: q.Description, Priority: q.Priority, Hosts: q.Hosts, Users: q.Users,
			DefaultRunLimit: q.DefaultRunLimit, MaxRunLimit: q.MaxRunLimit, DefaultMemory: q.DefaultMemory,
			MaxMemory: q.MaxMemory, MaxSlots: q.MaxSlots, UserSlots: q.UserSlots, Exclusive: q.Exclusive,
			Interactive: q.Interactive, Rerunnable: q.Rerunnable, Container: q.Container, Image: q.Image,
			Unfenced: q.Unfenced == "watchdog", OverlaySize: overlaySize(&q),
			Idle: engine.IdleRule{After: q.IdleAfter, Warn: q.IdleWarn, BelowGPU: q.IdleGPUBelow, BelowCPU: q.IdleCPUBelow},
		})
	}
	return c
}

// overlaySize is how many bytes of its image a job of the queue may change.
func overlaySize(q *etc.Queue) int64 {
	if !q.Writable {
		return 0
	}
	return q.OverlaySize
}
