package option

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says whether an option takes a value.
type Kind int

// Kinds of options.
const (
	None     Kind = iota // a flag
	Required             // takes the rest of the argument or the next argument
)

// Option is one row of a command's table.
type Option struct {
	Name  string // without the dash
	Value Kind
	// Long says that a one-letter name is only ever a word by itself, never bundled or with a value
	// attached. Names of several letters are words anyway.
	Long bool
	// Number says that a value attached to the name begins with a digit, so that -n2 is an option and
	// a misspelt -nodes is not.
	Number bool
	// Accepted options are read and have no effect; a note says so.
	Accepted bool
	// Hidden options are left out of the help.
	Hidden bool
	Group  string // heading in the help; an empty one continues the group above
	Arg    string // name of the value in the help
	Help   string
}

// Command is the table of one command.
type Command struct {
	Name    string
	Usage   string // the words after the name
	Summary string // one sentence
	Example string // lines of a shell session
	Options []Option
	// StopAtOperand ends the options at the first word that is none (bsub): the rest are operands,
	// whatever they look like.
	StopAtOperand bool
}

// Given is one option as it was given. The value of a flag is "".
type Given struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Parsed is a command line after Parse.
type Parsed struct {
	Given    []Given // in the order given
	Operands []string
	Notes    []string // for standard error
	// Help and Version say that -h, --help or -V was given; nothing else is then to be trusted.
	Help    bool
	Version bool
}

// Has says whether an option was given.
func (p *Parsed) Has(name string) bool {
	for _, g := range p.Given {
		if g.Name == name {
			return true
		}
	}
	return false
}

// Last is the value that was given last, "" without one.
func (p *Parsed) Last(name string) string {
	for i := len(p.Given) - 1; i >= 0; i-- {
		if p.Given[i].Name == name {
			return p.Given[i].Value
		}
	}
	return ""
}

// All are the values in the order given.
func (p *Parsed) All(name string) []string {
	var out []string
	for _, g := range p.Given {
		if g.Name == name {
			out = append(out, g.Value)
		}
	}
	return out
}

// Parse reads the arguments after the command's name. The text of an error names the argument and
// says what to do; it has no command name in front and no full stop.
func (c *Command) Parse(args []string) (*Parsed, error) {
	p := &parser{Command: c, out: &Parsed{}}
	for i := 0; i < len(args) && !p.out.Help && !p.out.Version; {
		word := args[i]
		if word == "--" {
			p.out.Operands = append(p.out.Operands, args[i+1:]...)
			break
		}
		if len(word) < 2 || word[0] != '-' {
			if c.StopAtOperand {
				p.out.Operands = append(p.out.Operands, args[i:]...)
				break
			}
			p.out.Operands = append(p.out.Operands, word)
			i++
			continue
		}
		used, err := p.option(word, args[i+1:])
		if err != nil {
			return nil, err
		}
		i += 1 + used
	}
	return p.out, nil
}

// Find is the table's row for a name, nil without one.
func (c *Command) Find(name string) *Option {
	for i := range c.Options {
		if c.Options[i].Name == name {
			return &c.Options[i]
		}
	}
	return nil
}

type parser struct {
	*Command
	out *Parsed
}

// option reads word, which begins with a dash, and returns how many of the following arguments it took.
func (p *parser) option(word string, next []string) (int, error) {
	name := word[1:]
	if o := p.Find(name); o != nil {
		return p.take(o, word, "", false, next)
	}
	switch word {
	case "--help", "-help", "-h":
		p.out.Help = true
		return 0, nil
	case "--version", "-V":
		p.out.Version = true
		return 0, nil
	}
	if strings.ContainsAny(word, " \t") {
		if chunks, ok := p.chunks(word); ok {
			return 0, p.several(chunks)
		}
	}
	flags, last, value := p.letters(name)
	long, longValue := p.longAttached(name)
	if long != nil {
		if flags != nil || last != nil {
			return 0, fmt.Errorf("%s can be read in two ways: leave a blank after the option, as in -%s %s or %s",
				shown(word), long.Name, shown(longValue), spelled(flags, last, shown(value)))
		}
		return p.take(long, word, longValue, true, nil)
	}
	if flags == nil && last == nil {
		return 0, p.unknown(word)
	}
	for _, o := range flags {
		p.add(o, "")
	}
	if last == nil {
		return 0, nil
	}
	return p.take(last, "-"+last.Name, value, value != "", next)
}

// take adds an option, with the attached value or the next argument.
func (p *parser) take(o *Option, word, value string, attached bool, next []string) (int, error) {
	if o.Value == None {
		p.add(o, "")
		return 0, nil
	}
	if attached {
		p.add(o, unquote(value))
		return 0, nil
	}
	if len(next) == 0 {
		return 0, fmt.Errorf("option %s needs a value%s", word, argHint(o))
	}
	// A template with an empty value must not swallow the next option as a value.
	if v := next[0]; len(v) > 1 && v[0] == '-' && p.Find(v[1:]) != nil {
		return 0, fmt.Errorf("option %s needs a value%s, but the option %s follows", word, argHint(o), v)
	}
	p.add(o, next[0])
	return 1, nil
}

func (p *parser) add(o *Option, value string) {
	p.out.Given = append(p.out.Given, Given{o.Name, value})
	if o.Accepted {
		p.out.Notes = append(p.out.Notes, fmt.Sprintf("option -%s is accepted and has no effect here", o.Name))
	}
}

// letters reads name as flags, of which the last may take a value. Both results are nil when name
// cannot be read so.
func (p *parser) letters(name string) (flags []*Option, last *Option, value string) {
	for i := range len(name) {
		o := p.Find(name[i : i+1])
		if o == nil || o.Long {
			return nil, nil, ""
		}
		if o.Value == None {
			flags = append(flags, o)
			continue
		}
		value = name[i+1:]
		if o.Number && value != "" && !startsNumber(value) {
			return nil, nil, ""
		}
		return flags, o, value
	}
	return flags, nil, ""
}

// longAttached finds the longest name of several letters that takes a value and begins name.
func (p *parser) longAttached(name string) (*Option, string) {
	var best *Option
	for i := range p.Options {
		o := &p.Options[i]
		if len(o.Name) < 2 || o.Value != Required || len(name) <= len(o.Name) || !strings.HasPrefix(name, o.Name) {
			continue
		}
		if o.Number && !startsNumber(name[len(o.Name):]) {
			continue
		}
		if best == nil || len(o.Name) > len(best.Name) {
			best = o
		}
	}
	if best == nil {
		return nil, ""
	}
	return best, name[len(best.Name):]
}

func startsNumber(s string) bool {
	s = strings.TrimLeft(s, `'"`)
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

// unquote strips one pair of quotes around the whole of s: programs that build a command line without
// a shell leave them in, as in -R'select[mem>1]'.
func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] && strings.IndexByte(s[1:n-1], s[0]) < 0 {
		return s[1 : n-1]
	}
	return s
}

func spelled(flags []*Option, last *Option, value string) string {
	var words []string
	for _, o := range flags {
		words = append(words, "-"+o.Name)
	}
	if last != nil {
		words = append(words, "-"+last.Name)
		if value != "" {
			words = append(words, value)
		}
	}
	return strings.Join(words, " ")
}

// shown is a piece of the user's text as an error shows it: one line, and not all of a long one.
func shown(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	if q := strconv.Quote(s); len(q) != len(s)+2 {
		return q
	}
	return s
}

func argHint(o *Option) string {
	if o.Arg == "" {
		return ""
	}
	return fmt.Sprintf(" (-%s %s)", o.Name, o.Arg)
}
