package show

import (
	"strconv"
	"unicode/utf8"
)

// JSON builds LSF's frame: a command, a counter and records whose values are strings. The counter
// stands before the records, so they are kept until End.
type JSON struct {
	command, counter string
	records          []byte
	n                int
	errors           int
	fields           int
	depth            int
}

// NewJSON begins a document. counter is the word of the number of records: JOBS, QUEUES, HOSTS.
func NewJSON(command, counter string) *JSON { return &JSON{command: command, counter: counter} }

// Open begins a record.
func (j *JSON) Open() {
	if j.n > 0 {
		j.records = append(j.records, ',', '\n')
	}
	j.n++
	j.fields = 0
	j.records = append(j.records, "    {"...)
}

// Close ends a record.
func (j *JSON) Close() { j.records = append(j.records, "\n    }"...) }

func (j *JSON) key(name string) {
	if j.fields > 0 {
		j.records = append(j.records, ',')
	}
	j.fields++
	j.records = append(j.records, '\n')
	j.records = Spaces(j.records, 6+2*j.depth)
	j.records = Quote(j.records, name)
	j.records = append(j.records, ':')
}

// String adds a field with a text.
func (j *JSON) String(name, value string) {
	j.key(name)
	j.records = Quote(j.records, value)
}

// Int adds a field with a number: in our own listings, LSF's have strings only.
func (j *JSON) Int(name string, v int64) {
	j.key(name)
	j.records = strconv.AppendInt(j.records, v, 10)
}

// Raw adds a field whose value is JSON already.
func (j *JSON) Raw(name string, value []byte) {
	j.key(name)
	j.records = append(j.records, value...)
}

// List adds a field with a list of texts.
func (j *JSON) List(name string, values []string) {
	j.key(name)
	j.records = append(j.records, '[')
	for i, v := range values {
		if i > 0 {
			j.records = append(j.records, ',')
		}
		j.records = Quote(j.records, v)
	}
	j.records = append(j.records, ']')
}

// Each adds a list of n objects, each filled by fill.
func (j *JSON) Each(name string, n int, fill func(i int)) {
	j.key(name)
	if n == 0 {
		j.records = append(j.records, "[]"...)
		return
	}
	j.records = append(j.records, '[')
	outer := j.fields
	j.depth += 2
	for i := range n {
		if i > 0 {
			j.records = append(j.records, ',')
		}
		j.records = append(j.records, '\n')
		j.records = Spaces(j.records, 4+2*j.depth)
		j.records = append(j.records, '{')
		j.fields = 0
		fill(i)
		j.records = append(j.records, '\n')
		j.records = Spaces(j.records, 4+2*j.depth)
		j.records = append(j.records, '}')
	}
	j.depth -= 2
	j.fields = outer
	j.records = append(j.records, '\n')
	j.records = Spaces(j.records, 6+2*j.depth)
	j.records = append(j.records, ']')
}

// Error adds a record that stands for something not found.
func (j *JSON) Error(text string) {
	j.Open()
	j.String("ERROR", text)
	j.Close()
	j.errors++
}

// Real is the number of records that are not errors.
func (j *JSON) Real() int { return j.n - j.errors }

// End appends the whole document.
func (j *JSON) End(b []byte) []byte {
	b = append(b, "{\n  \"COMMAND\":"...)
	b = Quote(b, j.command)
	b = append(b, ",\n  "...)
	b = Quote(b, j.counter)
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(j.n), 10)
	b = append(b, ",\n  \"RECORDS\":["...)
	if j.n > 0 {
		b = append(b, '\n')
		b = append(b, j.records...)
		b = append(b, "\n  "...)
	}
	return append(b, "]\n}\n"...)
}

// Quote appends s as a JSON string. Bytes that are no UTF-8 become the replacement character.
func Quote(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			case c == '\n':
				b = append(b, `\n`...)
			case c == '\t':
				b = append(b, `\t`...)
			case c == '\r':
				b = append(b, `\r`...)
			case c < ' ' || c == 0x7f:
				b = append(b, `\u`...)
				b = appendHex(b, uint32(c), 4)
			default:
				b = append(b, c)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			b = append(b, `\ufffd`...)
		} else {
			b = append(b, s[i:i+size]...)
		}
		i += size
	}
	return append(b, '"')
}
