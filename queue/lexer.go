package queue

import (
	"fmt"
	"strings"
)

// tokenKind is the class of a token of -R's select and of -w.
type tokenKind int

const (
	tokEnd  tokenKind = iota
	tokWord           // letters, digits and _ . - and, for -w, more: see lexer.word
	tokText           // what was in quotes
	tokOp
)

type token struct {
	kind tokenKind
	text string
}

// is says that the token is this operator.
func (t token) is(op string) bool { return t.kind == tokOp && t.text == op }

func (t token) String() string {
	if t.kind == tokEnd {
		return "the end"
	}
	return quoteInput(t.text)
}

// lexer cuts an expression into tokens.
type lexer struct {
	text string
	pos  int
	// word says which bytes belong to words; nil for those of select.
	word func(byte) bool
	// escapes makes a backslash in quotes take the next byte as it is, when that is a quote or a backslash.
	escapes bool
}

func selectWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-' || c >= 0x80
}

// next reads a token. Operators of two characters win over those of one.
func (l *lexer) next() (token, error) {
	for l.pos < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.pos]) >= 0 {
		l.pos++
	}
	if l.pos == len(l.text) {
		return token{}, nil
	}
	isWord := l.word
	if isWord == nil {
		isWord = selectWord
	}
	start, c := l.pos, l.text[l.pos]
	switch {
	case c == '"' || c == '\'':
		return l.quoted(c)
	case c != '-' && isWord(c):
		for l.pos < len(l.text) && isWord(l.text[l.pos]) {
			l.pos++
		}
		return token{tokWord, l.text[start:l.pos]}, nil
	}
	for _, op := range []string{"&&", "||", "==", "!=", ">=", "<="} {
		if strings.HasPrefix(l.text[l.pos:], op) {
			l.pos += 2
			return token{tokOp, op}, nil
		}
	}
	if strings.IndexByte("!()<>=,*+-/", c) < 0 {
		return token{}, fmt.Errorf("%s at position %d is not understood", quoteInput(l.text[start:start+1]), start+1)
	}
	l.pos++
	return token{tokOp, l.text[start:l.pos]}, nil
}

func (l *lexer) quoted(quote byte) (token, error) {
	start := l.pos
	var b strings.Builder
	for l.pos++; l.pos < len(l.text); l.pos++ {
		c := l.text[l.pos]
		switch {
		case c == quote:
			l.pos++
			return token{tokText, b.String()}, nil
		case c == '\\' && l.escapes && l.pos+1 < len(l.text) && strings.IndexByte(`"'\`, l.text[l.pos+1]) >= 0:
			l.pos++
			c = l.text[l.pos]
		}
		b.WriteByte(c)
	}
	return token{}, fmt.Errorf("the quote at position %d is not closed", start+1)
}
