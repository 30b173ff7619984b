package command

import (
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/bin/bcli/session"
	"fairslice/queue"
	"fairslice/queue/option"
)

func bpeekCommand() *command {
	return &command{run: bpeek, Command: option.Command{
		Name: "bpeek", Usage: "[-f] [options] [job]",
		Summary: "shows what a running job has written so far",
		Example: "bpeek 1234\nbpeek -f '1235[3]'     go on as it writes\nbpeek -J train         your newest job of that name",
		Options: []option.Option{{Name: "f", Help: "go on until the job ends"}, optName, optQueue, optHost},
	}}
}

func bpeek(c *call, p *option.Parsed) int {
	if len(p.Operands) > 1 {
		return c.fail("bpeek: one job at a time")
	}
	if !c.legal(p.Operands) {
		return failed
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	id, ok := c.newest(u, p)
	if !ok {
		return failed
	}
	titled, second := false, false
	title := func() {
		if !titled {
			titled = true
			c.print("<< output from stdout >>\n")
		}
	}
	// A file of its own for standard error comes under its own title, also when it is still empty.
	titleErr := func() {
		if title(); !second {
			second = true
			c.print("\n<< output from stderr >>\n")
		}
	}
	ownErr := false
	err := u.Peek(c.ctx, id, p.Has("f"), func(m *pb.PeekResponse) error {
		title()
		ownErr = ownErr || m.HasStderr
		c.write(m.Stdout)
		if len(m.Stderr) > 0 {
			titleErr()
			c.write(m.Stderr)
		}
		if p.Has("f") {
			return c.out.Flush()
		}
		return nil
	})
	if err != nil {
		return c.failErr(err)
	}
	if title(); ownErr {
		titleErr()
	}
	return 0
}

// newest is the job that was named, or the newest running one that the options name.
func (c *call) newest(u Users, p *option.Parsed) (id string, ok bool) {
	if len(p.Operands) == 1 {
		return p.Operands[0], true
	}
	sel := selection(p)
	sel.Scope = queue.ScopeRunning
	err := u.Jobs(c.ctx, &pb.JobsRequest{Select: wire.FromSelection(sel)}, func(page *pb.JobsResponse) error {
		if n := len(page.Jobs); n > 0 {
			id = jobID(page.Jobs[n-1])
		}
		return nil
	})
	switch {
	case err != nil:
		c.failErr(err)
	case id == "":
		c.fail("No running job found")
	}
	return id, err == nil && id != ""
}

func battachCommand() *command {
	return &command{run: battach, Command: option.Command{
		Name: "battach", Usage: "job",
		Summary: "ties this terminal to an interactive session; several may be tied to one",
		Example: "battach 1234     ~. at the beginning of a line leaves it, and it goes on",
	}}
}

func battach(c *call, p *option.Parsed) int {
	if len(p.Operands) != 1 {
		return c.fail("battach: name the session: battach job (bjobs -r lists what runs)")
	}
	if !c.legal(p.Operands) {
		return failed
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	var job *pb.Job
	missing := ""
	err := u.Jobs(c.ctx, &pb.JobsRequest{Select: &pb.Selection{Ids: p.Operands, Scope: "all"}}, func(page *pb.JobsResponse) error {
		for _, text := range page.NotFound {
			missing = text
		}
		for _, j := range page.Jobs {
			job = j
		}
		return nil
	})
	switch {
	case err != nil:
		return c.failErr(err)
	case job == nil:
		if missing == "" {
			missing = "Job <" + p.Operands[0] + "> is not found"
		}
		return c.fail(missing)
	}
	kind := queue.Interactive(job.GetSpec().GetInteractive())
	switch {
	case !kind.Session():
		return c.fail("Job <" + jobID(job) + "> is not an interactive session; bpeek -f " + jobID(job) + " follows its output")
	case job.State == "DONE" || job.State == "EXIT":
		return c.fail("Job <" + jobID(job) + ">: Job has already finished")
	}
	return session.Run(c.ctx, c.sessionConfig(u, queue.JobID(job.Id), kind, true))
}
