package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"fairslice/api"
	"fairslice/queue"
)

// jobPage is all of one element.
type jobPage struct {
	jobRow
	CSRF      string
	Command   string
	Requested []string
	RunLimit  string
	EndsBy    time.Time
	Ahead     int
	Note      string
	Slices    []sliceUse
	Apps      []App
	Stdout    string
	Stderr    string
	Cut       bool // the output is longer than what is shown
	Owner     bool
	Session   bool // it has a terminal of its own
	CanExtend bool
}

// named is the element of the request's path, as the commands name it, if it is one that the user may see here.
func (v *visit) named(w func(q queue.View, j *queue.Job, e *queue.Element)) (name string, err error) {
	id, err := parseElement(v.r.PathValue("job"))
	if err != nil {
		return "", notFound
	}
	err = notFound
	v.Batch.View(func(q queue.View) {
		found, _, selectErr := v.Batch.Select(q, queue.Selection{IDs: []string{id.String()}}, v.by)
		if selectErr != nil || len(found) != 1 || found[0].Job.Owner.UID != v.by.UID && !v.by.Admin {
			return // one that is not there and one that is not shown look the same
		}
		err = nil
		if w != nil {
			w(q, found[0].Job, found[0].Element)
		}
	})
	return id.String(), err
}

// tailSize is how much output is shown, and tailWait how long a page waits for it.
const (
	tailSize = 16 << 10
	tailWait = 2 * time.Second
)

func (s *Server) showJob(w http.ResponseWriter, v *visit) error {
	p := jobPage{CSRF: v.session.csrf}
	zone, fetches := v.zone(), s.Consoles.Fetches()
	batch := false
	name, err := v.named(func(q queue.View, j *queue.Job, e *queue.Element) {
		p.jobRow = v.row(q, j, e, zone, fetches)
		p.Owner, p.Session = j.Owner.UID == v.by.UID, j.Spec.Interactive.HasPty()
		p.Command, p.Note, p.Requested = j.Spec.Command, e.Note, requested(j)
		if a := e.Attempt; a != nil {
			var known map[string][]sample
			if e.State.Live() {
				known = s.trails.look(j.ElementID(e.Index), a, e.State, v.now)
			}
			p.Slices = sliceUses(a, known, v.now.In(zone))
			if a.RunLimit > 0 {
				p.RunLimit = minutes(a.RunLimit)
				p.EndsBy = started(a).Add(a.RunLimit + a.Stopped).In(zone)
			}
		} else if j.Plan.RunLimit > 0 {
			p.RunLimit = minutes(j.Plan.RunLimit)
		}
		if e.State == queue.Pend {
			p.Ahead = q.Ahead(j, e)
		}
		p.CanExtend = e.State == queue.Run && p.RunLimit != ""
		batch = e.State == queue.Run && !j.Spec.Interactive.Session()
	})
	if err != nil {
		return err
	}
	if batch {
		ctx, cancel := context.WithTimeout(v.r.Context(), tailWait)
		defer cancel()
		if out, errs, err := s.Consoles.Tail(ctx, v.by, name, tailSize+1); err == nil { // it may just have ended, or its node be away
			p.Stdout, p.Stderr = tail(out), tail(errs)
			p.Cut = len(out) > tailSize || len(errs) > tailSize
		}
	}
	if p.Running && p.Owner && s.Apps != nil {
		if p.Apps, err = s.Apps.List(v.r.Context(), v.by, name); err != nil {
			s.Logger.InfoContext(v.r.Context(), "apps not listed", "job", name, "error", err)
		}
	}
	return v.render(w, http.StatusOK, "job", p)
}

// tail is the end of an output as text.
func tail(b []byte) string {
	return strings.ToValidUTF8(string(b[max(0, len(b)-tailSize):]), "\uFFFD")
}

// requested is what a job asks for, in the words of the commands.
func requested(j *queue.Job) []string {
	out := []string{plural(max(j.Plan.Slots, 1), "slot")}
	if g := request(j); g != "" {
		if j.Plan.Host.GPU.Amount > 0 {
			g += " fGPU"
		}
		out = append(out, g)
	}
	if m := max(j.Plan.Host.Memory, j.Plan.MemoryMax); m > 0 {
		out = append(out, queue.FormatMemory(m))
	}
	if j.Spec.ResReq != "" {
		out = append(out, j.Spec.ResReq)
	}
	return out
}

func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return strconv.Itoa(n) + " " + word
}

// minutes is a run limit as -W has it, rounded up.
func minutes(d time.Duration) string {
	m := int64((d + time.Minute - 1) / time.Minute)
	rest := strconv.FormatInt(m%60, 10)
	if len(rest) < 2 {
		rest = "0" + rest
	}
	return strconv.FormatInt(m/60, 10) + ":" + rest
}

// act gives a command on the element of the path, and goes back to from.
func (v *visit) act(w http.ResponseWriter, c queue.Control, name, to string) error {
	c.By, c.Select = v.by, queue.Selection{IDs: []string{name}}
	outcomes, err := v.Batch.Control(v.r.Context(), c)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		if !o.OK {
			return &api.Error{Code: api.Conflict, Msg: o.Text}
		}
		v.note("%s", o.Text)
	}
	return back(w, v, to)
}

// endJob is bkill.
func (s *Server) endJob(w http.ResponseWriter, v *visit) error {
	name, err := v.named(nil)
	if err != nil {
		return err
	}
	to := "/"
	switch v.r.PostFormValue("from") { // never an address: who sends it decides too little
	case "job":
		to = "/jobs/" + v.r.PathValue("job")
	case "all":
		to = "/all"
	}
	return v.act(w, queue.Control{Op: queue.OpKill}, name, to)
}

// extendJob is bextend by some time.
func (s *Server) extendJob(w http.ResponseWriter, v *visit) error {
	name, err := v.named(nil)
	if err != nil {
		return err
	}
	by, err := queue.ParseRunLimit(strings.TrimSpace(v.r.PostFormValue("by")))
	switch {
	case err != nil:
		return &api.Error{Code: api.Invalid, Msg: err.Error()}
	case by <= 0 || by > queue.MaxRunLimit:
		return &api.Error{Code: api.Invalid, Msg: "no job may run longer than a year"}
	}
	x, err := s.Batch.Extend(v.r.Context(), queue.Extend{ID: name, By: v.by, Add: by})
	if err != nil {
		return err
	}
	ends := x.Ends.In(v.zone()).Format("2006-01-02 15:04:05")
	if !x.Granted {
		return &api.Error{Code: api.Conflict, Msg: fmt.Sprintf("Job <%s> is not extended: %s. Its run limit is %s, until %s; the longest possible now is %s",
			name, x.Why, minutes(x.RunLimit), ends, minutes(x.Longest))}
	}
	v.note("Job <%s> may run for %s, until %s", name, minutes(x.RunLimit), ends)
	return back(w, v, "/jobs/"+v.r.PathValue("job"))
}

// openApp leads to an app, which is another origin.
func (s *Server) openApp(w http.ResponseWriter, v *visit) error {
	name, err := v.named(nil)
	if err != nil || s.Apps == nil {
		return notFound
	}
	to, err := s.Apps.Open(v.r.Context(), v.by, name, v.r.PathValue("app"))
	if err != nil {
		return err
	}
	// By a page, not a redirect: the policy lets a form lead to this origin only.
	return v.render(w, http.StatusOK, "opened", openedPage{v.r.PathValue("app"), to})
}

// openedPage leads on to an app.
type openedPage struct{ App, Address string }
