package bsub

import (
	"errors"
	"strings"

	"fairslice/queue"
	"fairslice/queue/option"
)

// newCommand is bmod's option for another command.
const newCommand = "Z"

// Mod is a bmod command line understood.
type Mod struct {
	Refs    []string      // jobs, as given: 12, 12[3]
	Options []queue.Given // for Apply on a copy of each job's Spec
	Script  []byte        // what -Z gives the job to run; nil when it stays
	Help    bool
	Version bool
	Notes   []string
}

// ModCommand is the table of bmod's options: bsub's that can change, and for each a form with "n" at
// the end that takes it back.
var ModCommand = func() *option.Command {
	c := &option.Command{
		Name:    "bmod",
		Usage:   "[options] job ...",
		Summary: "changes jobs; -Wn, -Mn, -qn and so on take an option back",
		Example: `bmod -W 4:00 -M 16GB 1234
bmod -Wn 1234
bmod -J "%20" 1234`,
	}
	for _, r := range rows {
		if r.reset == nil && r.Name != "rn" {
			continue
		}
		if r.Name == "J" {
			r.Help = `new name; "%N" is how many elements of an array run at once, "%0" any number`
		}
		c.Options = append(c.Options, r.Option)
		if r.Name+"n" != "rn" && r.reset != nil {
			c.Options = append(c.Options, option.Option{Name: r.Name + "n", Hidden: true})
		}
	}
	c.Options = append(c.Options, option.Option{
		Name: newCommand, Value: option.Required, Arg: "COMMAND", Help: "run this instead", Group: "What runs",
	})
	return c
}()

// BuildMod understands a bmod command line. The text of an error is complete and ends with
// "Job not modified.".
func BuildMod(args []string, in Input) (*Mod, error) {
	m, err := buildMod(args, in)
	if err != nil {
		return nil, sentence(err, "Job not modified.")
	}
	return m, nil
}

func buildMod(args []string, in Input) (*Mod, error) {
	p, err := ModCommand.Parse(args)
	if err != nil {
		return nil, err
	}
	m := &Mod{Refs: p.Operands, Help: p.Help, Version: p.Version, Notes: p.Notes}
	if m.Help || m.Version {
		return m, nil
	}
	switch m.Options = given(p.Given); {
	case len(m.Refs) == 0:
		return nil, errors.New("Job ID must be specified")
	case len(m.Options) == 0:
		return nil, errors.New("No change is specified (bmod -h lists the options)")
	}
	for _, v := range values(m.Options, "J") {
		if strings.Contains(v, "[") {
			return nil, errors.New(`The index list of an array cannot be changed; -J "%N" changes how many elements run at once`)
		}
	}
	// Whether a job is an array only the daemon knows: here every one is.
	trial := &queue.Spec{Command: "trial", Array: &queue.Array{Ranges: []queue.Range{{First: 1, Last: 1, Step: 1}}}}
	notes, err := apply(trial, m.Options, in)
	if err != nil {
		return nil, err
	}
	m.Notes = append(m.Notes, notes...)
	if p.Has(newCommand) {
		m.Script = []byte(p.Last(newCommand) + "\n")
	}
	return m, nil
}

func setCommand(a *applier, v string) error {
	if strings.TrimSpace(v) == "" {
		return queue.ErrNoCommand
	}
	if strings.IndexByte(v, 0) >= 0 {
		return badArgument(newCommand, errors.New("it holds a NUL byte"))
	}
	a.spec.Command = cut(v, shownCommand)
	return nil
}
