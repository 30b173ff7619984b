package web

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"fairslice/api"
	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
)

// nodeRow is a node with its GPUs.
type nodeRow struct {
	Name   string
	State  nodes.State
	Reason string
	Slots  string
	Memory string
	GPUs   []gpuRow
}

// gpuRow is a GPU, or an instance of one, with the slices held on it.
type gpuRow struct {
	Index    int
	Model    string
	Memory   string
	Mode     nodes.Mode
	Capacity string
	Used     string
	Free     string
	Full     int // used, in 1/1000
	Lost     bool
	Unfenced string
	Slices   []heldSlice
}

type heldSlice struct {
	ID, Path string
	User     string
	FGPU     string
	Memory   string // in use, of what the slice has
	Since    time.Time
}

// showNodes is bslice -l and what bhosts says of each node.
func (s *Server) showNodes(w http.ResponseWriter, v *visit) error {
	var rows []nodeRow
	zone := v.zone()
	v.Batch.View(func(q queue.View) {
		book := q.Book()
		held := map[string][]heldSlice{} // by node and GPU
		for _, j := range book.Jobs {
			if j.Finished() {
				continue
			}
			for i := range j.Elements {
				e := &j.Elements[i]
				if e.Attempt == nil || !e.State.Live() {
					continue
				}
				for _, a := range e.Attempt.Alloc {
					for _, sl := range a.Slices {
						id := j.ElementID(e.Index)
						h := heldSlice{ID: id.String(), Path: elementPath(id), User: j.Owner.User, FGPU: sl.Amount.String(), Memory: mib(sl.Memory), Since: e.Attempt.Dispatched.In(zone)}
						if u := e.Attempt.Usage.GPU(sl.UUID); u != nil {
							h.Memory = mib(u.Memory) + " / " + h.Memory
						}
						key := string(a.Node) + " " + sl.UUID
						held[key] = append(held[key], h)
					}
				}
			}
		}
		for _, n := range book.Nodes {
			rows = append(rows, nodeOf(n, held))
		}
	})
	slices.SortFunc(rows, func(a, b nodeRow) int { return cmp.Compare(a.Name, b.Name) })
	return v.render(w, http.StatusOK, "nodes", rows)
}

func nodeOf(n *nodes.Node, held map[string][]heldSlice) nodeRow {
	r := nodeRow{Name: string(n.ID), State: n.State(), Reason: n.Reason, Slots: strconv.Itoa(n.UsedSlots) + " / " + strconv.Itoa(n.Slots),
		Memory: mib(n.UsedMemory) + " / " + mib(n.Memory)}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		list := held[string(n.ID)+" "+g.UUID]
		slices.SortFunc(list, func(a, b heldSlice) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
		r.GPUs = append(r.GPUs, gpuRow{Index: g.Index, Model: g.Model, Memory: mib(g.Memory), Mode: g.Mode, Capacity: g.Capacity.String(), Used: g.Used.String(),
			Free: max(g.Free(), 0).String(), Full: thousandths(int64(g.Used), int64(g.Capacity)), Lost: g.Lost, Unfenced: g.Unfenced, Slices: list})
	}
	return r
}

func thousandths(part, whole int64) int {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return int(1000 * min(float64(part)/float64(whole), 1))
}

func mib(bytes int64) string { return strconv.FormatInt((bytes+1<<20-1)>>20, 10) + " MiB" }

// commitsPage lists requests to make an image of a session.
type commitsPage struct {
	Rows []commitRow
	CSRF string
}

type commitRow struct {
	ID          images.CommitID
	Ref         string
	Job         string
	Path        string
	Asked       time.Time
	Description string
	State       images.CommitState
	Words       string
	Waits       bool
}

func (s *Server) showCommits(w http.ResponseWriter, v *visit) error {
	list, err := s.Catalogue.Commits(v.by, true)
	if err != nil {
		return err
	}
	p := commitsPage{CSRF: v.session.csrf}
	for _, c := range list[:min(len(list), maxRows)] {
		id := queue.ElementID{Job: queue.JobID(c.Job), Index: c.Index}
		p.Rows = append(p.Rows, commitRow{ID: c.ID, Ref: c.Ref.String(), Job: id.String(), Path: elementPath(id), Asked: c.Asked.In(v.zone()),
			Description: c.Description, State: c.State, Words: c.Words(), Waits: c.State == images.CommitAsked})
	}
	return v.render(w, http.StatusOK, "commits", p)
}

// decideCommit approves or refuses; who may is decided where it is done.
func (s *Server) decideCommit(w http.ResponseWriter, v *visit) error {
	n, err := strconv.ParseInt(v.r.PathValue("id"), 10, 64)
	if err != nil || !v.by.Admin {
		return notFound
	}
	approve := false
	switch v.r.PostFormValue("decision") {
	case "approve":
		approve = true
	case "refuse":
	default:
		return &api.Error{Code: api.Invalid, Msg: "want approve or refuse"}
	}
	c, err := s.Catalogue.DecideCommit(v.r.Context(), v.by, images.CommitID(n), approve, v.r.PostFormValue("reason"))
	if err != nil {
		return err
	}
	v.note("%s", c.Words())
	return back(w, v, "/commits")
}
