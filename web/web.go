package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"fairslice/api"
	"fairslice/images"
	"fairslice/queue"
)

// Batch is the batch daemon as the commands see it. What View shows is held: nothing of it may be kept.
type Batch interface {
	Submit(ctx context.Context, s queue.Submission) (queue.Accepted, error)
	Control(ctx context.Context, c queue.Control) ([]queue.Outcome, error)
	View(f func(queue.View))
	Select(v queue.View, s queue.Selection, by queue.Identity) (found []api.Found, notFound []string, err error)
	Extend(ctx context.Context, q queue.Extend) (queue.Extension, error)
}

// Catalogue is the images that a user sees, what apps there are beside those that these name, and the requests to make an image of a
// session.
type Catalogue interface {
	Images(by queue.Identity, all bool) ([]*images.Image, error)
	AppNames() (site []string, ofImages map[string][]string)
	Commits(by queue.Identity, all bool) ([]*images.Commit, error)
	DecideCommit(ctx context.Context, by queue.Identity, id images.CommitID, approve bool, reason string) (*images.Commit, error)
}

// People says who somebody is, with the rights of this moment.
type People interface {
	Redeem(code string) (uid int, err error)
	Person(uid int) (queue.Identity, error)
	Bearer(token string) (queue.Identity, error)
}

// Consoles reach into running jobs, for their owners, and know which of them still wait for their image.
type Consoles interface {
	Beside(ctx context.Context, by queue.Identity, job string, program queue.ExecOrder, rows, cols uint16) (*api.Console, error)
	Takeover(ctx context.Context, by queue.Identity, job string, rows, cols uint16) (*api.Console, error)
	Tail(ctx context.Context, by queue.Identity, job string, size int) (stdout, stderr []byte, err error)
	Fetches() api.Fetches
}

// Apps are the network services of a running job. Open starts one if need be, and gives an address on another origin that
// opens it.
type Apps interface {
	List(ctx context.Context, by queue.Identity, job string) ([]App, error)
	Open(ctx context.Context, by queue.Identity, job, app string) (address string, err error)
}

// App is one of them.
type App struct {
	Name string
	Note string // beside its name, such as its port
}

// Config is what the page needs. Apps may be nil, the rest not.
type Config struct {
	URL       *url.URL // where users find it; its host is the only one that is answered, beside this machine's own names for itself
	Batch     Batch
	Describe  func() api.Cluster // the site's configuration, not to be changed
	Catalogue Catalogue
	People    People
	Consoles  Consoles
	Apps      Apps
	Now       func() time.Time
	Logger    *slog.Logger
}

// Server answers the page's requests. It is an http.Handler; Close ends the terminals.
type Server struct {
	Config
	secure   bool // users come by https
	sessions sessions
	limit    limiter
	trails   trails
	mux      *http.ServeMux
	closed   chan struct{}
	followed chan struct{} // closed when nothing is sampled any more
}

// New makes a Server, which Close must end.
func New(c Config) *Server {
	s := &Server{Config: c, secure: c.URL.Scheme == "https", mux: http.NewServeMux(), closed: make(chan struct{}), followed: make(chan struct{})}
	s.Logger = c.Logger.With("service", "web")
	s.mux.Handle("GET /static/", http.HandlerFunc(static))
	s.mux.HandleFunc("GET /login", s.showLogin)
	s.mux.HandleFunc("POST /login", s.login)
	s.post("/logout", s.logout)
	s.get("/{$}", s.showJobs)
	s.get("/launch", s.showLaunch)
	s.post("/launch", s.launch)
	s.get("/jobs/{job}", s.showJob)
	s.post("/jobs/{job}/end", s.endJob)
	s.post("/jobs/{job}/extend", s.extendJob)
	s.post("/jobs/{job}/apps/{app}", s.openApp)
	s.get("/jobs/{job}/terminal", s.showTerminal)
	s.get("/jobs/{job}/console", s.console)
	s.admin("/all", s.showAll)
	s.admin("/nodes", s.showNodes)
	s.admin("/commits", s.showCommits)
	s.post("/commits/{id}", s.decideCommit)
	go s.follow()
	return s
}

