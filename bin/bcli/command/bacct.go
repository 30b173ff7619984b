package command

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/bin/bcli/history"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/option"
	"fairslice/reports"
)

func bacctCommand() *command {
	value := func(name, arg, help string) option.Option {
		return option.Option{Name: name, Value: option.Required, Arg: arg, Help: help}
	}
	return &command{run: bacct, Command: option.Command{
		Name: "bacct", Usage: "[options] [job ...]",
		Summary: "tells what jobs that are over have used, of any age: a summary, or job by job",
		Example: "bacct                        your jobs, summed up\nbacct -l 1234                all about a job\n" +
			"bacct -u all -C 2026/03/01,2026/03/31\nbacct -U alice#0 -u all -b          what ran in a reservation\nbacct -u \"alice bob\" -q gpu -e -b\nbacct -u all -l -gpu -UF -C .-1d,.   for programs",
		Options: []option.Option{
			{Name: "d", Group: "Which jobs", Help: "those that ended well"},
			{Name: "e", Help: "those that failed"},
			value("u", "USERS", "jobs of these users; all for everybody's (default: yours, or of all where jobs are named)"),
			value("q", "QUEUES", "jobs that ended in these queues"),
			value("m", "HOSTS", "jobs that ran on these hosts"),
			value("P", "PROJECTS", "jobs of these projects"),
			value("app", "NAME", "jobs submitted with -app NAME"),
			value("U", "RESERVATIONS", "jobs that used these advance reservations; all for any"),
			value("C", "BEGIN,END", "jobs that ended in a period: yyyy/mm/dd/HH:MM, . for now, .-3d"),
			value("S", "BEGIN,END", "jobs that were submitted in a period"),
			value("D", "BEGIN,END", "jobs that were dispatched in a period"),
			{Name: "x", Help: "jobs with an exception (none are defined here)"},
			{Name: "l", Group: "What is shown", Help: "all about each job"},
			{Name: "UF", Help: "as -l, with lines as long as they are"},
			{Name: "gpu", Help: "with -l: the GPUs of each job"},
			{Name: "b", Help: "a line for each job"},
			{Name: "w", Help: "as -b, and nothing is cut"},
			optJSON,
		},
	}}
}

// detail is how many jobs are looked up at once: their histories are held in memory.
const detail = 200

