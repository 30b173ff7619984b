package images

import (
	"fmt"
	"strings"
)

// Ref names an image: NAME:TAG of the site, or OWNER/NAME:TAG.
type Ref struct {
	Owner string `json:"owner,omitempty"` // "" for the site's
	Name  string `json:"name"`
	Tag   string `json:"tag"`
}

// DefaultTag is that of a name without one, as Docker has it.
const DefaultTag = "latest"

// Lengths of the parts of a Ref, in bytes. Those of name and tag are the OCI distribution specification's.
const (
	maxOwner = 64
	maxName  = 128
	maxTag   = 128
)

// ParseRef reads [OWNER/]NAME[:TAG]. Names and tags have letters, digits and . _ -, and begin with a letter or digit (a tag
// also with _). Upper and lower case differ.
func ParseRef(text string) (Ref, error) {
	bad := func(format string, args ...any) (Ref, error) {
		return Ref{}, fmt.Errorf("%.200q is no image name: want [OWNER/]NAME[:TAG]: %s", text, fmt.Sprintf(format, args...))
	}
	r := Ref{Name: text, Tag: DefaultTag}
	if owner, rest, ok := strings.Cut(text, "/"); ok {
		if err := checkWord("owner", owner, maxOwner, "_"); err != nil {
			return bad("%v", err)
		}
		r.Owner, r.Name = owner, rest
	}
	if name, tag, ok := strings.Cut(r.Name, ":"); ok {
		r.Name, r.Tag = name, tag
	}
	if err := checkWord("name", r.Name, maxName, ""); err != nil {
		return bad("%v", err)
	}
	if err := checkWord("tag", r.Tag, maxTag, "_"); err != nil {
		return bad("%v", err)
	}
	return r, nil
}

func checkWord(what, w string, most int, alsoFirst string) error {
	switch {
	case w == "":
		return fmt.Errorf("the %s is empty", what)
	case len(w) > most:
		return fmt.Errorf("the %s has %d bytes, and may have %d", what, len(w), most)
	}
	for i := range len(w) {
		c := w[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		switch {
		case alnum, i == 0 && strings.IndexByte(alsoFirst, c) >= 0, i > 0 && strings.IndexByte("._-", c) >= 0:
		case i == 0:
			return fmt.Errorf("the %s begins with %q, and may begin with letters and digits", what, c)
		default:
			return fmt.Errorf("the %s has %q, and may have letters, digits and . _ -", what, c)
		}
	}
	return nil
}

// String is the full name: what ParseRef reads as this Ref.
func (r Ref) String() string {
	if r.Owner == "" {
		return r.Short()
	}
	return r.Owner + "/" + r.Short()
}

// Short is the name without its owner.
func (r Ref) Short() string { return r.Name + ":" + r.Tag }

// IsFile says that an image is asked for by a file's path, not by a name.
func IsFile(text string) bool { return strings.HasPrefix(text, "/") }
