package command

import (
	"strings"

	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/option"
)

const wantJobs = "Job ID or one of '-m', '-u' '-q' and '-J' must be specified."

// chosen is the Selection of a command that acts on jobs. Without ids only the newest of those that the
// options name is meant; the id 0 stands for all of them.
func (c *call) chosen(p *option.Parsed) (s queue.Selection, latest, ok bool) {
	if !c.legal(p.Operands) {
		return s, false, false
	}
	s = selection(p)
	if len(p.Operands) == 0 {
		if s.User == "" && s.Queue == "" && s.Name == "" && s.Host == "" {
			c.fail(wantJobs)
			return s, false, false
		}
		latest = true
	}
	return s, latest, true
}

// control sends a request and prints an outcome for each job, in the order given. Texts of success go to
// standard output, or to standard error where LSF has them there.
func (c *call) control(req queue.Control, quiet bool) int {
	u, ok := c.connect()
	if !ok {
		return failed
	}
	list, err := u.Control(c.ctx, req)
	if err != nil {
		return c.failErr(err)
	}
	if len(list) == 0 {
		return c.fail("No matching job found")
	}
	return c.outcomes(list, quiet)
}

func (c *call) outcomes(list []queue.Outcome, quiet bool) int {
	code := 0
	for _, o := range list {
		text := show.CleanText(o.Text)
		switch {
		case !o.OK:
			code = c.fail(text)
		case quiet:
			c.say(text)
		default:
			c.print(text + "\n")
		}
	}
	return code
}

var actOn = []option.Option{optName, optUser, optQueue, optHost}

func bkillCommand() *command {
	return &command{run: bkill, Command: option.Command{
		Name: "bkill", Usage: "[options] job ...",
		Summary: "ends jobs, or sends them a signal; the job 0 means all of yours",
		Example: "bkill 1234 '1235[3]' '1236[1-10]'\nbkill -s USR1 1234\nbkill -J 'train*' 0",
		Options: append([]option.Option{
			{Name: "s", Value: option.Required, Arg: "SIGNAL", Help: "send this signal only: a name or a number"},
			{Name: "d", Help: "the job ends as DONE"},
			{Name: "r", Help: "at once, and also when its host does not answer"},
			{Name: "b", Help: "many at once (always so here)"},
			{Name: "C", Value: option.Required, Arg: "TEXT", Help: "why; bjobs and bhist show it"},
			{Name: "l", Long: true, Help: "list the names of signals"},
		}, actOn...),
	}}
}

func bkill(c *call, p *option.Parsed) int {
	if p.Has("l") {
		c.print(strings.Join(signalNames[1:], " ") + "\n")
		return 0
	}
	sel, latest, ok := c.chosen(p)
	if !ok {
		return failed
	}
	req := queue.Control{Op: queue.OpKill, Select: sel, Latest: latest, Force: p.Has("r"), AsDone: p.Has("d"), Note: p.Last("C")}
	if p.Has("s") {
		sig, known := signalName(p.Last("s"))
		if !known {
			return c.fail(show.Clean(p.Last("s")) + ": Illegal signal value")
		}
		req.Signal = sig
		if sig != "KILL" { // that one ends the job like bkill itself, with its texts
			req.Op = queue.OpSignal
		}
	}
	return c.control(req, false)
}

// signalNames by their number on Linux.
var signalNames = [...]string{"", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
	"PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM",
	"PROF", "WINCH", "IO", "PWR", "SYS"}

// signalName reads TERM, SIGTERM or 15.
func signalName(s string) (string, bool) {
	if n := number(s); n > 0 && n < len(signalNames) {
		return signalNames[n], true
	}
	s = strings.TrimPrefix(strings.ToUpper(s), "SIG")
	for _, name := range signalNames[1:] {
		if s == name {
			return name, true
		}
	}
	return "", false
}

