package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of -m.
const (
	maxHostWishes = 1024
	maxPreference = 1_000_000
)

// ParseHosts reads -m: words separated by blanks, each a host or host group, "!" after it when it is
// to run the job's command, "+n" for preference ("+" alone is +1); or the word "others", which stands
// for every other host. FormatHosts is the inverse.
func ParseHosts(s string) ([]HostWish, error) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return nil, errors.New("-m is empty: want host names separated by blanks, such as \"h1! h2+2 others\"")
	}
	if len(words) > maxHostWishes {
		return nil, fmt.Errorf("-m names %d hosts: at most %d; use a host group or select[...]", len(words), maxHostWishes)
	}
	out := make([]HostWish, 0, len(words))
	seen := map[string]bool{}
	for _, word := range words {
		w, err := parseHostWish(word)
		if err != nil {
			return nil, fmt.Errorf("%s: Bad host name, host group name or cluster name: %w", quoteInput(word), err)
		}
		if seen[w.Name] {
			return nil, fmt.Errorf("%s: Bad host specification: named twice", quoteInput(w.Name))
		}
		seen[w.Name] = true
		out = append(out, w)
	}
	return out, nil
}

func parseHostWish(word string) (HostWish, error) {
	name, preference, plus := strings.Cut(word, "+")
	w := HostWish{}
	if w.Name, w.First = strings.CutSuffix(name, "!"); w.First && w.Name == "others" {
		return w, errors.New("\"others\" cannot be the first execution host")
	}
	w.Others = w.Name == "others"
	if err := hostNameError(w.Name); err != nil {
		return w, err
	}
	switch {
	case !plus:
	case preference == "":
		w.Preference = 1
	case !allDigits(preference):
		return w, fmt.Errorf("want a number after +, got %s", quoteInput(preference))
	default:
		n, err := strconv.Atoi(preference)
		if err != nil || n < 1 || n > maxPreference {
			return w, fmt.Errorf("want a preference from 1 to %d, got %s", maxPreference, quoteInput(preference))
		}
		w.Preference = n
	}
	return w, nil
}

// hostNameError says what is wrong with a host or host group name.
func hostNameError(name string) error {
	if name == "" || len(name) > 255 {
		return errors.New("want a name of 1 to 255 characters")
	}
	for i := range len(name) {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || !strings.ContainsRune("._-", rune(c))) {
			hint := ""
			if c == '~' {
				hint = " (to leave a host out, use -R \"select[hname!='host']\")"
			}
			return fmt.Errorf("want letters, digits and . _ - only, got %s%s", quoteInput(name), hint)
		}
	}
	return nil
}

// String is one word of -m.
func (h HostWish) String() string {
	s := h.Name
	if h.First {
		s += "!"
	}
	if h.Preference > 0 {
		s += "+" + strconv.Itoa(h.Preference)
	}
	return s
}

// FormatHosts is the canonical text of -m.
func FormatHosts(wishes []HostWish) string {
	words := make([]string, len(wishes))
	for i, w := range wishes {
		words[i] = w.String()
	}
	return strings.Join(words, " ")
}
