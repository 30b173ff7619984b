package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// pages are the templates of each language by name: a page is layout.html around the template of its name.
var pages = func() (out [languages]map[string]*template.Template) {
	for l := range languages {
		out[l] = map[string]*template.Template{}
		layout := template.Must(template.New("layout.html").Funcs(functions(language(l))).ParseFS(templateFiles, "templates/layout.html", "templates/part-*.html"))
		names, err := fs.Glob(templateFiles, "templates/*.html")
		if err != nil {
			panic("internal error: " + err.Error())
		}
		for _, file := range names {
			name := strings.TrimSuffix(path.Base(file), ".html")
			if name != "layout" && !strings.HasPrefix(name, "part-") {
				out[l][name] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, file))
			}
		}
	}
	return out
}()

func functions(l language) template.FuncMap {
	return template.FuncMap{
		"t":      l.text,
		"static": func(name string) string { return "/static/" + name + "?v=" + staticSum },
		"iso":    func(t time.Time) string { return t.Format(time.RFC3339) },
		"clock":  func(t time.Time) string { return t.Format("2006-01-02 15:04:05") },
	}
}

// staticSum names the present state of all static files, so that browsers may keep them for ever.
var staticSum = func() string {
	h := sha256.New()
	err := fs.WalkDir(staticFiles, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := staticFiles.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n", name, len(data))
		h.Write(data)
		return err
	})
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}()

func static(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/") {
		http.NotFound(w, r)
		return
	}
	if r.URL.Query().Get("v") == staticSum {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.FileServerFS(staticFiles).ServeHTTP(w, r)
}

// liveHeader is on the requests of live.js, which looks for what has changed.
const liveHeader = "Fairslice-Live"

// frame is what every page has, and Data, which is the page's own.
type frame struct {
	Page    string // its template
	Cluster string
	Lang    language
	Others  []otherLanguage
	User    string // "" before the login
	Admin   bool
	CSRF    string
	Notes   []string
	Nonce   string // of the terminal's styles
	Path    string
	Data    any
}

type otherLanguage struct{ Tag, Name string }

// render writes a page as a whole: what fails on the way is an error, and no half page.
func (v *visit) render(w http.ResponseWriter, status int, name string, data any) error {
	f := frame{Page: name, Cluster: v.Describe().Name, Lang: v.lang, Path: v.r.URL.Path, Data: data}
	for i := range languages {
		if language(i) != v.lang {
			f.Others = append(f.Others, otherLanguage{tags[i], languageNames[i]})
		}
	}
	if v.session != nil {
		f.User, f.Admin, f.CSRF = v.by.User, v.by.Admin, v.session.csrf
		if v.r.Header.Get(liveHeader) == "" { // the script shows no notes
			f.Notes = v.session.takeNotes()
		}
	}
	if name == "terminal" {
		f.Nonce = secret()
		w.Header().Set("Content-Security-Policy", policy+"; style-src 'self' 'nonce-"+f.Nonce+"'")
	}
	var b bytes.Buffer
	if err := pages[v.lang][name].ExecuteTemplate(&b, "layout.html", f); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Language", v.lang.Tag())
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // fails only when the browser has gone
	return nil
}

// zone is the cluster's.
func (s *Server) zone() *time.Location {
	if loc, err := time.LoadLocation(s.Describe().TimeZone); err == nil {
		return loc
	}
	return time.Local
}
