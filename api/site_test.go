package api_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairslice/api"
	"fairslice/api/client"
	"fairslice/api/pki"
	"fairslice/nodes"
	"fairslice/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a server on a Unix socket and on TLS, with a fake engine behind.
type site struct {
	t      testing.TB
	engine *engine
	hub    *api.Hub
	server *api.Server
	tokens *api.TokenFile
	socket string
	tcp    string // host:port
	ca     string
}

func newSite(t testing.TB, hub api.HubConfig, cfg api.Config) *site {
	t.Helper()
	dir := t.TempDir()
	log := quiet()
	s := &site{t: t, engine: newEngine(), hub: api.NewHub(hub, log), socket: filepath.Join(dir, "batchd.sock")}
	var err error
	if s.tokens, err = api.OpenTokens(filepath.Join(dir, "tokens.json"), time.Now); err != nil {
		t.Fatal(err)
	}
	authority, err := pki.Open(filepath.Join(dir, "pki"), []string{"127.0.0.1"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.ca = authority.CAFile()
	s.server = api.New(cfg, s.engine, s.hub, s.tokens, log)
	unix, err := api.ListenUnix(s.socket)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.tcp = tcp.Addr().String()
	served := make(chan error, 2)
	go func() { served <- s.server.Serve(unix) }()
	go func() { served <- s.server.ServeTLS(tcp, authority.TLS()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for range 2 { // twice is harmless
			if err := s.server.Stop(ctx); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
		for range 2 {
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		}
	})
	return s
}

// deadline bounds a test; nothing in here may take that long.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (s *site) unix() client.Config {
	return client.Config{Address: "unix://" + s.socket, Tries: 1}
}

func (s *site) tls(kind api.TokenKind, name string) client.Config {
	s.t.Helper()
	token, err := s.tokens.Create(kind, name, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return client.Config{Address: "https://" + s.tcp, Token: token, CAFile: s.ca, Tries: 1}
}

func (s *site) users(c client.Config) *client.Users {
	s.t.Helper()
	u, err := client.NewUsers(c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(u.Close)
	return u
}

// called waits for the engine to be told something that begins with want; other calls are skipped.
func (s *site) called(want string) string {
	s.t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case got := <-s.engine.calls:
			if strings.HasPrefix(got, want) {
				return got
			}
		case <-timeout:
			s.t.Fatalf("the engine was not told %q", want)
		}
	}
}

// agent is a node whose handler tells channels; see also node.
type agent struct {
	name    string
	up      chan queue.Upstream
	lost    chan error
	assigns chan queue.Assignment
	orders  chan queue.Order
	acks    chan queue.AttemptState // State is the kind
	pipe    func(queue.PipeOrder, queue.Pipe)
}

func newAgent(name string) *agent {
	return &agent{name: name, up: make(chan queue.Upstream, 100), lost: make(chan error, 100), assigns: make(chan queue.Assignment, 100000),
		orders: make(chan queue.Order, 1000), acks: make(chan queue.AttemptState, 10000), pipe: func(_ queue.PipeOrder, p queue.Pipe) { _ = p.Fail("no pipes here") }}
}

func (a *agent) Hello() queue.Hello {
	return queue.Hello{Version: "1", Node: nodes.Node{ID: nodes.ID(a.name), Slots: 4}}
}
func (a *agent) Connected(up queue.Upstream, _ time.Duration) { a.up <- up }
func (a *agent) Disconnected(err error)                       { a.lost <- err }
func (a *agent) Assign(x queue.Assignment)                    { a.assigns <- x }
func (a *agent) Order(o queue.Order)                          { a.orders <- o }
func (a *agent) Acknowledged(id queue.ElementID, n int, k queue.ReportKind) {
	a.acks <- queue.AttemptState{ID: id, Attempt: n, State: string(k)}
}
func (a *agent) OpenPipe(o queue.PipeOrder, p queue.Pipe) { a.pipe(o, p) }

// node runs a in the background, and returns when it is connected. stop waits for its end.
func (s *site) node(c client.Config, a *agent) (up queue.Upstream, stop func()) {
	s.t.Helper()
	n, err := client.NewNode(c, quiet())
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = n.Run(ctx, a) }()
	stop = func() { cancel(); <-done }
	s.t.Cleanup(stop)
	return receive(s.t, a.up), stop
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("nothing came")
		panic("unreachable")
	}
}

// me is the user that runs the test.
func me(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

func uid() int { return os.Geteuid() }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
