package etc

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// checker has one method per kind of value that several keys share.
type checker struct{ r *report }

func (v *checker) say(p path, format string, args ...any) { v.r.say(p, format, args...) }

func (v *checker) oneOf(p path, s string, words ...string) {
	if !slices.Contains(words, s) {
		v.say(p, "want one of %s; got %s", strings.Join(words, ", "), quote(s))
	}
}

func (v *checker) between(p path, n, least, most int) {
	if n < least || n > most {
		v.say(p, "want %d to %d; got %d", least, most, n)
	}
}

func (v *checker) notNegative(p path, n int64) {
	if n < 0 {
		v.say(p, "must not be negative; got %d", n)
	}
}

func (v *checker) duration(p path, d, least, most time.Duration) {
	if d < least || d > most {
		v.say(p, "want %s to %s; got %s", least, most, d)
	}
}

func (v *checker) amount(p path, a Amount) {
	if a <= 0 || a > maxAmount {
		v.say(p, "%s; got %d/100", wantAmount, a)
	}
}

// absolute checks a path of this or another machine; that something is there, only the daemon can know.
func (v *checker) absolute(p path, s string, needed bool) {
	switch {
	case s == "" && !needed:
	case s == "":
		v.say(p, "must not be empty: want an absolute path")
	case !filepath.IsAbs(s) || strings.ContainsAny(s, "\n\r\x00"):
		v.say(p, "want an absolute path; got %s", quote(s))
	}
}

// name checks what people type and listings print in one column: no blanks, nothing that a shell would eat.
func (v *checker) name(p path, s string) {
	if !isWord(s, "._-@+") || len(s) > 128 {
		v.say(p, "want 1 to 128 letters, digits and . _ - @ +, first a letter, a digit or _; got %s", quote(s))
	}
}

// user also accepts the names of directory services, such as user@site and SITE\user.
func (v *checker) user(p path, s string) {
	if !isWord(s, `._-@+\`) || len(s) > 128 {
		v.say(p, "want a user name; got %s", quote(s))
	}
}

func (v *checker) hostName(p path, s string) {
	if !isWord(s, "._-:") || len(s) > 255 {
		v.say(p, "want a host name; got %s", quote(s))
	}
}

// line checks a text that is shown as it is.
func (v *checker) line(p path, s string, needed bool) {
	switch {
	case s == "" && needed:
		v.say(p, "must not be empty")
	case len(s) > 1000 || !utf8.ValidString(s) || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		v.say(p, "want one line of at most 1000 bytes; got %s", quote(s))
	}
}

// list checks every element, and that none is there twice.
func (v *checker) list(p path, all []string, check func(path, string)) {
	for i, s := range all {
		check(p.with(i), s)
		if slices.Contains(all[:i], s) {
			v.say(p.with(i), "%s is in the list twice", quote(s))
		}
	}
}

// unique checks the names of a list of sections.
func (v *checker) unique(section string, names []string) {
	first := map[string]int{}
	for i, name := range names {
		if j, twice := first[name]; twice && name != "" {
			v.say(path{section, i, "name"}, "there is a %s of this name already%s", section, v.r.line(path{section, j, "name"}))
			continue
		}
		first[name] = i
	}
}

// notAbove checks a default, or a part, against its greatest value. 0 is no limit.
func (v *checker) notAbove(p path, key, maxKey string, value, most int64) {
	v.notNegative(p.with(key), value)
	v.notNegative(p.with(maxKey), most)
	if most > 0 && value > most && v.r.ok(p.with(key), p.with(maxKey)) {
		v.say(p.with(key), "must not be more than %s%s", maxKey, v.r.line(p.with(maxKey)))
	}
}

// isWord says that s is letters, digits and the characters of more, and does not begin with one that commands read as an option.
func isWord(s, more string) bool {
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && c != '_' && (i == 0 || !strings.Contains(more, string(rune(c)))) {
			return false
		}
	}
	return s != ""
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func isResourceName(s string) bool {
	return isWord(s, "") && !strings.ContainsAny(s[:1], "0123456789_") && len(s) <= 39
}

// isImageName accepts "name" and "name:tag".
func isImageName(s string) bool {
	name, tag, tagged := strings.Cut(s, ":")
	return isWord(name, "._-/") && (!tagged || isWord(tag, "._-")) && len(s) <= 255
}
