package proxy

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"fairslice/api"
	"fairslice/images"
)

// Sessions is what the proxy needs of the daemon: api.Server has it.
type Sessions interface {
	FindApp(ctx context.Context, at api.AppPlace) (images.AppState, error)
	DialApp(ctx context.Context, at api.AppPlace, port int) (net.Conn, error)
	AppAlive(at api.AppPlace) bool
	AppSubscribe(at api.AppPlace) (changed <-chan struct{}, cancel func())
}

// Proxy is the handler of all apps. Make it with New, and Close it: open connections end.
type Proxy struct {
	site     *Site
	sessions Sessions
	log      *slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	alive  sync.WaitGroup // of the routes' goroutines

	mu     sync.Mutex
	routes map[api.AppPlace]*route
}

// New makes a proxy.
func New(site *Site, sessions Sessions, log *slog.Logger) *Proxy {
	p := &Proxy{site: site, sessions: sessions, log: log.With("service", "proxy"), routes: map[api.AppPlace]*route{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close ends all connections, and waits for what watches over them. Requests from then on are refused.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	p.alive.Wait()
}

// visit is one request that has shown a right secret.
type visit struct {
	at     api.AppPlace
	origin string // the app's own for browsers, without a slash
	prefix string // the path that the app is shown below, without its last slash: "" with a name of its own
}

// ServeHTTP serves one request for an app.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		p.refuse(w, http.StatusMethodNotAllowed, notAllowed)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a file may take long to arrive; not supported only under test recorders
	_ = control.SetWriteDeadline(time.Time{})
	_ = control.EnableFullDuplex() // an app may answer while a body still comes; HTTP/2 always has it
	v, ok := p.admit(w, r)
	if !ok {
		return
	}
	if !allowedFrom(r, v.origin) {
		p.refuse(w, http.StatusForbidden, foreign)
		return
	}
	rt, err := p.route(r.Context(), v.at)
	if err != nil {
		p.fail(w, v.at, err)
		return
	}
	defer rt.leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(rt.ctx, cancel)() // it ends with the attempt
	rt.handler(p, v).ServeHTTP(w, r.WithContext(ctx))
}

// admit finds out which app a request is for, and answers those that may not get there.
func (p *Proxy) admit(w http.ResponseWriter, r *http.Request) (visit, bool) {
	if p.site.shared() {
		return p.admitShared(w, r)
	}
	host, _ := p.site.hostLabel(r.Host)
	at, err := parseLabel(host)
	if err != nil {
		p.refuse(w, http.StatusForbidden, closed)
		return visit{}, false
	}
	if pass, rest, found := takePass(r.URL.RawQuery); found {
		at, ok := p.site.Key.opens(forLink, at, pass)
		if !ok || label(at) != host {
			p.refuse(w, http.StatusForbidden, closed)
			return visit{}, false
		}
		p.welcome(w, r, at, rest)
		return visit{}, false
	}
	for _, c := range r.CookiesNamed(p.cookieName()) { // a page elsewhere below the domain may have set one of this name
		if at, ok := p.site.Key.opens(forCookie, at, c.Value); ok && label(at) == host {
			return visit{at: at, origin: p.site.origin(at)}, true
		}
	}
	p.refuse(w, http.StatusForbidden, closed)
	return visit{}, false
}

// admitShared reads label and secret from the path: /app/LABEL.PASS/...
func (p *Proxy) admitShared(w http.ResponseWriter, r *http.Request) (visit, bool) {
	rest, ok := strings.CutPrefix(r.URL.Path, sharedPrefix)
	word, _, slash := strings.Cut(rest, "/")
	name, pass, _ := strings.Cut(word, ".")
	at, err := parseLabel(name)
	at, good := p.site.Key.opens(forLink, at, pass)
	if !ok || err != nil || !good || label(at) != name {
		p.refuse(w, http.StatusForbidden, closed)
		return visit{}, false
	}
	prefix := strings.TrimSuffix(p.site.base(at), "/")
	if !slash {
		quiet(w.Header())
		http.Redirect(w, r, p.site.Shared+prefix+"/", http.StatusSeeOther)
		return visit{}, false
	}
	return visit{at: at, origin: p.site.Shared, prefix: prefix}, true
}

// welcome turns the secret of a link into a cookie of the app's host, and leads to the address without it.
func (p *Proxy) welcome(w http.ResponseWriter, r *http.Request, at api.AppPlace, query string) {
	http.SetCookie(w, &http.Cookie{
		Name: p.cookieName(), Value: p.site.Key.pass(forCookie, at), Path: "/", HttpOnly: true, Secure: p.site.Secure(),
		SameSite: http.SameSiteLaxMode, // not Strict: a link of the web page leads here
	})
	to := p.site.origin(at) + "/" + strings.TrimLeft(r.URL.EscapedPath(), "/")
	if query != "" {
		to += "?" + query
	}
	quiet(w.Header())
	w.Header().Set("Location", to) // the origin is ours whatever was asked: no way to lead elsewhere
	w.WriteHeader(http.StatusSeeOther)
}

// takePass takes the secret out of a query and leaves the rest as it was written.
func takePass(query string) (pass, rest string, found bool) {
	var keep []string
	for _, item := range strings.Split(query, "&") {
		value, ok := strings.CutPrefix(item, passParameter+"=")
		if !ok {
			keep = append(keep, item)
			continue
		}
		if v, err := url.QueryUnescape(value); err == nil {
			pass = v
		}
		found = true
	}
	return pass, strings.Join(keep, "&"), found
}

// Our cookies begin with one of these, and no app sees or sets them. The web page's do, too.
var ownCookies = []string{"fairslice", "__Host-fairslice", "__Secure-fairslice"}

// cookieName has, under HTTPS, the prefix that keeps other hosts from setting it.
func (p *Proxy) cookieName() string {
	if p.site.Secure() {
		return "__Host-fairslice-app"
	}
	return "fairslice-app"
}

func isOwnCookie(name string) bool {
	for _, own := range ownCookies {
		if len(name) >= len(own) && strings.EqualFold(name[:len(own)], own) {
			return true
		}
	}
	return false
}

// allowedFrom says whether a browser may send a request from where it does. Pages of other origins, be they apps below the
// same domain, may link to an app and nothing else: with the visitor's cookie they would act for the visitor.
func allowedFrom(r *http.Request, origin string) bool {
	if o := r.Header.Get("Origin"); o != "" && o != origin {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // no browser, or the user
		return true
	}
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// How long things may take. What has begun to flow may flow for ever.
const (
	findTimeout   = 20 * time.Second
	dialTimeout   = 20 * time.Second
	answerTimeout = 10 * time.Minute // until an app begins to answer: some compute first
	idleTimeout   = 30 * time.Second // of a connection to an app that nobody uses
	routeTimeout  = 5 * time.Minute  // of a route that nobody uses
)

// handler is what passes a visit's requests to the app.
func (rt *route) handler(p *Proxy, v visit) http.Handler {
	t := &translation{visit: v, state: rt.state, secure: p.site.Secure(), token: p.site.Key.sum(forToken, v.at)}
	return &httputil.ReverseProxy{
		Rewrite: t.request, ModifyResponse: t.response, Transport: rt.transport, FlushInterval: -1, BufferPool: &buffers,
		ErrorLog:     slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { p.broken(w, rt, v.at, err) },
	}
}

// buffers are for what passes through.
var buffers pool

type pool struct{ p sync.Pool }

func (b *pool) Get() []byte {
	if s, ok := b.p.Get().(*[]byte); ok {
		return *s
	}
	return make([]byte, 32<<10)
}

func (b *pool) Put(s []byte) { b.p.Put(&s) }
