package bsub

import (
	"fairslice/queue"
	"fairslice/queue/option"
)

// row is one option: how it is read and what it does.
type row struct {
	option.Option
	set func(a *applier, value string) error
	// reset takes the option back (bmod -Wn). Options with a reset can be changed by bmod.
	reset func(s *queue.Spec)
	// running says that bmod may change it while the job runs.
	running bool
	// group is what overrides what: an option of the command line drops the script's options of its group.
	group string
	// unsupported options are read, so that the error can say what is wrong.
	unsupported bool
}

type setter = func(a *applier, value string) error

// flag and value make a row that bmod cannot change; mod adds how it takes it back.
func flag(name, help string, set func(s *queue.Spec)) row {
	return row{
		Option: option.Option{Name: name, Help: help}, group: name,
		set: func(a *applier, _ string) error { set(a.spec); return nil },
	}
}

func value(name, arg, help string, set setter) row {
	return row{Option: option.Option{Name: name, Value: option.Required, Arg: arg, Help: help}, group: name, set: set}
}

// text makes a row whose value is kept as it is.
func text(name, arg, help string, field func(s *queue.Spec) *string) row {
	r := value(name, arg, help, func(a *applier, v string) error { *field(a.spec) = v; return nil })
	return r.mod(func(s *queue.Spec) { *field(s) = "" })
}

func (r row) mod(reset func(s *queue.Spec)) row { r.reset = reset; return r }
func (r row) number() row                       { r.Number = true; return r }
func (r row) in(group string) row               { r.group = group; return r }
func (r row) whileRunning() row                 { r.running = true; return r }
func (r row) hidden() row                       { r.Hidden = true; return r }
func (r row) title(heading string) row          { r.Group = heading; return r }

func unsupported(kind option.Kind, names ...string) []row {
	var out []row
	for _, n := range names {
		out = append(out, row{Option: option.Option{Name: n, Value: kind, Hidden: true}, group: n, unsupported: true})
	}
	return out
}

// accepted are words without effect here.
func accepted(kind option.Kind, names ...string) []row {
	var out []row
	for _, n := range names {
		out = append(out, row{
			Option: option.Option{Name: n, Value: kind, Hidden: true, Accepted: true}, group: n,
			set: func(*applier, string) error { return nil },
		})
	}
	return out
}

var rows = func() []row {
	var all []row
	for _, list := range [][]row{
		jobRows(), resourceRows(), fileRows(), timeRows(), limitRows(), sessionRows(),
		unsupported(option.None, "XF", "IX", "pack"),
		unsupported(option.Required, "f", "g", "sla", "Q", "k", "a", "data", "hostfile", "Lp", "outdir", "is", "We", "wa", "wt", "freq"),
		accepted(option.None, "rnc", "ar", "tty"),
		accepted(option.Required, "alloc_flags", "csm", "jsm", "step", "network", "core_isolation", "cn_cu", "cn_mem", "ln_mem", "ln_slots", "stage"),
	} {
		all = append(all, list...)
	}
	return all
}()

func find(name string) *row {
	for i := range rows {
		if rows[i].Name == name {
			return &rows[i]
		}
	}
	return nil
}

// Command is the table of bsub's options.
var Command = func() *option.Command {
	c := &option.Command{
		Name:          "bsub",
		Usage:         "[options] command [arguments]   or   bsub [options] < script",
		Summary:       "submits a job; its options may also stand in the script, as #BSUB lines",
		StopAtOperand: true,
		Example: `bsub -n 4 -M 8GB -W 2:00 -o train.%J.log -gpu fgpu=0.5 python train.py
bsub -J "sweep[1-100]%10" -o sweep.%J.%I.log ./run.sh
bsub -Is -image pytorch:2.4 bash
bsub < job.sh`,
	}
	for _, r := range rows {
		c.Options = append(c.Options, r.Option)
	}
	return c
}()

