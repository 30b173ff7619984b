package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"fairslice/api"
	"fairslice/etc"
	"fairslice/images"
	"fairslice/queue"
	"fairslice/web"
	"fairslice/web/proxy"
)

// serveWeb serves the page where the site wants one, until stop is called.
func serveWeb(cfg *etc.Config, host string, back *backend, srv *api.Server, site *proxy.Site, log *slog.Logger, ended chan<- error) (stop func(), err error) {
	if cfg.Web.Listen == "" {
		return func() {}, nil
	}
	address, err := url.Parse(cfg.Web.Address(host))
	if err != nil {
		return nil, fmt.Errorf("web page: %w", err)
	}
	var secure *tls.Config
	if cfg.Web.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.Web.TLSCert, cfg.Web.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("web page: %w", err)
		}
		secure = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	}
	l, err := net.Listen("tcp", cfg.Web.Listen)
	if err != nil {
		return nil, fmt.Errorf("web page: %w", err)
	}
	page := web.New(web.Config{URL: address, Batch: back, Describe: back.Describe, Catalogue: catalogue{back}, People: srv, Consoles: srv, Apps: pageApps{srv}, Now: time.Now, Logger: log})
	apps := proxy.New(site, srv, log)
	stopShared, err := serveShared(cfg, secure, apps, log, ended)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	server := &http.Server{Handler: byHost(site, apps, page), TLSConfig: secure, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)} // what browsers do wrong is not the site's business
	go func() {
		if secure != nil {
			ended <- closedIsNil(server.ServeTLS(l, "", ""))
			return
		}
		ended <- closedIsNil(server.Serve(l))
	}()
	log.Info("web page served", "url", address.String())
	return func() {
		_ = server.Close()
		stopShared()
		apps.Close()
		page.Close()
	}, nil
}

// serveShared serves the apps of a site that has no names for them, at an origin of their own.
func serveShared(cfg *etc.Config, secure *tls.Config, apps http.Handler, log *slog.Logger, ended chan<- error) (stop func(), err error) {
	if cfg.Web.AppsListen == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", cfg.Web.AppsListen)
	if err != nil {
		return nil, fmt.Errorf("apps: %w", err)
	}
	server := &http.Server{Handler: apps, TLSConfig: secure, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() {
		if secure != nil {
			ended <- closedIsNil(server.ServeTLS(l, "", ""))
			return
		}
		ended <- closedIsNil(server.Serve(l))
	}()
	return func() { _ = server.Close() }, nil
}

// catalogue is the engine's, with errors that users may read marked as such.
type catalogue struct{ *backend }

func (c catalogue) Images(by queue.Identity, all bool) ([]*images.Image, error) {
	out, err := c.Engine.Images(by, all)
	return out, speak(err)
}

func (c catalogue) Commits(by queue.Identity, all bool) ([]*images.Commit, error) {
	out, err := c.Engine.Commits(by, all)
	return out, speak(err)
}

func (c catalogue) DecideCommit(ctx context.Context, by queue.Identity, id images.CommitID, approve bool, reason string) (*images.Commit, error) {
	out, err := c.Engine.DecideCommit(ctx, by, id, approve, reason)
	return out, speak(err)
}
