package option

import (
	"errors"
	"fmt"
	"strings"
)

// chunks cuts one argument that holds blanks into options with their values: "-q normal -n 2" gives
// "-q normal" and "-n 2". A new chunk begins at a word outside quotes that is an option of the table,
// so a value may hold blanks ("-o jobid stat") and even dashes. It is false when the argument is one
// option with the value attached (-Rselect[a] rusage[b]), which has no blank after its name.
func (p *parser) chunks(arg string) ([]string, bool) {
	first, _, _ := strings.Cut(strings.ReplaceAll(arg, "\t", " "), " ")
	if p.Find(first[1:]) == nil && !p.plainWord(first) {
		return nil, false
	}
	var out []string
	start, quote := 0, byte(0)
	for i := range len(arg) {
		c := arg[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '-' && i > 0 && (arg[i-1] == ' ' || arg[i-1] == '\t'):
			word := arg[i:]
			if end := strings.IndexAny(word, " \t"); end >= 0 {
				word = word[:end]
			}
			if p.Find(word[1:]) != nil || p.plainWord(word) {
				out = append(out, arg[start:i])
				start = i
			}
		}
	}
	return append(out, arg[start:]), true
}

// plainWord says that word is a letter with a number attached, -n2: as clear as an option of the table.
func (p *parser) plainWord(word string) bool {
	if len(word) < 3 || !startsNumber(word[2:]) {
		return false
	}
	o := p.Find(word[1:2])
	return o != nil && o.Number && o.Value == Required
}

// several reads what chunks cut.
func (p *parser) several(chunks []string) error {
	for _, chunk := range chunks {
		word, value := chunk, ""
		if i := strings.IndexAny(chunk, " \t"); i >= 0 {
			word, value = chunk[:i], strings.Trim(chunk[i:], " \t")
		}
		o := p.Find(word[1:])
		switch {
		case o == nil: // a letter with its number
			o = p.Find(word[1:2])
			if value != "" {
				return fmt.Errorf("%s after %s is not an option", quoted(value), quoted(word))
			}
			p.add(o, unquote(word[2:]))
		case o.Value == None && value != "":
			return fmt.Errorf("%s: option %s takes no value", quoted(chunk), word)
		case o.Value == None:
			p.add(o, "")
		case value == "":
			return fmt.Errorf("option %s needs a value%s", word, argHint(o))
		default:
			p.add(o, unquote(value))
		}
	}
	return nil
}

// unknown says what is near, or where the list is.
func (p *parser) unknown(word string) error {
	msg := quoted(word) + ": unknown option"
	if near := p.near(word[1:]); near != "" {
		msg += fmt.Sprintf("; is -%s meant?", near)
	}
	return errors.New(msg + fmt.Sprintf(" (%s -h lists the options)", p.Name))
}

// quoted is shown with quotes in any case.
func quoted(s string) string {
	if s = shown(s); strings.HasPrefix(s, `"`) {
		return s
	}
	return `"` + s + `"`
}

// near is the one word of the table that differs least from name, at most in two letters and in less
// than half of its length, "" when there is none or more than one.
func (p *parser) near(name string) string {
	name = strings.TrimLeft(name, "-")
	if word, _, ok := strings.Cut(name, "="); ok {
		name = word
	}
	if len(name) > 40 {
		return ""
	}
	best, limit, tie := "", 3, false
	for i := range p.Options {
		o := &p.Options[i]
		if o.Hidden || len(o.Name) < 2 && len(name) > 1 {
			continue
		}
		d := distance(name, o.Name)
		if 2*d >= max(len(name), len(o.Name)) && !strings.EqualFold(name, o.Name) {
			continue
		}
		switch {
		case d < limit:
			best, limit, tie = o.Name, d, false
		case d == limit && limit < 3:
			tie = true
		}
	}
	if tie {
		return ""
	}
	return best
}

// distance is how many letters must be changed, added, left out or swapped with their neighbour.
func distance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