func jobRows() []row {
	return []row{
		text("q", "QUEUE", `queue, or "a b" for the first of several that takes the job`, func(s *queue.Spec) *string { return &s.Queue }).title("The job"),
		value("J", "NAME", `name; "NAME[1-100:2,205]%5" makes an array of which 5 elements run at once`, setName).
			mod(func(s *queue.Spec) { s.Name = "" }),
		text("jd", "TEXT", "description", func(s *queue.Spec) *string { return &s.Description }),
		text("P", "PROJECT", "project, for accounting", func(s *queue.Spec) *string { return &s.Project }),
		text("G", "ACCOUNT", "account of the fair-share tree", func(s *queue.Spec) *string { return &s.Account }),
		text("app", "PROFILE", "application profile", func(s *queue.Spec) *string { return &s.App }),
		value("sp", "NUMBER", "priority among your own jobs, the larger the earlier", setPriority).number().
			mod(func(s *queue.Spec) { s.Priority = 0 }),
		value("w", "CONDITION", "start only when it holds: done(12) && ended(name)", setDepend).
			mod(func(s *queue.Spec) { s.Depend = "" }),
		flag("ti", "end the job when its condition can no longer come true", func(s *queue.Spec) { s.TermOrphan = true }).
			mod(func(s *queue.Spec) { s.TermOrphan = false }),
		flag("H", "hold: wait for bresume", func(s *queue.Spec) { s.Hold = true }).
			mod(func(s *queue.Spec) { s.Hold = false }),
		flag("r", "start again when the host fails", func(s *queue.Spec) { s.Rerunnable = true }).in("r").whileRunning().
			mod(func(s *queue.Spec) { s.Rerunnable = false }),
		flag("rn", "never start again", func(s *queue.Spec) { s.Rerunnable = false }).in("r").whileRunning(),
		text("image", "REF|FILE.sif", "container image: name, name:tag or a SIF file", func(s *queue.Spec) *string { return &s.Image }),
		flag("writable", "let the job change its image, for itself; see bimage commit", func(s *queue.Spec) { s.Writable = true }).
			mod(func(s *queue.Spec) { s.Writable = false }),
		value("env", "LIST", `environment to pass: all (default), none, or "all, ~VAR1, VAR2=value"`, func(*applier, string) error { return nil }),
		value("L", "SHELL", "login shell that runs the command", setShell).mod(func(s *queue.Spec) { s.Shell = "" }),
		text("E", "COMMAND", "run before the job; when it fails, the job waits again", func(s *queue.Spec) *string { return &s.PreExec }),
		text("Ep", "COMMAND", "run after the job", func(s *queue.Spec) *string { return &s.PostExec }),
	}
}

func resourceRows() []row {
	return []row{
		value("n", "MIN[,MAX]", "slots (CPU cores)", setSlots).number().in("n").title("What it needs").
			mod(func(s *queue.Spec) { s.MinSlots, s.MaxSlots = 0, 0 }),
		value("nnodes", "N", "whole hosts", setHosts).number().in("n"),
		value("gpu", "OPTIONS|-", `GPU of each host: fgpu=0.5, num=2, gmem=4G, gmodel=NAME, joined by ":"`, setGPU).
			mod(func(s *queue.Spec) { s.GPU, s.GPURequest = "", nil }),
		value("R", "REQUIREMENT", "select[] rusage[] span[] order[]; several add up", addResReq).
			mod(func(s *queue.Spec) { s.ResReq, s.Resources = "", queue.ResReq{} }),
		value("m", "HOSTS", `hosts to run on: "host1 host2+2", first host "host1!"`, setWishes).
			mod(func(s *queue.Spec) { s.Hosts = nil }),
		text("U", "RESERVATION", "run in this advance reservation and nowhere else (brsvs lists them)", func(s *queue.Spec) *string { return &s.Reservation }),
		flag("x", "whole hosts, shared with no other job", func(s *queue.Spec) { s.Exclusive = true }).
			mod(func(s *queue.Spec) { s.Exclusive = false }),
	}
}

