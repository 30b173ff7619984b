package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// proxyConnections is how many WebSockets are open at once.
const proxyConnections = 200

// proxyTime is how long each way is measured.
const proxyTime = 5 * time.Second

// benchProxy measures the way of a browser to an app of a session: WebSockets that are echoed, and a large file, each also on a
// direct connection to the same app. The app is this process, as a program that the session's user started by hand.
func benchProxy(ctx context.Context, bin string) error {
	dir, err := os.MkdirTemp("", "fairslice-bench.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	b := &bench{ctx: ctx, bin: bin, state: filepath.Join(dir, "cluster"), work: filepath.Join(dir, "work")}
	if err := os.Mkdir(b.work, 0o755); err != nil {
		return err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	page := free.Addr().String()
	_ = free.Close()
	if err := b.start("--web", page); err != nil {
		return err
	}
	defer b.stop()
	app, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(echoOrFile)}
	go func() { _ = server.Serve(app) }() // until Close
	defer server.Close()
	way, err := b.wayTo(page, app.Addr().(*net.TCPAddr).Port)
	if err != nil {
		return err
	}
	direct := way
	direct.address, direct.host, direct.cookie = app.Addr().String(), "", ""
	fmt.Printf("proxy: %d WebSockets echo 64 bytes at once, for %s each way\n", proxyConnections, proxyTime)
	var rates, loads [2]float64
	for i, w := range []route{direct, way} {
		name := []string{"direct", "proxy"}[i]
		waits, err := w.echoes(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		slices.Sort(waits)
		rates[i] = float64(len(waits)) / proxyTime.Seconds()
		if loads[i], err = w.load(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("  %-7s %8.0f echoes/s  median %7s  99 %% %7s   one file %6.0f MB/s\n", name, rates[i],
			waits[len(waits)/2].Round(10*time.Microsecond), waits[len(waits)*99/100].Round(10*time.Microsecond), loads[i])
	}
	fmt.Printf("  ratio   %8.2f                                            %6.2f\n", rates[1]/rates[0], loads[1]/loads[0])
	return nil
}

// fileSize is what echoOrFile gives to who asks without a WebSocket.
const fileSize = 256 << 20

func echoOrFile(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		w.Header().Set("Content-Length", strconv.Itoa(fileSize))
		part := make([]byte, 64<<10)
		for n := 0; n < fileSize; n += len(part) {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
		return
	}
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	for {
		kind, data, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, data) != nil {
			return
		}
	}
}

// route is a way to the app.
type route struct{ address, host, cookie string }

var submitted = regexp.MustCompile(`Job <(\d+)>`)

// wayTo submits a session and opens the port as a browser would.
func (b *bench) wayTo(page string, port int) (route, error) {
	out, err := b.command("bsub", "sleep 1000")
	m := submitted.FindStringSubmatch(out)
	if err != nil || m == nil {
		return route{}, fmt.Errorf("bsub: %q, %w", out, err)
	}
	link := ""
	for end := time.Now().Add(30 * time.Second); link == ""; { // until it runs
		if out, err = b.command("bapp", m[1], strconv.Itoa(port)); err == nil {
			link = strings.TrimSpace(out)
		} else if time.Now().After(end) {
			return route{}, err
		}
	}
	u, err := url.Parse(link)
	if err != nil {
		return route{}, err
	}
	r := route{address: page, host: u.Host}
	req, err := http.NewRequestWithContext(b.ctx, "GET", "http://"+page+"/?"+u.RawQuery, nil)
	if err != nil {
		return route{}, err
	}
	req.Host = r.host
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return route{}, err
	}
	defer res.Body.Close()
	if len(res.Cookies()) != 1 {
		return route{}, fmt.Errorf("the link gave %s and no cookie", res.Status)
	}
	r.cookie = res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	return r, nil
}

// echoes keeps all connections busy for proxyTime, and gives how long each echo took.
func (r route) echoes(ctx context.Context) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var open []*websocket.Conn
	defer func() {
		for _, c := range open {
			_ = c.CloseNow()
		}
	}()
	options := &websocket.DialOptions{Host: r.host, HTTPHeader: http.Header{}}
	if r.cookie != "" {
		options.HTTPHeader.Set("Cookie", r.cookie)
	}
	for range proxyConnections {
		c, _, err := websocket.Dial(ctx, "ws://"+r.address+"/", options)
		if err != nil {
			return nil, err
		}
		open = append(open, c)
	}
	waits := make([][]time.Duration, len(open))
	errs := make([]error, len(open))
	text := bytes.Repeat([]byte{'x'}, 64)
	until := time.Now().Add(proxyTime)
	var all sync.WaitGroup
	for i, c := range open {
		all.Go(func() {
			for errs[i] == nil && time.Now().Before(until) {
				began := time.Now()
				if errs[i] = c.Write(ctx, websocket.MessageBinary, text); errs[i] == nil {
					_, _, errs[i] = c.Read(ctx)
				}
				waits[i] = append(waits[i], time.Since(began))
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.Concat(waits...), nil
}

// load fetches the file, and gives MB/s.
func (r route) load(ctx context.Context) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.address+"/", nil)
	if err != nil {
		return 0, err
	}
	req.Host = r.host
	if r.cookie != "" {
		req.Header.Set("Cookie", r.cookie)
	}
	began := time.Now()
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && n != fileSize {
		err = fmt.Errorf("%s, %d bytes", res.Status, n)
	}
	return float64(n) / 1e6 / time.Since(began).Seconds(), err
}
