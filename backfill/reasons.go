package backfill

import (
	"fmt"
	"slices"
	"strings"

	"fairslice/nodes"
	"fairslice/queue"
)

// maxNamed bounds how many hosts a reason names.
const maxNamed = 5

// reasons collects why the nodes of one placement were refused. Every node of every class passes here.
type reasons struct {
	byKind [len(order)]refused
}

type refused struct {
	hosts int
	named []nodes.ID
	best  int64 // the most that any of these hosts has free
	what  string
	text  string
}

func newReasons() *reasons { return &reasons{} }

// order in which reasons are given: the one that the user can wait for first.
var order = [...]queue.ReasonKind{
	queue.ReasonReserved, queue.ReasonGPU, queue.ReasonSlots, queue.ReasonMemory, queue.ReasonConsumable,
	queue.ReasonExclusive, queue.ReasonHostDown,
}

// Places in order.
const (
	atReserved = iota
	atGPU
	atSlots
	atMemory
	atConsumable
	atExclusive
	atHostDown
)

func placeOf(b nodes.Blocker) int {
	switch b {
	case nodes.BlockedByGPU:
		return atGPU
	case nodes.BlockedBySlots:
		return atSlots
	case nodes.BlockedByMemory:
		return atMemory
	case nodes.BlockedByConsumable:
		return atConsumable
	case nodes.BlockedByExclusive:
		return atExclusive
	}
	return atHostDown
}

func (r *reasons) add(id nodes.ID, m *nodes.Misfit) {
	x := r.note(placeOf(m.Blocker), id)
	x.best = max(x.best, m.Have)
	x.what = m.What
}

func (r *reasons) reserve(id nodes.ID) { r.note(atReserved, id) }

func (r *reasons) note(at int, id nodes.ID) *refused {
	x := &r.byKind[at]
	x.hosts++
	if len(x.named) < maxNamed {
		x.named = append(x.named, id)
	}
	return x
}

// spread notes that several hosts together have too few slots.
func (r *reasons) spread(hosts, need, have int) {
	if hosts > 0 {
		r.byKind[atSlots] = refused{hosts: hosts, best: int64(have),
			text: fmt.Sprintf("Not enough job slot(s): needs %d on several hosts, %d are free", need, have)}
	}
}

func (r *reasons) list(need nodes.Request, cands int) []queue.Reason {
	if cands == 0 {
		return []queue.Reason{{Kind: queue.ReasonNotSelected, Text: "There are no suitable hosts for the job"}}
	}
	var out []queue.Reason
	for at, k := range order {
		x := &r.byKind[at]
		if x.hosts == 0 {
			continue
		}
		text := x.text
		if text == "" {
			text = x.describe(k, need)
		}
		out = append(out, queue.Reason{Kind: k, Text: text, Hosts: x.hosts, Nodes: slices.Clone(x.named)})
	}
	return out
}

func (x *refused) describe(k queue.ReasonKind, need nodes.Request) string {
	switch k {
	case queue.ReasonReserved:
		return "Job slots are reserved for a job before it"
	case queue.ReasonSlots:
		return fmt.Sprintf("Not enough job slot(s): needs %d on one host, the freest has %d", need.Slots, x.best)
	case queue.ReasonMemory:
		return fmt.Sprintf("Not enough memory: needs %d MB on one host, the freest has %d MB", need.Memory>>20, x.best>>20)
	case queue.ReasonConsumable:
		return fmt.Sprintf("Not enough of resource %s: %d free on the host with most", x.what, x.best)
	case queue.ReasonExclusive:
		return "Host is used exclusively, or the job needs a host alone"
	case queue.ReasonGPU:
		return describeGPU(need.GPU, x)
	}
	return "Closed or unavailable"
}

func describeGPU(g nodes.GPURequest, x *refused) string {
	var what string
	switch x.what {
	case "fgpu":
		return fmt.Sprintf("Not enough GPU: needs %s fGPU on one GPU, the freest has %s", g.Amount, nodes.Amount(x.best))
	case "gpus":
		what = fmt.Sprintf("needs %d whole GPU(s) on one host, the freest has %d", g.Whole, x.best)
	default:
		what = fmt.Sprintf("needs %d slice(s) of %d MB, the freest host has room for %d", max(g.Count, 1), g.Memory>>20, x.best)
	}
	if g.Model != "" {
		what += " of model " + g.Model
	}
	return "Not enough GPU: " + what
}

// everFits says whether shape could run on empty nodes that are up; if not, why.
func everFits(shape *queue.Shape, c *candidates) (bool, []queue.Reason) {
	if len(c.list) == 0 {
		return false, newReasons().list(shape.Host, 0)
	}
	if fitsOne(shape, c.empty) {
		return true, nil
	}
	alloc, why := place(c.empty, shape, nil)
	if alloc != nil {
		return true, nil
	}
	if len(c.away) > 0 {
		all := slices.Concat(c.empty, c.away)
		if alloc, why = place(all, shape, nil); alloc != nil {
			return false, []queue.Reason{{Kind: queue.ReasonHostDown, Hosts: len(c.away),
				Text: fmt.Sprintf("Hosts that could run it are closed or unavailable: %d", len(c.away))}}
		}
	}
	texts := make([]string, len(why))
	for i, w := range why {
		texts[i] = w.Text
	}
	return false, []queue.Reason{{Kind: queue.ReasonNoHost, Hosts: len(c.list),
		Text: "No host could ever run it: " + strings.Join(texts, "; ")}}
}

// fitsOne says that one of these nodes can take all of shape: the first that can answers for all.
func fitsOne(shape *queue.Shape, list []*nodes.Node) bool {
	r := oneHost(shape)
	return r.Slots == shape.Slots && slices.ContainsFunc(list, func(n *nodes.Node) bool { return n.Fit(r) == nil })
}
