package engine

import (
	"fmt"
	"slices"
	"strings"

	"fairslice/queue"
)

// Found is an element that a selection names.
type Found struct {
	Job     *queue.Job
	Element *queue.Element
}

// Select resolves a selection for a caller, in submission order without ids and in the order named
// with them. notFound has a message for each thing named that is not there. Called with the book locked
// for reading. Everybody may see every job; who may act on it is checked where it is acted on.
func (e *Engine) Select(v queue.View, sel queue.Selection, by queue.Identity) (found []Found, notFound []string, err error) {
	return find(v.Book(), sel, by)
}

func find(b *queue.Book, sel queue.Selection, by queue.Identity) (found []Found, notFound []string, err error) {
	refs, all, err := parseIDs(sel.IDs)
	if err != nil {
		return nil, nil, err
	}
	if len(refs) == 0 || all {
		keep := newFilter(sel, by, all)
		b.Each(func(j *queue.Job) bool {
			found = keep.job(j, nil, found)
			return true
		})
		return found, nil, nil
	}
	byID := sel
	if byID.User == "" {
		byID.User = "all"
	}
	if byID.Scope == queue.ScopeDefault {
		byID.Scope = queue.ScopeAll
	}
	keep := newFilter(byID, by, false)
	for i, ref := range refs {
		jobs := []*queue.Job{b.Jobs[ref.Job]}
		if ref.Name != "" {
			jobs = namedJobs(b, ref.Name, by)
		}
		before := len(found)
		for _, j := range jobs {
			if j != nil {
				found = keep.job(j, ref.Indices, found)
			}
		}
		if len(found) == before {
			notFound = append(notFound, notFoundText(sel, sel.IDs[i]))
		}
	}
	return found, notFound, nil
}

func notFoundText(sel queue.Selection, id string) string {
	if sel.Queue != "" {
		return fmt.Sprintf("Job <%s> is not found in queue <%s>", id, sel.Queue)
	}
	return fmt.Sprintf("Job <%s> is not found", id)
}

func namedJobs(b *queue.Book, name string, by queue.Identity) []*queue.Job {
	var out []*queue.Job
	b.Each(func(j *queue.Job) bool {
		if j.Owner.User == by.User && matchName(name, j.Spec.Name) {
			out = append(out, j)
		}
		return true
	})
	return out
}

// parseIDs reads ids; all says that "0" is among them: every job of the caller.
func parseIDs(ids []string) (refs []queue.Ref, all bool, err error) {
	for _, id := range ids {
		ref, err := queue.ParseElements(id)
		if err != nil {
			return nil, false, Refusal{err.Error()}
		}
		all = all || ref.All()
		refs = append(refs, ref)
	}
	return refs, all, nil
}

// filter is a selection without its ids.
type filter struct {
	sel     queue.Selection
	user    string // "" means everybody
	name    string
	indices *queue.Array
}

func newFilter(sel queue.Selection, by queue.Identity, all bool) *filter {
	f := &filter{sel: sel, user: sel.User, name: sel.Name}
	switch f.user {
	case "":
		f.user = by.User
	case "all":
		f.user = ""
	}
	if ref, err := queue.ParseElements(sel.Name); err == nil && ref.Indices != nil {
		f.name, f.indices = ref.Name, ref.Indices
	}
	if f.sel.Scope == queue.ScopeDefault {
		f.sel.Scope = queue.ScopeUnfinished
	}
	return f
}

func (f *filter) job(j *queue.Job, indices *queue.Array, found []Found) []Found {
	s := &f.sel
	switch {
	case f.user != "" && j.Owner.User != f.user,
		s.Queue != "" && j.Queue != s.Queue,
		f.name != "" && !matchName(f.name, j.DisplayName(0)),
		s.Project != "" && projectOf(j.Spec) != s.Project,
		s.Account != "" && j.Spec.Account != s.Account,
		!s.Until.IsZero() && !j.Submitted.Before(s.Until),
		s.Scope == queue.ScopeUnfinished && j.Finished():
		return found
	}
	if indices == nil {
		indices = f.indices
	}
	for i := range j.Elements {
		if el := &j.Elements[i]; f.element(el) && (indices == nil || contains(indices, el.Index)) {
			found = append(found, Found{j, el})
		}
	}
	return found
}

func (f *filter) element(el *queue.Element) bool {
	st := el.State
	switch f.sel.Scope {
	case queue.ScopeUnfinished:
		if st.Final() {
			return false
		}
	case queue.ScopeFinished:
		if !st.Final() {
			return false
		}
	case queue.ScopePending:
		if st != queue.Pend {
			return false
		}
	case queue.ScopeRunning:
		if st != queue.Run {
			return false
		}
	case queue.ScopeSuspended:
		if !st.Suspended() {
			return false
		}
	}
	if since := f.sel.Since; !since.IsZero() && st.Final() && el.Result != nil && el.Result.At.Before(since) {
		return false
	}
	if len(f.sel.States) > 0 && !slices.Contains(f.sel.States, st) {
		return false
	}
	return f.sel.Host == "" || el.Attempt != nil && onHosts(el.Attempt, f.sel.Host)
}

func onHosts(a *queue.Attempt, hosts string) bool {
	for _, h := range strings.Fields(hosts) {
		for _, x := range a.Alloc {
			if string(x.Node) == h {
				return true
			}
		}
	}
	return false
}

func contains(a *queue.Array, index int) bool {
	for _, r := range a.Ranges {
		if index >= r.First && index <= r.Last && (index-r.First)%max(r.Step, 1) == 0 {
			return true
		}
	}
	return false
}
