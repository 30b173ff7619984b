package backfill

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// The words of a case: what a statement says of nodes, windows, attempts and jobs.

func (c *scenario) number(s string) int {
	c.t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		c.fatal("%v", err)
	}
	return n
}

// duration reads what time.ParseDuration does; a never is the longest.
func (c *scenario) duration(s string) time.Duration {
	c.t.Helper()
	if s == "never" {
		return math.MaxInt64
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		c.fatal("%v", err)
	}
	return d
}

// elementOf reads 2 and 2[1].
func elementOf(t *testing.T, s string) (id queue.ElementID) {
	t.Helper()
	job, index, array := strings.Cut(strings.TrimSuffix(s, "]"), "[")
	n, err := strconv.Atoi(job)
	if id.Job = queue.JobID(n); array && err == nil {
		id.Index, err = strconv.Atoi(index)
	}
	if err != nil {
		t.Fatalf("%s is no element: %v", s, err)
	}
	return id
}

func (c *scenario) readNode(w string) *nodes.Node {
	n := &nodes.Node{Alive: true, Memory: 64 * gib}
	for i, item := range strings.Split(w, ",") {
		key, value, _ := strings.Cut(item, "=")
		switch {
		case i == 0:
			n.ID, n.Slots = nodes.ID(key), c.number(value)
		case key == "mem":
			n.Memory = int64(c.number(value)) * gib
		case key == "lic":
			n.Consumables = nodes.Consumables("lic=" + value)
		case key == "gpu":
			count, capacity, _ := strings.Cut(value, "x")
			for g := range c.number(count) {
				n.GPUs = append(n.GPUs, nodes.GPU{Index: g, UUID: fmt.Sprintf("%s-%d", n.ID, g), Memory: 8 * gib, Capacity: nodes.Amount(c.number(capacity))})
			}
		case key == "mps": // all its GPUs
			for g := range n.GPUs {
				n.GPUs[g].Mode = nodes.ModeMPS
			}
		case key == "mig": // a GPU of 8 GiB and 1 fGPU in instances of so many sevenths
			for sevenths := range strings.SplitSeq(value, "+") {
				i := len(n.GPUs)
				g := nodes.GPU{Index: i, UUID: fmt.Sprintf("%s-%d", n.ID, i), Mode: nodes.ModeMIG, Fraction: 10_000 * c.number(sevenths) / 7}
				g.Capacity, g.Memory = g.Worth(100), 8*gib*int64(g.Fraction)/10_000
				n.GPUs = append(n.GPUs, g)
			}
		case key == "down":
			n.Alive = false
		case key == "closed":
			n.Closed = true
		default:
			c.fatal("node %s: no such word %s", n.ID, item)
		}
	}
	return n
}

// readAlloc reads a:4/0=50,1=50.
func (c *scenario) readAlloc(w string) nodes.Allocation {
	where, gpus, _ := strings.Cut(w, "/")
	id, slots, _ := strings.Cut(where, ":")
	a := nodes.Allocation{Node: nodes.ID(id), Slots: c.number(slots)}
	for g := range strings.SplitSeq(gpus, ",") {
		if g != "" {
			index, amount, _ := strings.Cut(g, "=")
			a.Slices = append(a.Slices, nodes.Slice{UUID: id + "-" + index, Index: c.number(index), Amount: nodes.Amount(c.number(amount))})
		}
	}
	return a
}

func (c *scenario) window(args []string) {
	w := Window{ID: args[0]}
	spans := args[len(args)-1]
	for _, share := range args[1 : len(args)-1] {
		w.Shares = append(w.Shares, c.readAlloc(share))
	}
	for span := range strings.SplitSeq(spans, ",") {
		begin, end, _ := strings.Cut(span, "-")
		s := Span{Begin: noon.Add(c.duration(begin))}
		if c.turns = append(c.turns, s.Begin); end != "never" {
			s.End = noon.Add(c.duration(end))
			c.turns = append(c.turns, s.End)
		}
		w.Spans = append(w.Spans, s)
	}
	c.p.PutWindow(w)
}