// act makes a command that does one thing to jobs.
func act(name string, op queue.Op, summary, example string) *command {
	return &command{
		Command: option.Command{Name: name, Usage: "[options] job ...", Summary: summary, Example: example,
			Options: append([]option.Option{
				{Name: "a", Help: "all that can be"},
				{Name: "C", Value: option.Required, Arg: "TEXT", Help: "why"},
			}, actOn...)},
		run: func(c *call, p *option.Parsed) int {
			if p.Has("a") && len(p.Operands) == 0 {
				p.Operands = []string{"0"}
			}
			sel, latest, ok := c.chosen(p)
			if !ok {
				return failed
			}
			return c.control(queue.Control{Op: op, Select: sel, Latest: latest, Note: p.Last("C")}, false)
		},
	}
}

func bstopCommand() *command {
	return act("bstop", queue.OpStop, "suspends jobs: running ones stop, waiting ones are held", "bstop 1234\nbstop -u alice 0")
}

func bresumeCommand() *command {
	return act("bresume", queue.OpResume, "lets suspended jobs go on", "bresume 1234\nbresume 0")
}

func brequeueCommand() *command {
	return &command{run: brequeue, Command: option.Command{
		Name: "brequeue", Usage: "[options] job ...",
		Summary: "ends jobs and lets them wait again, with the same ids",
		Example: "brequeue 1234\nbrequeue -e '1235[1-100]'     only the failed elements",
		Options: append([]option.Option{
			{Name: "a", Help: "whatever the state"},
			{Name: "d", Help: "those that are DONE"},
			{Name: "e", Help: "those that are EXIT"},
			{Name: "p", Help: "those that wait"},
			{Name: "r", Help: "those that run"},
			{Name: "H", Help: "hold them: PSUSP instead of PEND"},
		}, actOn...),
	}}
}

func brequeue(c *call, p *option.Parsed) int {
	sel, latest, ok := c.chosen(p)
	if !ok {
		return failed
	}
	req := queue.Control{Op: queue.OpRequeue, Select: sel, Latest: latest, Hold: p.Has("H")}
	for _, o := range []struct {
		option string
		state  queue.State
	}{{"d", queue.Done}, {"e", queue.Exit}, {"p", queue.Pend}, {"r", queue.Run}} {
		if p.Has(o.option) || p.Has("a") {
			req.Select.States = append(req.Select.States, o.state)
		}
	}
	return c.control(req, false)
}

func btopCommand() *command {
	return move("btop", queue.OpTop, "moves a waiting job before your others", "btop 1234\nbtop 1234 3     third from the top")
}

func bbotCommand() *command {
	return move("bbot", queue.OpBottom, "moves a waiting job behind your others", "bbot 1234\nbbot '1235[7]' 2")
}

func move(name string, op queue.Op, summary, example string) *command {
	return &command{
		Command: option.Command{Name: name, Usage: "job [position]", Summary: summary, Example: example,
			Options: []option.Option{optUser}},
		run: func(c *call, p *option.Parsed) int {
			position := 1
			switch {
			case len(p.Operands) == 0:
				return c.fail("Job ID must be specified.")
			case len(p.Operands) > 2:
				return c.fail(name + ": one job and a position are all it takes (" + name + " -h has examples)")
			case len(p.Operands) == 2:
				if position = number(p.Operands[1]); position < 1 {
					return c.fail(show.Clean(p.Operands[1]) + ": Position must be a positive number.")
				}
			}
			if !c.legal(p.Operands[:1]) {
				return failed
			}
			sel := queue.Selection{IDs: p.Operands[:1], User: p.Last("u")}
			return c.control(queue.Control{Op: op, Select: sel, Position: position}, true)
		},
	}
}

func bswitchCommand() *command {
	return &command{run: bswitch, Command: option.Command{
		Name: "bswitch", Usage: "[options] queue job ...",
		Summary: "moves jobs to another queue; the job 0 means all of yours",
		Example: "bswitch night 1234 1235\nbswitch -q normal night 0",
		Options: actOn,
	}}
}

func bswitch(c *call, p *option.Parsed) int {
	if len(p.Operands) == 0 {
		return c.fail("Destination queue must be specified.")
	}
	to := p.Operands[0]
	p.Operands = p.Operands[1:]
	sel, latest, ok := c.chosen(p)
	if !ok {
		return failed
	}
	return c.control(queue.Control{Op: queue.OpSwitch, Select: sel, Latest: latest, Queue: to}, false)
}
