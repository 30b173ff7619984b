package command

import (
	"strings"

	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/option"
)

// Options that many commands have.
var (
	optUser    = option.Option{Name: "u", Value: option.Required, Arg: "USER", Help: "jobs of this user; all for everybody's"}
	optQueue   = option.Option{Name: "q", Value: option.Required, Arg: "QUEUE", Help: "jobs in this queue"}
	optName    = option.Option{Name: "J", Value: option.Required, Arg: "NAME", Help: "jobs of this name; * stands for anything"}
	optHost    = option.Option{Name: "m", Value: option.Required, Arg: "HOST", Help: "jobs on this host"}
	optProject = option.Option{Name: "P", Value: option.Required, Arg: "PROJECT", Help: "jobs of this project"}
	optAccount = option.Option{Name: "G", Value: option.Required, Arg: "ACCOUNT", Help: "jobs charged to this account"}
	optJSON    = option.Option{Name: "json", Help: "as a JSON document"}
	optNoHead  = option.Option{Name: "noheader", Help: "without the line of titles"}
	optWide    = option.Option{Name: "w", Help: "nothing is cut"}
	optFormat  = option.Option{Name: "o", Value: option.Required, Arg: "FORMAT", Help: `columns: "field[:[-][width]][:unit] ... [delimiter='c']"`}
)

// selection is what the options and the ids name.
func selection(p *option.Parsed) queue.Selection {
	return queue.Selection{
		IDs: p.Operands, User: p.Last("u"), Queue: p.Last("q"), Name: p.Last("J"), Host: p.Last("m"),
		Project: p.Last("P"), Account: p.Last("G"),
	}
}

// scoped adds the states that -a -d -e -p -r -s ask for. Several are a union.
func scoped(s *queue.Selection, p *option.Parsed) {
	if p.Has("a") {
		s.Scope = queue.ScopeAll
		return
	}
	type choice struct {
		option string
		scope  queue.Scopes
		states []queue.State
	}
	var chosen []choice
	for _, ch := range []choice{
		{"d", queue.ScopeFinished, []queue.State{queue.Done, queue.Exit}},
		{"e", "", []queue.State{queue.Exit}},
		{"p", queue.ScopePending, []queue.State{queue.Pend, queue.PSusp}},
		{"r", queue.ScopeRunning, []queue.State{queue.Run}},
		{"s", queue.ScopeSuspended, []queue.State{queue.PSusp, queue.USusp, queue.SSusp}},
	} {
		if p.Has(ch.option) {
			chosen = append(chosen, ch)
		}
	}
	if len(chosen) == 1 && chosen[0].scope != "" {
		s.Scope = chosen[0].scope
		return
	}
	for _, ch := range chosen {
		s.Scope = queue.ScopeAll
		s.States = append(s.States, ch.states...)
	}
}

// legal says that every id is one; the first that is not has been told of.
func (c *call) legal(ids []string) bool {
	for _, id := range ids {
		if !isID(id) {
			c.fail(show.Clean(id) + ": Illegal job ID.")
			return false
		}
	}
	return true
}

// isID says that s is "12", "12[3]" or "12[1-4,7]". Whether such a job exists, batchd knows.
func isID(s string) bool {
	digits := func(s string) bool { return s != "" && len(s) < 19 && strings.Trim(s, "0123456789") == "" }
	id, list, indexed := strings.Cut(s, "[")
	if !digits(id) {
		return false
	}
	if !indexed {
		return true
	}
	list, closed := strings.CutSuffix(list, "]")
	if !closed {
		return false
	}
	for _, part := range strings.Split(list, ",") {
		part, step, stepped := strings.Cut(part, ":")
		first, last, ranged := strings.Cut(part, "-")
		if !digits(first) || ranged && !digits(last) || stepped && !digits(step) {
			return false
		}
	}
	return true
}
