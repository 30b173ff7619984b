package show

import (
	"strconv"
	"unicode/utf8"
)

const blanks = "                                                                                "

// Spaces appends n blanks.
func Spaces(b []byte, n int) []byte {
	for n > len(blanks) {
		b = append(b, blanks...)
		n -= len(blanks)
	}
	if n > 0 {
		b = append(b, blanks[:n]...)
	}
	return b
}

// plain says that every byte of s is a printable ASCII character: nearly every value is, and then
// bytes are characters and nothing needs escaping.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// Clean escapes what would break a line or disturb a terminal.
func Clean(s string) string {
	if plain(s) {
		return s
	}
	return string(appendClean(make([]byte, 0, len(s)+8), s))
}

// CleanText is Clean for a text of several lines: line ends and tabs stay.
func CleanText(s string) string {
	b := make([]byte, 0, len(s)+8)
	for start, i := 0, 0; i <= len(s); i++ {
		if i == len(s) || s[i] == '\n' || s[i] == '\t' {
			b = appendClean(b, s[start:i])
			if i < len(s) {
				b = append(b, s[i])
			}
			start = i + 1
		}
	}
	return string(b)
}

func appendClean(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c <= '~' {
			b = append(b, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < utf8.RuneSelf || r == utf8.RuneError && size == 1:
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		case strconv.IsPrint(r):
			b = append(b, s[i:i+size]...)
		case r > 0xffff:
			b = append(b, `\U`...)
			b = appendHex(b, uint32(r), 8)
		default: // also the marks that turn the writing direction around
			b = append(b, `\u`...)
			b = appendHex(b, uint32(r), 4)
		}
		i += size
	}
	return b
}

func appendHex(b []byte, v uint32, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		b = append(b, "0123456789abcdef"[v>>(4*i)&15])
	}
	return b
}

// width is the number of characters of a clean text.
func width(s string) int {
	if plain(s) {
		return len(s)
	}
	return utf8.RuneCountInString(s)
}

// head is the first n characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// tail is the last n characters.
func tail(s string, n int) string {
	for i := width(s); i > n; i-- {
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	return s
}

// Left appends s cut and padded to exactly n characters.
func Left(b []byte, s string, n int) []byte {
	s = head(Clean(s), n)
	b = append(b, s...)
	return Spaces(b, n-width(s))
}

// LeftLong appends s padded to at least n characters and never cut.
func LeftLong(b []byte, s string, n int) []byte {
	s = Clean(s)
	b = append(b, s...)
	return Spaces(b, n-width(s))
}

// LeftTail is Left for names of jobs: what is too long keeps its end, after a star.
func LeftTail(b []byte, s string, n int) []byte {
	s = Clean(s)
	if w := width(s); w > n && n > 0 {
		b = append(b, '*')
		return append(b, tail(s, n-1)...)
	}
	b = append(b, s...)
	return Spaces(b, n-width(s))
}

// Right appends s right-aligned in at least n characters.
func Right(b []byte, s string, n int) []byte {
	s = Clean(s)
	b = Spaces(b, n-width(s))
	return append(b, s...)
}

// RightInt is Right for a number.
func RightInt(b []byte, v int64, n int) []byte {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], v, 10)
	b = Spaces(b, n-len(d))
	return append(b, d...)
}

// LeftInt appends a number padded to at least n characters.
func LeftInt(b []byte, v int64, n int) []byte {
	at := len(b)
	b = strconv.AppendInt(b, v, 10)
	return Spaces(b, n-(len(b)-at))
}

// dash is s, or "-" for nothing.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// one is v with a decimal, as LSF prints minutes and seconds.
func one(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'f', 1, 64) }