func bacct(c *call, p *option.Parsed) int {
	if !c.legal(p.Operands) {
		return failed
	}
	req, err := c.finished(p)
	if err != nil {
		return c.fail("bacct: " + show.CleanText(err.Error()))
	}
	long := p.Has("l") || p.Has("UF")
	listed := long || p.Has("b") || p.Has("w")
	only, err := narrowed(p)
	if err != nil {
		return c.fail("bacct: " + err.Error())
	}
	req.List = listed || only.some()
	if p.Has("x") {
		c.say("bacct: job exceptions (overrun, underrun, idle) are not defined here, so no job has one")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	a := &accounts{call: c, users: u, req: req, doc: show.NewJSON("bacct", "JOBS"), only: only, listed: listed, long: long, json: p.Has("json"), wide: p.Has("w"), folded: !p.Has("UF"), gpu: p.Has("gpu")}
	var archived int64
	if p.Has("x") {
		a.head("")
	} else if err := u.Finished(c.ctx, req, archivedIn(&archived, a.page)); err != nil {
		return c.failErr(err)
	}
	defer c.archivedNote(archived)
	return a.end()
}

// finished is what the options ask for.
func (c *call) finished(p *option.Parsed) (*pb.FinishedRequest, error) {
	req := &pb.FinishedRequest{
		Ids: p.Operands, Queues: strings.Fields(p.Last("q")), Hosts: strings.Fields(p.Last("m")), Projects: strings.Fields(p.Last("P")),
		Done: p.Has("d"), Failed: p.Has("e"),
	}
	switch users := strings.Fields(p.Last("u")); {
	case slices.Contains(users, "all"):
	case len(users) > 0:
		req.Users = users
	default:
		req.Own = len(p.Operands) == 0
	}
	for _, x := range []struct {
		option string
		to     **pb.Span
	}{{"C", &req.Ended}, {"S", &req.Submitted}, {"D", &req.Dispatched}} {
		if !p.Has(x.option) {
			continue
		}
		period, err := reports.ParsePeriod(p.Last(x.option), c.style.Now, c.style.Zone())
		if err != nil {
			return nil, err
		}
		*x.to = &pb.Span{From: wire.Nanos(period.From), To: wire.Nanos(period.To)}
	}
	return req, nil
}

// narrow is what only the submission of a job says. The ledger does not have it, so each job that the other options name is
// looked up: with a period or a user this is quick, for all of a year it is not.
type narrow struct {
	app          string
	reservations []string // "all" is any
}

func narrowed(p *option.Parsed) (n narrow, err error) {
	n = narrow{strings.TrimSpace(p.Last("app")), strings.Fields(p.Last("U"))}
	switch { // nothing at all must not mean everything
	case p.Has("app") && n.app == "":
		err = errors.New("-app: want the name of an application")
	case p.Has("U") && len(n.reservations) == 0:
		err = errors.New("-U: want the IDs of reservations, or all")
	}
	return n, err
}

func (n *narrow) some() bool { return n.app != "" || len(n.reservations) > 0 }

func (n *narrow) wants(s *pb.Spec) bool {
	if n.app != "" && s.GetApp() != n.app {
		return false
	}
	if len(n.reservations) == 0 {
		return true
	}
	used := s.GetReservation()
	return used != "" && (slices.Contains(n.reservations, used) || slices.Contains(n.reservations, "all"))
}

// accounts prints bacct's answer as it comes.
type accounts struct {
	*call
	users                         Users
	req                           *pb.FinishedRequest
	doc                           *show.JSON
	only                          narrow
	listed                        bool // job by job, not the summary alone
	long, json, wide, folded, gpu bool

	titled bool
	sum    reports.Summary
}

func (a *accounts) page(page *pb.FinishedResponse) error {
	if !a.titled {
		a.head(page.Caller)
	}
	if page.Summary != nil {
		a.sum = wire.ToSummary(page.Summary)
		return nil
	}
	over := make([]reports.Finished, len(page.Jobs))
	for i, j := range page.Jobs {
		over[i] = wire.ToFinished(j)
	}
	for len(over) > 0 {
		n := min(len(over), detail)
		if err := a.jobs(over[:n]); err != nil {
			return err
		}
		over = over[n:]
	}
	return nil
}

// jobs counts some jobs and prints them. Their histories are asked for only where something of them is needed.
func (a *accounts) jobs(over []reports.Finished) error {
	of := map[int64]*pb.HistoryJob{}
	if a.long || a.only.some() {
		var ids []string
		for i := range over {
			if id := over[i].Job; of[id] == nil {
				of[id] = &pb.HistoryJob{}
				ids = append(ids, strconv.FormatInt(id, 10))
			}
		}
		if err := a.users.History(a.ctx, queue.Selection{IDs: ids, User: "all"}, func(page *pb.HistoryResponse) error {
			for _, h := range page.Jobs {
				of[h.GetJob().GetId()] = h
			}
			return nil
		}); err != nil {
			return err
		}
	}
	var b []byte
	for i := range over {
		if !a.only.wants(of[over[i].Job].GetJob().GetSpec()) {
			continue
		}
		a.sum.Add(&over[i])
		if !a.listed {
			continue
		}
		account := &show.Account{Over: over[i]}
		if a.long {
			account = history.Account(of[over[i].Job], over[i])
		}
		switch {
		case a.json:
			account.Record(a.doc, &a.style, a.long)
		case a.long:
			b = append(account.Long(b, &a.style, a.folded, a.gpu), show.Rule...)
		default:
			b = show.Brief(b, &over[i], &a.style, a.wide)
		}
	}
	a.write(b)
	return nil
}

// head says which jobs these are, in LSF's words.
func (a *accounts) head(caller string) {
	a.titled = true
	if a.json {
		return
	}
	names := func(list []string) string { return show.Clean(strings.Join(list, " ")) }
	users := a.req.Users
	if a.req.Own {
		users = append(slices.Clone(users), caller)
	}
	var b strings.Builder
	b.WriteString("\nAccounting information about jobs that are: \n")
	if len(users) == 0 {
		b.WriteString("  - submitted by all users.\n")
	} else {
		b.WriteString("  - submitted by users " + names(users) + ", \n")
	}
	if len(a.req.Projects) == 0 {
		b.WriteString("  - accounted on all projects.\n")
	} else {
		b.WriteString("  - accounted on projects " + names(a.req.Projects) + ", \n")
	}
	switch {
	case a.req.Done == a.req.Failed:
		b.WriteString("  - completed normally or exited\n")
	case a.req.Done:
		b.WriteString("  - completed normally\n")
	default:
		b.WriteString("  - exited\n")
	}
	for _, x := range []struct {
		word string
		span *pb.Span
	}{{"completed", a.req.Ended}, {"submitted", a.req.Submitted}, {"dispatched", a.req.Dispatched}} {
		if x.span != nil {
			b.WriteString("  - " + x.word + " between  " + a.bound(x.span.From) + "\n  ,and   " + a.bound(x.span.To) + "\n")
		}
	}
	if len(a.req.Hosts) == 0 {
		b.WriteString("  - executed on all hosts.\n")
	} else {
		b.WriteString("  - executed on hosts " + names(a.req.Hosts) + ", \n")
	}
	if len(a.req.Queues) == 0 {
		b.WriteString("  - submitted to all queues.\n")
	} else {
		b.WriteString("  - submitted to queues " + names(a.req.Queues) + ", \n")
	}
	if a.only.app != "" {
		b.WriteString("  - associated with application " + show.Clean(a.only.app) + ", \n")
	}
	if slices.Contains(a.only.reservations, "all") {
		b.WriteString("  - that used an advance reservation.\n")
	} else if len(a.only.reservations) > 0 {
		b.WriteString("  - that used advance reservations " + names(a.only.reservations) + ", \n")
	}
	b.WriteString("  - accounted on all service classes.\n" + show.Rule)
	if a.listed && !a.long {
		b.WriteString(show.BriefHeader)
	}
	a.print(b.String())
}

func (a *accounts) bound(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return a.style.CTime(ns)
}

func (a *accounts) end() int {
	switch {
	case !a.json:
		a.write(show.Summary(nil, &a.sum, &a.style))
		return 0
	case !a.listed:
		show.SummaryRecord(a.doc, &a.sum, &a.style)
	}
	a.write(a.doc.End(nil))
	return 0
}