// Close ends every terminal, and waits until the book is not looked at any more. Call it once, when no request comes any more.
func (s *Server) Close() {
	close(s.closed)
	<-s.followed
}

// visit is one request of somebody who is logged in.
type visit struct {
	*Server
	r       *http.Request
	by      queue.Identity
	session *session
	lang    language
	now     time.Time
}

type handler func(w http.ResponseWriter, v *visit) error

func (s *Server) get(path string, h handler)  { s.mux.HandleFunc("GET "+path, s.known(h)) }
func (s *Server) post(path string, h handler) { s.mux.HandleFunc("POST "+path, s.known(h)) }

// admin pages are not there for others.
func (s *Server) admin(path string, h handler) {
	s.get(path, func(w http.ResponseWriter, v *visit) error {
		if !v.by.Admin {
			return notFound
		}
		return h(w, v)
	})
}

var notFound = &api.Error{Code: api.NotFound, Msg: "page not found"}

// ServeHTTP guards, and answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.harden(w.Header())
	if !s.hosted(r.Host) {
		http.Error(w, "this page is at "+s.URL.String(), http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !s.ownOrigin(r) {
		http.Error(w, "this comes from another page", http.StatusForbidden)
		return
	}
	control := http.NewResponseController(w) // of what is taken over, such as a terminal, the server forgets both
	_ = control.SetReadDeadline(time.Now().Add(patience))
	_ = control.SetWriteDeadline(time.Now().Add(patience)) // not supported only under test recorders
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	s.mux.ServeHTTP(w, r)
}

// Bounds of a request.
const (
	maxForm  = 256 << 10 // bytes
	patience = time.Minute
)

// known lets in who is logged in, and sends others to the login.
func (s *Server) known(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Server: s, r: r, lang: s.language(w, r), now: s.Now()}
		v.session = s.sessions.find(cookie(r, s.sessionCookie()), v.now)
		var err error
		if v.session != nil {
			if v.by, err = v.session.who(); err != nil { // the token has gone, or the user
				s.sessions.end(v.session)
				v.session = nil
			}
		}
		if v.session == nil {
			http.Redirect(w, r, "/login", http.StatusSeeOther)
			return
		}
		if r.Method == http.MethodPost && !same(r.PostFormValue("csrf"), v.session.csrf) {
			err = &api.Error{Code: api.Denied, Msg: v.lang.text("stale_form")}
		} else {
			err = h(w, v)
		}
		if err != nil {
			v.fail(w, err)
		}
	}
}

// statuses say how a failure looks to a browser.
var statuses = map[api.Code]int{
	api.Invalid: http.StatusUnprocessableEntity, api.NotFound: http.StatusNotFound, api.Conflict: http.StatusConflict,
	api.Denied: http.StatusForbidden, api.Unavailable: http.StatusServiceUnavailable,
}

// explain is what a user reads of an error, and its status. What is for the log goes there.
func (s *Server) explain(r *http.Request, lang language, err error) (text string, status int) {
	var e *api.Error
	if errors.As(err, &e) && statuses[e.Code] != 0 {
		if e == notFound {
			return lang.text("not_found"), http.StatusNotFound
		}
		return e.Msg, statuses[e.Code]
	}
	if r.Context().Err() == nil {
		s.Logger.ErrorContext(r.Context(), "page failed", "path", r.URL.Path, "error", err)
	}
	return lang.text("internal"), http.StatusInternalServerError
}

func (v *visit) fail(w http.ResponseWriter, err error) {
	text, status := v.explain(v.r, v.lang, err)
	if err := v.render(w, status, "error", text); err != nil {
		v.Logger.ErrorContext(v.r.Context(), "page not written", "path", v.r.URL.Path, "error", err)
	}
}

// note remembers a line for the next page.
func (v *visit) note(format string, args ...any) { v.session.note(fmt.Sprintf(format, args...)) }

// back sends the browser on after a POST; to is a path of ours.
func back(w http.ResponseWriter, v *visit, to string) error {
	http.Redirect(w, v.r, to, http.StatusSeeOther)
	return nil
}

// client is the address that a request comes from.
func client(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
