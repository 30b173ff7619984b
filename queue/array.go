package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of -J.
const (
	MaxNameLength   = 4094      // bytes, as LSF
	MaxArrayIndex   = 1_000_000 // whatever the site allows, no array goes beyond
	maxArrayRanges  = 1000
	maxListLength   = 8192
	errArrayIndex   = "Job array index error"
	errArrayTooHigh = "Job array index too large"
)

// ParseJobName reads -J: "name", or "name[1-10:2,15]%5" for an array, whose name may be empty. As in
// LSF the first "[" begins the index list, wherever it is, so a name cannot hold one; what follows
// the list can only be "%limit". One pair of quotes around everything is taken off: scripts pass
// them on by mistake. No index may exceed maxIndex (the site's MAX_JOB_ARRAY_SIZE).
func ParseJobName(s string, maxIndex int) (name string, a *Array, err error) {
	s = unquoteWhole(s)
	name, list, isArray := strings.Cut(s, "[")
	if err := nameError(name); err != nil {
		return "", nil, fmt.Errorf("%s: Bad job name: %w", quoteInput(name), err)
	}
	if !isArray {
		return name, nil, nil
	}
	list, limit, closed := strings.Cut(list, "]")
	if !closed {
		return "", nil, fmt.Errorf("%s: the list that begins with \"[\" has no \"]\"", errArrayIndex)
	}
	a = &Array{}
	if a.Ranges, err = parseRanges(list, maxIndex); err != nil {
		return "", nil, err
	}
	if limit != "" {
		percent, ok := strings.CutPrefix(limit, "%")
		if !ok {
			return "", nil, fmt.Errorf("%s: only %%limit can follow the \"]\", got %s", errArrayIndex, quoteInput(limit))
		}
		if a.Limit, err = parseArrayLimit(percent); err != nil {
			return "", nil, err
		}
	}
	return name, a, nil
}

// ParseArrayLimit reads bmod's -J "%n".
func ParseArrayLimit(s string) (int, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(s), "%")
	if !ok {
		return 0, fmt.Errorf("%s: want %%n, such as %%5", errArrayIndex)
	}
	return parseArrayLimit(text)
}

func parseArrayLimit(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || !allDigits(s) || n < 1 || n > MaxArrayIndex {
		return 0, fmt.Errorf("%s: want a limit from 1 to %d after %%, got %s", errArrayIndex, MaxArrayIndex, quoteInput(s))
	}
	return n, nil
}

// parseRanges reads "1-10:2,15".
func parseRanges(list string, maxIndex int) ([]Range, error) {
	if maxIndex <= 0 || maxIndex > MaxArrayIndex {
		maxIndex = MaxArrayIndex
	}
	items := strings.Split(list, ",")
	if len(list) > maxListLength || len(items) > maxArrayRanges {
		return nil, fmt.Errorf("%s: at most %d ranges", errArrayIndex, maxArrayRanges)
	}
	ranges := make([]Range, 0, len(items))
	for _, item := range items {
		r, err := parseRange(strings.TrimSpace(item), maxIndex)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

func parseRange(item string, maxIndex int) (Range, error) {
	span, stepText, stepped := strings.Cut(item, ":")
	firstText, lastText, ranged := strings.Cut(span, "-")
	if stepped && !ranged {
		return Range{}, fmt.Errorf("%s: a step needs a range, such as 1-10:2; got %s", errArrayIndex, quoteInput(item))
	}
	var r Range
	for _, part := range []struct {
		text string
		into *int
		asIn int // what it is when left out
		said bool
	}{{firstText, &r.First, 0, true}, {lastText, &r.Last, 0, ranged}, {stepText, &r.Step, 1, stepped}} {
		if !part.said {
			*part.into = part.asIn
			continue
		}
		text := strings.TrimSpace(part.text)
		if !allDigits(text) {
			return Range{}, fmt.Errorf("%s: want first-last:step such as 1-10:2, got %s", errArrayIndex, quoteInput(item))
		}
		n, err := strconv.Atoi(text)
		if err != nil || n > maxIndex {
			return Range{}, fmt.Errorf("%s: %s is more than %d, the most allowed here", errArrayTooHigh, quoteInput(text), maxIndex)
		}
		if n == 0 {
			return Range{}, fmt.Errorf("%s: indices and steps begin with 1, got %s", errArrayIndex, quoteInput(item))
		}
		*part.into = n
	}
	if !ranged {
		r.Last = r.First
	}
	if r.First > r.Last {
		return Range{}, fmt.Errorf("%s: %d-%d runs backwards", errArrayIndex, r.First, r.Last)
	}
	if r.First == r.Last {
		r.Step = 1 // one canonical form for one index
	}
	return r, nil
}

// Indices lists the elements, sorted, each once.
func (a *Array) Indices() []int {
	out := make([]int, 0, 16)
	seen := make([]bool, a.Last()+1)
	for _, r := range a.Ranges {
		for i := max(r.First, 1); i <= min(r.Last, MaxArrayIndex); i += min(max(r.Step, 1), MaxArrayIndex) {
			seen[i] = true
		}
	}
	for i, in := range seen {
		if in {
			out = append(out, i)
		}
	}
	return out
}

// Count is the number of elements.
func (a *Array) Count() int {
	if len(a.Ranges) == 1 {
		r := a.Ranges[0]
		if r.First >= 1 && r.First <= r.Last && r.Last <= MaxArrayIndex && r.Step >= 1 {
			return (r.Last-r.First)/r.Step + 1
		}
	}
	return len(a.Indices())
}

// Last is the highest end of a range, which a step may pass over: what LSB_JOBINDEX_END shows.
func (a *Array) Last() int {
	last := 0
	for _, r := range a.Ranges {
		last = max(last, min(r.Last, MaxArrayIndex))
	}
	return last
}

// String is the index list as given to -J: "[1-10:2,15]%5".
func (a *Array) String() string {
	var b strings.Builder
	for i, r := range a.Ranges {
		b.WriteByte("[,"[min(i, 1)])
		b.WriteString(strconv.Itoa(r.First))
		if r.Last != r.First {
			fmt.Fprintf(&b, "-%d", r.Last)
			if r.Step > 1 {
				fmt.Fprintf(&b, ":%d", r.Step)
			}
		}
	}
	b.WriteByte(']')
	if a.Limit > 0 {
		fmt.Fprintf(&b, "%%%d", a.Limit)
	}
	return b.String()
}

// nameError says what is wrong with a job's name. Blanks, quotes and any script are fine: a name is
// shown, never run. Control characters are not: a name must not be able to forge a line of a listing.
func nameError(name string) error {
	switch {
	case len(name) > MaxNameLength:
		return fmt.Errorf("%d bytes, at most %d", len(name), MaxNameLength)
	case strings.HasPrefix(name, "/"):
		return errors.New("it must not begin with \"/\"")
	}
	return displayError(name)
}

// displayError says why s cannot be one field of a listing.
func displayError(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("it is not valid UTF-8")
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return fmt.Errorf("it must not hold the control character %q", r)
		}
	}
	return nil
}

