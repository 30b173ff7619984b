package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"fairslice/api"
	"fairslice/api/wire"
	"fairslice/images"
	"fairslice/queue"
)

// sessions are the running sessions of a test: each place leads to a real server.
type sessions struct {
	mu    sync.Mutex
	apps  map[api.AppPlace]images.AppState
	wakes []chan struct{}
	dials int
}

func (s *sessions) FindApp(_ context.Context, at api.AppPlace) (images.AppState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.apps[at]
	if !ok {
		return st, wire.Errorf(wire.NotFound, "the session is over")
	}
	return st, nil
}

func (s *sessions) DialApp(ctx context.Context, at api.AppPlace, port int) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.apps[at]; !ok {
		return nil, wire.Errorf(wire.NotFound, "the session is over")
	}
	s.dials++
	c, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, wire.Errorf(wire.Conflict, "connect to 127.0.0.1:%d in the session: connection refused", port)
	}
	return c, nil
}

func (s *sessions) AppAlive(at api.AppPlace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.apps[at]
	return ok
}

func (s *sessions) AppSubscribe(api.AppPlace) (<-chan struct{}, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.wakes = append(s.wakes, c)
	return c, func() {}
}

// end ends a session.
func (s *sessions) end(at api.AppPlace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.apps, at)
	for _, c := range s.wakes {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (s *sessions) dialled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// world is a proxy, a session with an app, and a browser's way to it.
type world struct {
	*testing.T
	site  *Site
	all   *sessions
	proxy *Proxy
	at    api.AppPlace
	front *httptest.Server
	log   *bytes.Buffer
	seen  chan *http.Request // what the app got, without the body
}

func newWorld(t *testing.T, shared bool, app http.HandlerFunc) *world {
	t.Helper()
	w := &world{T: t, all: &sessions{apps: map[api.AppPlace]images.AppState{}}, log: new(bytes.Buffer), seen: make(chan *http.Request, 100),
		at: api.AppPlace{ID: queue.ElementID{Job: 12}, Attempt: 1, Name: "jupyter"}}
	back := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.seen <- r.Clone(context.Background())
		app(rw, r)
	}))
	t.Cleanup(back.Close)
	port := back.Listener.Addr().(*net.TCPAddr).Port
	w.all.apps[w.at] = images.AppState{Name: "jupyter", Proto: images.HTTP, Running: true, Port: port}
	var handler http.Handler
	w.front = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { handler.ServeHTTP(rw, r) }))
	t.Cleanup(w.front.Close)
	outer := w.front.Listener.Addr().(*net.TCPAddr).Port
	w.site = &Site{Key: Key{1, 2, 3}, Page: fmt.Sprintf("http://page.example.org:%d", outer), Domain: "apps.example.org"}
	if shared {
		w.site.Domain, w.site.Shared = "", fmt.Sprintf("http://shared.example.org:%d", outer)
	}
	w.proxy = w.restart(w.site.Key)
	handler = w.proxy
	return w
}

