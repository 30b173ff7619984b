package show

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Field is a column that a listing can have under -o. Value appends the text, and nothing for an empty one.
type Field[T any] struct {
	Name    string // lower case
	Width   int    // what "name:" asks for
	Aliases []string
	Size    bool // takes a unit
	Tail    bool // a cut keeps the end
	Value   func(b []byte, v T, st *Style, unit byte) []byte
}

// Column is a Field as -o asked for it.
type Column[T any] struct {
	Field *Field[T]
	Title string
	Width int // exactly; 0 is as long as it is
	Right bool
	Unit  byte // 0 chooses
}

// Format is a parsed -o.
type Format[T any] struct {
	Columns   []Column[T]
	Delimiter string
}

const maxWidth = 10_000

// ParseFormat reads LSF's output format: "field[:[-][width]][:unit] … [delimiter='c']". Names and aliases
// in any case; the order is kept and a field may come twice.
func ParseFormat[T any](fields []Field[T], s string) (*Format[T], error) {
	f := &Format[T]{Delimiter: " "}
	for {
		s = strings.TrimLeft(s, " \t\n\r")
		if s == "" {
			break
		}
		if len(s) >= 10 && strings.EqualFold(s[:10], "delimiter=") {
			d, rest, err := delimiter(s[10:])
			if err != nil {
				return nil, err
			}
			f.Delimiter, s = d, rest
			continue
		}
		word := s
		if i := strings.IndexAny(s, " \t\n\r"); i >= 0 {
			word, s = s[:i], s[i:]
		} else {
			s = ""
		}
		if strings.EqualFold(word, "all") {
			for i := range fields {
				f.Columns = append(f.Columns, Column[T]{Field: &fields[i], Title: strings.ToUpper(fields[i].Name)})
			}
			continue
		}
		c, err := column(fields, word)
		if err != nil {
			return nil, err
		}
		f.Columns = append(f.Columns, c)
	}
	if len(f.Columns) == 0 {
		return nil, errors.New("the output format names no field; known fields: " + known(fields))
	}
	return f, nil
}

// delimiter reads the character after "delimiter=", quoted or not.
func delimiter(s string) (d, rest string, err error) {
	bad := errors.New("delimiter must be exactly one character, as in delimiter='|'")
	if s == "" {
		return "", "", bad
	}
	if q := s[0]; q == '\'' || q == '"' {
		end := strings.IndexByte(s[1:], q)
		if end == 0 && len(s) > 2 && s[2] == q { // the quote itself, quoted
			return string(q), s[3:], nil
		}
		if end < 0 {
			return "", "", bad
		}
		d, rest = s[1:1+end], s[2+end:]
	} else if i := strings.IndexAny(s, " \t\n\r"); i >= 0 {
		d, rest = s[:i], s[i:]
	} else {
		d = s
	}
	if utf8.RuneCountInString(d) != 1 || !utf8.ValidString(d) || d != Clean(d) && d != "\t" {
		return "", "", bad
	}
	return d, rest, nil
}

func column[T any](fields []Field[T], word string) (Column[T], error) {
	parts := strings.Split(word, ":")
	field := find(fields, parts[0])
	if field == nil {
		return Column[T]{}, fmt.Errorf("%s: unknown output field; known fields: %s", Clean(strconv.Quote(parts[0])), known(fields))
	}
	c := Column[T]{Field: field, Title: strings.ToUpper(field.Name)}
	if len(parts) > 3 {
		return c, fmt.Errorf("%q: want field:width:unit", word)
	}
	if len(parts) > 1 {
		w, right := strings.CutPrefix(parts[1], "-")
		c.Right, c.Width = right, field.Width
		if w != "" {
			n, err := strconv.Atoi(w)
			if err != nil || n < 1 || n > maxWidth || w[0] == '+' {
				return c, fmt.Errorf("%q: a width is a number from 1 to %d", word, maxWidth)
			}
			c.Width = n
		}
	}
	if len(parts) > 2 {
		u := strings.ToUpper(parts[2])
		if !field.Size {
			return c, fmt.Errorf("%q: %s takes no unit", word, field.Name)
		}
		if len(u) != 1 || !strings.Contains(units+"S", u) {
			return c, fmt.Errorf("%q: a unit is one of K M G T P E Z, or S for what suits the size", word)
		}
		c.Unit = u[0]
	}
	return c, nil
}

func find[T any](fields []Field[T], name string) *Field[T] {
	for i := range fields {
		if strings.EqualFold(fields[i].Name, name) {
			return &fields[i]
		}
	}
	for i := range fields {
		for _, a := range fields[i].Aliases {
			if strings.EqualFold(a, name) {
				return &fields[i]
			}
		}
	}
	return nil
}

func known[T any](fields []Field[T]) string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return strings.Join(names, " ")
}

// Has says that a field is among the columns.
func (f *Format[T]) Has(name string) bool {
	for i := range f.Columns {
		if f.Columns[i].Field.Name == name {
			return true
		}
	}
	return false
}

// Header appends the line of titles.
func (f *Format[T]) Header(b []byte) []byte {
	for i := range f.Columns {
		if i > 0 {
			b = append(b, f.Delimiter...)
		}
		at := len(b)
		b = append(b, f.Columns[i].Title...)
		c := f.Columns[i]
		b = fit(b, at, c.Width, c.Right, false)
	}
	return append(b, '\n')
}

// Row appends one line.
func (f *Format[T]) Row(b []byte, v T, st *Style) []byte {
	for i := range f.Columns {
		if i > 0 {
			b = append(b, f.Delimiter...)
		}
		c := &f.Columns[i]
		at := len(b)
		b = c.Field.Value(b, v, st, c.Unit)
		if len(b) == at {
			b = append(b, '-')
		}
		b = fit(b, at, c.Width, c.Right, c.Field.Tail)
	}
	return append(b, '\n')
}

// fit cleans the value that begins at at, and cuts and pads it to width.
func fit(b []byte, at, w int, right, keepEnd bool) []byte {
	for _, c := range b[at:] {
		if c < ' ' || c > '~' {
			return fitSlow(b, at, w, right, keepEnd)
		}
	}
	n := len(b) - at
	switch {
	case w == 0 || n == w:
		return b
	case n < w && !right:
		return Spaces(b, w-n)
	}
	return fitSlow(b, at, w, right, keepEnd)
}

func fitSlow(b []byte, at, w int, right, keepEnd bool) []byte {
	s := Clean(string(b[at:]))
	b = b[:at]
	n := width(s)
	if w > 0 && n > w {
		if keepEnd {
			s = "*" + tail(s, w-1)
		} else {
			s = head(s, w)
		}
		n = w
	}
	if right {
		b = Spaces(b, w-n)
	}
	b = append(b, s...)
	if !right {
		b = Spaces(b, w-n)
	}
	return b
}

// Record adds one record to a document. A field that was asked twice comes once, since a JSON object
// has each key once.
func (f *Format[T]) Record(j *JSON, v T, st *Style) {
	j.Open()
	var scratch [256]byte
	for i := range f.Columns {
		c := &f.Columns[i]
		if f.before(i) {
			continue
		}
		j.String(c.Title, string(c.Field.Value(scratch[:0], v, st, c.Unit)))
	}
	j.Close()
}

func (f *Format[T]) before(i int) bool {
	for k := range i {
		if f.Columns[k].Field == f.Columns[i].Field {
			return true
		}
	}
	return false
}
