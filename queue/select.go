package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Select is the text of a select[…] section in canonical form: parentheses where needed, single
// blanks, texts quoted, sizes with their unit, "" for any host. ParseSelect makes it, Select.Match
// evaluates it. It means the same whatever the site's unit is.
type Select string

// selOp is what a selNode does.
type selOp = boolOp

const (
	selOr  = opOr
	selAnd = opAnd
	selNot = opNot
)

const (
	selSize    = opLeaf + iota // name cmp bytes
	selNumber                  // name cmp number
	selText                    // name == or != text
	selBool                    // name, a boolean resource
	selDefined                 // defined(name)
)

// selNode is a node of a parsed select expression.
type selNode struct {
	op     selOp
	kids   []*selNode
	name   string
	cmp    string // == != > >= < <=
	bytes  int64  // whole KB
	number float64
	text   string
}

func (n *selNode) parts() (selOp, []*selNode) { return n.op, n.kids }

func (*selNode) with(op selOp, kids []*selNode) *selNode { return &selNode{op: op, kids: kids} }

// resourceKind is how a resource may be used in select.
type resourceKind int

const (
	noResource resourceKind = iota
	sizeResource
	numberResource
	textResource
	boolResource
	anyResource // of a canonical text: a boolean alone, a number when it is compared
)

// builtinResources are LSF's names. That a name is known does not say that the nodes report it: see NodeFacts.
var builtinResources = map[string]resourceKind{
	"mem": sizeResource, "swp": sizeResource, "tmp": sizeResource,
	"maxmem": sizeResource, "maxswp": sizeResource, "maxtmp": sizeResource,
	"ncpus": numberResource, "nprocs": numberResource, "ncores": numberResource, "nthreads": numberResource,
	"cpuf": numberResource, "ndisks": numberResource, "rexpri": numberResource, "slots": numberResource,
	"ut": numberResource, "r15s": numberResource, "r1m": numberResource, "r15m": numberResource,
	"pg": numberResource, "ls": numberResource, "it": numberResource, "io": numberResource,
	"ngpus": numberResource, "ngpus_physical": numberResource,
	"type": textResource, "model": textResource, "hname": textResource, "ostype": textResource,
}

// kind looks a resource name up.
func (o ResReqOptions) kind(name string) resourceKind {
	if k, ok := builtinResources[name]; ok {
		return k
	}
	for _, c := range o.Consumables {
		if c == name {
			return numberResource
		}
	}
	for _, b := range o.Booleans {
		if b == name {
			return boolResource
		}
	}
	return noResource
}

// ParseSelect reads the inside of select[…]: comparisons of a resource with a value (== = != > >= <
// <=), boolean resources by name, defined(name), ! && || and parentheses. "" gives "".
func ParseSelect(s string, opt ResReqOptions) (Select, error) {
	if strings.TrimSpace(s) == "" {
		return "", nil
	}
	n, err := parseSelect(s, opt.unit(), opt.kind)
	if err != nil {
		return "", err
	}
	return Select(n.String()), nil
}

const maxSelectLength = 64 << 10

func parseSelect(s string, unit int64, kind func(string) resourceKind) (*selNode, error) {
	if len(s) > maxSelectLength {
		return nil, selectError("longer than %d bytes", maxSelectLength)
	}
	p := &selParser{unit: unit, kind: kind, boolParser: boolParser[*selNode]{
		lex:      lexer{text: s},
		fail:     selectError,
		unclosed: `want ")" before %s`,
	}}
	p.leaf = p.comparison
	return p.parse()
}

func selectError(format string, args ...any) error {
	return fmt.Errorf("Bad resource requirement syntax: in select: "+format, args...)
}

type selParser struct {
	boolParser[*selNode]
	unit int64
	kind func(string) resourceKind
}

// joinSelect joins expressions by selAnd or selOr.
func joinSelect(op selOp, kids []*selNode) *selNode { return joinFlat(op, kids) }

