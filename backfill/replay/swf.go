package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Job is a line of a trace in the Standard Workload Format (Chapin et al., 1999; version 2.2). Times are
// whole seconds, Submit since the start of the trace. A negative number means that the trace does not know.
type Job struct {
	ID        int64
	Submit    int64
	Run       int64 // wall clock from start to end
	Limit     int64 // requested time
	Allocated int64 // processors
	Requested int64 // processors
	User      int64
	Group     int64
	App       int64 // "executable (application) number"
	Queue     int64
}

// SWFHeader is one "; Label: text" line of a trace, or a comment without a label.
type SWFHeader struct{ Label, Text string }

// Trace is a trace read whole.
type Trace struct {
	Header []SWFHeader
	Jobs   []Job
	// Bad are the lines left out; FirstBad says what was wrong with the first.
	Bad      int
	FirstBad error
}

// Number is the whole number that a header line gives, "MaxProcs: 100"; ok is false where none does.
func (t *Trace) Number(label string) (n int64, ok bool) {
	for _, h := range t.Header {
		if h.Label != label {
			continue
		}
		first, _, _ := strings.Cut(h.Text, " ") // "MaxProcs: 338 (batch partition)"
		if n, err := strconv.ParseInt(first, 10, 64); err == nil {
			return n, true
		}
	}
	return 0, false
}

// ReadSWF reads a whole trace, packed by gzip or not. The first bad line is the error, unless skipBad: then
// bad lines are counted and left out.
func ReadSWF(from io.Reader, skipBad bool) (*Trace, error) {
	r, err := NewSWFReader(from)
	if err != nil {
		return nil, err
	}
	t := &Trace{}
	for {
		job, err := r.Next()
		var bad *BadLine
		switch {
		case err == io.EOF:
			t.Header = r.Header
			return t, nil
		case err == nil:
			t.Jobs = append(t.Jobs, job)
		case skipBad && errors.As(err, &bad):
			if t.Bad++; t.FirstBad == nil {
				t.FirstBad = err
			}
		default:
			return nil, err
		}
	}
}

// BadLine is a line that is not one of the format. Reading may go on after it.
type BadLine struct {
	Line int // from 1
	What string
}

func (b *BadLine) Error() string { return fmt.Sprintf("line %d: %s", b.Line, b.What) }

// SWFReader reads a trace job by job, in memory that does not grow with it.
type SWFReader struct {
	Header []SWFHeader // the header lines passed so far
	in     *bufio.Reader
	line   int
}

const longestLine = 1 << 16

// NewSWFReader begins to read. Packing is seen from the first bytes, whatever the file is called.
func NewSWFReader(from io.Reader) (*SWFReader, error) {
	in := bufio.NewReaderSize(from, longestLine)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		in = bufio.NewReaderSize(unpacked, longestLine)
	}
	return &SWFReader{in: in}, nil
}

// Next is the next job; a *BadLine, after which one may go on; or io.EOF; or what reading gave.
func (r *SWFReader) Next() (Job, error) {
	for {
		line, err := r.readLine()
		if err != nil {
			return Job{}, err
		}
		text := bytes.TrimSpace(line)
		switch {
		case len(text) == 0:
		case text[0] == ';':
			r.addHeader(text[1:])
		default:
			job, what := parseJob(text)
			if what != "" {
				return Job{}, &BadLine{r.line, what}
			}
			return job, nil
		}
	}
}

// readLine is the next line, which is valid until the next call.
func (r *SWFReader) readLine() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if len(line) == 0 && err == io.EOF {
		return nil, io.EOF
	}
	r.line++
	switch err {
	case nil, io.EOF: // the last line may lack its end
		return line, nil
	case bufio.ErrBufferFull:
		for err == bufio.ErrBufferFull {
			_, err = r.in.ReadSlice('\n')
		}
		if err == nil || err == io.EOF {
			return nil, &BadLine{r.line, fmt.Sprintf("longer than %d bytes", longestLine)}
		}
	}
	return nil, fmt.Errorf("line %d: %w", r.line, err)
}

func (r *SWFReader) addHeader(text []byte) {
	label, rest, found := strings.Cut(string(text), ":")
	if !found {
		label, rest = "", label
	}
	r.Header = append(r.Header, SWFHeader{strings.TrimSpace(label), strings.TrimSpace(rest)})
}

// swfFields are the 18 fields of a line. Only averages of measurements may have decimals.
var swfFields = [18]struct {
	name     string
	decimals bool
}{
	{"job number", false}, {"submit time", false}, {"wait time", false}, {"run time", false}, {"allocated processors", false},
	{"average CPU time", true}, {"used memory", true}, {"requested processors", false}, {"requested time", false},
	{"requested memory", true}, {"status", false}, {"user", false}, {"group", false}, {"executable", false},
	{"queue", false}, {"partition", false}, {"preceding job", false}, {"think time", false},
}

func parseJob(text []byte) (job Job, what string) {
	var v [len(swfFields)]int64
	n := 0
	for field := range bytes.FieldsSeq(text) {
		if n == len(v) {
			return Job{}, fmt.Sprintf("more than the format's %d fields", len(v))
		}
		value, ok := parseNumber(field, swfFields[n].decimals)
		if !ok {
			return Job{}, fmt.Sprintf("field %d (%s) is %q; allowed is a whole number%s of at most %d, or -1 where it is not known",
				n+1, swfFields[n].name, shorten(field), orDecimal(swfFields[n].decimals), int64(largestNumber))
		}
		v[n] = value
		n++
	}
	if n < len(v) {
		return Job{}, fmt.Sprintf("%d fields where the format has %d", n, len(v))
	}
	return Job{ID: v[0], Submit: v[1], Run: v[3], Allocated: v[4], Requested: v[7], Limit: v[8], User: v[11], Group: v[12], App: v[13], Queue: v[14]}, ""
}

func orDecimal(may bool) string {
	if may {
		return " or a decimal one"
	}
	return ""
}

func shorten(field []byte) string {
	if len(field) > 40 {
		return string(field[:37]) + "..."
	}
	return string(field)
}

// largestNumber keeps sums of times far from the end of an int64 and of a time.Duration: 136 years.
const largestNumber = 1 << 32

// parseNumber reads "12", "-1", and "12.0", since some logs write whole numbers so; where decimals are
// allowed also "12.34", of which the whole part is kept: nothing is worked out from those fields.
func parseNumber(field []byte, decimals bool) (n int64, ok bool) {
	digits, negative := field, false
	if digits[0] == '-' {
		digits, negative = digits[1:], true
	}
	whole := 0
	for ; whole < len(digits) && digits[whole] >= '0' && digits[whole] <= '9'; whole++ {
		if n = n*10 + int64(digits[whole]-'0'); n > largestNumber {
			return 0, false
		}
	}
	if whole == 0 {
		return 0, false
	}
	if negative {
		n = -n
	}
	rest := digits[whole:]
	if len(rest) == 0 {
		return n, true
	}
	if rest[0] != '.' || len(rest) == 1 {
		return 0, false
	}
	for _, c := range rest[1:] {
		if c != '0' && (!decimals || c < '0' || c > '9') {
			return 0, false
		}
	}
	return n, true
}
