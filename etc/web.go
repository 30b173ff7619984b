package etc

import (
	"net"
	"net/url"
	"strings"
)

// Web is [web]: the listener for browsers, of the web page and of the sessions' apps.
type Web struct {
	Listen     string `toml:"listen"`      // host:port, "" for none
	URL        string `toml:"url"`         // where people find the page; see Address
	TLSCert    string `toml:"tls_cert"`    // PEM files; both or neither
	TLSKey     string `toml:"tls_key"`     //
	AppsDomain string `toml:"apps_domain"` // each app is at a name below it; "" for none
	AppsListen string `toml:"apps_listen"` // host:port of the origin that all apps share where there is no AppsDomain, "" for none
}

// Address is where people find the page, without a slash at its end; "" where there is none. host is this machine's name.
func (w Web) Address(host string) string {
	switch {
	case w.Listen == "":
		return ""
	case w.URL != "":
		return strings.TrimSuffix(w.URL, "/")
	}
	return w.scheme() + "://" + named(w.Listen, host)
}

// AppsAddress is the origin of all apps without AppsDomain, as Address.
func (w Web) AppsAddress(host string) string {
	if w.AppsListen == "" {
		return ""
	}
	// A proxy before the page stands before the apps, too, under the page's name.
	if u, err := url.Parse(w.URL); err == nil && u.Host != "" {
		_, port, _ := net.SplitHostPort(w.AppsListen)
		return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port)
	}
	return w.scheme() + "://" + named(w.AppsListen, host)
}

func (w Web) scheme() string {
	if w.TLSCert != "" {
		return "https"
	}
	return "http"
}

// named is a host:port for others: an address that means all of the machine's becomes its name.
func named(address, host string) string {
	h, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(h); err == nil && (h == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort(host, port)
	}
	return address
}

func (v *checker) web(w *Web) {
	p := path{"web"}
	v.hostPort(p.with("listen"), w.Listen)
	v.hostPort(p.with("apps_listen"), w.AppsListen)
	v.absolute(p.with("tls_cert"), w.TLSCert, false)
	v.absolute(p.with("tls_key"), w.TLSKey, false)
	if (w.TLSCert == "") != (w.TLSKey == "") {
		v.say(p.with("tls_cert"), "tls_cert and tls_key: both, or neither")
	}
	if w.URL != "" {
		u, err := url.Parse(w.URL)
		switch {
		case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil:
			v.say(p.with("url"), `want an address such as "https://batch.example.org"; got %s`, quote(w.URL))
		case strings.TrimSuffix(w.URL, "/") != u.Scheme+"://"+u.Host:
			v.say(p.with("url"), "want nothing behind the host; got %s", quote(w.URL))
		}
	}
	for _, l := range []struct{ key, address string }{{"listen", w.Listen}, {"apps_listen", w.AppsListen}} {
		if host, _, err := net.SplitHostPort(l.address); err == nil && w.TLSCert == "" && !strings.HasPrefix(w.URL, "https://") && !loopback(host) {
			v.say(p.with(l.key), "other machines would send their users' rights in clear: set tls_cert and tls_key, or url to the https address of the proxy before it; got %s", quote(l.address))
		}
	}
	if d := w.AppsDomain; d != "" && (!isDomain(d) || net.ParseIP(d) != nil) {
		v.say(p.with("apps_domain"), `want a name in lower case such as "apps.example.org", for which *.apps.example.org leads here; got %s`, quote(d))
	}
	switch {
	case w.Listen == "" && (w.AppsDomain != "" || w.AppsListen != ""):
		v.say(p.with("listen"), "is needed for apps")
	case w.AppsDomain != "" && w.AppsListen != "":
		v.say(p.with("apps_listen"), "must be empty: with apps_domain, apps are reached through listen")
	case w.AppsListen != "" && w.AppsListen == w.Listen:
		v.say(p.with("apps_listen"), "must be another address than listen: whoever writes an app could act for the page's users otherwise")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// isDomain says that s is a DNS name in lower case that has room for the labels of apps.
func isDomain(s string) bool {
	if len(s) > 180 {
		return false
	}
	for _, label := range strings.Split(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}
