package api

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// pageRows is how much of a listing is made while the book is held, and sent as one message.
const pageRows = 1000

// maxWhy bounds the one message of Why. Who has more pending jobs than this reads no further anyway.
const maxWhy = 10_000

// Jobs streams rows. What is selected is decided in one look at the book; the rows are made page by
// page, so a writer waits for a page at most. A job that was forgotten meanwhile is left out.
func (u *users) Jobs(ctx context.Context, req *connect.Request[pb.JobsRequest], stream *connect.ServerStream[pb.JobsResponse]) error {
	by, err := u.user(ctx)
	if err != nil {
		return err
	}
	_, done := u.streaming(ctx)
	defer done()
	r := u.newRows(by, req.Msg.GetReasons())
	var ids []queue.ElementID
	page := &pb.JobsResponse{}
	u.engine.View(func(v queue.View) {
		var found []Found
		if found, page.NotFound, err = r.find(u.engine, v, wire.ToSelection(req.Msg.GetSelect())); err != nil {
			return
		}
		if req.Msg.GetArrays() {
			ids = jobsOf(found)
		} else {
			ids = elementsOf(found)
		}
	})
	if err != nil {
		return err
	}
	for first := true; first || len(ids) > 0; first = false {
		n := min(len(ids), pageRows)
		u.engine.View(func(v queue.View) { page.Jobs = r.page(v, ids[:n], req.Msg.GetArrays()) })
		ids = ids[n:]
		if err := stream.Send(page); err != nil {
			return err
		}
		page = &pb.JobsResponse{}
	}
	return nil
}

// Why explains pending elements, and those that wait for their image; others among those named come without reasons.
func (u *users) Why(ctx context.Context, req *connect.Request[pb.WhyRequest]) (*connect.Response[pb.WhyResponse], error) {
	by, err := u.user(ctx)
	if err != nil {
		return nil, err
	}
	sel := wire.ToSelection(req.Msg.GetSelect())
	if len(sel.IDs) == 0 && sel.Scope == queue.ScopeDefault {
		sel.Scope = queue.ScopePending
	}
	r := u.newRows(by, true)
	out := &pb.WhyResponse{}
	var ids []queue.ElementID
	u.engine.View(func(v queue.View) {
		var found []Found
		found, out.NotFound, err = r.find(u.engine, v, sel)
		ids = elementsOf(found)
	})
	if err != nil {
		return nil, err
	}
	if left := len(ids) - maxWhy; left > 0 {
		ids = ids[:maxWhy]
		out.NotFound = append(out.NotFound, fmt.Sprintf("%d more jobs are left out: name the ones you mean", left))
	}
	for len(ids) > 0 {
		n := min(len(ids), pageRows)
		u.engine.View(func(v queue.View) { out.Jobs = append(out.Jobs, r.why(v, ids[:n])...) })
		ids = ids[n:]
	}
	return answer(out, nil)
}

func elementsOf(found []Found) []queue.ElementID {
	ids := make([]queue.ElementID, len(found))
	for i, f := range found {
		ids[i] = f.Job.ElementID(f.Element.Index)
	}
	return ids
}

// jobsOf names each job once, where it comes first.
func jobsOf(found []Found) []queue.ElementID {
	var ids []queue.ElementID
	seen := map[queue.JobID]bool{}
	for _, f := range found {
		if !seen[f.Job.ID] {
			seen[f.Job.ID] = true
			ids = append(ids, queue.ElementID{Job: f.Job.ID})
		}
	}
	return ids
}

// rows makes the rows of listings.
type rows struct {
	by       queue.Identity
	priority map[string]int
	reasons  bool
	fetches  Fetches
}

func (s *Server) newRows(by queue.Identity, reasons bool) rows {
	return rows{by, priorities(s.engine.Describe()), reasons, s.hub.fetches()}
}

// find selects. Who asks for what waits and for the reasons means, too, the elements that are started and wait for their image on
// the node: they come last.
func (r rows) find(from Engine, v queue.View, sel queue.Selection) (found []Found, notFound []string, err error) {
	found, notFound, err = from.Select(v, sel, r.by)
	if err != nil || !r.reasons || sel.Scope != queue.ScopePending || len(r.fetches) == 0 {
		return found, notFound, err
	}
	sel.Scope = queue.ScopeRunning
	running, missing, err := from.Select(v, sel, r.by)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range running {
		if r.fetches.of(f.Job, f.Element) != nil {
			found = append(found, f)
		}
	}
	// What one of the two has found is not missing.
	return found, slices.DeleteFunc(notFound, func(text string) bool { return !slices.Contains(missing, text) }), nil
}