// restart makes another proxy, as another daemon would with this key.
func (w *world) restart(key Key) *Proxy {
	w.site.Key = key
	p := New(w.site, w.all, slog.New(slog.NewTextHandler(&locked{w: w.log}, &slog.HandlerOptions{Level: slog.LevelDebug})))
	w.Cleanup(p.Close)
	return p
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// host is the app's own, with the port.
func (w *world) host() string { return strings.TrimPrefix(w.site.origin(w.at), "http://") }

func (w *world) cookie() string { return "fairslice-app=" + w.site.Key.pass(forCookie, w.at) }

// ask sends a request as a browser would to a host; nothing is followed.
func (w *world) ask(method, host, path string, header ...string) *http.Response {
	w.Helper()
	r, err := http.NewRequest(method, w.front.URL, nil)
	if err != nil {
		w.Fatal(err)
	}
	if r.URL.Opaque = path; strings.HasPrefix(path, "//") {
		r.URL.Opaque = "http://" + host + path
	}
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func (w *world) body(res *http.Response) string {
	w.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	return string(b)
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func TestLinkBecomesCookie(t *testing.T) {
	w := newWorld(t, false, hello)
	link, err := url.Parse(w.site.Link(w.at).URL)
	if err != nil || link.Host != w.host() {
		t.Fatalf("link %v, %v", link, err)
	}
	res := w.ask("GET", w.host(), "/lab?a=1&"+link.RawQuery+"&b=%2F")
	if got := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || got != w.site.origin(w.at)+"/lab?a=1&b=%2F" {
		t.Fatalf("%s, to %q", res.Status, got)
	}
	set := res.Cookies()
	if len(set) != 1 || !set[0].HttpOnly || set[0].Domain != "" || set[0].Path != "/" || set[0].SameSite != http.SameSiteLaxMode {
		t.Fatalf("cookies %v", set)
	}
	if strings.Contains(link.RawQuery, set[0].Value) {
		t.Error("the cookie is the link's secret")
	}
	res = w.ask("GET", w.host(), "/lab?a=1", "Cookie", set[0].Name+"="+set[0].Value)
	if got := w.body(res); got != "hello" {
		t.Errorf("%s: %q", res.Status, got)
	}
	if got := res.Header.Get("Referrer-Policy"); got != "same-origin" {
		t.Errorf("Referrer-Policy %q", got)
	}
}

// Whoever has no right secret of exactly this app of this attempt sees one and the same page, and the app sees nothing.
func TestClosed(t *testing.T) {
	w := newWorld(t, false, hello)
	other := w.at
	other.ID.Job = 13
	w.all.apps[other] = images.AppState{Name: "jupyter", Proto: images.HTTP, Running: true, Port: 1025}
	next := w.at
	next.Attempt = 2
	cookie := func(purpose string, at api.AppPlace) []string {
		return []string{"Cookie", "fairslice-app=" + w.site.Key.pass(purpose, at)}
	}
	good := w.site.Key.pass(forCookie, w.at)
	pages := map[string]string{}
	for _, row := range []struct {
		what, host, path string
		header           []string
	}{
		{"nothing", w.host(), "/", nil},
		{"an empty cookie", w.host(), "/", []string{"Cookie", "fairslice-app="}},
		{"a cut secret", w.host(), "/", []string{"Cookie", "fairslice-app=" + good[:len(good)-1]}},
		{"a longer secret", w.host(), "/", []string{"Cookie", "fairslice-app=" + good + "A"}},
		{"no secret but a name", w.host(), "/", []string{"Cookie", "fairslice-app=anVweXRlcg."}},
		{"the cookie of another job", w.host(), "/", cookie(forCookie, other)},
		{"the cookie of the next attempt", w.host(), "/", cookie(forCookie, next)},
		{"the link's secret as a cookie", w.host(), "/", cookie(forLink, w.at)},
		{"the app's token as a cookie", w.host(), "/", cookie(forToken, w.at)},
		{"the cookie's secret as a link", w.host(), "/?fairslice-pass=" + good, nil},
		{"a wrong link with a right cookie", w.host(), "/?fairslice-pass=x", cookie(forCookie, w.at)},
		{"a job that is not there", "99-0-1-jupyter.apps.example.org", "/", nil},
		{"a host that is no app's", "www.apps.example.org", "/", cookie(forCookie, w.at)},
		{"a host with a dot more", "x." + w.host(), "/", cookie(forCookie, w.at)},
		{"a right cookie at another job's host", strings.Replace(w.host(), "12-", "13-", 1), "/", cookie(forCookie, w.at)},
		{"a line break in the secret", w.host(), "/?fairslice-pass=a%0d%0aSet-Cookie:%20x=1", nil},
	} {
		res := w.ask("GET", row.host, row.path, row.header...)
		if res.StatusCode != http.StatusForbidden || len(res.Cookies()) > 0 {
			t.Errorf("%s: %s, %v", row.what, res.Status, res.Cookies())
		}
		pages[w.body(res)] = row.what
	}
	if len(pages) != 1 {
		t.Errorf("the pages differ: %v", pages)
	}
	if n := w.all.dialled(); n != 0 {
		t.Errorf("%d connections to apps", n)
	}
	if res := w.ask("TRACE", w.host(), "/", "Cookie", w.cookie()); res.StatusCode != http.StatusMethodNotAllowed {
		t.Error("TRACE: ", res.Status)
	}
}

// What concerns the proxy never reaches the app, whatever a client says of hop-by-hop headers.
func TestWhatTheAppSees(t *testing.T) {
	w := newWorld(t, false, hello)
	st := w.all.apps[w.at]
	st.Auth = images.TokenAuth
	w.all.apps[w.at] = st
	inner := fmt.Sprintf("127.0.0.1:%d", st.Port)
	token := w.site.Key.sum(forToken, w.at)
	w.ask("GET", w.host(), "/x?q=1;2", "Cookie", "_xsrf=2; "+w.cookie()+"; a=b", "Cookie", "FAIRSLICE-app=x; __Host-fairslice=y; c=d",
		"Connection", "Authorization, X-Forwarded-Proto, Cookie-Not, Host", "Connection", "X-Forwarded-For",
		"Authorization", "Bearer of-the-user", "X-Forwarded-For", "1.2.3.4", "X-Forwarded-Host", "evil.example", "X-Real-IP", "1.2.3.4", "Remote-User", "root",
		"Forwarded", "for=1.2.3.4", "Proxy-Authorization", "Basic x", "Upgrade", "h2c", "Te", "gzip", "Keep-Alive", "9",
		"Origin", w.site.origin(w.at), "Referer", w.site.origin(w.at)+"/tree?x=1")
	r := <-w.seen
	for name, want := range map[string]string{
		"Cookie": "_xsrf=2; a=b; c=d", "Authorization": "token " + token, "Origin": "http://" + inner, "Referer": "http://" + inner + "/tree?x=1",
		"X-Forwarded-Host": "", "X-Forwarded-Proto": "http", "X-Forwarded-For": "127.0.0.1",
		"X-Real-Ip": "", "Remote-User": "", "Forwarded": "", "Proxy-Authorization": "", "Upgrade": "", "Connection": "", "Te": "", "Keep-Alive": "",
	} {
		if got := r.Header.Get(name); got != want || len(r.Header[name]) > 1 {
			t.Errorf("%s: %q, want %q", name, r.Header[name], want)
		}
	}
	if r.Host != inner || r.URL.RawQuery != "q=1;2" {
		t.Errorf("asked for %q?%q", r.Host, r.URL.RawQuery)
	}
	w.ask("GET", w.host(), "/", "Cookie", w.cookie(), "Referer", "http://elsewhere.example/secret")
	if r = <-w.seen; r.Header.Get("Referer") != "" || r.Header.Get("Cookie") != "" {
		t.Errorf("another site's referer, our cookie: %v", r.Header)
	}
	if got := r.Header.Get("X-Forwarded-Host"); got != w.host() { // beside an origin, which is the inner one, it would contradict that
		t.Errorf("X-Forwarded-Host: %q, want %q", got, w.host())
	}
}

func TestWhatTheBrowserSees(t *testing.T) {
	w := newWorld(t, false, func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		for _, c := range []string{"a=1; Domain=apps.example.org; Path=/; HttpOnly", "b=2; domain=.example.org; Max-Age=5", "fairslice-app=x; Path=/",
			"__Host-fairslice-app=x; Secure", "c=3; Secure; SameSite=Lax", "novalue"} {
			h.Add("Set-Cookie", c)
		}
		h.Set("Strict-Transport-Security", "max-age=9; includeSubDomains")
		h.Set("Referrer-Policy", "unsafe-url")
		h.Set("Content-Security-Policy", "default-src 'self'")
		h.Set("Connection", "X-Secret")
		h.Set("X-Secret", "1")
		h.Set("Location", "http://"+r.Host+"/login?next=%2F")
		rw.WriteHeader(http.StatusFound)
	})
	res := w.ask("GET", w.host(), "/", "Cookie", w.cookie())
	want := []string{"a=1; HttpOnly; Path=/", "b=2; Max-Age=5", "c=3; Secure; SameSite=Lax"}
	if got := res.Header["Set-Cookie"]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("cookies %q, want %q", got, want)
	}
	for name, want := range map[string]string{"Location": w.site.origin(w.at) + "/login?next=%2F", "Referrer-Policy": "same-origin",
		"Strict-Transport-Security": "", "X-Secret": ""} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := res.Header["Content-Security-Policy"]; len(got) != 2 || got[0] != "default-src 'self'" {
		t.Errorf("policies %q", got)
	}
}

// Pages of other origins, below the same domain too, may link to an app, and do nothing else in the visitor's name.
func TestOtherOrigins(t *testing.T) {
	w := newWorld(t, false, hello)
	own := w.site.origin(w.at)
	sibling := strings.Replace(own, "12-", "13-", 1)
	for _, row := range []struct {
		what, method string
		header       []string
		ok           bool
	}{
		{"no browser", "POST", nil, true},
		{"the app's own page", "POST", []string{"Origin", own, "Sec-Fetch-Site", "same-origin"}, true},
		{"typed", "GET", []string{"Sec-Fetch-Site", "none"}, true},
		{"a link elsewhere", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, true},
		{"a link of another app", "GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, true},
		{"a form of another app", "POST", []string{"Origin", sibling, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, false},
		{"a form without an origin", "POST", []string{"Origin", "null"}, false},
		{"a script of another app", "GET", []string{"Origin", sibling, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, false},
		{"an image elsewhere", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, false},
		{"a frame elsewhere", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, false},
		{"a form elsewhere, said without its origin", "POST", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, false},
		{"the page", "POST", []string{"Origin", w.site.Page}, false},
		{"the app's host by another scheme", "POST", []string{"Origin", strings.Replace(own, "http:", "https:", 1)}, false},
	} {
		res := w.ask(row.method, w.host(), "/", append(row.header, "Cookie", w.cookie())...)
		if ok := res.StatusCode == http.StatusOK; ok != row.ok {
			t.Errorf("%s: %s", row.what, res.Status)
		}
	}
	// A WebSocket has no other protection in a browser than the server's look at its origin.
	_, _, err := websocket.Dial(t.Context(), w.front.URL, &websocket.DialOptions{Host: w.host(), HTTPHeader: http.Header{"Cookie": {w.cookie()}, "Origin": {sibling}}})
	if err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a WebSocket of another app: %v", err)
	}
}

func TestNoWayElsewhere(t *testing.T) {
	w := newWorld(t, false, hello)
	pass := passParameter + "=" + w.site.Key.pass(forLink, w.at)
	for _, path := range []string{"//evil.example/?" + pass, "/%2f%2fevil.example?" + pass, "/\\evil.example?" + pass, "/?" + pass + "&next=http://evil.example"} {
		res := w.ask("GET", w.host(), path)
		if to := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, w.site.origin(w.at)+"/") || strings.Contains(to, pass) {
			t.Errorf("%s leads to %q (%s)", path, to, res.Status)
		}
	}
}

// echo is an app that says back what comes through a WebSocket.
func echo(t *testing.T) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(rw, r, nil) // refuses an origin that is not the host asked for
		if err != nil {
			t.Error("the app refuses: ", err)
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
}

// A WebSocket works, and ends at once when the attempt does.
func TestEndOfSession(t *testing.T) {
	w := newWorld(t, false, echo(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, w.front.URL, &websocket.DialOptions{Host: w.host(), HTTPHeader: http.Header{"Cookie": {w.cookie()}, "Origin": {w.site.origin(w.at)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	if err := c.Write(ctx, websocket.MessageText, []byte("said")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := c.Read(ctx); err != nil || string(data) != "said" {
		t.Fatalf("echo %q, %v", data, err)
	}
	w.all.end(w.at)
	if _, _, err := c.Read(ctx); err == nil || ctx.Err() != nil {
		t.Error("the connection outlived the session: ", err)
	}
	res := w.ask("GET", w.host(), "/", "Cookie", w.cookie())
	if got := w.body(res); res.StatusCode != http.StatusNotFound || !strings.Contains(got, "The session is over") {
		t.Errorf("%s\n%s", res.Status, got)
	}
}

// The proxy's own end, with open connections and without.
func TestClose(t *testing.T) {
	w := newWorld(t, false, echo(t))
	c, _, err := websocket.Dial(t.Context(), w.front.URL, &websocket.DialOptions{Host: w.host(), HTTPHeader: http.Header{"Cookie": {w.cookie()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	w.proxy.Close()
	w.proxy.Close()
	if _, _, err := c.Read(t.Context()); err == nil {
		t.Error("the connection outlived the proxy")
	}
	if res := w.ask("GET", w.host(), "/", "Cookie", w.cookie()); res.StatusCode != http.StatusBadGateway {
		t.Error(res.Status)
	}
}

// A restart keeps the links; another key makes them worthless.
func TestKeyOutlivesTheDaemon(t *testing.T) {
	dir := t.TempDir()
	first, err := OpenKey(dir + "/key")
	if err != nil {
		t.Fatal(err)
	}
	second, err := OpenKey(dir + "/key")
	if err != nil || first != second || first == (Key{}) {
		t.Fatalf("%v and %v, %v", first, second, err)
	}
	at := api.AppPlace{ID: queue.ElementID{Job: 5, Index: 3}, Attempt: 2, Name: "x"}
	if _, ok := second.opens(forLink, at, first.pass(forLink, at)); !ok {
		t.Error("the link is worthless after a restart")
	}
	other := Key{9}
	if _, ok := other.opens(forLink, at, first.pass(forLink, at)); ok {
		t.Error("another key opens it, too")
	}
}

// An app that has gone is said so, and when it is back at another port it is found there.
func TestAppGoneAndBack(t *testing.T) {
	w := newWorld(t, false, hello)
	st := w.all.apps[w.at]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := st
	gone.Port = l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	w.all.apps[w.at] = gone
	res := w.ask("GET", w.host(), "/", "Cookie", w.cookie())
	if got := w.body(res); res.StatusCode != http.StatusBadGateway || !strings.Contains(got, "bapp 12 jupyter starts it again") {
		t.Errorf("%s\n%s", res.Status, got)
	}
	w.all.mu.Lock()
	w.all.apps[w.at] = st
	w.all.mu.Unlock()
	if res := w.ask("GET", w.host(), "/", "Cookie", w.cookie()); w.body(res) != "hello" {
		t.Error(res.Status)
	}
}

func TestSecretsAreNotLogged(t *testing.T) {
	w := newWorld(t, false, func(rw http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	link := w.site.Link(w.at)
	w.ask("GET", w.host(), strings.TrimPrefix(link.URL, w.site.origin(w.at)))
	w.ask("GET", w.host(), "/?x="+w.site.Key.pass(forLink, w.at), "Cookie", w.cookie())
	w.proxy.Close()
	for _, purpose := range []string{forLink, forCookie, forToken} {
		if strings.Contains(w.log.String(), w.site.Key.sum(purpose, w.at)) {
			t.Errorf("the %s is in the log:\n%s", purpose, w.log)
		}
	}
}

// Without names for apps they share an origin: the secret is in the path, and cookies keep to it.
func TestShared(t *testing.T) {
	w := newWorld(t, true, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Add("Set-Cookie", "a=1; Path=/; Domain=example.org")
		rw.Header().Add("Set-Cookie", "b=2")
		rw.Header().Set("Service-Worker-Allowed", "/")
		rw.Header().Set("Location", "/next")
		rw.WriteHeader(http.StatusFound)
	})
	host := strings.TrimPrefix(w.site.Shared, "http://")
	link := w.site.Link(w.at)
	base := link.Base
	if link.URL != w.site.Shared+base {
		t.Fatalf("link %q, base %q", link.URL, base)
	}
	for _, row := range []struct {
		what                  string
		takes                 bool
		path, location, path1 string
	}{
		{"an app that knows its path", true, base + "tree", "/next", base},
		{"an app that does not", false, "/tree", w.site.Shared + base + "next", base},
	} {
		st := w.all.apps[w.at]
		st.TakesBase = row.takes
		w.all.mu.Lock()
		w.all.apps[w.at] = st
		w.all.mu.Unlock()
		w.proxy.mu.Lock()
		w.proxy.routes = map[api.AppPlace]*route{} // as if it were not used for long
		w.proxy.mu.Unlock()
		res := w.ask("GET", host, base+"tree", "Referer", link.URL)
		r := <-w.seen
		if r.URL.Path != row.path || res.Header.Get("Location") != row.location || res.Header.Get("Service-Worker-Allowed") != "" {
			t.Errorf("%s: asked for %q; answer %v", row.what, r.URL.Path, res.Header)
		}
		for _, c := range res.Cookies() {
			if c.Domain != "" || !strings.HasPrefix(c.Path, strings.TrimSuffix(row.path1, "/")) {
				t.Errorf("%s: cookie %v", row.what, c)
			}
		}
	}
	for _, path := range []string{"/", "/app/", "/app/12-0-1-jupyter/", strings.Replace(base, "12-", "13-", 1), base[:len(base)-2] + "/", "/tree" + base} {
		if res := w.ask("GET", host, path); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	if res := w.ask("GET", host, strings.TrimSuffix(base, "/")); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != link.URL {
		t.Errorf("without the last slash: %s", res.Status)
	}
}

// Bodies of any size flow both ways while they come.
func TestStreams(t *testing.T) {
	w := newWorld(t, false, func(rw http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(rw).EnableFullDuplex()
		buf := make([]byte, 1<<10)
		for {
			n, err := r.Body.Read(buf)
			_, _ = rw.Write(buf[:n])
			_ = http.NewResponseController(rw).Flush()
			if err != nil {
				return
			}
		}
	})
	out, in := io.Pipe()
	r, err := http.NewRequest("POST", w.front.URL+"/", out)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = w.host()
	r.Header.Set("Cookie", w.cookie())
	go func() { _, _ = in.Write([]byte("first")) }()
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	part := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, part); err != nil || string(part) != "first" {
		t.Fatalf("%q, %v", part, err)
	}
	const size = 8 << 20
	go func() {
		_, _ = io.CopyN(in, zeros{}, size)
		_ = in.Close()
	}()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n != size {
		t.Errorf("%d bytes back, %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
