package command

import (
	"strings"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

func bjobsCommand() *command {
	accepted := func(name, arg string) option.Option {
		o := option.Option{Name: name, Accepted: true, Hidden: true}
		if arg != "" {
			o.Value, o.Arg = option.Required, arg
		}
		return o
	}
	return &command{run: bjobs, Command: option.Command{
		Name: "bjobs", Usage: "[options] [job ...]",
		Summary: "lists jobs: your unfinished ones, or those named",
		Example: "bjobs                                     your unfinished jobs\n" +
			"bjobs -l 1234                             all about one job\n" +
			"bjobs -u all -r -w                        everything that runs\n" +
			"bjobs -o \"jobid stat exec_host\" -noheader 1234 1235\n" +
			"bjobs -a -o \"jobid fgpu gpu_max_mem gpu_sm_mean gpu_usage\"   what was used of slices of GPUs\n" +
			"bjobs -a -J 'train*' -json",
		Options: []option.Option{
			{Name: "a", Group: "Which jobs", Help: "finished ones too"},
			{Name: "d", Help: "finished ones only"},
			{Name: "p", Help: "waiting ones, with the reasons"},
			{Name: "r", Help: "running ones"},
			{Name: "s", Help: "suspended ones"},
			optUser, optQueue, optName, optHost, optProject, optAccount,
			{Name: "w", Group: "What is shown", Help: "a line for each job in which nothing is cut"},
			{Name: "W", Help: "as -w, with project, use, and times"},
			{Name: "l", Help: "all about each job"},
			{Name: "UF", Help: "as -l, with lines as long as they are"},
			{Name: "A", Help: "a line for each array, with counts"},
			{Name: "sum", Help: "only how many slots are in each state"},
			optFormat, optJSON, optNoHead,
			{Name: "hms", Help: "durations as hours:minutes:seconds"},
			{Name: "X", Hidden: true}, {Name: "gpu", Hidden: true}, {Name: "aff", Hidden: true}, {Name: "N", Hidden: true, Value: option.Required},
			accepted("rusage", "NAME"), accepted("cname", ""), accepted("pe", ""), accepted("pi", ""),
		},
	}}
}

// jobLister prints jobs in one of bjobs' forms.
type jobLister interface {
	add(j *pb.Job)
	missing(text string)
	end()
}

func bjobs(c *call, p *option.Parsed) int {
	if !c.legal(p.Operands) {
		return failed
	}
	c.style.HMS = p.Has("hms")
	lister, reasons, code := c.jobLister(p)
	if lister == nil {
		return code
	}
	sel := selection(p)
	scoped(&sel, p)
	req := &pb.JobsRequest{Select: wire.FromSelection(sel), Arrays: p.Has("A"), Reasons: reasons}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	found, live, missing := 0, 0, 0
	err := u.Jobs(c.ctx, req, func(page *pb.JobsResponse) error {
		for _, text := range page.NotFound {
			missing++
			lister.missing(text)
		}
		for _, j := range page.Jobs {
			found++
			if j.State != "DONE" && j.State != "EXIT" {
				live++
			}
			lister.add(j)
		}
		return nil
	})
	if err != nil {
		return c.failErr(err)
	}
	lister.end()
	if found == 0 && missing == 0 && !p.Has("json") {
		c.say(noJobs(p))
	}
	switch {
	case live == 0 && c.env.yes("LSB_BJOBS_CONSISTENT_EXIT_CODE"):
		return failed
	case found == 0 && len(p.Operands) > 0:
		return failed
	}
	return 0
}

// noJobs is LSF's text for an empty list.
func noJobs(p *option.Parsed) string {
	if name := p.Last("J"); name != "" {
		return "Job <" + show.Clean(name) + "> is not found"
	}
	s := "No unfinished job found"
	switch {
	case p.Has("a"):
		s = "No job found"
	case p.Has("p"):
		s = "No pending job found"
	case p.Has("r"):
		s = "No running job found"
	case p.Has("s"):
		s = "No suspended job found"
	case p.Has("d"):
		s = "No DONE/EXIT job found"
	}
	if u := p.Last("u"); u != "" && u != "all" {
		s += " for user <" + show.Clean(u) + ">"
	}
	if q := p.Last("q"); q != "" {
		s += " in queue <" + show.Clean(q) + ">"
	}
	return s
}

// jobLister chooses the form; reasons says that it needs pending reasons.
func (c *call) jobLister(p *option.Parsed) (l jobLister, reasons bool, code int) {
	long, fixed := p.Has("l") || p.Has("UF"), p.Has("w") || p.Has("W")
	switch {
	case p.Has("sum"):
		return &sumList{c: c, json: p.Has("json"), head: !p.Has("noheader")}, false, 0
	case p.Has("A"):
		t := show.JobArrays
		if p.Has("w") {
			t = show.ArraysWide
		}
		if p.Has("json") {
			return &jsonList{c: c, doc: show.NewJSON("bjobs", "JOBS"), record: show.ArrayRecord}, false, 0
		}
		return &tableList{c: c, table: t, head: !p.Has("noheader")}, false, 0
	case long && !p.Has("json"):
		return &longList{c: c, folded: !p.Has("UF")}, true, 0
	}
	format, given := "", p.Has("o")
	switch {
	case given:
		format = strings.Join(p.All("o"), " ")
	case long:
		format = "all"
	case !fixed:
		format = c.env.Get("LSB_BJOBS_FORMAT")
	}
	if !p.Has("json") && (fixed || format == "" && !given) {
		t := show.Jobs
		switch {
		case p.Has("W"):
			t = show.JobsFull
		case p.Has("w"):
			t = show.JobsWide
		case p.Has("p"):
			t = show.JobsPending
			reasons = true
		}
		return &tableList{c: c, table: t, head: !p.Has("noheader")}, reasons, 0
	}
	if strings.TrimSpace(format) == "" {
		format = show.DefaultJobFormat
	}
	f, err := show.ParseFormat(show.JobFields, format)
	if err != nil {
		return nil, false, c.fail("bjobs: " + err.Error())
	}
	// Where the index has a column of its own, the id's is the bare number.
	c.style.BareID = c.style.BareID || f.Has("jobindex")
	reasons = f.Has("pend_reason") || f.Has("estimated_start_time")
	if p.Has("json") {
		return &jsonList{c: c, doc: show.NewJSON("bjobs", "JOBS"), record: f.Record}, reasons, 0
	}
	return &tableList{c: c, head: !p.Has("noheader"), table: show.JobTable{
		Header: func(b []byte, _ *show.Style) []byte { return f.Header(b) }, Row: f.Row,
	}}, reasons, 0
}

// tableList prints a row for each job as it comes.
type tableList struct {
	c     *call
	table show.JobTable
	head  bool
	buf   []byte
}

func (l *tableList) add(j *pb.Job) {
	l.buf = l.buf[:0]
	if l.head {
		l.buf = l.table.Header(l.buf, &l.c.style)
		l.head = false
	}
	l.buf = l.table.Row(l.buf, j, &l.c.style)
	l.c.write(l.buf)
}

func (l *tableList) missing(text string) { l.c.say(show.Clean(text)) }
func (l *tableList) end()                {}

// longList prints -l and -UF.
type longList struct {
	c      *call
	folded bool
	n      int
	buf    []byte
}

func (l *longList) add(j *pb.Job) {
	l.buf = l.buf[:0]
	if l.n++; l.n > 1 {
		l.buf = append(l.buf, show.Rule...)
	}
	l.buf = show.JobLong(l.buf, j, &l.c.style, l.folded)
	l.c.write(l.buf)
}

func (l *longList) missing(text string) { l.c.say(show.Clean(text)) }
func (l *longList) end()                {}

// jsonList keeps the records until all are there: their number stands first.
type jsonList struct {
	c      *call
	doc    *show.JSON
	record func(*show.JSON, *pb.Job, *show.Style)
}

func (l *jsonList) add(j *pb.Job)       { l.record(l.doc, j, &l.c.style) }
func (l *jsonList) missing(text string) { l.doc.Error(text) }
func (l *jsonList) end()                { l.c.write(l.doc.End(nil)) }

// sumList prints -sum.
type sumList struct {
	c          *call
	json, head bool
	sum        show.Sum
	n          int
}

func (l *sumList) add(j *pb.Job)       { l.sum.Add(j); l.n++ }
func (l *sumList) missing(text string) { l.c.say(show.Clean(text)) }

func (l *sumList) end() {
	switch {
	case l.json:
		doc := show.NewJSON("bjobs", "SUMMARIES")
		l.sum.Record(doc)
		l.c.write(doc.End(nil))
	case l.n > 0:
		if l.head {
			l.c.print(show.SumHeader)
		}
		l.c.write(l.sum.Row(nil))
	}
}
