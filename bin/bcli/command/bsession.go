package command

import (
	"crypto/rand"
	"strconv"
	"strings"

	"fairslice/bin/bcli/session"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/bsub"
	"fairslice/queue/option"
)

// maxSessions is how many sessions one command submits.
const maxSessions = 100

func bsessionCommand() *command {
	// What these options mean is bsub's, under the same name.
	same := func(name, arg, help string) option.Option {
		return option.Option{Name: name, Value: option.Required, Arg: arg, Help: help}
	}
	numeric := func(name, arg, help string) option.Option {
		o := same(name, arg, help)
		o.Number = true
		return o
	}
	return &command{run: bsession, Command: option.Command{
		Name: "bsession", Usage: "[options] [command [arguments]]", StopAtOperand: true,
		Summary: "starts a session: an interactive job that needs no terminal to live",
		Example: "bsession -image pytorch:2.4 -fgpu 0.5 -W 4:00      a shell in the image; prints its number\nbsession -a -image pytorch:2.4                     and ties this terminal to it\nbattach 1234; bexec 1234 nvidia-smi; bcp 1234:model.pt .; bkill 1234",
		Options: []option.Option{
			same("image", "REF|FILE.sif", "container image"),
			{Name: "writable", Help: "let the session change its image; bimage commit keeps that as a new one"},
			same("fgpu", "AMOUNT", "share of a GPU, as in 0.5"),
			numeric("n", "NUMBER", "slots (CPU cores)"),
			numeric("M", "MEMORY", "memory limit, as in 8GB"),
			numeric("W", "[HOUR:]MINUTE", "run limit"),
			same("apps", "NAME,...", "apps of the image that it is to have"),
			same("J", "NAME", "name"),
			same("q", "QUEUE", "queue"),
			same("G", "ACCOUNT", "account of the fair-share tree"),
			same("m", "HOSTS", "hosts to run on"),
			{Name: "count", Value: option.Required, Arg: "NUMBER", Help: "so many sessions, all alike", Number: true},
			{Name: "a", Help: "tie this terminal to it when it runs; ~. at the beginning of a line leaves it"},
		},
	}}
}

// bsession prints the number of each session on a line of its own, for scripts.
func bsession(c *call, p *option.Parsed) int {
	count := 1
	if p.Has("count") {
		if count = number(p.Last("count")); count < 1 || count > maxSessions {
			return c.fail("bsession: -count " + show.Clean(p.Last("count")) + ": want a number from 1 to " + strconv.Itoa(maxSessions))
		}
	}
	if count > 1 && p.Has("a") {
		return c.fail("bsession: -a is for one session")
	}
	args := []string{"-Is"}
	for _, g := range p.Given {
		switch g.Name {
		case "fgpu":
			args = append(args, "-gpu", "fgpu="+g.Value)
		case "count", "a":
		case "writable":
			args = append(args, "-writable")
		default:
			args = append(args, "-"+g.Name, g.Value)
		}
	}
	own := len(p.Operands) == 0
	if own {
		args = append(args, bsub.SessionCommand)
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	site, err := u.Cluster(c.ctx)
	if err != nil {
		return c.failErr(err)
	}
	in := c.input(site)
	if own {
		in.ReadFile = nil // a file of that name is none of ours
	}
	s, err := bsub.Build(append(args, p.Operands...), in)
	if err != nil {
		return c.fail(strings.TrimSuffix(show.CleanText(err.Error()), " Job not submitted."))
	}
	if own {
		s.RunShell()
	}
	c.notes(s.Notes)
	env := make([][]byte, len(s.Env))
	for i, v := range s.Env {
		env[i] = []byte(v)
	}
	for range count {
		job, err := u.Submit(c.ctx, queue.Submission{Token: rand.Text(), Spec: s.Spec, Script: s.Script, Env: env})
		if err != nil {
			return c.failErr(err)
		}
		c.notes(job.Notes)
		c.print(strconv.FormatInt(int64(job.Job), 10) + "\n")
		if p.Has("a") {
			_ = c.out.Flush() // seen again at the last Flush; what follows may take days
			return session.Run(c.ctx, c.sessionConfig(u, job.Job, queue.PtyShell, false))
		}
	}
	return 0
}
