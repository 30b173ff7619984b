package proxy

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"fairslice/images"
)

// translation is between the address that the browser knows and the one that the app listens at.
type translation struct {
	visit
	state  images.AppState
	secure bool
	token  string
}

// inner is the app's own address, as it is told.
func (t *translation) inner() string { return fmt.Sprintf("127.0.0.1:%d", t.state.Port) }

// strips says that the app does not know of the path that it is shown below.
func (t *translation) strips() bool { return t.prefix != "" && !t.state.TakesBase }

// request makes what the app gets. The headers that concern only the connection are gone by now, with all that Connection names.
func (t *translation) request(pr *httputil.ProxyRequest) {
	out := pr.Out
	out.URL.Scheme, out.URL.Host = "http", t.inner()
	out.URL.RawQuery = pr.In.URL.RawQuery // as it was written: how to read it is the app's business
	// The app takes itself for asked directly: most refuse names that they do not know, and origins other than their own. That the
	// request comes from the app's own pages has been checked.
	out.Host = t.inner()
	if t.strips() {
		stripPrefix(out.URL, t.prefix)
	}
	if out.Header.Get("Origin") != "" {
		out.Header.Set("Origin", "http://"+t.inner())
	}
	if from, own := strings.CutPrefix(out.Header.Get("Referer"), t.origin+"/"); own {
		if t.strips() {
			from = strings.TrimPrefix("/"+from, t.prefix+"/")
		}
		out.Header.Set("Referer", "http://"+t.inner()+"/"+from)
	} else {
		out.Header.Del("Referer")
	}
	for _, name := range []string{"X-Real-Ip", "X-Scheme", "X-Forwarded-Prefix", "X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded-User", "X-Remote-User", "Remote-User"} {
		out.Header.Del(name) // apps may believe them of a proxy
	}
	pr.SetXForwarded()
	proto := "http"
	if t.secure {
		proto = "https"
	}
	out.Header.Set("X-Forwarded-Proto", proto)
	if out.Header.Get("Origin") != "" {
		out.Header.Del("X-Forwarded-Host") // some compare the origin with it, rather than with Host (code-server)
	}
	if t.strips() {
		out.Header.Set("X-Forwarded-Prefix", t.prefix)
	}
	if up := out.Header.Get("Upgrade"); up != "" && !strings.EqualFold(up, "websocket") {
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
	stripCookies(out.Header)
	t.authorize(out.Header)
}

// authorize shows the app its token, where it takes one. Else what the browser sends passes, as it is the app's own.
func (t *translation) authorize(h http.Header) {
	switch t.state.Auth {
	case images.TokenAuth:
		h.Set("Authorization", "token "+t.token)
	case images.BearerAuth:
		h.Set("Authorization", "Bearer "+t.token)
	case images.BasicAuth:
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("fairslice:"+t.token)))
	}
}

func stripPrefix(u *url.URL, prefix string) {
	u.Path = "/" + strings.TrimLeft(strings.TrimPrefix(u.Path, prefix), "/")
	if u.RawPath != "" {
		u.RawPath = "/" + strings.TrimLeft(strings.TrimPrefix(u.RawPath, prefix), "/")
	}
}

// stripCookies takes our cookies out of a request. The others stay as they were written.
func stripCookies(h http.Header) {
	var keep []string
	for _, line := range h["Cookie"] {
		for _, c := range strings.Split(line, ";") {
			c = strings.TrimSpace(c)
			name, _, _ := strings.Cut(c, "=")
			if c != "" && !isOwnCookie(strings.TrimSpace(name)) {
				keep = append(keep, c)
			}
		}
	}
	if len(keep) == 0 {
		h.Del("Cookie")
		return
	}
	h.Set("Cookie", strings.Join(keep, "; "))
}

// response makes what the browser gets.
func (t *translation) response(r *http.Response) error {
	h := r.Header
	var cookies []string
	for _, c := range h["Set-Cookie"] {
		if c = t.cookie(c); c != "" {
			cookies = append(cookies, c)
		}
	}
	h.Del("Set-Cookie")
	for _, c := range cookies {
		h.Add("Set-Cookie", c)
	}
	if to := h.Get("Location"); to != "" {
		h.Set("Location", t.location(to))
	}
	// What would hold for more than the app: how browsers reach this host at all, and the workers of other apps beside it.
	for _, name := range []string{"Strict-Transport-Security", "Alt-Svc", "Public-Key-Pins"} {
		h.Del(name)
	}
	if t.prefix != "" {
		h.Del("Service-Worker-Allowed")
		h.Del("Clear-Site-Data")
	}
	quiet(h)
	h.Add("Content-Security-Policy", "frame-ancestors 'self'") // beside the app's own
	return nil
}

// quiet keeps the address from other sites.
func quiet(h http.Header) { h.Set("Referrer-Policy", "same-origin") }

// cookie is a Set-Cookie that holds for the app alone; "" for one that it may not set.
func (t *translation) cookie(line string) string {
	part := strings.Split(line, ";")
	name, _, ok := strings.Cut(part[0], "=")
	if name = strings.TrimSpace(name); !ok || name == "" || isOwnCookie(name) {
		return ""
	}
	out := []string{strings.TrimSpace(part[0])}
	path := ""
	for _, p := range part[1:] {
		p = strings.TrimSpace(p)
		key, value, _ := strings.Cut(p, "=")
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "domain": // without it, it is the host's own
		case "path":
			path = strings.TrimSpace(value)
		case "":
		default:
			out = append(out, p)
		}
	}
	if t.prefix != "" {
		if t.strips() && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, t.prefix) {
			path = t.prefix + path
		}
		if path != t.prefix && !strings.HasPrefix(path, t.prefix+"/") {
			path = t.prefix + "/"
		}
	}
	if path != "" {
		out = append(out, "Path="+path)
	}
	return strings.Join(out, "; ")
}

// location turns an address of the app's own into the one that the browser knows. Where else it leads is the app's word.
func (t *translation) location(to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return to
	}
	own := u.Host == "" && strings.HasPrefix(to, "/")
	for _, host := range []string{t.inner(), fmt.Sprintf("localhost:%d", t.state.Port)} {
		if u.Host == host && (u.Scheme == "http" || u.Scheme == "") {
			own = true
			u.Scheme, u.Host = "", ""
			to = t.origin + "/" + strings.TrimLeft(u.String(), "/")
		}
	}
	if !own || !t.strips() {
		return to
	}
	rest := strings.TrimPrefix(to, t.origin)
	return t.origin + t.prefix + "/" + strings.TrimLeft(rest, "/")
}
