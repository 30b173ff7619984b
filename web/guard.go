package web

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"
)

// policy is what a page may load and run: files of this origin, and nothing that stands in it.
const policy = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// harden tells the browser what the page never does.
func (s *Server) harden(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, the Origin of our own forms would be null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if s.secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// hosted says that a request's Host is the page's. This machine's own names for itself are, too: whoever uses them is on it.
func (s *Server) hosted(host string) bool {
	if strings.EqualFold(host, s.URL.Host) {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || err == nil && ip.IsLoopback()
}

// ownOrigin says that a request was made by one of our pages. Every browser of these days says where a POST or a WebSocket comes
// from: a request that does not is none of theirs.
func (s *Server) ownOrigin(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if site == "" && origin == "" || site != "" && site != "same-origin" {
		return false
	}
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
}

// same compares secrets. An empty one is the same as none.
func same(a, b string) bool {
	return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// Attempts to log in that an address may make, at once and then again; and all addresses together, since one user can have many.
const (
	burst       = 10
	refill      = 6 * time.Second
	everybodys  = 200
	everyRefill = 300 * time.Millisecond
	maxBuckets  = 10_000
)

// limiter bounds how often somebody may try to log in. A proxy before the page makes all users one address.
type limiter struct {
	mu      sync.Mutex
	buckets map[string]bucket
}

// bucket holds tries, as of a time.
type bucket struct {
	left float64
	at   time.Time
}

func (b bucket) filled(now time.Time, size float64, every time.Duration) float64 {
	return min(size, b.left+float64(now.Sub(b.at))/float64(every))
}

// allow takes a try of an address; false where it has none left. IPv6 addresses count by their network.
func (l *limiter) allow(address string, now time.Time) bool {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		if p, err := ip.Prefix(64); err == nil {
			address = p.String()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buckets == nil {
		l.buckets = map[string]bucket{"": {everybodys, now}}
	}
	if len(l.buckets) >= maxBuckets {
		for a, b := range l.buckets {
			if a != "" && b.filled(now, burst, refill) >= burst {
				delete(l.buckets, a)
			}
		}
	}
	own, known := l.buckets[address]
	if !known {
		if len(l.buckets) >= maxBuckets {
			return false
		}
		own = bucket{burst, now}
	}
	all := l.buckets[""]
	own.left, own.at = own.filled(now, burst, refill), now
	all.left, all.at = all.filled(now, everybodys, everyRefill), now
	ok := own.left >= 1 && all.left >= 1
	if ok {
		own.left--
		all.left--
	}
	l.buckets[address], l.buckets[""] = own, all
	return ok
}