// Fetches says which attempts wait for their image on a node, and how far it is, as the nodes said last.
type Fetches map[fetchKey]*pb.ImageFetch

// Fetches is how it is now.
func (s *Server) Fetches() Fetches { return s.hub.fetches() }

// of is nil for an element that does not wait for its image.
func (f Fetches) of(j *queue.Job, e *queue.Element) *pb.ImageFetch {
	if e.Attempt == nil || len(f) == 0 {
		return nil
	}
	return f[fetchKey{j.ElementID(e.Index), e.Attempt.Number}]
}

// Reason is why an element that is started does not run yet, with LSF's word for a job that waits for its host to be ready; false for
// one that does not wait for its image.
func (f Fetches) Reason(j *queue.Job, e *queue.Element) (r queue.Reason, waits bool) {
	at := f.of(j, e)
	if at == nil {
		return queue.Reason{}, false
	}
	text := "PROV: the image " + j.Spec.Image + " is being fetched"
	if at.Total > 0 {
		text += fmt.Sprintf(", %d %%", 100*min(at.Done, at.Total)/at.Total)
	}
	return queue.Reason{Kind: queue.ReasonImage, Text: text, Nodes: []nodes.ID{nodes.ID(at.Node)}}, true
}

func (r rows) page(v queue.View, ids []queue.ElementID, arrays bool) []*pb.Job {
	out := make([]*pb.Job, 0, len(ids))
	r.each(v, ids, func(j *queue.Job, index int, spec *pb.Spec, d discretion) {
		if arrays {
			out = append(out, wire.FromArray(j, spec, r.priority[j.Queue]))
		} else if e := j.Element(index); e != nil {
			out = append(out, r.row(v, j, e, spec, d))
		}
	})
	return out
}

func (r rows) why(v queue.View, ids []queue.ElementID) []*pb.WhyJob {
	out := make([]*pb.WhyJob, 0, len(ids))
	r.each(v, ids, func(j *queue.Job, index int, spec *pb.Spec, d discretion) {
		e := j.Element(index)
		if e == nil {
			return
		}
		w := &pb.WhyJob{Job: r.row(v, j, e, spec, d), PlannedAt: wire.Nanos(v.PlannedAt())}
		if e.State == queue.Pend {
			w.Ahead = int32(v.Ahead(j, e))
		}
		out = append(out, w)
	})
	return out
}

// each calls f for the jobs that are still there. The elements of an array share one spec message, and what is not told of them.
func (r rows) each(v queue.View, ids []queue.ElementID, f func(j *queue.Job, index int, spec *pb.Spec, d discretion)) {
	book := v.Book()
	var last *queue.Job
	var spec *pb.Spec
	var d discretion
	for _, id := range ids {
		j := book.Jobs[id.Job]
		if j == nil {
			continue
		}
		if j != last {
			last, spec, d = j, wire.FromSpec(j.Spec), discreet(book, r.by, j)
			d.spec(spec)
		}
		f(j, id.Index, spec, d)
	}
}

func (r rows) row(v queue.View, j *queue.Job, e *queue.Element, spec *pb.Spec, d discretion) *pb.Job {
	p := wire.FromElement(j, e, spec, r.priority[j.Queue])
	p.Fetch = r.fetches.of(j, e)
	if p.Fetch != nil && r.reasons {
		reason, _ := r.fetches.Reason(j, e)
		p.Reasons = append(p.Reasons, wire.FromReason(reason))
	}
	if r.reasons && e.State.Pending() {
		reasons, expected := v.Why(j, e)
		for _, reason := range reasons {
			p.Reasons = append(p.Reasons, wire.FromReason(reason))
		}
		p.ExpectedStart = wire.Nanos(expected)
		if turn, known := v.Priority(j); known {
			p.Turn = wire.FromPriority(turn)
		}
	}
	d.row(p)
	return p
}
