package proxy

import (
	"context"
	"errors"
	"html/template"
	"net/http"

	"fairslice/api"
	"fairslice/api/wire"
)

// page is what people read where there is no app to show.
type page struct{ Title, Text, Do string }

var (
	closed = page{"This is closed",
		"This address belongs to an app of a session, and opens only with the link that its owner was given.",
		"If it is yours, the command bapp, with the number of the job and the name of the app, prints a new link. A link is good as long as its session runs."}
	foreign = page{"Not from there",
		"Another site has tried to use this app in your name. That was not passed on.",
		"Open the app by its own address."}
	notAllowed = page{"No such request", "This method is not for apps.", "Open the app in a browser."}
	over       = page{"The session is over",
		"The job that this app belonged to has ended, or runs anew.",
		"bjobs shows what runs, and bapp, with the number of the job and the name of the app, opens an app there."}
)

var pageTemplate = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style>body{font:1.1em/1.5 system-ui,sans-serif;max-width:36em;margin:15vh auto;padding:0 1em}@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}}</style>
</head><body><h1>{{.Title}}</h1><p>{{.Text}}</p><p>{{.Do}}</p></body></html>
`))

func (p *Proxy) refuse(w http.ResponseWriter, status int, text page) {
	h := w.Header()
	quiet(h)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = pageTemplate.Execute(w, text) // whoever asked may have gone
}

// fail answers where there is no way to the app.
func (p *Proxy) fail(w http.ResponseWriter, at api.AppPlace, err error) {
	var coded *wire.Error
	switch {
	case errors.Is(err, context.Canceled):
		w.WriteHeader(http.StatusBadGateway) // nobody reads it: the visitor has gone, or the session
		return
	case errors.As(err, &coded) && coded.Code == wire.NotFound:
		p.refuse(w, http.StatusNotFound, over)
		return
	}
	text := "The node of its session did not answer."
	if coded != nil {
		text = coded.Msg
	} else {
		p.log.Debug("app not reached", "job", at.ID.String(), "app", at.Name, "error", err)
	}
	do := "bapp " + at.ID.String() + " " + at.Name + " starts it again; then reload this page."
	if _, port, _ := api.ParseAppPort(at.Name); port {
		do = "Look whether your program still listens at that port, on 127.0.0.1; then reload this page."
	}
	p.refuse(w, http.StatusBadGateway, page{at.Name + " does not answer", text, do})
}

// broken answers a request that did not get through.
func (p *Proxy) broken(w http.ResponseWriter, rt *route, at api.AppPlace, err error) {
	if rt.ctx.Err() != nil {
		p.refuse(w, http.StatusNotFound, over)
		return
	}
	if !errors.Is(err, context.Canceled) {
		rt.stale()
	}
	p.fail(w, at, err)
}