// unquoteWhole takes off one pair of quotes around all of s, when they can only be that.
func unquoteWhole(s string) string {
	t := strings.TrimSpace(s)
	if len(t) >= 2 && (t[0] == '"' || t[0] == '\'') && t[len(t)-1] == t[0] && strings.Count(t, t[:1]) == 2 {
		return t[1 : len(t)-1]
	}
	return s
}

// Ref names jobs on a command line. Name is set instead of Job for "name[3]". Job 0 without a Name
// stands for all jobs, as in "bkill 0". Indices nil means all elements.
type Ref struct {
	Job     JobID
	Name    string
	Indices *Array
}

// All says that the Ref is the 0 that stands for all jobs.
func (r Ref) All() bool { return r.Job == 0 && r.Name == "" }

// String is the Ref as it is written on a command line.
func (r Ref) String() string {
	s := r.Name
	if s == "" {
		s = strconv.FormatInt(int64(r.Job), 10)
	}
	if r.Indices != nil {
		s += r.Indices.String()
	}
	return s
}

// ParseElements reads one job of a command line: "123", "123[4]", "123[1-3,7]", "name[3]", or "0" for
// all. A name without an index list is not allowed here (commands have -J for it): it is LSF's
// "abc: Illegal job ID.", with its full stop.
func ParseElements(s string) (Ref, error) {
	text := strings.TrimSpace(unquoteWhole(s))
	illegal := fmt.Errorf("%s: Illegal job ID.", quoteInput(s))
	id, list, indexed := strings.Cut(text, "[")
	ref := Ref{}
	switch {
	case allDigits(id):
		n, err := strconv.ParseInt(id, 10, 64)
		// Leading zeros are refused, above all because 00 must not be taken for the 0 that means all jobs.
		if err != nil || n > 0 && id[0] == '0' || n == 0 && (indexed || id != "0") {
			return Ref{}, illegal
		}
		ref.Job = JobID(n)
	case !indexed || id == "" || nameError(id) != nil:
		return Ref{}, illegal
	default:
		ref.Name = id
	}
	if !indexed {
		return ref, nil
	}
	list, ok := strings.CutSuffix(list, "]")
	if !ok {
		return Ref{}, illegal
	}
	ranges, err := parseRanges(list, MaxArrayIndex)
	if err != nil {
		return Ref{}, fmt.Errorf("%s: %w", quoteInput(s), err)
	}
	ref.Indices = &Array{Ranges: ranges}
	return ref, nil
}
