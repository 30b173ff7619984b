package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairslice/api"
	"fairslice/etc"
	"fairslice/images"
	"fairslice/images/sif"
	"fairslice/queue"
	"fairslice/queue/engine"
	"fairslice/web"
	"fairslice/web/proxy"
)

// newAppSite is where this cluster's apps are shown. The key outlives the daemon, and so do the links.
func newAppSite(back *backend, cfg *etc.Config, host string) (*proxy.Site, error) {
	key, err := proxy.OpenKey(filepath.Join(cfg.StateDir, "apps.key"))
	if err != nil {
		return nil, err
	}
	return &proxy.Site{
		Key: key, Apps: func() []images.Program { return programs(back.cfg.Load()) },
		Page: cfg.Web.Address(host), Domain: cfg.Web.AppsDomain, Shared: cfg.Web.AppsAddress(host),
	}, nil
}

// programs are the [[app]] sections.
func programs(cfg *etc.Config) []images.Program {
	var out []images.Program
	for _, a := range cfg.Apps {
		p := images.Program{App: images.App{Name: a.Name, Proto: images.Proto(a.Proto)}, Command: a.Command, Env: a.Env, Auth: images.Auth(a.Auth)}
		if a.Auth == "none" {
			p.Auth = images.NoAuth
		}
		if a.Port != 0 {
			p.Ports = []int{a.Port}
		}
		out = append(out, p)
	}
	return out
}

// byHost gives the names of apps to the proxy, and all others to the page.
func byHost(site *proxy.Site, apps, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site.Owns(r.Host) {
			apps.ServeHTTP(w, r)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// pageApps are the apps as the web page shows them.
type pageApps struct{ srv *api.Server }

func (p pageApps) List(ctx context.Context, by queue.Identity, job string) ([]web.App, error) {
	apps, err := p.srv.Apps(ctx, by, job)
	if err != nil {
		return nil, err
	}
	var out []web.App
	for _, a := range apps {
		if (a.Running || a.Startable) && (a.Proto == images.HTTP || a.Proto == images.Preopen) {
			note := ""
			if a.Running {
				note = strconv.Itoa(a.Port)
			}
			out = append(out, web.App{Name: a.Name, Note: note})
		}
	}
	return out, nil
}

func (p pageApps) Open(ctx context.Context, by queue.Identity, job, app string) (address string, err error) {
	a, err := p.srv.OpenApp(ctx, by, job, app)
	if err == nil && a.URL == "" {
		err = &api.Error{Code: api.Conflict, Msg: "Apps cannot be opened in the browser here: neither apps_domain nor apps_listen is set in [web]. bapp -L forwards a port."}
	}
	return a.URL, err
}

// fileApps knows the apps of images by their files, as long as the files stay as they are.
type fileApps struct {
	mu   sync.Mutex
	seen map[string]fileOfApps
}

type fileOfApps struct {
	size int64
	at   time.Time
	apps []string
}

// of reads the labels of an image of the configuration; not known is what this machine cannot read. A path of a user's is never
// read here, with this daemon's rights.
func (f *fileApps) of(cfg *etc.Config, file string) (apps []string, known bool) {
	if !slices.ContainsFunc(cfg.Images, func(i etc.Image) bool { return i.File == file }) {
		return nil, false
	}
	st, err := os.Stat(file)
	if err != nil {
		return nil, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.seen[file]; ok && s.size == st.Size() && s.at.Equal(st.ModTime()) {
		return s.apps, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	raw, err := sif.ReadLabels(ctx, file)
	if err != nil {
		return nil, false
	}
	labels, err := images.ParseLabels(raw)
	if err != nil {
		return nil, false
	}
	for _, a := range labels.Apps {
		apps = append(apps, a.Name)
	}
	if f.seen == nil {
		f.seen = map[string]fileOfApps{}
	}
	f.seen[file] = fileOfApps{st.Size(), st.ModTime(), apps}
	return apps, true
}

// appStarter starts the apps that a submission asked for when its session runs.
type appStarter struct {
	eng *engine.Engine
	srv *api.Server
	log *slog.Logger

	ctx   context.Context
	slots chan struct{} // of starts at once
	alive sync.WaitGroup
}

// maxAppStarts is how many apps are being started at once, over all nodes.
const maxAppStarts = 64

func newAppStarter(ctx context.Context, eng *engine.Engine, srv *api.Server, log *slog.Logger) *appStarter {
	return &appStarter{eng: eng, srv: srv, log: log, ctx: ctx, slots: make(chan struct{}, maxAppStarts)}
}

// began is told that an attempt runs: when its node says so, and after a restart.
func (s *appStarter) began(id queue.ElementID, attempt int) {
	var apps []string
	s.eng.View(func(v queue.View) {
		if j, e := v.Book().Find(id); e != nil && e.Attempt != nil && e.Attempt.Number == attempt {
			apps = j.Spec.Apps
		}
	})
	failures := &appFailures{}
	for _, name := range apps {
		at := api.AppPlace{ID: id, Attempt: attempt, Name: name}
		s.alive.Go(func() {
			select {
			case s.slots <- struct{}{}:
				defer func() { <-s.slots }()
			case <-s.ctx.Done():
				return
			}
			if err := s.start(at); err != nil && s.ctx.Err() == nil {
				why := firstLine(err.Error())
				s.log.Info("app not started", "job", id.String(), "app", name, "error", why)
				if err := s.eng.AppsFailed(s.ctx, id, attempt, failures.with(id, name, why)); err != nil {
					s.log.Debug("failed app not noted: the engine is stopping", "job", id.String(), "error", err)
				}
			}
		})
	}
}

// appFailures are the apps of one attempt that could not be started.
type appFailures struct {
	mu   sync.Mutex
	text string
}

// with adds one, and is all of them in words for bjobs -l.
func (f *appFailures) with(id queue.ElementID, app, why string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.text != "" {
		f.text += "; "
	}
	f.text += fmt.Sprintf("App %s could not be started: %s", app, strings.TrimPrefix(why, app+": "))
	return fmt.Sprintf("%s (bapp %s says more)", f.text, id)
}

// A node that is not connected is asked again so often, which outlasts a restart of it.
const (
	startTries = 100
	startAgain = 3 * time.Second
)

func (s *appStarter) start(at api.AppPlace) (err error) {
	for range startTries {
		err = s.srv.StartApp(s.ctx, at)
		var coded *api.Error
		if !errors.As(err, &coded) || coded.Code != api.Unavailable {
			return err
		}
		select {
		case <-time.After(startAgain):
		case <-s.ctx.Done():
			return err
		}
	}
	return err
}

// resume starts what an earlier life may have left undone; to start an app that runs does nothing.
func (s *appStarter) resume() {
	type run struct {
		id      queue.ElementID
		attempt int
	}
	var runs []run
	s.eng.View(func(v queue.View) {
		v.Book().Each(func(j *queue.Job) bool {
			for i := range j.Elements {
				if e := &j.Elements[i]; len(j.Spec.Apps) > 0 && e.State.Live() && e.Attempt != nil && !e.Attempt.Began.IsZero() {
					runs = append(runs, run{j.ElementID(e.Index), e.Attempt.Number})
				}
			}
			return true
		})
	})
	for _, r := range runs {
		s.began(r.id, r.attempt)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n") // an app's own words are its user's business
	return line
}
