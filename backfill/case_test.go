package backfill

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const gib = int64(1) << 30

// A case is a snapshot and the plan that is wanted, one thing a line:
//
//	nodes a=4 b=2,mem=8,gpu=2x100,lic=1,down   slots, then GiB, GPUs of so many hundredths, licences, state
//	running 1 on a:4/0=50 b:2 ends 10m          slots on each, hundredths of GPU 0; without ends: never
//	limit u=4                                   slots left under a limit
//	job 2 slots=6 limit=1h fgpu=0.5 under=u     also: whole= gmem= mem= lic= ptile= prio= n= most= on= onehost excl
//	= start 3 on b                              starts, in order; ":slots" when on several nodes, "/i" GPUs
//	= reserve 2 at 10m on a b
//	= wait 2 slots,memory ~10m                  kinds of reasons in order; ~ when it is expected
type testCase struct {
	snap  *Snapshot
	want  []string
	jobs  []queue.JobID // pending, in order
	limit map[string]*Limit
}

func readCase(t *testing.T, text string) *testCase {
	t.Helper()
	c := &testCase{snap: &Snapshot{Now: noon, Policy: Policy{Protected: 1}, Select: onHosts}, limit: map[string]*Limit{}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "nodes":
			for _, w := range words[1:] {
				c.snap.Nodes = append(c.snap.Nodes, readNode(t, w))
			}
		case "running":
			c.running(t, words[1:])
		case "limit":
			name, n, _ := strings.Cut(words[1], "=")
			left := number(t, n)
			c.limit[name] = &Limit{Max: left}
		case "starts":
			c.snap.Policy.MaxStarts = number(t, words[1])
		case "looks":
			c.snap.Policy.MaxLooks = number(t, words[1])
		case "job":
			c.job(t, words[1:])
		case "=":
			c.want = append(c.want, strings.Join(words[1:], " "))
		default:
			t.Fatalf("no such line: %s", line)
		}
	}
	return c
}