func (p *selParser) comparison() (*selNode, error) {
	if p.tok.kind != tokWord {
		return nil, selectError("want a resource name, got %s", p.tok)
	}
	name := p.tok.text
	if err := p.next(); err != nil {
		return nil, err
	}
	if name == "defined" && p.tok.is("(") {
		return p.defined()
	}
	kind := p.kind(name)
	if kind == noResource {
		return nil, unknownResource(name)
	}
	cmp := p.tok.text
	switch {
	case p.tok.kind == tokOp && cmp == "=":
		cmp = "==" // as LSF reads it
	case p.tok.kind == tokOp && strings.Contains(" == != > >= < <= ", " "+cmp+" "):
	case kind == boolResource || kind == anyResource:
		return &selNode{op: selBool, name: name}, nil
	case kind == textResource:
		return nil, selectError("%s is a text: write %s=='value'", name, name)
	case p.tok.kind == tokOp && strings.Contains("+-*/", cmp):
		return nil, selectError("arithmetic (%s %s) is not supported", name, cmp)
	default: // a number by itself is true unless 0
		op := selNumber
		if kind == sizeResource {
			op = selSize
		}
		return &selNode{op: op, name: name, cmp: "!="}, nil
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	n, err := p.value(name, cmp, kind)
	if err != nil {
		return nil, err
	}
	return n, p.next()
}

func (p *selParser) defined() (*selNode, error) {
	if err := p.next(); err != nil {
		return nil, err
	}
	name := p.tok.text
	if p.tok.kind != tokWord {
		return nil, selectError("want defined(name), got %s", p.tok)
	}
	if p.kind(name) == noResource {
		return nil, unknownResource(name)
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	return &selNode{op: selDefined, name: name}, p.expect(")", "after defined("+name)
}

func unknownResource(name string) error {
	return fmt.Errorf("Resource <%s> cannot be used in the resource requirement section: no such resource on this cluster", quoteInput(name))
}

// value makes the comparison whose value is the present token.
func (p *selParser) value(name, cmp string, kind resourceKind) (*selNode, error) {
	n := &selNode{name: name, cmp: cmp, text: p.tok.text}
	if p.tok.kind != tokWord && p.tok.kind != tokText {
		return nil, selectError("want a value after %s %s, got %s", name, cmp, p.tok)
	}
	switch kind {
	case boolResource:
		return nil, selectError("%s is true or false: write %s or !%s", name, name, name)
	case textResource:
		if cmp != "==" && cmp != "!=" {
			return nil, selectError("%s is a text: it can be compared with == and != only", name)
		}
		n.op = selText
		if err := displayError(n.text); err != nil || n.text == "" || len(n.text) > 255 {
			return nil, selectError("%s: want a text of 1 to 255 characters", name)
		}
		return n, nil
	case sizeResource:
		n.op = selSize
		bytes, err := parseSize(n.text, p.unit)
		if err != nil {
			return nil, selectError("%s %s: %v", name, cmp, err)
		}
		n.bytes, n.text = (bytes+kib-1)/kib*kib, ""
		return n, nil
	}
	n.op = selNumber
	number, err := strconv.ParseFloat(n.text, 64)
	if !decimal(n.text) || len(n.text) > 20 || err != nil {
		return nil, selectError("%s %s: Expected number, got %s", name, cmp, quoteInput(n.text))
	}
	n.number, n.text = number, ""
	return n, nil
}

// String is the canonical text.
func (n *selNode) String() string {
	switch n.op {
	case selOr, selAnd:
		words := make([]string, len(n.kids))
		for i, k := range n.kids {
			if words[i] = k.String(); k.op < n.op { // "or" inside "and"
				words[i] = "(" + words[i] + ")"
			}
		}
		return strings.Join(words, map[selOp]string{selOr: " || ", selAnd: " && "}[n.op])
	case selNot:
		if k := n.kids[0]; k.op == selNot || k.op == selBool || k.op == selDefined {
			return "!" + k.String()
		}
		return "!(" + n.kids[0].String() + ")"
	case selDefined:
		return "defined(" + n.name + ")"
	case selBool:
		return n.name
	case selText:
		quote := "'"
		if strings.Contains(n.text, quote) {
			quote = `"`
		}
		return n.name + " " + n.cmp + " " + quote + n.text + quote
	case selSize:
		return n.name + " " + n.cmp + " " + exactSize(n.bytes)
	}
	return n.name + " " + n.cmp + " " + strconv.FormatFloat(n.number, 'f', -1, 64)
}

// parse reads a canonical text again. Any name is allowed: it was checked when the text was made, and
// a site may since have taken a resource away, which only means that no node has it.
func (s Select) parse() (*selNode, error) {
	if s == "" {
		return nil, errors.New("internal error: an empty select is not parsed")
	}
	return parseSelect(string(s), mib, func(name string) resourceKind {
		if k := builtinResources[name]; k != noResource {
			return k
		}
		return anyResource
	})
}