func fileRows() []row {
	out := func(name, help string, overwrite bool) row {
		r := value(name, "FILE", help, func(a *applier, v string) error {
			a.spec.Stdout, a.spec.Overwrite = v, overwrite
			return nil
		})
		return r.in("o").whileRunning().mod(func(s *queue.Spec) { s.Stdout, s.Overwrite = "", false })
	}
	err := func(name, help string, overwrite bool) row {
		r := value(name, "FILE", help, func(a *applier, v string) error {
			a.spec.Stderr, a.spec.OverwriteE = v, overwrite
			return nil
		})
		return r.in("e").whileRunning().mod(func(s *queue.Spec) { s.Stderr, s.OverwriteE = "", false })
	}
	return []row{
		out("o", "append output to FILE; %J is the job's id, %I the element", false).title("Files and mail"),
		out("oo", "write output to FILE, over what is there", true),
		err("e", "append errors to FILE; without it they go where the output goes", false),
		err("eo", "write errors to FILE, over what is there", true),
		text("i", "FILE", "standard input", func(s *queue.Spec) *string { return &s.Stdin }),
		text("cwd", "DIRECTORY", "working directory, made when missing", func(s *queue.Spec) *string { return &s.CWD }),
		text("u", "USER", "who gets the mail", func(s *queue.Spec) *string { return &s.MailUser }),
		flag("B", "mail when the job starts", func(s *queue.Spec) { s.NotifyB = true }).
			mod(func(s *queue.Spec) { s.NotifyB = false }),
		flag("N", "mail when the job ends", func(s *queue.Spec) { s.NotifyN = true }).in("N").
			mod(func(s *queue.Spec) { s.NotifyN = false }),
		flag("Ne", "mail when the job ends", func(s *queue.Spec) { s.NotifyN = true }).in("N").hidden(),
	}
}

func timeRows() []row {
	return []row{
		value("W", "[HOUR:]MINUTE", "run limit; the job is ended when it is reached", setRunLimit).number().whileRunning().title("Times and limits").
			mod(func(s *queue.Spec) { s.RunLimit = 0 }),
		value("b", "TIME", "start no earlier than [[[YEAR:]MONTH:]DAY:]HOUR:MINUTE, or +HOUR:MINUTE from now", setBegin).
			mod(func(s *queue.Spec) { s.Begin = noTime }),
		value("t", "TIME", "end the job at this time", setTerminate).
			mod(func(s *queue.Spec) { s.Terminate = noTime }),
	}
}

func limitRows() []row {
	list := []row{value("M", "MEMORY", "memory limit on each host, as in 8GB; the job is ended above it", setMemory).number().whileRunning().
		mod(func(s *queue.Spec) { s.Memory = 0 })}
	for _, l := range []struct{ name, arg, help string }{
		{"c", "[HOUR:]MINUTE", "CPU time"},
		{"C", "SIZE", "core file"},
		{"D", "SIZE", "data segment of each process"},
		{"F", "SIZE", "file written"},
		{"p", "NUMBER", "processes"},
		{"S", "SIZE", "stack of each process"},
		{"T", "NUMBER", "threads"},
		{"v", "SIZE", "virtual memory"},
	} {
		r := value(l.name, l.arg, "limit: "+l.help, func(a *applier, v string) error { return a.limit(l.name, v) }).number().
			mod(func(s *queue.Spec) { dropLimit(s, l.name) })
		r.running = l.name == "c"
		list = append(list, r)
	}
	return list
}

func sessionRows() []row {
	kind := func(name, help string, i queue.Interactive) row {
		return flag(name, help, func(s *queue.Spec) { s.Interactive = i }).in("I")
	}
	return []row{
		kind("I", "streams of the job are those of this command", queue.Pipes).title("Waiting and interactive sessions"),
		kind("Ip", "the same, with a terminal", queue.Pty),
		kind("Is", "the same, with a terminal in shell mode", queue.PtyShell),
		value("apps", "NAME,...", "apps of the image that the session is to have", setApps).
			mod(func(s *queue.Spec) { s.Apps = nil }),
		kind("K", "wait until the job has ended, and exit with its code", queue.Wait),
		kind("IS", "", queue.Pipes).hidden(), // the S of LSF asks for encryption, which we have anyway
		kind("ISp", "", queue.Pty).hidden(),
		kind("ISs", "", queue.PtyShell).hidden(),
	}
}
