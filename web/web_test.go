package web_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairslice/api"
	"fairslice/api/client"
	"fairslice/images"
	"fairslice/queue"
	"fairslice/queue/engine"
	"fairslice/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// forgetful is a store that takes everything: what these tests look at is in the book.
type forgetful struct{}

func (forgetful) Commit(context.Context, *engine.Batch) error { return nil }
func (forgetful) Blob(context.Context, string) ([]byte, error) {
	return nil, errors.New("nothing is stored")
}
func (forgetful) EventsOf(context.Context, []queue.JobID) ([]queue.Event, error) { return nil, nil }
func (forgetful) PolicyEvents(context.Context, int) ([]queue.Event, error)       { return nil, nil }
func (forgetful) FindHistory(context.Context, queue.Selection, string) ([]queue.JobID, error) {
	return nil, nil
}

// batch is the real engine, as bin/batchd gives it to the server.
type batch struct {
	api.Engine // what these tests do not come to
	engine     *engine.Engine
}

func (b batch) Submit(ctx context.Context, s queue.Submission) (queue.Accepted, error) {
	a, err := b.engine.Submit(ctx, s)
	return a, speak(err)
}

// speak marks what users may read.
func speak(err error) error {
	var r engine.Refusal
	if errors.As(err, &r) {
		return &api.Error{Code: api.Invalid, Msg: r.Text}
	}
	return err
}

// catalogue is the real engine's, as bin/batchd gives it.
type catalogue struct{ *engine.Engine }

func (c catalogue) DecideCommit(ctx context.Context, by queue.Identity, id images.CommitID, approve bool, reason string) (*images.Commit, error) {
	out, err := c.Engine.DecideCommit(ctx, by, id, approve, reason)
	return out, speak(err)
}

func (b batch) Control(ctx context.Context, c queue.Control) ([]queue.Outcome, error) {
	return b.engine.Control(ctx, c)
}
func (b batch) Extend(ctx context.Context, q queue.Extend) (queue.Extension, error) {
	return b.engine.Extend(ctx, q)
}
func (b batch) View(f func(queue.View)) { b.engine.View(f) }
func (b batch) Select(v queue.View, s queue.Selection, by queue.Identity) ([]api.Found, []string, error) {
	found, missing, err := b.engine.Select(v, s, by)
	out := make([]api.Found, len(found))
	for i, f := range found {
		out[i] = api.Found(f)
	}
	return out, missing, err
}
func (b batch) Describe() api.Cluster {
	return api.Cluster{Name: "test", DefaultQueue: "normal", TimeZone: "UTC", MaxArray: 100, Images: []string{"sample:latest"}, Queues: []api.QueueInfo{{Name: "normal"}, {Name: "others", Users: []string{"games"}}}}
}

// site is a page with a real engine and a real server behind, and a clock that tests move.
type site struct {
	t      *testing.T
	engine *engine.Engine
	tokens *api.TokenFile
	users  *client.Users // over the Unix socket, so as whoever runs the test, who is an administrator
	page   *httptest.Server

	mu  sync.Mutex
	now time.Time
}

func (s *site) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *site) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func newSite(t *testing.T) *site { return newSiteBy(t, httptest.NewServer) }

