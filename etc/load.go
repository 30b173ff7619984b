package etc

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mistake is one thing wrong with a configuration.
type Mistake struct {
	File   string // as it was named; "" for a configuration made by a program
	Line   int    // from 1; 0 when the mistake has no place
	Column int    // from 1, in bytes
	Key    string // as in `queue "short": max_run_limit`; "" for the file as a whole
	Msg    string // what is wrong, and what is allowed
}

// String is the mistake as a compiler would print it.
func (m Mistake) String() string {
	place := m.File
	if m.Line > 0 {
		place = strings.TrimPrefix(fmt.Sprintf("%s:%d:%d", m.File, m.Line, m.Column), ":")
	}
	parts := slices.DeleteFunc([]string{place, m.Key, m.Msg}, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ")
}

// Mistakes is all that is wrong with a configuration, in the order of the file.
type Mistakes []Mistake

// Error gives one line per mistake.
func (ms Mistakes) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// Load reads a configuration file. A file that is not in order gives Mistakes.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return Parse(filepath.Base(path), data)
}

// Parse reads a configuration; name stands for the file in messages. What data leaves out has the value
// of Default. When anything is wrong the error is of type Mistakes, and there is no Config.
func Parse(name string, data []byte) (*Config, error) {
	// Editors of some systems begin a text with a byte order mark, which TOML does not know.
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	doc, whole, mistakes := readTree(data)
	c := base()
	r := &report{doc: doc, bad: map[*item]bool{}, mistakes: mistakes}
	decode(r, doc.root, c)
	c.complete(doc.root.child("default_queue") != nil, doc.root.child("scheduler").child("policy") != nil,
		doc.root.child("node").child("batchd") != nil)
	if whole {
		validate(r, c)
	}
	if ms := r.sorted(name); len(ms) > 0 {
		return nil, ms
	}
	return c, nil
}

// Validate judges a configuration made by a program, in the same words but without places.
func (c *Config) Validate() error {
	r := &report{}
	validate(r, c)
	if ms := r.sorted(""); len(ms) > 0 {
		return ms
	}
	return nil
}

// report collects mistakes. Each value is blamed once: what a later check says about a value that could not
// even be read would only confuse.
type report struct {
	doc      *document // nil without a file
	bad      map[*item]bool
	mistakes []Mistake
}

// path names a value: keys as strings, places in lists as ints.
type path []any

func (p path) with(more ...any) path { return append(slices.Clone(p), more...) }

// find is the item at p, or the closest one around it when p was left out of the file.
func (r *report) find(p path) (i *item, exact bool) {
	if r.doc == nil {
		return nil, false
	}
	i = r.doc.root
	for _, step := range p {
		var next *item
		switch s := step.(type) {
		case string:
			next = i.child(s)
		case int:
			if s < len(i.list) {
				next = i.list[s]
			}
		}
		if next == nil {
			return i, false
		}
		i = next
	}
	return i, true
}

// label is p for people: lists of tables are told apart by the name in them.
func (r *report) label(p path) string {
	var b strings.Builder
	for n, step := range p {
		switch s := step.(type) {
		case string:
			if n > 0 {
				b.WriteString(map[bool]string{true: ".", false: ": "}[isKey(p[n-1])])
			}
			if !isWord(s, "-") { // a key in quotes may hold anything
				s = quote(s)
			}
			b.WriteString(s)
		case int:
			name := ""
			if i, exact := r.find(p[:n+1]); exact && i.child("name") != nil {
				name = i.child("name").text
			}
			if name != "" {
				fmt.Fprintf(&b, " %s", quote(name))
			} else {
				fmt.Fprintf(&b, " %d", s+1)
			}
		}
	}
	return b.String()
}

func isKey(step any) bool {
	_, ok := step.(string)
	return ok
}

// say records a mistake about the value at p.
func (r *report) say(p path, format string, args ...any) {
	m := Mistake{Key: r.label(p), Msg: fmt.Sprintf(format, args...)}
	if r.doc != nil {
		i, exact := r.find(p)
		if exact && r.bad[i] {
			return
		}
		if exact {
			r.bad[i] = true
		}
		if len(p) > 0 && i != r.doc.root {
			m.Line, m.Column = r.doc.position(i.offset)
		}
	}
	r.mistakes = append(r.mistakes, m)
}

// ok says that nothing was wrong so far with the values at these places.
func (r *report) ok(ps ...path) bool {
	for _, p := range ps {
		if i, exact := r.find(p); exact && r.bad[i] {
			return false
		}
	}
	return true
}

// line says where the value at p stands, for messages that point at another place of the file.
func (r *report) line(p path) string {
	i, exact := r.find(p)
	if !exact {
		return ""
	}
	line, _ := r.doc.position(i.offset)
	return fmt.Sprintf(" (line %d)", line)
}

// sorted is every mistake in the order of the file, those without a place last.
func (r *report) sorted(file string) Mistakes {
	ms := Mistakes(r.mistakes)
	for i := range ms {
		ms[i].File = file
	}
	slices.SortStableFunc(ms, func(a, b Mistake) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(ms)
}

func trimPrefix(s string) string { return strings.TrimPrefix(s, "toml: ") }
