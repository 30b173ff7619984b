package command

import (
	"strings"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/option"
)

func bqueuesCommand() *command {
	return &command{run: bqueues, Command: option.Command{
		Name: "bqueues", Usage: "[options] [queue ...]",
		Summary: "lists queues: state, limits, and how many slots their jobs wait for or hold",
		Example: "bqueues\nbqueues -l gpu\nbqueues -o \"queue_name status\" -json",
		Options: []option.Option{
			optWide, {Name: "l", Help: "all about each queue"}, optFormat, optJSON, optNoHead,
			{Name: "u", Value: option.Required, Arg: "USER", Help: "queues that take this user's jobs"},
			{Name: "m", Value: option.Required, Arg: "HOST", Help: "queues that use this host"},
			{Name: "r", Hidden: true}, {Name: "alloc", Hidden: true},
		},
	}}
}

func bqueues(c *call, p *option.Parsed) int {
	f, code := listFormat(c, p, show.QueueFields, show.DefaultQueueFormat)
	if code != 0 {
		return code
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	resp, err := u.Queues(c.ctx, &pb.QueuesRequest{Names: p.Operands, User: p.Last("u"), Host: p.Last("m")})
	if err != nil {
		return c.failErr(err)
	}
	var b []byte
	switch {
	case p.Has("json"):
		return c.document("QUEUES", resp.NotFound, len(resp.Queues), func(doc *show.JSON, i int) { f.Record(doc, resp.Queues[i], &c.style) })
	case f != nil && len(resp.Queues) > 0:
		if !p.Has("noheader") {
			b = f.Header(b)
		}
		for _, q := range resp.Queues {
			b = f.Row(b, q, &c.style)
		}
	case p.Has("l"):
		for i, q := range resp.Queues {
			if i > 0 {
				b = append(b, show.QueueRule...)
			}
			b = show.QueueLong(b, q)
		}
		if len(resp.Queues) > 0 {
			b = append(b, '\n')
		}
	case len(resp.Queues) > 0:
		if !p.Has("noheader") {
			b = show.QueuesHeader(b, p.Has("w"))
		}
		for _, q := range resp.Queues {
			b = show.QueueRow(b, q, p.Has("w"))
		}
	}
	c.write(b)
	return c.missing(resp.NotFound, len(resp.Queues), "No queue found")
}

func bhostsCommand() *command {
	return &command{run: bhosts, Command: option.Command{
		Name: "bhosts", Usage: "[options] [host ...]",
		Summary: "lists hosts: state, slots, and what their jobs hold",
		Example: "bhosts\nbhosts -w              with the reason for closed\nbhosts -gpu gpu01\nbhosts -o \"host_name status fgpu_used\" -json",
		Options: []option.Option{
			optWide, {Name: "l", Help: "all about each host"}, {Name: "gpu", Help: "a line for each GPU"}, optFormat, optJSON, optNoHead,
			{Name: "X", Hidden: true}, {Name: "a", Hidden: true}, {Name: "e", Hidden: true},
		},
	}}
}

func bhosts(c *call, p *option.Parsed) int {
	f, code := listFormat(c, p, show.HostFields, show.DefaultHostFormat)
	if code != 0 {
		return code
	}
	resp, code := c.hosts(p.Operands)
	if resp == nil {
		return code
	}
	var b []byte
	gpu := p.Has("gpu")
	switch {
	case p.Has("json") && gpu:
		return c.slicesDocument("bhosts", resp)
	case p.Has("json"):
		return c.document("HOSTS", resp.NotFound, len(resp.Hosts), func(doc *show.JSON, i int) { f.Record(doc, resp.Hosts[i], &c.style) })
	case len(resp.Hosts) == 0:
	case f != nil:
		if !p.Has("noheader") {
			b = f.Header(b)
		}
		for _, h := range resp.Hosts {
			b = f.Row(b, h, &c.style)
		}
	case p.Has("l"):
		for i, h := range resp.Hosts {
			if i > 0 {
				b = append(b, '\n')
			}
			b = show.HostLong(b, h)
		}
	default:
		if !p.Has("noheader") {
			if gpu {
				b = append(b, show.GPUHeader...)
			} else {
				b = append(b, show.HostsHeader...)
			}
		}
		for _, h := range resp.Hosts {
			if gpu {
				b = show.GPURows(b, h)
			} else {
				b = show.HostRow(b, h, p.Has("w"))
			}
		}
	}
	c.write(b)
	return c.missing(resp.NotFound, len(resp.Hosts), "No host found")
}

// hosts asks for hosts, in the order of their names. It is nil where it has told of a failure.
func (c *call) hosts(names []string) (*pb.HostsResponse, int) {
	u, ok := c.connect()
	if !ok {
		return nil, failed
	}
	resp, err := u.Hosts(c.ctx, names...)
	if err != nil {
		return nil, c.failErr(err)
	}
	show.SortHosts(resp.Hosts)
	return resp, 0
}

func bsliceCommand() *command {
	return &command{run: bslice, Command: option.Command{
		Name: "bslice", Usage: "[-l] [host ...]",
		Summary: "shows each GPU, how much of it is given away, and with -l to whom",
		Example: "bslice\nbslice -l gpu01\nbslice -json",
		Options: []option.Option{{Name: "l", Help: "each slice: job, user, share, since when"}, optJSON, optNoHead},
	}}
}

func bslice(c *call, p *option.Parsed) int {
	resp, code := c.hosts(p.Operands)
	if resp == nil {
		return code
	}
	if p.Has("json") {
		return c.slicesDocument("bslice", resp)
	}
	var b []byte
	for _, h := range resp.Hosts {
		if len(h.GetNode().GetGpus()) > 0 && len(b) == 0 && !p.Has("noheader") {
			b = append(b, show.SlicesHeader...)
		}
		b = show.Slices(b, h, &c.style, p.Has("l"))
	}
	c.write(b)
	if len(b) == 0 && len(resp.NotFound) == 0 {
		c.say("No GPU found")
	}
	return c.missing(resp.NotFound, len(resp.Hosts), "No host found")
}

func (c *call) slicesDocument(name string, resp *pb.HostsResponse) int {
	doc := show.NewJSON(name, "GPUS")
	for _, h := range resp.Hosts {
		show.SlicesRecord(doc, h, &c.style)
	}
	for _, text := range resp.NotFound {
		doc.Error(text)
	}
	c.write(doc.End(nil))
	if len(resp.NotFound) > 0 && len(resp.Hosts) == 0 {
		return failed
	}
	return 0
}

func bwhyCommand() *command {
	return &command{run: bwhy, Command: option.Command{
		Name: "bwhy", Usage: "[options] [job ...]",
		Summary: "tells why jobs wait: what blocks them, what is before them, when they will start",
		Example: "bwhy                   your waiting jobs\nbwhy 1234\nbwhy -u all -q gpu -json",
		Options: []option.Option{optUser, optQueue, optName, optHost, optProject, optAccount, optJSON},
	}}
}

func bwhy(c *call, p *option.Parsed) int {
	if !c.legal(p.Operands) {
		return failed
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	sel := selection(p)
	if len(sel.IDs) == 0 {
		sel.Scope = queue.ScopePending
	}
	resp, err := u.Why(c.ctx, sel)
	if err != nil {
		return c.failErr(err)
	}
	if p.Has("json") {
		return c.document("JOBS", resp.NotFound, len(resp.Jobs), func(doc *show.JSON, i int) { show.WhyRecord(doc, resp.Jobs[i], &c.style) })
	}
	var b []byte
	for i, w := range resp.Jobs {
		if i > 0 {
			b = append(b, '\n')
		}
		b = show.Why(b, w, &c.style)
	}
	c.write(b)
	if len(resp.Jobs) == 0 && len(resp.NotFound) == 0 {
		c.say("No pending job found")
	}
	for _, text := range resp.NotFound {
		c.say(show.Clean(text))
	}
	if len(resp.Jobs) == 0 && len(p.Operands) > 0 {
		return failed
	}
	return 0
}

// listFormat is the format that -o asks for, or the default for -json; nil for the fixed table.
func listFormat[T any](c *call, p *option.Parsed, fields []show.Field[T], standard string) (*show.Format[T], int) {
	if !p.Has("o") && !p.Has("json") || !p.Has("json") && (p.Has("l") || p.Has("w") || p.Has("gpu")) {
		return nil, 0
	}
	format := strings.Join(p.All("o"), " ")
	if strings.TrimSpace(format) == "" {
		format = standard
		if p.Has("l") {
			format = "all"
		}
	}
	f, err := show.ParseFormat(fields, format)
	if err != nil {
		return nil, c.fail(c.name + ": " + err.Error())
	}
	return f, 0
}

// document prints a JSON document of n records and of what was not found.
func (c *call) document(counter string, notFound []string, n int, record func(doc *show.JSON, i int)) int {
	doc := show.NewJSON(c.name, counter)
	for i := range n {
		record(doc, i)
	}
	for _, text := range notFound {
		doc.Error(text)
	}
	c.write(doc.End(nil))
	if n == 0 && len(notFound) > 0 {
		return failed
	}
	return 0
}

// missing tells what was not found: an error when nothing else was there.
func (c *call) missing(texts []string, found int, nothing string) int {
	for _, text := range texts {
		c.say(show.Clean(text))
	}
	switch {
	case len(texts) > 0:
		return failed
	case found == 0:
		c.say(nothing)
	}
	return 0
}