// newSiteBy has the page served by serve, with TLS or without.
func newSiteBy(t *testing.T, serve func(http.Handler) *httptest.Server) *site {
	t.Helper()
	s := &site{t: t, now: time.Now()}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	hub := api.NewHub(api.HubConfig{Cluster: "test"}, log)
	s.engine = engine.New(engine.Config{Cluster: "test", DefaultQueue: "normal", Queues: []engine.Queue{{Name: "normal", Priority: 30, Interactive: true, Container: "allowed", OverlaySize: 1 << 30}}, MaxArray: 100,
		Images: map[string]string{"sample:latest": "/sample.sif"}, Apps: []string{"ttyd"}, FileApps: func(string) ([]string, bool) { return []string{"page"}, true }, ApproveCommits: true, CleanPeriod: time.Hour, Logger: log, Now: s.clock, Location: time.UTC}, forgetful{}, hub, queue.NewBook())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.engine.Run(ctx) }()
	dir := t.TempDir()
	var err error
	if s.tokens, err = api.OpenTokens(filepath.Join(dir, "tokens.json"), s.clock); err != nil {
		t.Fatal(err)
	}
	var handler http.Handler
	s.page = serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	back := batch{nil, s.engine}
	srv := api.New(api.Config{Now: s.clock, Web: s.page.URL}, back, hub, s.tokens, log)
	address, err := url.Parse(s.page.URL)
	if err != nil {
		t.Fatal(err)
	}
	page := web.New(web.Config{URL: address, Batch: back, Describe: back.Describe, Catalogue: catalogue{s.engine}, People: srv, Consoles: srv, Now: s.clock, Logger: log})
	handler = page
	socket := filepath.Join(dir, "sock")
	l, err := api.ListenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- srv.Serve(l) }()
	if s.users, err = client.NewUsers(client.Config{Address: "unix://" + socket}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.page.Close()
		page.Close()
		if err := srv.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		s.users.Close()
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// browser is one that keeps cookies and follows no redirects.
type browser struct {
	*site
	http.Client
}

func (s *site) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &browser{s, http.Client{Jar: jar, Transport: s.page.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// send makes a request as a page of ours does, but for the headers given ("" takes one away).
func (b *browser) send(method, path string, form url.Values, headers ...string) (status int, body string, h http.Header) {
	b.t.Helper()
	r, err := http.NewRequest(method, b.page.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", b.page.URL)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	answer, err := b.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(data), answer.Header
}

func (b *browser) get(path string) (status int, body string) {
	b.t.Helper()
	status, body, _ = b.send("GET", path, nil)
	return status, body
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// csrf is the token of a page's forms.
func (b *browser) csrf(path string) string {
	b.t.Helper()
	_, body := b.get(path)
	m := csrfField.FindStringSubmatch(body)
	if m == nil {
		b.t.Fatalf("%s has no form: %s", path, body)
	}
	return m[1]
}

// login tries to, with a token or a link's code.
func (b *browser) login(field, secret string) (status int, body string, h http.Header) {
	b.t.Helper()
	return b.send("POST", "/login", url.Values{"csrf": {b.csrf("/login")}, field: {secret}})
}

// as is a browser in which a user of this machine is logged in, by a token.
func (s *site) as(user string) *browser {
	s.t.Helper()
	token, err := s.tokens.Create(api.UserToken, user, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	b := s.browser()
	if status, body, _ := b.login("token", token); status != http.StatusSeeOther {
		s.t.Fatalf("log in as %s: %d %s", user, status, body)
	}
	return b
}

// link is what blogin prints, and the code in it.
func (s *site) link() (link, code string) {
	s.t.Helper()
	l, err := s.users.Login(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	_, code, ok := strings.Cut(l.Url, "/login?once=")
	if !ok || !strings.HasPrefix(l.Url, s.page.URL) {
		s.t.Fatalf("the link is %q", l.Url)
	}
	return l.Url, code
}

// Users of every Debian and most other systems, who are no administrators (unless one of them runs the tests).
const alice, bob = "daemon", "games"

func TestLoginByLink(t *testing.T) {
	s := newSite(t)
	link, code := s.link()
	b := s.browser()
	if status, body := b.get(strings.TrimPrefix(link, s.page.URL)); status != 200 || !strings.Contains(body, code) {
		t.Fatalf("the link: %d %s", status, body)
	}
	if status, _, h := b.send("GET", "/", nil); status != http.StatusSeeOther || h.Get("Location") != "/login" {
		t.Errorf("looking at a link logged in: %d", status)
	}
	status, _, h := b.login("once", code)
	if status != http.StatusSeeOther || h.Get("Location") != "/" {
		t.Fatalf("use the link: %d", status)
	}
	cookies := strings.Join(h.Values("Set-Cookie"), "\n")
	if !regexp.MustCompile(`(?m)^fairslice=[\w-]{43}; Path=/; HttpOnly; SameSite=Strict$`).MatchString(cookies) {
		t.Errorf("the session's cookie is %q", cookies)
	}
	if status, body := b.get("/"); status != 200 || !strings.Contains(body, "No jobs.") {
		t.Errorf("the page: %d %s", status, body)
	}
	if status, _, _ := s.browser().login("once", code); status != http.StatusForbidden {
		t.Errorf("use the link again: %d", status)
	}
	_, late := s.link()
	s.pass(2 * time.Minute)
	if status, body, _ := s.browser().login("once", late); status != http.StatusForbidden || !strings.Contains(body, "older than 2 minutes") {
		t.Errorf("use a link after two minutes: %d", status)
	}
}

// Over TLS nothing is left that another origin, or somebody on the way, could set or read.
func TestLoginOverTLS(t *testing.T) {
	s := newSiteBy(t, httptest.NewTLSServer)
	link, code := s.link()
	if !strings.HasPrefix(link, "https://") {
		t.Errorf("the link is %q", link)
	}
	b := s.browser()
	_, _, before := b.send("GET", "/login?lang=ja", nil)
	status, _, after := b.login("once", code)
	if status != http.StatusSeeOther {
		t.Fatalf("use the link: %d", status)
	}
	cookies := append(before.Values("Set-Cookie"), after.Values("Set-Cookie")...)
	if len(cookies) != 4 { // the language, the login's, the session's, and the login's taken back
		t.Errorf("cookies: %q", cookies)
	}
	for _, c := range cookies {
		if !strings.Contains(c, "; HttpOnly; Secure; SameSite=") || !strings.HasPrefix(c, "__Host-fairslice") && !strings.HasPrefix(c, "fairslice-language=") {
			t.Errorf("the cookie %q", c)
		}
	}
	if status, _, h := b.send("GET", "/", nil); status != http.StatusOK || h.Get("Strict-Transport-Security") != "max-age=31536000" {
		t.Errorf("the page: %d %v", status, h)
	}
	if _, _, h := newSite(t).browser().send("GET", "/login", nil); h.Get("Strict-Transport-Security") != "" {
		t.Error("a page without TLS forbids itself")
	}
}

func TestSessionEnds(t *testing.T) {
	s := newSite(t)
	in := func(b *browser) bool { status, _ := b.get("/"); return status == http.StatusOK }
	b := s.as(alice)
	csrf := b.csrf("/")
	if status, _, _ := b.send("POST", "/logout", url.Values{"csrf": {csrf}}); status != http.StatusSeeOther || in(b) {
		t.Errorf("after a logout (%d) the session goes on", status)
	}
	b = s.as(alice)
	if n, err := s.tokens.Revoke(alice); err != nil || n == 0 || in(b) {
		t.Errorf("after the token was taken back (%d, %v) the session goes on", n, err)
	}
	b = s.as(alice)
	s.pass(12*time.Hour - time.Second)
	if !in(b) {
		t.Error("the session ended before its time")
	}
	s.pass(time.Second)
	if in(b) {
		t.Error("the session lasts beyond its time")
	}
	node, err := s.tokens.Create(api.NodeToken, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{node, "", "fs_wrong"} {
		if status, _, _ := s.browser().login("token", token); status != http.StatusForbidden {
			t.Errorf("log in with %.4q: %d", token, status)
		}
	}
}

func TestLoginsAreLimited(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	csrf := b.csrf("/login")
	try := func() int {
		status, _, _ := b.send("POST", "/login", url.Values{"csrf": {csrf}, "token": {"fs_guess"}})
		return status
	}
	for i := range 10 {
		if status := try(); status != http.StatusForbidden {
			t.Fatalf("attempt %d: %d", i+1, status)
		}
	}
	if status := try(); status != http.StatusTooManyRequests {
		t.Errorf("one attempt too many: %d", status)
	}
	s.pass(6 * time.Second)
	if first, second := try(), try(); first != http.StatusForbidden || second != http.StatusTooManyRequests {
		t.Errorf("6 s later: %d, %d, want one attempt more", first, second)
	}
}

// A POST that is not from a page of ours changes nothing, whatever else is right.
func TestForgedPosts(t *testing.T) {
	s := newSite(t)
	b := s.as(alice)
	csrf := b.csrf("/launch")
	form := func(csrf string) url.Values {
		return url.Values{"csrf": {csrf}, "token": {"0123456789abcdef"}, "count": {"1"}, "cores": {"1"}}
	}
	for _, row := range []struct {
		name    string
		form    url.Values
		headers []string
	}{
		{"no token", form(""), nil},
		{"another login's token", form(s.as(bob).csrf("/launch")), nil},
		{"another origin", form(csrf), []string{"Origin", "http://evil.example"}},
		{"an origin that browsers hide", form(csrf), []string{"Origin", "null"}},
		{"a sister site", form(csrf), []string{"Sec-Fetch-Site", "same-site"}},
		{"an address typed in", form(csrf), []string{"Sec-Fetch-Site", "none"}},
		{"no browser", form(csrf), []string{"Origin", "", "Sec-Fetch-Site", ""}},
	} {
		if status, _, _ := b.send("POST", "/launch", row.form, row.headers...); status != http.StatusForbidden {
			t.Errorf("%s: %d, want 403", row.name, status)
		}
	}
	s.engine.View(func(v queue.View) {
		if n := len(v.Book().Jobs); n != 0 {
			t.Errorf("%d jobs were submitted", n)
		}
	})
	if status, _, _ := b.send("POST", "/launch", form(csrf), "Origin", ""); status != http.StatusSeeOther {
		t.Errorf("a browser that sends Sec-Fetch-Site alone: %d", status)
	}
	if status, _, _ := s.browser().send("POST", "/login", url.Values{"csrf": {"x"}, "token": {"y"}}, "Cookie", "fairslice-login=z"); status != http.StatusForbidden {
		t.Errorf("a login form from elsewhere: %d", status)
	}
}

func TestHostNames(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	for host, want := range map[string]int{
		strings.TrimPrefix(s.page.URL, "http://"): 200, "localhost:1": 200, "[::1]:8080": 200, "127.0.0.1": 200,
		"evil.example": 421, "localhost.evil.example:8080": 421, "127.0.0.1.evil.example": 421, "192.0.2.1": 421,
	} {
		if status, _, _ := b.send("GET", "/login", nil, "Host", host); status != want {
			t.Errorf("as %s: %d, want %d", host, status, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	s := newSite(t)
	b := s.as(alice)
	for _, path := range []string{"/", "/login", "/launch", "/jobs/999", "/static/style.css"} {
		_, _, h := b.send("GET", path, nil)
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy is %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
	// No style or script stands in a page: the policy would keep it from working.
	for _, path := range []string{"/", "/launch", "/login"} {
		if _, body := b.get(path); regexp.MustCompile(`(?i)<style|\sstyle=|<script>|\son[a-z]+=|javascript:`).MatchString(body) {
			t.Errorf("%s has a script or style in it", path)
		}
	}
	if status, _ := b.get("/static/"); status != http.StatusNotFound {
		t.Errorf("the folder of files is listed: %d", status)
	}
}

// launch submits by the dialog.
func (b *browser) launch(fields url.Values) (status int, body string) {
	b.t.Helper()
	fields.Set("csrf", b.csrf("/launch"))
	if fields.Get("token") == "" {
		fields.Set("token", "0123456789abcdef-"+fields.Get("name"))
	}
	if fields.Get("count") == "" {
		fields.Set("count", "1")
	}
	status, body, _ = b.send("POST", "/launch", fields)
	return status, body
}

func TestLaunch(t *testing.T) {
	s := newSite(t)
	b := s.as(alice)
	form := url.Values{"name": {"fit"}, "image": {"sample:latest"}, "fgpu": {"1"}, "cores": {"2"}, "memory": {"1GB"}, "limit": {"1:30"}, "count": {"3"}}
	for range 2 { // a form that is sent twice is one submission
		if status, body := b.launch(form); status != http.StatusSeeOther {
			t.Fatalf("launch: %d %s", status, body)
		}
	}
	s.engine.View(func(v queue.View) {
		if n := len(v.Book().Jobs); n != 3 {
			t.Fatalf("%d jobs, want 3", n)
		}
		j := v.Book().Jobs[1]
		spec := j.Spec
		if j.Owner.User != alice || j.Owner.Admin || spec.Name != "fit" || spec.Interactive != queue.PtyShell || spec.MinSlots != 2 || spec.Memory != 1<<30 ||
			spec.RunLimit != 90*time.Minute || spec.GPURequest == nil || spec.GPURequest.FGPU != 100 || spec.Command != "shell" || spec.SubCWD == "" {
			t.Errorf("submitted as %+v by %+v", spec, j.Owner)
		}
	})
	_, body := b.get("/")
	for _, want := range []string{"Job &lt;1&gt; is submitted to queue &lt;normal&gt;.", `id="job-3"`, "PEND", ">fit<"} {
		if !strings.Contains(body, want) {
			t.Errorf("the list has no %s: %s", want, body)
		}
	}
	for _, row := range []struct {
		fields url.Values
		want   string
	}{
		{url.Values{"limit": {"soon"}}, "Bad RUNLIMIT specification"},
		{url.Values{"queue": {"none"}}, "none: No such queue"},
		{url.Values{"image": {"secret:1"}}, "secret:1: No such image"},
		{url.Values{"fgpu": {"-1"}}, "Job not submitted."},
		{url.Values{"count": {"101"}}, "want a number of sessions from 1 to 100"},
		{url.Values{"cores": {"many"}}, "many"},
	} {
		row.fields.Set("name", "kept")
		status, body := b.launch(row.fields)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, row.want) || !strings.Contains(body, `value="kept"`) {
			t.Errorf("%v: %d, want 422 and %q, and the form as it was: %s", row.fields, status, row.want, body)
		}
	}
}

func TestOthersJobs(t *testing.T) {
	s := newSite(t)
	a, other := s.as(alice), s.as(bob)
	if status, _ := a.launch(url.Values{"name": {"mine"}, "limit": {"1:00"}}); status != http.StatusSeeOther {
		t.Fatal(status)
	}
	_, absent := other.get("/jobs/999")
	for _, path := range []string{"/jobs/1", "/jobs/1/terminal"} {
		if status, _ := a.get(path); status != 200 {
			t.Errorf("one's own %s: %d", path, status)
		}
		if status, body := other.get(path); status != 404 || body != absent && path == "/jobs/1" {
			t.Errorf("somebody else's %s: %d, want what a job has that is not there", path, status)
		}
	}
	for _, path := range []string{"/all", "/nodes", "/commits"} {
		if status, _ := other.get(path); status != 404 {
			t.Errorf("%s for a user: %d, want 404", path, status)
		}
	}
	if _, body := other.get("/"); strings.Contains(body, "mine") {
		t.Error("somebody else's job is listed")
	}
	csrf := other.csrf("/")
	for _, path := range []string{"/jobs/1/end", "/jobs/1/extend", "/jobs/1/apps/x", "/commits/1"} {
		if status, _, _ := other.send("POST", path, url.Values{"csrf": {csrf}, "by": {"1:00"}, "decision": {"approve"}}); status != 404 {
			t.Errorf("POST %s of somebody else: %d, want 404", path, status)
		}
	}
	if status, _, _ := other.send("GET", "/jobs/1/console", nil, "Origin", s.page.URL, "Connection", "Upgrade", "Upgrade", "websocket"); status != 404 {
		t.Errorf("somebody else's terminal: %d, want 404", status)
	}
	for _, origin := range []string{"", "http://evil.example"} {
		if status, _, _ := a.send("GET", "/jobs/1/console", nil, "Origin", origin, "Connection", "Upgrade", "Upgrade", "websocket"); status != 403 {
			t.Errorf("one's own terminal from %q: %d, want 403", origin, status)
		}
	}
	admin := s.browser()
	_, code := s.link()
	if status, _, _ := admin.login("once", code); status != http.StatusSeeOther {
		t.Fatal(status)
	}
	if status, body := admin.get("/all"); status != 200 || !strings.Contains(body, "mine") || !strings.Contains(body, alice) {
		t.Errorf("all jobs for an administrator: %d", status)
	}
	if status, body, _ := a.send("POST", "/jobs/1/extend", url.Values{"csrf": {a.csrf("/jobs/1")}, "by": {"soon"}}); status != 422 || !strings.Contains(body, "RUNLIMIT") {
		t.Errorf("extend by a word: %d %s", status, body)
	}
	if status, body, _ := a.send("POST", "/jobs/1/end", url.Values{"csrf": {a.csrf("/jobs/1")}, "from": {"https://evil.example"}}); status != http.StatusSeeOther {
		t.Fatalf("end one's own: %d %s", status, body)
	}
	if _, body := a.get("/jobs/1"); !strings.Contains(body, "EXIT") || !strings.Contains(body, "TERM_OWNER") {
		t.Errorf("the ended job: %s", body)
	}
}

// What users write is text, wherever it comes up.
func TestEscapes(t *testing.T) {
	s := newSite(t)
	b := s.as(alice)
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	if status, body := b.launch(url.Values{"name": {"x"}, "command": {"echo '" + evil + "'"}}); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, body)
	}
	s.engine.View(func(v queue.View) { v.Book().Jobs[1].Spec.Name = evil }) // whatever the parser of names lets through
	for _, path := range []string{"/", "/jobs/1", "/jobs/1/terminal", "/login?once=" + url.QueryEscape(evil)} {
		browser := b
		if strings.HasPrefix(path, "/login") {
			browser = s.browser()
		}
		if _, body := browser.get(path); strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") || !strings.Contains(body, "alert(1)") {
			t.Errorf("%s: %s", path, body)
		}
	}
	if status, body := b.launch(url.Values{"name": {evil}, "limit": {evil}}); status != 422 || strings.Contains(body, "<script>alert") {
		t.Errorf("a refused form: %d %s", status, body)
	}
}

func TestLanguages(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	for header, want := range map[string]string{"": "Log in", "ja,en;q=0.5": "ログイン", "de, ko-KR;q=0.8, en;q=0.3": "로그인", "fr": "Log in"} {
		if _, body, _ := b.send("GET", "/login", nil, "Accept-Language", header); !strings.Contains(body, "<h1>"+want) {
			t.Errorf("Accept-Language %q: no %q", header, want)
		}
	}
	b.get("/login?lang=ja")
	if _, body := b.get("/login"); !strings.Contains(body, `<html lang="ja">`) {
		t.Error("the chosen language is forgotten")
	}
}
