package command

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"time"

	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

// failed is the exit status of a command that could not do what it was asked: LSF's.
const failed = 255

// Env is what a process has beside its arguments and streams.
type Env struct {
	Environ []string
	Dir     string // working directory
	Host    string
	Umask   int
	Now     func() time.Time
	Loc     *time.Location // nil is the local one
}

// Get is the value of a variable; of several the last, as exec(3) leaves them.
func (e *Env) Get(name string) string {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(e.Environ[i], name); ok && v != "" && v[0] == '=' {
			return v[1:]
		}
	}
	return ""
}

// yes says that a variable is set to Y or y.
func (e *Env) yes(name string) bool { return strings.EqualFold(e.Get(name), "Y") }

// command is one command: its options, and what it does with them.
type command struct {
	option.Command
	run func(c *call, p *option.Parsed) int
	// raw, when set, takes the arguments unread: bsub and bmod have their own parser, badmin sub-commands.
	raw func(c *call, args []string) int
}

// table is every command, in the order in which bcli lists them.
var table = []struct {
	name string
	make func() *command
}{
	{"bsub", bsubCommand},
	{"bjobs", bjobsCommand},
	{"bwhy", bwhyCommand},
	{"bkill", bkillCommand},
	{"bstop", bstopCommand},
	{"bresume", bresumeCommand},
	{"brequeue", brequeueCommand},
	{"bextend", bextendCommand},
	{"bmod", bmodCommand},
	{"bmodify", bmodCommand},
	{"bswitch", bswitchCommand},
	{"btop", btopCommand},
	{"bbot", bbotCommand},
	{"bpeek", bpeekCommand},
	{"battach", battachCommand},
	{"bsession", bsessionCommand},
	{"bexec", bexecCommand},
	{"bcp", bcpCommand},
	{"bapp", bappCommand},
	{"blogin", bloginCommand},
	{"bimage", bimageCommand},
	{"bhist", bhistCommand},
	{"bacct", bacctCommand},
	{"breport", breportCommand},
	{"busers", busersCommand},
	{"bugroup", bugroupCommand},
	{"bshare", bshareCommand},
	{"bbudget", bbudgetCommand},
	{"bqueues", bqueuesCommand},
	{"bhosts", bhostsCommand},
	{"bslice", bsliceCommand},
	{"brsvs", brsvsCommand},
	{"brsvadd", brsvaddCommand},
	{"brsvdel", brsvdelCommand},
	{"bparams", bparamsCommand},
	{"lsid", lsidCommand},
	{"lsclusters", lsclustersCommand},
	{"badmin", badminCommand},
	{"lsadmin", lsadminCommand},
}

// Names are the names that bcli answers to: links of these names run the command.
func Names() []string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].name
	}
	return names
}

// call is one run of one command.
type call struct {
	ctx    context.Context
	name   string
	stdin  io.Reader
	stdout io.Writer
	out    *bufio.Writer // to stdout; flushed when the command is done
	stderr io.Writer
	env    *Env
	dial   Dial
	style  show.Style
}

// Run runs the command named by the base name of args[0], or by the first word where that is bcli.
// It returns the exit status.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer, env Env, dial Dial) int {
	if len(args) == 0 {
		args = []string{"bcli"}
	}
	c := &call{ctx: context.Background(), name: path.Base(args[0]), stdin: stdin, stdout: stdout, stderr: stderr, env: &env, dial: dial}
	// The first write of a long listing should not wait for all of it, and a short one be a single write.
	c.out = bufio.NewWriterSize(stdout, 64<<10)
	c.style = show.Style{
		Now: env.Now(), Loc: env.Loc,
		Year: env.yes("LSB_DISPLAY_YEAR"), ShortHosts: env.Get("LSB_SHORT_HOSTLIST") == "1",
		BareID:  strings.EqualFold(env.Get("LSB_BJOBS_DISPLAY_ENH"), "N"),
		IDWidth: number(env.Get("LSB_JOBID_DISP_LENGTH")),
	}
	code := c.choose(args[1:])
	if err := c.out.Flush(); err != nil && code == 0 {
		if !errors.Is(err, errPipe) { // a reader that has seen enough, as head does, is no failure to talk about
			c.say(c.name + ": write the output: " + err.Error())
		}
		code = failed
	}
	return code
}

