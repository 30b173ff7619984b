package command

import (
	"strings"

	"fairslice/api/pb"
	"fairslice/bin/bcli/session"
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

func bexecCommand() *command {
	return &command{run: bexec, Command: option.Command{
		Name: "bexec", Usage: "[options] job [command [arguments]]", StopAtOperand: true,
		Summary: "runs a program beside a running job: in its container, on its GPU, as you",
		Example: "bexec 1234                     a shell there, with a terminal\nbexec 1234 nvidia-smi\nbexec -d /data '1235[3]' tar c results > results.tar",
		Options: []option.Option{
			{Name: "t", Help: "with a terminal, also when standard input or output is none"},
			{Name: "T", Help: "without a terminal: output and errors stay apart, and bytes stay as they are"},
			{Name: "d", Value: option.Required, Arg: "DIRECTORY", Help: "start there; else in the job's directory"},
			{Name: "e", Value: option.Required, Arg: "NAME=VALUE", Help: "a variable over the job's own; may be repeated"},
			{Name: "n", Help: "no standard input"},
		},
	}}
}

// bexec exits as the program does; 128 + the signal where one ended it, 255 where that is not known.
func bexec(c *call, p *option.Parsed) int {
	if len(p.Operands) == 0 {
		return c.fail("bexec: name the job: bexec job command (bjobs -r lists what runs)")
	}
	id, args := p.Operands[0], p.Operands[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if !c.legal([]string{id}) {
		return failed
	}
	order := &pb.ExecOrder{Dir: []byte(p.Last("d"))}
	for _, a := range args {
		order.Args = append(order.Args, []byte(a))
	}
	for _, v := range p.All("e") {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return c.fail("bexec: -e " + show.Clean(v) + ": want NAME=VALUE")
		}
		order.Env = append(order.Env, []byte(v))
	}
	in, out := session.TerminalOf(c.stdin), session.TerminalOf(c.stdout)
	order.Tty = !p.Has("T") && (p.Has("t") || in != nil && out != nil && !p.Has("n"))
	open := &pb.ExecOpen{Id: id, What: &pb.ExecOpen_Exec{Exec: order}}
	program := session.Program{Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr}
	if order.Tty {
		order.Term = c.env.Get("TERM")
		program.Terminal = in
		rows, cols := in.Size()
		open.Size = &pb.WindowSize{Rows: uint32(rows), Cols: uint32(cols)}
	}
	if p.Has("n") {
		program.Stdin = nil
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	var err error
	if program.Beside, err = u.Exec(c.ctx, open); err != nil {
		return c.failErr(err)
	}
	defer program.Close()
	code, err := session.Exec(c.ctx, program)
	if err != nil {
		return c.fail("bexec: " + show.CleanText(err.Error()))
	}
	return code
}
