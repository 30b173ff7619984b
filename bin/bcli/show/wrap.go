package show

import "unicode/utf8"

const (
	wrapAt     = 79 // columns of a line
	wrapIndent = 21 // blanks before a continuation
)

// Paragraph appends one logical line of a long listing and its line end. Folded, it breaks after 79
// characters, anywhere, also within a word, and goes on after 21 blanks: programs join it again by taking out
// line end and blanks.
func Paragraph(b []byte, s string, folded bool) []byte {
	s = Clean(s)
	if !folded || width(s) <= wrapAt {
		return append(append(b, s...), '\n')
	}
	left := wrapAt
	for len(s) > 0 {
		if left == 0 {
			b = append(b, '\n')
			b = Spaces(b, wrapIndent)
			left = wrapAt - wrapIndent
		}
		_, size := utf8.DecodeRuneInString(s)
		b = append(b, s[:size]...)
		s = s[size:]
		left--
	}
	return append(b, '\n')
}
