package command

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"os"
	"strconv"

	"fairslice/api/pb"
	"fairslice/bin/bcli/session"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/bsub"
	"fairslice/queue/option"
)

func bsubCommand() *command { return &command{Command: *bsub.Command, raw: runBsub} }

func bmodCommand() *command { return &command{Command: *bsub.ModCommand, raw: runBmod} }

// input is what bsub's and bmod's parser needs of this process and of the site.
func (c *call) input(site *pb.ClusterResponse) bsub.Input {
	in := bsub.Input{
		Stdin: c.readScript, ReadFile: readScriptFile,
		Environ: c.env.Environ, CWD: c.env.Dir, Host: c.env.Host, Umask: c.env.Umask, Now: c.env.Now(),
		Unit: site.GetMemoryUnit(), MaxArray: int(site.GetMaxArray()), Consumables: site.GetConsumables(),
	}
	if t := session.TerminalOf(c.stdin); t != nil {
		in.Rows, in.Cols = t.Size()
		in.Term = c.env.Get("TERM")
	}
	return in
}

// readScript reads the script from standard input, asking for each line where somebody types it.
func (c *call) readScript() ([]byte, error) {
	in := io.LimitReader(c.stdin, queue.MaxScript+1)
	if session.TerminalOf(c.stdin) == nil {
		return io.ReadAll(in)
	}
	var text []byte
	lines := bufio.NewReader(in)
	for {
		_, _ = io.WriteString(c.stderr, "bsub> ") // a prompt nobody sees is no reason to stop
		line, err := lines.ReadString('\n')
		text = append(text, line...)
		if err == io.EOF {
			_, _ = io.WriteString(c.stderr, "\n")
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func readScriptFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(f, queue.MaxScript+1))
}

// site asks batchd what command lines mean here: units, limits, names. A command line that is wrong by
// itself, or asks for help, needs none of it. ok is false where it has told of a failure.
func (c *call) site(table *option.Command, args []string) (u Users, site *pb.ClusterResponse, ok bool) {
	if p, err := table.Parse(args); err != nil || p.Help || p.Version {
		return nil, nil, true
	}
	u, ok = c.connect()
	if !ok {
		return nil, nil, false
	}
	site, err := u.Cluster(c.ctx)
	if err != nil {
		c.failErr(err)
		return nil, nil, false
	}
	return u, site, true
}

func runBsub(c *call, args []string) int {
	u, site, ok := c.site(bsub.Command, args)
	if !ok {
		return failed
	}
	s, err := bsub.Build(args, c.input(site))
	if err != nil {
		return c.failErr(err)
	}
	if c.helped(bsub.Command, s.Help, s.Version) {
		return 0
	}
	c.notes(s.Notes)
	if s.CheckOnly {
		return 0
	}
	env := make([][]byte, len(s.Env))
	for i, v := range s.Env {
		env[i] = []byte(v)
	}
	sub := queue.Submission{Token: rand.Text(), Spec: s.Spec, Script: s.Script, Env: env}
	job, err := u.Submit(c.ctx, sub)
	if err != nil {
		return c.failErr(err)
	}
	c.notes(job.Notes)
	if !s.Quiet {
		in := "queue"
		if job.Default || s.DefaultQueue {
			in = "default queue"
		}
		c.print("Job <" + strconv.FormatInt(int64(job.Job), 10) + "> is submitted to " + in + " <" + show.Clean(job.Queue) + ">.\n")
		_ = c.out.Flush() // seen again at the last Flush; what follows may take days
	}
	switch kind := s.Spec.Interactive; {
	case kind == queue.Wait:
		return session.Wait(c.ctx, c.stderr, func(ctx context.Context, change func(*pb.WatchResponse) error) error {
			return u.Watch(ctx, job.Job, change)
		})
	case kind.Session():
		return session.Run(c.ctx, c.sessionConfig(u, job.Job, kind, false))
	}
	return 0
}

func (c *call) sessionConfig(u Users, job queue.JobID, kind queue.Interactive, takeover bool) session.Config {
	return session.Config{
		Job: job, Pty: kind.HasPty(), Takeover: takeover,
		Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr,
		Attach: func(ctx context.Context, takeover bool, rows, cols uint16) (session.Stream, error) {
			return u.Attach(ctx, job, takeover, rows, cols)
		},
		Kill: func(ctx context.Context) error {
			sel := queue.Selection{IDs: []string{strconv.FormatInt(int64(job), 10)}}
			_, err := u.Control(ctx, queue.Control{Op: queue.OpKill, Select: sel})
			return err
		},
	}
}

func runBmod(c *call, args []string) int {
	u, site, ok := c.site(bsub.ModCommand, args)
	if !ok {
		return failed
	}
	m, err := bsub.BuildMod(args, c.input(site))
	if err != nil {
		return c.failErr(err)
	}
	if c.helped(bsub.ModCommand, m.Help, m.Version) {
		return 0
	}
	c.notes(m.Notes)
	if !c.legal(m.Refs) {
		return failed
	}
	list, err := u.Control(c.ctx, queue.Control{Op: queue.OpModify, Select: queue.Selection{IDs: m.Refs}, Options: m.Options})
	if err != nil {
		return c.failErr(err)
	}
	return c.outcomes(list, false)
}
