package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Condition is a parsed -w expression. ParseCondition is the only maker; nil means no condition.
type Condition interface {
	// String is the canonical text: ParseCondition reads it back to an equal Condition.
	String() string
	// Eval says whether the element with this index (0 in a job that is no array) may start.
	Eval(index int, look Lookup) Truth
	// Refs lists the jobs mentioned, in the order of the text, each once.
	Refs() []JobRef
	// Resolve replaces names by the numbers of the jobs that find knows by them, all of which must
	// then fulfil what was said of the name. It is done once, at submission: what is submitted later
	// under that name does not count. A name that find knows no job for is an error.
	Resolve(find func(name string) []JobID) (Condition, error)
}

// JobRef is a job as -w mentions it: by number, or by a name that may hold "*".
type JobRef struct {
	Job   JobID
	Name  string // set when Job is 0
	Index int    // the one element meant, 0 for all
	Each  bool   // [*]: the element with the index of the one that waits
}

// PerElement says that c can differ between the elements of the job that waits. When it does not, one
// Eval serves them all.
func PerElement(c Condition) bool {
	return c != nil && slices.ContainsFunc(c.Refs(), func(r JobRef) bool { return r.Each })
}

// String is the reference as the canonical text holds it: numbers bare, names always quoted.
func (r JobRef) String() string {
	s := strconv.FormatInt(int64(r.Job), 10)
	if r.Job == 0 {
		s = r.Name
	}
	switch {
	case r.Each:
		s += "[*]"
	case r.Index > 0:
		s += "[" + strconv.Itoa(r.Index) + "]"
	}
	if r.Job == 0 {
		s = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	return s
}

// condOp is what a condNode does.
type condOp = boolOp

const (
	condOr   = opOr
	condAnd  = opAnd
	condNot  = opNot
	condTerm = opLeaf
)

// condNode is a node of a Condition.
type condNode struct {
	op   condOp
	kids []*condNode

	// of a condTerm: word(ref), or word(ref, cmp n), or word(ref, *)
	word string
	ref  JobRef
	cmp  string // == != > >= < <=, "*" for all elements, "" for none
	n    int
}

func (n *condNode) parts() (condOp, []*condNode) { return n.op, n.kids }

func (*condNode) with(op condOp, kids []*condNode) *condNode { return &condNode{op: op, kids: kids} }

// Bounds of -w. A text with names grows when they are resolved, so the canonical one may be long.
const (
	maxDependLength = 1 << 20
	maxDependTerms  = 10_000
)

// stateWords and countWords are the functions of -w. The first take a job, the others an array and a count.
var (
	stateWords = []string{"done", "ended", "exit", "started", "post_done", "post_err"}
	countWords = []string{"numrun", "numpend", "numhold", "numstart", "numexit", "numdone", "numended"}
)

func dependError(format string, args ...any) error {
	return fmt.Errorf("Dependency condition syntax error: "+format, args...)
}

// ParseCondition reads -w:
//
//	done(j) ended(j) started(j) post_done(j) post_err(j)   exit(j) exit(j, 3) exit(j, > 3)
//	numrun(a, op n) numpend numhold numstart numexit numdone numended, with * for all elements
//	j alone means done(j);  ! && || ( ) with C's precedence
//
// j is a job's number, or the name of the user's own jobs, quoted where it begins with a digit or
// holds blanks or one of ()&|!,<>=; a "*" in it stands for any text. j[3] is one element, j[*] the one
// with the same index as the element that waits, j of an array all its elements.
func ParseCondition(s string) (Condition, error) {
	if strings.TrimSpace(s) == "" {
		return nil, dependError("the condition is empty")
	}
	if len(s) > maxDependLength {
		return nil, dependError("longer than %d bytes", maxDependLength)
	}
	p := &condParser{boolParser: boolParser[*condNode]{
		lex:      lexer{text: s, word: condWord, escapes: true},
		fail:     dependError,
		unclosed: `want ")" at the end of a parenthesis, got %s`,
	}}
	p.leaf = p.term
	n, err := p.parse()
	if err != nil {
		return nil, err // and no Condition that holds a nil node
	}
	return n, nil
}

// condWord says which bytes an unquoted name may hold: all but blanks, quotes and the language's own.
func condWord(c byte) bool { return c > ' ' && c != 0x7f && strings.IndexByte("()&|!,\"'<>=", c) < 0 }

type condParser struct {
	boolParser[*condNode]
	terms int
}

// joinConditions joins conditions by condAnd or condOr.
func joinConditions(op condOp, kids []*condNode) *condNode { return joinFlat(op, kids) }

// term reads word(ref…), or a reference alone.
func (p *condParser) term() (*condNode, error) {
	if p.terms++; p.terms > maxDependTerms {
		return nil, dependError("more than %d jobs", maxDependTerms)
	}
	first := p.tok
	if first.kind != tokWord && first.kind != tokText {
		return nil, dependError("want a job or one of %s, got %s", strings.Join(stateWords, "() ")+"()", first)
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if first.kind == tokText || !p.tok.is("(") {
		ref, err := parseJobRef(first)
		return &condNode{op: condTerm, word: "done", ref: ref}, err
	}
	n := &condNode{op: condTerm, word: first.text}
	counts := slices.Contains(countWords, n.word)
	switch {
	case n.word == "external":
		return nil, dependError("external() is not supported by this cluster: nothing could ever set the status")
	case !counts && !slices.Contains(stateWords, n.word):
		return nil, dependError("no function %s(): want one of %s %s", quoteInput(n.word), strings.Join(stateWords, " "), strings.Join(countWords, " "))
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	var err error
	if n.ref, err = parseJobRef(p.tok); err != nil {
		return nil, err
	}
	if counts && (n.ref.Index > 0 || n.ref.Each) {
		return nil, dependError("%s() counts elements: want an array without an index, got %s", n.word, p.tok)
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if counts || n.word == "exit" && p.tok.is(",") {
		if err := p.expect(",", fmt.Sprintf("in %s(array, op n)", n.word)); err != nil {
			return nil, err
		}
		if err := p.comparison(n, counts); err != nil {
			return nil, err
		}
	}
	return n, p.expect(")", fmt.Sprintf("at the end of %s(", n.word))
}

// comparison reads "op n"; of counts also "*", and of exit codes "n".
func (p *condParser) comparison(n *condNode, counts bool) error {
	most := 255
	if counts {
		most = MaxArrayIndex
		if p.tok.kind == tokWord && p.tok.text == "*" {
			n.cmp = "*"
			return p.next()
		}
	}
	switch {
	case p.tok.kind == tokOp && slices.Contains([]string{"==", "!=", ">", ">=", "<", "<="}, p.tok.text):
		n.cmp = p.tok.text
		if err := p.next(); err != nil {
			return err
		}
	case counts:
		return dependError("want one of == != > >= < <= and a number, or *, in %s(), got %s", n.word, p.tok)
	default:
		n.cmp = "=="
	}
	number, err := strconv.Atoi(p.tok.text)
	if p.tok.kind != tokWord || !allDigits(p.tok.text) || err != nil || number > most {
		return dependError("want a number from 0 to %d in %s(), got %s", most, n.word, p.tok)
	}
	n.n = number
	return p.next()
}

// parseJobRef reads 123, 123[4], name, name[*] and their quoted forms; quoted digits are a name.
func parseJobRef(t token) (JobRef, error) {
	var ref JobRef
	if t.kind != tokWord && t.kind != tokText {
		return ref, dependError("want a job's number or name, got %s", t)
	}
	base, index, indexed := t.text, "", false
	if inner, ok := strings.CutSuffix(t.text, "]"); ok && strings.Contains(inner, "[") {
		base, index, indexed = strings.Cut(inner, "[")
	}
	if indexed {
		n, err := strconv.Atoi(index)
		switch {
		case index == "*":
			ref.Each = true
		case !allDigits(index) || err != nil || n < 1 || n > MaxArrayIndex:
			return ref, dependError("want [n] or [*] after a job, got [%s]", quoteInput(index))
		}
		ref.Index = n
	}
	switch {
	case t.kind == tokWord && allDigits(base):
		n, err := strconv.ParseInt(base, 10, 64)
		if err != nil || base[0] == '0' {
			return ref, dependError("%s is no job number", quoteInput(base))
		}
		ref.Job = JobID(n)
		return ref, nil
	case t.kind == tokWord && base != "" && base[0] >= '0' && base[0] <= '9':
		return ref, dependError("%s begins with a digit: a name like that must be quoted", quoteInput(base))
	case base == "" || strings.Contains(base, "["):
		return ref, dependError("%s is no job's name", t)
	}
	if err := nameError(base); err != nil {
		return ref, dependError("%s is no name of a job: %v", quoteInput(base), err)
	}
	ref.Name = base
	return ref, nil
}