func (c *scenario) running(words []string) {
	r := Running{ID: elementOf(c.t, words[0])}
	for i := 1; i < len(words); i++ {
		key, value, _ := strings.Cut(words[i], "=")
		switch {
		case words[i] == "on":
		case words[i] == "ends":
			i++
			r.Ends = noon.Add(c.duration(words[i]))
		case key == "user":
			r.User = value
			for k := range r.Alloc { // after what it is on: of GPUs in ModeMPS it has that user's part
				c.holds(&r.Alloc[k], value)
			}
		case key == "in":
			r.Window = value
		case key == "under":
			r.Limits = append(r.Limits, c.limits[value])
		default:
			r.Alloc = append(r.Alloc, c.readAlloc(words[i]))
		}
	}
	c.hold(r)
	if r.Ends.After(c.now) {
		c.ends[r.ID] = r.Ends
	}
	c.p.Begin(r, c.now)
}

// holds says whose slices those of a are.
func (c *scenario) holds(a *nodes.Allocation, user string) {
	for i := range a.Slices {
		for _, g := range c.real[a.Node].GPUs {
			if s := &a.Slices[i]; g.UUID == s.UUID {
				if s.Mode = g.Mode; s.Mode == nodes.ModeMPS {
					a.User = user
				}
			}
		}
	}
}

// hold takes what an attempt has from the real nodes: nothing is given twice (invariant 1).
func (c *scenario) hold(r Running) {
	for _, a := range r.Alloc {
		n := c.real[a.Node]
		if n == nil {
			c.fatal("%s is on %s, which is no node", r.ID, a.Node)
		}
		if err := n.Take(a); err != nil {
			c.fatal("at %s %s does not fit: %v", short(c.now.Sub(noon)), r.ID, err)
		}
	}
	c.held[r.ID] = r
}

func (c *scenario) submit(id queue.JobID, words []string) {
	p := &Pending{Job: id, Shape: &queue.Shape{Slots: 1}, Submitted: c.now, Indices: []int{0}}
	c.jobs[id], c.order = p, append(c.order, id)
	for _, w := range words {
		c.jobWord(p, w)
	}
	if c.hasMPS() && p.Shape.Host.GPU.Part() {
		p.Shape.Host.GPU.User = p.User
	}
	c.add(p)
}

func (c *scenario) hasMPS() bool {
	for _, n := range c.real {
		if slices.ContainsFunc(n.GPUs, func(g nodes.GPU) bool { return g.Mode == nodes.ModeMPS }) {
			return true
		}
	}
	return false
}

func (c *scenario) add(p *Pending) {
	j := *p
	j.Indices = slices.Clone(p.Indices)
	c.p.Add(j)
}

// jobWord reads what is said of a job: words of its own, and those of its shape.
func (c *scenario) jobWord(p *Pending, w string) {
	key, value, _ := strings.Cut(w, "=")
	switch key {
	case "user":
		p.User = value
	case "under":
		for name := range strings.SplitSeq(value, ",") {
			if c.limits[name] == nil {
				c.fatal("job %d: no limit %s", p.Job, name)
			}
			p.Limits = append(p.Limits, c.limits[name])
		}
	case "most": // of an array's elements at once
		p.Limits = append(p.Limits, &Limit{Max: c.number(value), Of: OfElements})
	case "n":
		p.Indices = nil
		for i := range c.number(value) {
			p.Indices = append(p.Indices, i+1)
		}
	case "runs":
		c.runs[p.Job] = c.duration(value)
	default:
		c.shapeWord(p.Shape, key, value)
	}
}

func (c *scenario) shapeWord(s *queue.Shape, key, value string) {
	switch key {
	case "slots":
		least, most, _ := strings.Cut(value, ",")
		if s.Slots = c.number(least); most != "" {
			s.MaxSlots = c.number(most)
		}
	case "limit":
		s.RunLimit = c.duration(value)
	case "fgpu":
		a, err := nodes.ParseAmount(value)
		if err != nil {
			c.fatal("%v", err)
		}
		s.Host.GPU.Amount = a
	case "whole":
		s.Host.GPU.Whole = c.number(value)
	case "gmem":
		s.Host.GPU.Memory = int64(c.number(value)) * gib
	case "count": // of slices by gmem
		s.Host.GPU.Count = c.number(value)
	case "mem":
		s.Host.Memory = int64(c.number(value)) * gib
	case "lic":
		s.Host.Consumables = nodes.Consumables("lic=" + value)
	case "ptile":
		s.PerHost = c.number(value)
	case "prio":
		s.Priority = c.number(value)
	case "on":
		s.Hosts = value
	case "in":
		s.Reservation = value
	case "onehost":
		s.OneHost = true
	case "excl":
		s.Host.Exclusive = true
	default:
		c.fatal("no such word of a job: %s", key)
	}
}
