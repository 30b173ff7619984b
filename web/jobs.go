package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"fairslice/api"
	"fairslice/nodes"
	"fairslice/queue"
)

// maxRows bounds a page. Whoever has more jobs reads no further anyway.
const maxRows = 500

// jobRow is a line of a listing.
type jobRow struct {
	ID        string // as the commands write it
	Path      string
	Name      string
	User      string
	State     queue.State
	Queue     string
	Image     string
	FGPU      string
	Where     string // hosts
	Reason    string
	Expected  time.Time
	Submitted time.Time
	Started   time.Time
	Ended     time.Time

	Unfinished, Running, Terminal bool
}

// jobsPage is a listing.
type jobsPage struct {
	Rows []jobRow
	More bool
	All  bool // everybody's
	CSRF string
}

func (s *Server) showJobs(w http.ResponseWriter, v *visit) error {
	return v.listing(w, queue.Selection{Scope: queue.ScopeAll}, false)
}

func (s *Server) showAll(w http.ResponseWriter, v *visit) error {
	return v.listing(w, queue.Selection{Scope: queue.ScopeUnfinished, User: "all"}, true)
}

// listing shows what has not ended first, and of each kind the newest.
func (v *visit) listing(w http.ResponseWriter, sel queue.Selection, all bool) error {
	page := jobsPage{All: all, CSRF: v.session.csrf}
	zone, fetches := v.zone(), v.Consoles.Fetches()
	var err error
	v.Batch.View(func(q queue.View) {
		found, _, selectErr := v.Batch.Select(q, sel, v.by)
		if selectErr != nil {
			err = selectErr
			return
		}
		page.More = len(found) > maxRows
		for _, over := range []bool{false, true} {
			for i := len(found) - 1; i >= 0 && len(page.Rows) < maxRows; i-- { // in the order of submission: no sorting while others wait
				if f := found[i]; f.Element.State.Final() == over {
					page.Rows = append(page.Rows, v.row(q, f.Job, f.Element, zone, fetches))
				}
			}
		}
	})
	if err != nil {
		return err
	}
	return v.render(w, http.StatusOK, "jobs", page)
}

// row is made with the book held.
func (v *visit) row(q queue.View, j *queue.Job, e *queue.Element, zone *time.Location, fetches api.Fetches) jobRow {
	id := j.ElementID(e.Index)
	r := jobRow{
		ID: id.String(), Path: elementPath(id), Name: j.DisplayName(e.Index), User: j.Owner.User, State: e.State, Queue: j.Queue, Image: j.Spec.Image,
		FGPU: request(j), Submitted: j.Submitted.In(zone), Unfinished: !e.State.Final(), Running: e.State == queue.Run,
		Terminal: e.State == queue.Run && j.Owner.UID == v.by.UID,
	}
	if a := e.Attempt; a != nil {
		r.Where, r.Started = hosts(a.Alloc), started(a).In(zone)
	}
	if e.Result != nil {
		r.Ended = e.Result.At.In(zone)
		r.Reason = resultText(e.Result)
	}
	if e.State.Pending() {
		reasons, expected := q.Why(j, e)
		r.Reason, r.Expected = reasonLine(reasons), at(expected, zone)
	}
	if reason, waits := fetches.Reason(j, e); waits {
		r.Reason = reason.Text
	}
	return r
}

// at is a time in a zone; the zero time stays zero.
func at(t time.Time, zone *time.Location) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(zone)
}

// started is when an attempt's command began, or else when it was sent to its node.
func started(a *queue.Attempt) time.Time {
	if a.Began.IsZero() {
		return a.Dispatched
	}
	return a.Began
}

func hosts(alloc []nodes.Allocation) string {
	names := make([]string, len(alloc))
	for i, a := range alloc {
		names[i] = string(a.Node)
	}
	return strings.Join(names, " ")
}

// request is how much GPU a job asks for of each host, "" for none.
func request(j *queue.Job) string {
	switch g := j.Plan.Host.GPU; {
	case g.Whole > 0:
		return strconv.Itoa(g.Whole) + " GPU"
	case g.Memory > 0:
		return strconv.Itoa(max(g.Count, 1)) + " × " + queue.FormatMemory(g.Memory)
	case g.Amount > 0:
		return g.Amount.String()
	}
	return ""
}

// reasonLine is why an element waits, in the words of bjobs; never nothing.
func reasonLine(reasons []queue.Reason) string {
	if len(reasons) == 0 {
		return "New job is waiting for scheduling"
	}
	lines := make([]string, len(reasons))
	for i, r := range reasons {
		lines[i] = strings.TrimRight(r.Text, ";")
		if r.Hosts > 0 && !strings.Contains(r.Text, " host") {
			lines[i] += ": " + strconv.Itoa(r.Hosts) + " host"
			if r.Hosts > 1 {
				lines[i] += "s"
			}
		}
	}
	return strings.Join(lines, "; ")
}

// resultText is how an element ended, in the words of bjobs -l.
func resultText(r *queue.Result) string {
	var parts []string
	if r.Verdict != queue.TermNone {
		parts = append(parts, string(r.Verdict)+": "+r.Verdict.Text())
	}
	if n := r.Signal(); n > 0 {
		parts = append(parts, "signal "+strconv.Itoa(n))
	} else if n := r.ExitCode(); n > 0 {
		parts = append(parts, "exit code "+strconv.Itoa(n))
	}
	if r.Detail != "" {
		parts = append(parts, r.Detail)
	}
	return strings.Join(parts, "; ")
}
