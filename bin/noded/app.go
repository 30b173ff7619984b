package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"fairslice/api/client"
	"fairslice/etc"
	"fairslice/nodes/agent"
	"fairslice/nodes/imagecache"
)

// version is set by the Makefile.
var version = "0.1.0"

func app() *cli.App {
	return &cli.App{
		Name: "noded", Usage: "the Fairslice node daemon", Version: version, HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Value: "/etc/fairslice/noded.toml", Usage: "configuration `FILE`"},
			&cli.BoolFlag{Name: "stop-jobs", Usage: "end all jobs when noded is stopped (for batchd dev)"},
		},
		Action: func(c *cli.Context) error {
			cfg, err := etc.Load(c.String("config"))
			if err != nil {
				return err
			}
			var level slog.Level
			_ = level.UnmarshalText([]byte(cfg.LogLevel)) // validated
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			return run(c.Context, cfg, c.Bool("stop-jobs"), log)
		},
	}
}

// jobsEndWithin bounds the end of all jobs with --stop-jobs: batchd may be away.
const jobsEndWithin = 5 * time.Second

// run is the node daemon's life.
func run(ctx context.Context, cfg *etc.Config, stopJobs bool, log *slog.Logger) error {
	// A shepherd that is killed leaves its jobs to the nearest subreaper: to us, so that no exit status is lost.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	n := cfg.Node
	if n.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		n.Name, _, _ = strings.Cut(host, ".")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bin := filepath.Dir(self)
	gpus, err := openGPUs(n, bin, log)
	if err != nil {
		return err
	}
	defer gpus.close()
	f, agentGPUs, err := newFencing(ctx, n, gpus, bin, log)
	if err != nil {
		return err
	}
	defer f.end(stopJobs, log)
	link, err := client.NewNode(linkConfig(n), log)
	if err != nil {
		return err
	}
	kept, err := imagecache.Open(imagecache.Config{Dir: filepath.Join(n.StateDir, "images"), Max: n.ImageCache,
		Shared: cfg.Catalogue.Shared, Chown: os.Geteuid() == 0, Now: time.Now}, batchdFiles{link})
	if err != nil {
		return fmt.Errorf("images: %w", err)
	}
	// The connection outlives ctx by the end of the jobs, where that is asked for.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	guard, portsOpen := openPorts(n, log)
	a, err := agent.New(life, agent.Config{
		Dir: cmp.Or(n.RunDir, n.StateDir), Overlays: filepath.Join(n.StateDir, "overlays"), Shepherd: filepath.Join(bin, "shepherd"), Enter: filepath.Join(bin, "enter"),
		Apptainer: cfg.Container.Apptainer, Version: version, Inventory: inventory(n, gpus),
		GPUs: agentGPUs, Images: kept, Ports: portsOf(guard), PortsOpen: portsOpen, BindHome: cfg.Container.BindHome, BindCWD: cfg.Container.BindCWD,
		CgroupParent: n.CgroupParent, Interval: cfg.TerminateInterval, SwitchUser: os.Geteuid() == 0,
		Logger: log.With("service", "agent", "node", n.Name),
	})
	if err != nil {
		return err
	}
	for _, what := range a.Unenforced() {
		log.Warn("not enforced on this node", "what", what)
	}
	a.Restore()
	defer guardPorts(life, guard, a, log)()
	defer end()
	if n.Metrics != "" {
		l, err := net.Listen("tcp", n.Metrics)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		log.Info("metrics", "url", "http://"+l.Addr().String()+"/metrics")
		web := &http.Server{Handler: newMetrics(n.Name, a).handler(), ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = web.Serve(l) }()
		defer web.Close()
	}
	if n.DCGMDir != "" {
		m, err := openJobMapping(n.DCGMDir, log)
		if err != nil {
			return err
		}
		every := time.NewTicker(time.Second)
		defer every.Stop()
		go m.follow(life, func() []agent.SliceState { return a.Fence().Slices }, every.C)
	}
	log.Info("node started", "node", n.Name, "batchd", n.Batchd)
	context.AfterFunc(ctx, func() {
		if stopJobs {
			bounded, cancel := context.WithTimeout(life, jobsEndWithin)
			defer cancel()
			a.EndJobs(bounded)
		}
		end()
	})
	err = link.Run(life, a)
	a.Stop()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func linkConfig(n etc.Node) client.Config {
	return client.Config{Address: n.Batchd, TokenFile: n.TokenFile, CAFile: n.CAFile, MaxPause: n.Reconnect}
}
