package queue

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// MaxScript is the size of the largest script that is accepted. It is kept in the database and sent
// to the node whole; data belongs into files.
const MaxScript = 16 << 20

// Errors of a submission without anything to run, in LSF's words.
var (
	ErrNoCommand = errors.New("No command is specified") // nothing at all
	ErrEmptyJob  = errors.New("Empty job")               // only comments
)

// Directive is one #BSUB line of a script.
type Directive struct {
	Line int // from 1, of its first line when a backslash joins several
	Args []string
}

// Directives finds the #BSUB lines of a whole script, not only of its head, as LSF does. A directive
// is optional blanks, "#", optional blanks, "BSUB", blanks and a word that begins with a dash:
// "##BSUB", "#bsub" and "# BSUB told" are comments. Words are grouped by quotes, nothing is expanded,
// a backslash at the end joins the next line, and a "#" after a blank begins a comment. The only
// error is a quote that is not closed.
func Directives(script []byte) ([]Directive, error) {
	var out []Directive
	line := 0
	for len(script) > 0 {
		var text []byte
		text, script = cutLine(script)
		line++
		first := line
		rest, ok := directiveText(text)
		if !ok {
			continue
		}
		rest = bytes.Clone(rest) // to be appended to
		for bytes.HasSuffix(rest, []byte(`\`)) && len(script) > 0 {
			text, script = cutLine(script)
			line++
			// The shell does not join comments, so a careful user begins the next line with #BSUB again.
			if more, ok := afterBSUB(text); ok {
				text = more
			}
			rest = append(append(rest[:len(rest)-1], ' '), text...)
		}
		args, err := splitWords(string(rest))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", first, err)
		}
		if len(args) > 0 {
			out = append(out, Directive{first, args})
		}
	}
	return out, nil
}

func cutLine(b []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(b, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest
}

// directiveText is what follows "#BSUB" when the line is a directive.
func directiveText(line []byte) ([]byte, bool) {
	rest, ok := afterBSUB(line)
	return rest, ok && rest[0] == '-'
}

// afterBSUB is what follows "#BSUB" and blanks, never empty.
func afterBSUB(line []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(line, " \t"), []byte("#"))
	if !ok {
		return nil, false
	}
	rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, " \t"), []byte("BSUB"))
	if !ok {
		return nil, false
	}
	words := bytes.TrimLeft(rest, " \t")
	return words, len(words) < len(rest) && len(words) > 0
}

// splitWords splits at blanks. Quotes of either kind group and go away, also in the middle of a word;
// the other kind stays inside. A backslash takes the next character as it is, in double quotes only
// before a quote or a backslash, and in single quotes never.
func splitWords(s string) ([]string, error) {
	var out []string
	var word strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == '\'' && c != quote, quote == '"' && c != quote && c != '\\':
			word.WriteByte(c)
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && i+1 < len(s) && (quote == 0 || s[i+1] == '"' || s[i+1] == '\\'):
			i++
			word.WriteByte(s[i])
			inWord = true
		case c == '\\':
			if quote != 0 { // at the very end, outside quotes, it joins with nothing
				word.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t':
			if inWord {
				out = append(out, word.String())
				word.Reset()
				inWord = false
			}
		case c == '#' && !inWord:
			return out, nil
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("#BSUB with a quote (%c) that is not closed", quote)
	}
	if inWord {
		out = append(out, word.String())
	}
	return out, nil
}

// CleanScript returns a script as it can be run: without the carriage returns and the byte order mark
// that editors of other systems leave (either breaks the "#!" line). Any other bytes are the script's
// own affair, UTF-8 or not. A script that holds a NUL byte, is too large, or has nothing to run is an
// error: ErrNoCommand when it is blank, ErrEmptyJob when it is only comments.
func CleanScript(b []byte) ([]byte, error) {
	if len(b) > MaxScript {
		return nil, fmt.Errorf("The script is larger than %d MiB", MaxScript>>20)
	}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return nil, fmt.Errorf("Line %d of the script holds a NUL byte: it is no text, or text in UTF-16", 1+bytes.Count(b[:i], []byte("\n")))
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, ErrNoCommand
	}
	if bytes.IndexByte(b, '\r') >= 0 {
		b = bytes.TrimSuffix(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\r"))
	}
	for rest := b; len(rest) > 0; {
		var line []byte
		line, rest = cutLine(rest)
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return b, nil
		}
	}
	return nil, ErrEmptyJob
}
