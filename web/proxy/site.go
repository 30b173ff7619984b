package proxy

import (
	"net/url"
	"strings"

	"fairslice/api"
	"fairslice/images"
)

// Site is where apps are shown. It is the api.AppSite.
type Site struct {
	Key    Key
	Apps   func() []images.Program // the site's own, as the configuration stands
	Page   string                  // the web page's origin, as in https://batch.example.org; apps have its scheme and port. "": no proxy
	Domain string                  // each app is at a name below; "" for none
	Shared string                  // without Domain: the origin of all apps, "" for none
}

// Programs are the site's apps.
func (s *Site) Programs() []images.Program { return s.Apps() }

// Link makes the link to an app.
func (s *Site) Link(at api.AppPlace) api.AppLink {
	l := api.AppLink{Base: s.base(at), Token: s.Key.sum(forToken, at)}
	switch {
	case s.Page == "":
	case s.Domain != "":
		l.URL = s.origin(at) + "/?" + passParameter + "=" + s.Key.pass(forLink, at)
	case s.Shared != "":
		l.URL = s.Shared + l.Base
	}
	return l
}

// passParameter is the query parameter that has the secret of a link.
const passParameter = "fairslice-pass"

// shared says that all apps have one origin.
func (s *Site) shared() bool { return s.Domain == "" }

// sharedPrefix is what all paths of apps with one origin begin with.
const sharedPrefix = "/app/"

// base is the path that an app is shown below.
func (s *Site) base(at api.AppPlace) string {
	if s.shared() && s.Shared != "" {
		return sharedPrefix + label(at) + "." + s.Key.pass(forLink, at) + "/"
	}
	return "/"
}

// origin is an app's own origin, or the shared one.
func (s *Site) origin(at api.AppPlace) string {
	if s.shared() {
		return s.Shared
	}
	page, err := url.Parse(s.Page)
	if err != nil {
		return "" // internal error: impossible, the configuration was checked
	}
	host := label(at) + "." + s.Domain
	if p := page.Port(); p != "" {
		host += ":" + p
	}
	return page.Scheme + "://" + host
}

// Secure says that browsers speak HTTPS to the apps.
func (s *Site) Secure() bool {
	if s.shared() {
		return strings.HasPrefix(s.Shared, "https://")
	}
	return strings.HasPrefix(s.Page, "https://")
}

// Owns says that requests for a host (as in the header Host) are for apps: with Domain, all names below it.
func (s *Site) Owns(host string) bool {
	_, ok := s.hostLabel(host)
	return ok
}

// hostLabel is the part of a host name that stands for an app.
func (s *Site) hostLabel(host string) (string, bool) {
	if s.Domain == "" {
		return "", false
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return strings.CutSuffix(host, "."+s.Domain)
}
