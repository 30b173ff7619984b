package queue

// boolOp is what a node of a boolean expression does. The order is that of binding, loosest first.
type boolOp int

const (
	opOr   boolOp = iota // of two operands or more
	opAnd                // of two operands or more
	opNot                // of one
	opLeaf               // a language's own begin here
)

// boolNode is a node of an expression tree. N is the type itself.
type boolNode[N any] interface {
	parts() (boolOp, []N)
	// with makes a node; the receiver does not matter, and may be nil.
	with(op boolOp, kids []N) N
}

// boolParser reads ! && || and parentheses with C's precedence, what -w and -R's select have in
// common, around the leaves of a language.
type boolParser[N boolNode[N]] struct {
	lex      lexer
	tok      token // the one that comes next
	fail     func(format string, args ...any) error
	unclosed string            // the format of the error for a missing ")", with one %s for what is there
	leaf     func() (N, error) // reads what stands between the operators
}

// maxDepth bounds parentheses and "!".
const maxDepth = 64

// parse reads the whole text.
func (p *boolParser[N]) parse() (none N, err error) {
	if err := p.next(); err != nil {
		return none, err
	}
	n, err := p.or(0)
	if err != nil {
		return none, err
	}
	if p.tok.kind != tokEnd {
		return none, p.fail("want && or || before %s", p.tok)
	}
	return n, nil
}

func (p *boolParser[N]) next() (err error) {
	if p.tok, err = p.lex.next(); err != nil {
		return p.fail("%v", err)
	}
	return nil
}

// expect moves past an operator.
func (p *boolParser[N]) expect(op, where string) error {
	if !p.tok.is(op) {
		return p.fail("want %q %s, got %s", op, where, p.tok)
	}
	return p.next()
}

func (p *boolParser[N]) or(depth int) (N, error)  { return p.chain(depth, opOr, "||", p.and) }
func (p *boolParser[N]) and(depth int) (N, error) { return p.chain(depth, opAnd, "&&", p.not) }

// chain reads one or more operands joined by an operator.
func (p *boolParser[N]) chain(depth int, op boolOp, word string, operand func(int) (N, error)) (none N, err error) {
	var kids []N
	for {
		k, err := operand(depth)
		if err != nil {
			return none, err
		}
		if kids = append(kids, k); !p.tok.is(word) {
			return joinFlat(op, kids), nil
		}
		if err := p.next(); err != nil {
			return none, err
		}
	}
}

func (p *boolParser[N]) not(depth int) (none N, err error) {
	if depth > maxDepth {
		return none, p.fail("nested more than %d deep", maxDepth)
	}
	switch {
	case p.tok.is("!"):
		if err := p.next(); err != nil {
			return none, err
		}
		operand := p.not
		if p.tok.is("(") { // "!(" is one level, so that the canonical text is never deeper than what was read
			operand = p.parenthesis
		}
		k, err := operand(depth + 1)
		if err != nil {
			return none, err
		}
		return none.with(opNot, []N{k}), nil
	case p.tok.is("("):
		return p.parenthesis(depth + 1)
	}
	return p.leaf()
}

func (p *boolParser[N]) parenthesis(depth int) (none N, err error) {
	if err := p.next(); err != nil {
		return none, err
	}
	n, err := p.or(depth)
	if err != nil {
		return none, err
	}
	if !p.tok.is(")") {
		return none, p.fail(p.unclosed, p.tok)
	}
	return n, p.next()
}

// joinFlat makes one flat node, so that (a && b) && c and a && (b && c) have the same text.
func joinFlat[N boolNode[N]](op boolOp, kids []N) (n N) {
	var flat []N
	for _, k := range kids {
		if kop, own := k.parts(); kop == op {
			flat = append(flat, own...)
		} else {
			flat = append(flat, k)
		}
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return n.with(op, flat)
}