// choose finds the command and runs it.
func (c *call) choose(args []string) int {
	build := lookup(c.name)
	if build == nil {
		if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
			c.list()
			return 0
		}
		if args[0] == "--commands" { // for installing the links
			c.print(strings.Join(Names(), "\n") + "\n")
			return 0
		}
		if args[0] == "-V" || args[0] == "--version" {
			c.say(strings.TrimSuffix(show.Version("", &c.style), "\n"))
			return 0
		}
		if build = lookup(args[0]); build == nil {
			return c.fail(show.Clean(args[0]) + ": no such command; `bcli -h` lists them")
		}
		c.name, args = args[0], args[1:]
	}
	cmd := build()
	if cmd.raw != nil {
		return cmd.raw(c, args)
	}
	p, ok, code := c.parse(&cmd.Command, args)
	if !ok {
		return code
	}
	return cmd.run(c, p)
}

func lookup(name string) func() *command {
	for i := range table {
		if table[i].name == name {
			return table[i].make
		}
	}
	return nil
}

// list prints every command with its one sentence.
func (c *call) list() {
	c.print("bcli: the commands of the batch system in one program\n\nUsage: bcli command [arguments]\n\nCommands:\n")
	for _, row := range table {
		cmd := row.make()
		c.print("  " + row.name + strings.Repeat(" ", max(12-len(row.name), 1)) + cmd.Summary + "\n")
	}
	c.print("\nExample:\n  bcli bjobs -u all     the same as bjobs -u all\n")
}

// parse reads the options; ok is false when the command is over, with its exit status.
func (c *call) parse(table *option.Command, args []string) (p *option.Parsed, ok bool, code int) {
	p, err := table.Parse(args)
	if err != nil {
		return nil, false, c.fail(c.name + ": " + err.Error())
	}
	if c.helped(table, p.Help, p.Version) {
		return nil, false, 0
	}
	c.notes(p.Notes)
	return p, true, 0
}

// helped prints the help or the version where asked.
func (c *call) helped(table *option.Command, help, version bool) bool {
	switch {
	case help:
		c.print(table.Help())
	case version:
		c.say(strings.TrimSuffix(show.Version("", &c.style), "\n")) // on standard error, as LSF does
	}
	return help || version
}

func (c *call) notes(notes []string) {
	for _, n := range notes {
		c.say(n)
	}
}

// print writes to standard output. Errors are kept by the writer and seen at its Flush.
func (c *call) print(s string) { _, _ = c.out.WriteString(s) }

func (c *call) write(b []byte) { _, _ = c.out.Write(b) }

// say writes a line to standard error, after what was printed before it.
func (c *call) say(s string) {
	_ = c.out.Flush()                       // seen again at the last Flush
	_, _ = io.WriteString(c.stderr, s+"\n") // nowhere to tell of a failure
}

// fail says what went wrong, and is the exit status.
func (c *call) fail(s string) int {
	c.say(s)
	return failed
}

// failErr is fail for what batchd or the way to it answered: its text is complete.
func (c *call) failErr(err error) int { return c.fail(show.CleanText(err.Error())) }

// connect dials; where it cannot, it has said so.
func (c *call) connect() (Users, bool) {
	u, err := c.dial(c.env, c.say)
	if err != nil {
		c.failErr(err)
		return nil, false
	}
	return u, true
}

func number(s string) int {
	n := 0
	for _, d := range []byte(s) {
		if d < '0' || d > '9' || n > 1_000_000_000 {
			return 0
		}
		n = n*10 + int(d-'0')
	}
	return n
}
