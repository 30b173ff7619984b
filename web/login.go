package web

import (
	"net/http"

	"fairslice/api"
	"fairslice/queue"
)

// loginPage is what the login shows.
type loginPage struct {
	Once string // of a link, to be confirmed
	CSRF string
	Text string // what went wrong
}

// showLogin asks for a token, or for the click that uses a link up: what only looks at links, as mail programs do, must not.
func (s *Server) showLogin(w http.ResponseWriter, r *http.Request) {
	s.loginForm(w, r, http.StatusOK, loginPage{Once: r.URL.Query().Get("once")})
}

// loginForm has a CSRF token, too, which is compared with a cookie: nobody should be logged in as somebody else by a page elsewhere.
func (s *Server) loginForm(w http.ResponseWriter, r *http.Request, status int, p loginPage) {
	lang := s.language(w, r)
	if p.CSRF = cookie(r, s.loginCookie()); p.CSRF == "" {
		p.CSRF = secret()
		s.set(w, s.loginCookie(), p.CSRF)
	}
	v := &visit{Server: s, r: r, lang: lang, now: s.Now()}
	if err := v.render(w, status, "login", p); err != nil {
		s.Logger.ErrorContext(r.Context(), "page not written", "path", r.URL.Path, "error", err)
	}
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	lang, now := s.language(w, r), s.Now()
	refuse := func(status int, text string) {
		s.loginForm(w, r, status, loginPage{Text: text})
	}
	if !same(r.PostFormValue("csrf"), cookie(r, s.loginCookie())) {
		refuse(http.StatusForbidden, lang.text("stale_form"))
		return
	}
	if !s.limit.allow(client(r), now) {
		s.Logger.WarnContext(r.Context(), "too many logins", "address", client(r))
		w.Header().Set("Retry-After", "60")
		refuse(http.StatusTooManyRequests, lang.text("too_many_logins"))
		return
	}
	who, how, err := s.prove(r.PostFormValue("once"), r.PostFormValue("token"))
	var by queue.Identity
	if err == nil {
		by, err = who()
	}
	if err != nil {
		s.Logger.InfoContext(r.Context(), "login refused", "address", client(r), "by", how)
		text, status := s.explain(r, lang, err)
		refuse(status, text)
		return
	}
	if old := s.sessions.find(cookie(r, s.sessionCookie()), now); old != nil {
		s.sessions.end(old)
	}
	s.set(w, s.sessionCookie(), s.sessions.begin(who, now))
	s.set(w, s.loginCookie(), "")
	s.Logger.InfoContext(r.Context(), "logged in", "user", by.User, "address", client(r), "by", how)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// prove finds out who holds a link or a token, and how to ask again.
func (s *Server) prove(once, token string) (who func() (queue.Identity, error), how string, err error) {
	switch {
	case once != "":
		uid, err := s.People.Redeem(once)
		return func() (queue.Identity, error) { return s.People.Person(uid) }, "link", err
	case token != "":
		return func() (queue.Identity, error) { return s.People.Bearer(token) }, "token", nil
	}
	return nil, "nothing", &api.Error{Code: api.Denied, Msg: "the token is not known or has expired: ask an administrator for a new one"}
}

func (s *Server) logout(w http.ResponseWriter, v *visit) error {
	s.sessions.end(v.session)
	s.set(w, s.sessionCookie(), "")
	return back(w, v, "/login")
}
