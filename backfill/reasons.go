package backfill

import (
	"fmt"
	"slices"

	"fairslice/nodes"
	"fairslice/queue"
)

const reservedText = "Job slots are reserved for a job before it"

// maxNamed bounds how many hosts a reason names.
const maxNamed = 5

// reasons collects why the nodes of one placement were refused. Every node of every class passes here.
type reasons struct {
	byKind [len(order)]refused
}

type refused struct {
	hosts int
	named []*host // the first of them
	best  int64   // the most that any of these hosts has free
	what  string
	text  string
}

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

// add notes that these hosts, which are alike, were refused for m.
func (r *reasons) add(m *nodes.Misfit, hosts ...*host) {
	x := r.note(placeOf(m.Blocker), hosts)
	x.best = max(x.best, m.Have)
	if x.what != inUse { // of GPUs, that is the one thing that a listing of what is free does not tell
		x.what = m.What
	}
}

// inUse is nodes.Misfit.What where enough of a GPU is left, but another user has it.
const inUse = "mps"

func (r *reasons) note(at int, hosts []*host) *refused {
	x := &r.byKind[at]
	x.hosts += len(hosts)
	x.named = append(x.named, hosts[:min(len(hosts), maxNamed)]...)
	slices.SortFunc(x.named, func(a, b *host) int { return a.index - b.index })
	x.named = x.named[:min(len(x.named), maxNamed)]
	return x
}

// spread notes that several hosts together have too few slots.
func (r *reasons) spread(hosts, need, have int) {
	x := &r.byKind[atSlots]
	if hosts > 0 {
		*x = refused{hosts: hosts, best: int64(have)}
	}
	if x.hosts > 0 {
		x.text = fmt.Sprintf("Not enough job slot(s): needs %d on several hosts, %d are free", need, have)
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
		var named []nodes.ID
		for _, h := range x.named {
			named = append(named, h.id)
		}
		out = append(out, queue.Reason{Kind: k, Text: text, Hosts: x.hosts, Nodes: named})
	}
	return out
}

func (x *refused) describe(k queue.ReasonKind, need nodes.Request) string {
	switch k {
	case queue.ReasonReserved:
		return reservedText
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
	case inUse:
		return "GPU in use by another user (MPS): what is left of it is for that user only"
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
