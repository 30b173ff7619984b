package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"fairslice/queue"
)

// A session lasts for so long, whatever is done in it.
const sessionLife = 12 * time.Hour

// maxSessions bounds the memory; whoever logs in then has the oldest one's place.
const maxSessions = 20_000

// maxTerminals are open in one session at once.
const maxTerminals = 20

// session is one login.
type session struct {
	who   func() (queue.Identity, error) // asked at each request, so that what has changed counts at once
	csrf  string
	until time.Time
	key   [sha256.Size]byte
	over  chan struct{} // closed when it has ended by a logout

	mu        sync.Mutex
	notes     []string
	terminals int
}

// note keeps a line for the next page that is shown.
func (s *session) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notes = append(s.notes, line); len(s.notes) > 100 {
		s.notes = s.notes[len(s.notes)-100:]
	}
}

func (s *session) takeNotes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.notes
	s.notes = nil
	return out
}

// terminal counts one more, unless there are too many; done counts it back.
func (s *session) terminal() (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminals >= maxTerminals {
		return nil, false
	}
	s.terminals++
	return func() { s.mu.Lock(); s.terminals--; s.mu.Unlock() }, true
}

// sessions are those that have not ended. They are found by the hash of their cookie.
type sessions struct {
	mu   sync.Mutex
	open map[[sha256.Size]byte]*session
}

// secret is 256 random bits.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// begin opens a session and returns its cookie's value.
func (s *sessions) begin(who func() (queue.Identity, error), now time.Time) (value string) {
	value = secret()
	n := &session{who: who, csrf: secret(), until: now.Add(sessionLife), key: sha256.Sum256([]byte(value)), over: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[[sha256.Size]byte]*session{}
	}
	var oldest *session
	for key, o := range s.open {
		if !now.Before(o.until) {
			delete(s.open, key)
		} else if oldest == nil || o.until.Before(oldest.until) {
			oldest = o
		}
	}
	if len(s.open) >= maxSessions {
		delete(s.open, oldest.key)
		close(oldest.over)
	}
	s.open[n.key] = n
	return value
}

// find is the session of a cookie; nil where there is none (any more).
func (s *sessions) find(value string, now time.Time) *session {
	if value == "" {
		return nil
	}
	key := sha256.Sum256([]byte(value))
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.open[key]; o != nil && now.Before(o.until) {
		return o
	}
	return nil
}

// end closes a session. Ending it twice is harmless.
func (s *sessions) end(o *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[o.key] == o {
		delete(s.open, o.key)
		close(o.over)
	}
}

// Names of cookies. The prefix makes browsers refuse one that was set without TLS, for another path or for a whole domain.
func (s *Server) sessionCookie() string { return s.prefix() + "fairslice" }
func (s *Server) loginCookie() string   { return s.prefix() + "fairslice-login" }

func (s *Server) prefix() string {
	if s.secure {
		return "__Host-"
	}
	return ""
}

// set gives the browser a cookie for as long as it is open; "" takes it back.
func (s *Server) set(w http.ResponseWriter, name, value string) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteStrictMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// cookie is the value of a request's cookie, or "".
func cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
