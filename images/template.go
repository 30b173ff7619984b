package images

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxExpanded bounds what a template can become: a small one can name a variable many times.
const maxExpanded = 4 * MaxServiceBytes

// fillStrict follows Python's str.format: {{ and }} are braces, a single one that closes nothing is an error.
func fillStrict(s string, values map[string]string) (string, error) {
	var b strings.Builder
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			i = len(s)
		}
		b.WriteString(s[:i])
		if s = s[i:]; s == "" {
			break
		}
		if len(s) > 1 && s[1] == s[0] {
			b.WriteByte(s[0])
			s = s[2:]
			continue
		}
		end := strings.IndexByte(s, '}')
		if s[0] == '}' || end < 0 {
			return "", fmt.Errorf("%s: a brace alone; write {{ or }} for a brace", brief(s))
		}
		if err := put(&b, s[1:end], values); err != nil {
			return "", err
		}
		s = s[end+1:]
	}
	return b.String(), nil
}

// fillLoose fills {name} and ${{ name }} and leaves ${name} and {{ alone, which are a shell's.
func fillLoose(s string, values map[string]string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); {
		open := ""
		switch {
		case strings.HasPrefix(s[i:], "${{"):
			open = "${{"
		case s[i] == '{' && (i == 0 || s[i-1] != '$' && s[i-1] != '{'):
			open = "{"
		}
		closing := strings.Repeat("}", max(1, len(open)-1))
		end := -1
		if open != "" {
			end = strings.Index(s[i+len(open):], closing)
		}
		if end < 0 {
			b.WriteByte(s[i])
			i++
			continue
		}
		if err := put(&b, strings.TrimSpace(s[i+len(open):i+len(open)+end]), values); err != nil {
			return "", err
		}
		i += len(open) + end + len(closing)
	}
	return b.String(), nil
}

func put(b *strings.Builder, name string, values map[string]string) error {
	value, ok := values[name]
	if !ok {
		return fmt.Errorf("there is no variable {%s}; there are %s", name, strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	}
	if b.Len()+len(value) > maxExpanded {
		return fmt.Errorf("more than %d bytes", maxExpanded)
	}
	b.WriteString(value)
	return nil
}
