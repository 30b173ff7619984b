package bsub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairslice/queue"
	"fairslice/queue/option"
)

// Input is all that a command line needs from outside.
type Input struct {
	Stdin    func() ([]byte, error)            // called only when there is no command
	ReadFile func(path string) ([]byte, error) // for a script named as the command; need not read more than queue.MaxScript+1 bytes
	Environ  []string
	CWD      string
	Host     string
	Umask    int
	Now      time.Time
	Unit     int64 // LSF_UNIT_FOR_LIMITS in bytes, 0 when the site has none
	MaxArray int   // largest index of an array
	// Consumables and Booleans are the site's own resources that -R may name.
	Consumables []string
	Booleans    []string
	Rows, Cols  uint16 // of the terminal, 0 without one
	Term        string
}

// Submission is a bsub command line understood.
type Submission struct {
	Spec    *queue.Spec
	Script  []byte // what is kept and run
	Env     []string
	Options []queue.Given // what Apply made Spec of
	// Quiet (BSUB_QUIET) leaves out the line that names the job.
	Quiet bool
	// CheckOnly (BSUB_CHK_RESREQ) submits nothing: Build has said whether -R is well formed.
	CheckOnly bool
	// DefaultQueue says that the queue is the user's LSB_DEFAULTQUEUE.
	DefaultQueue bool
	Help         bool
	Version      bool
	Notes        []string // for standard error
}

// Build understands a bsub command line. The text of an error is complete, as LSF prints it, and ends
// with "Job not submitted.".
func Build(args []string, in Input) (*Submission, error) {
	s, err := build(args, in)
	if err != nil {
		return nil, sentence(err, "Job not submitted.")
	}
	return s, nil
}

// sentence joins an error and the outcome with one full stop.
func sentence(err error, outcome string) error {
	return errors.New(strings.TrimRight(err.Error(), ". \n") + ". " + outcome)
}

func build(args []string, in Input) (*Submission, error) {
	p, err := Command.Parse(args)
	if err != nil {
		return nil, err
	}
	s := &Submission{Help: p.Help, Version: p.Version, Notes: p.Notes, Quiet: in.getenv("BSUB_QUIET") != ""}
	if s.Help || s.Version {
		return s, nil
	}
	s.Options = given(p.Given)
	s.Spec = &queue.Spec{SubHost: in.Host, SubCWD: in.CWD, Umask: in.Umask}
	if in.getenv("BSUB_CHK_RESREQ") != "" {
		s.CheckOnly = true
		for _, v := range values(s.Options, "R") {
			if err := queue.CheckResReq(v, in.resReqOptions()); err != nil {
				return nil, err
			}
		}
		return s, nil
	}
	// Before the script: whoever types it at the terminal should not learn of a mistake afterwards.
	if err := check(s.Options, in); err != nil {
		return nil, err
	}
	w, err := in.work(p.Operands)
	if err != nil {
		return nil, err
	}
	inScript, notes, err := directives(w.text)
	if err != nil {
		return nil, err
	}
	if err := check(inScript, in); err != nil {
		return nil, fmt.Errorf("In the script: %w", err)
	}
	s.Notes = append(s.Notes, notes...)
	s.Options = merge(inScript, s.Options)
	if q := in.getenv("LSB_DEFAULTQUEUE"); q != "" && len(only(s.Options, "q")) == 0 {
		s.Spec.Queue, s.DefaultQueue = q, true
	}
	s.Spec.Project = in.getenv("LSB_DEFAULTPROJECT")
	if notes, err = apply(s.Spec, s.Options, in); err != nil {
		return nil, err
	}
	s.Notes = append(s.Notes, notes...)
	s.Script, s.Spec.Command = w.script, w.command
	if s.Spec.Shell == "" {
		s.Spec.Shell = w.shell
	}
	if s.Spec.Interactive.Session() {
		s.Spec.Rows, s.Spec.Cols, s.Spec.Term = in.Rows, in.Cols, in.Term
	}
	rule, err := queue.ParseEnv(values(s.Options, "env"))
	if err != nil {
		return nil, err
	}
	s.Env = rule.Apply(in.Environ)
	return s, valid(s.Spec)
}

// valid is everything that is wrong with a Spec in one line.
func valid(s *queue.Spec) error {
	var texts []string
	for _, err := range s.Validate() {
		texts = append(texts, err.Error())
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// given turns parsed options into what Apply takes.
func given(list []option.Given) []queue.Given {
	out := make([]queue.Given, 0, len(list))
	for _, g := range list {
		q := queue.Given{Name: g.Name}
		if r := find(g.Name); g.Name == newCommand || r != nil && r.Value == option.Required {
			q.Values = []string{g.Value}
		}
		out = append(out, q)
	}
	return out
}

// check tries the options of one source by themselves, and refuses what cannot stand together there.
// Between the sources nothing conflicts: the command line replaces.
func check(list []queue.Given, in Input) error {
	has := map[string]bool{}
	for _, g := range list {
		if r := find(g.Name); r != nil {
			has[r.group], has["-"+g.Name] = true, true
		}
	}
	switch {
	case has["-K"] && len(only(list, "I", "Ip", "Is", "IS", "ISp", "ISs")) > 0:
		return errors.New("Options -K and -I cannot be used together")
	case has["-n"] && has["-nnodes"]:
		return errors.New("Options -n and -nnodes cannot be used together")
	}
	return Apply(&queue.Spec{}, list, in)
}

// merge puts the command line after the script's options and keeps of each group what counts: all of
// -R, all of the command line's -env or else the script's, and the last of any other.
func merge(script, line []queue.Given) []queue.Given {
	if len(only(line, "env")) > 0 {
		script = slices.DeleteFunc(slices.Clone(script), func(g queue.Given) bool { return g.Name == "env" })
	}
	all := append(slices.Clone(script), line...)
	last := map[string]int{}
	for i, g := range all {
		last[find(g.Name).group] = i
	}
	out := []queue.Given{}
	for i, g := range all {
		if group := find(g.Name).group; group == "R" || group == "env" || last[group] == i {
			out = append(out, g)
		}
	}
	return out
}

func only(list []queue.Given, names ...string) []queue.Given {
	var out []queue.Given
	for _, g := range list {
		for _, n := range names {
			if g.Name == n {
				out = append(out, g)
			}
		}
	}
	return out
}

func values(list []queue.Given, name string) []string {
	var out []string
	for _, g := range only(list, name) {
		out = append(out, g.Values...)
	}
	return out
}

// getenv is the variable's value; of several the first, as in the C library.
func (in *Input) getenv(name string) string {
	for _, kv := range in.Environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// limitUnit is what a bare number of -M and the other limits counts: KB where the site has set no
// unit, as in LSF. For resources it is MB, which their parsers know.
func (in *Input) limitUnit() int64 {
	if in.Unit > 0 {
		return in.Unit
	}
	return 1 << 10
}

func (in *Input) resReqOptions() queue.ResReqOptions {
	return queue.ResReqOptions{Unit: in.Unit, Consumables: in.Consumables, Booleans: in.Booleans}
}