func onHosts(n *nodes.Node, s *queue.Shape) bool {
	return s.Hosts == "" || slices.Contains(strings.Split(s.Hosts, ","), string(n.ID))
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func readNode(t *testing.T, w string) *nodes.Node {
	n := &nodes.Node{Alive: true, Memory: 64 * gib}
	for i, item := range strings.Split(w, ",") {
		key, value, _ := strings.Cut(item, "=")
		switch {
		case i == 0:
			n.ID, n.Slots = nodes.ID(key), number(t, value)
		case key == "mem":
			n.Memory = int64(number(t, value)) * gib
		case key == "lic":
			n.Consumables = nodes.Consumables("lic=" + value)
		case key == "gpu":
			count, capacity, _ := strings.Cut(value, "x")
			for g := range number(t, count) {
				n.GPUs = append(n.GPUs, nodes.GPU{Index: g, UUID: fmt.Sprintf("%s-%d", n.ID, g), Memory: 8 * gib, Capacity: nodes.Amount(number(t, capacity))})
			}
		case key == "down":
			n.Alive = false
		case key == "closed":
			n.Closed = true
		default:
			t.Fatalf("node %s: no such word %s", n.ID, item)
		}
	}
	return n
}

func (c *testCase) running(t *testing.T, words []string) {
	r := Running{ID: queue.ElementID{Job: queue.JobID(number(t, words[0]))}}
	for i := 2; i < len(words); i++ {
		if words[i] == "ends" {
			r.Ends = noon.Add(duration(t, words[i+1]))
			break
		}
		where, gpu, _ := strings.Cut(words[i], "/")
		id, slots, _ := strings.Cut(where, ":")
		a := nodes.Allocation{Node: nodes.ID(id), Slots: number(t, slots)}
		if gpu != "" {
			index, amount, _ := strings.Cut(gpu, "=")
			a.Slices = []nodes.Slice{{UUID: id + "-" + index, Index: number(t, index), Amount: nodes.Amount(number(t, amount))}}
		}
		for _, n := range c.snap.Nodes {
			if n.ID == a.Node {
				if err := n.Take(a); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.Alloc = append(r.Alloc, a)
	}
	c.snap.Running = append(c.snap.Running, r)
}

func (c *testCase) job(t *testing.T, words []string) {
	s := &queue.Shape{Slots: 1}
	p := Pending{Job: queue.JobID(number(t, words[0])), Shape: s, Indices: []int{0}}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "slots":
			s.Slots = number(t, value)
		case "limit":
			s.RunLimit = duration(t, value)
		case "fgpu":
			a, err := nodes.ParseAmount(value)
			if err != nil {
				t.Fatal(err)
			}
			s.Host.GPU.Amount = a
		case "whole":
			s.Host.GPU.Whole = number(t, value)
		case "gmem":
			s.Host.GPU.Memory = int64(number(t, value)) * gib
		case "mem":
			s.Host.Memory = int64(number(t, value)) * gib
		case "lic":
			s.Host.Consumables = nodes.Consumables("lic=" + value)
		case "ptile":
			s.PerHost = number(t, value)
		case "prio":
			s.Priority = number(t, value)
		case "on":
			s.Hosts = value
		case "onehost":
			s.OneHost = true
		case "excl":
			s.Host.Exclusive = true
		case "under":
			for name := range strings.SplitSeq(value, ",") {
				p.Limits = append(p.Limits, c.limit[name])
			}
		case "most":
			p.Limits = append(p.Limits, &Limit{Max: number(t, value), Elements: true})
		case "n":
			p.Indices = nil
			for i := range number(t, value) {
				p.Indices = append(p.Indices, i+1)
			}
		default:
			t.Fatalf("job %s: no such word %s", words[0], w)
		}
	}
	c.snap.Pending = append(c.snap.Pending, p)
	c.jobs = append(c.jobs, p.Job)
}

// show is a plan in the words of a case.
func (c *testCase) show() (lines []string) {
	planner := Load(c.snap)
	p := planner.Plan(c.snap.Now)
	waits := planner.Waits()
	expected := Expect(planner.Snapshot(), 1000).Starts
	for _, s := range p.Starts {
		lines = append(lines, fmt.Sprintf("start %s on %s", s.ID, showAlloc(s.Alloc)))
	}
	for _, r := range planner.Promises() {
		line := fmt.Sprintf("reserve %s at %s on", r.ID, short(r.At.Sub(noon)))
		for _, a := range r.Alloc {
			line += " " + string(a.Node)
		}
		lines = append(lines, line)
	}
	started := map[queue.JobID]int{}
	for _, s := range p.Starts {
		started[s.ID.Job]++
	}
	seen := map[queue.Shape]bool{}
	for _, pend := range c.snap.Pending {
		w, ok := waits[*pend.Shape]
		if why := planner.WhyJob(pend.Job); len(why) > 0 {
			w.Reasons = why
		}
		if !ok || len(w.Reasons) == 0 || seen[*pend.Shape] || started[pend.Job] == len(pend.Indices) {
			continue
		}
		seen[*pend.Shape] = true
		var kinds []string
		for _, r := range w.Reasons {
			kinds = append(kinds, string(r.Kind))
		}
		line := fmt.Sprintf("wait %d %s", pend.Job, strings.Join(kinds, ","))
		first := time.Time{}
		for _, i := range pend.Indices {
			if at := expected[queue.ElementID{Job: pend.Job, Index: i}]; !at.IsZero() && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
		if !w.Expected.IsZero() && !first.Equal(w.Expected) {
			line += fmt.Sprintf(" (promised %s)", short(w.Expected.Sub(noon)))
		}
		if !first.IsZero() {
			line += " ~" + short(first.Sub(noon))
		}
		lines = append(lines, line)
	}
	if p.Bounded {
		lines = append(lines, "bounded")
	}
	return lines
}

func short(d time.Duration) string {
	s := strings.TrimSuffix(d.String(), "0s")
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	if s == "" {
		return "0s"
	}
	return s
}

func showAlloc(alloc []nodes.Allocation) string {
	var words []string
	for _, a := range alloc {
		w := string(a.Node)
		if len(alloc) > 1 {
			w += fmt.Sprintf(":%d", a.Slots)
		}
		for _, s := range a.Slices {
			w += fmt.Sprintf("/%d", s.Index)
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}
