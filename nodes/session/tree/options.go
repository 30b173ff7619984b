package tree

import (
	"fmt"
	"strings"
)

// Options of a copy.
type Options struct {
	Recursive bool // Send: directories, too
	Into      bool // Receive: the destination must be a directory
	// Note is told a line for each thing that could not be copied; the others are copied. Required.
	Note func(line string)
	// Each is told the name of each file under way; may be nil.
	Each func(name string)
}

func (o *Options) each(name string) {
	if o.Each != nil {
		o.Each(name)
	}
}

// Bounds of a name in the stream.
const (
	maxName      = 4096
	maxComponent = 255
	maxDepth     = 200 // a descriptor is held for each
)

// parseName takes a name of the stream apart. One that could lead out of the destination is an error.
func parseName(name string) ([]string, error) {
	bad := func(why string) ([]string, error) {
		if len(name) > 120 {
			name = name[:120] + "…"
		}
		return nil, fmt.Errorf("the name %q in the stream %s", name, why)
	}
	switch {
	case len(name) > maxName:
		return bad(fmt.Sprintf("is longer than %d bytes", maxName))
	case strings.IndexByte(name, 0) >= 0:
		return bad("has a zero byte")
	case strings.HasPrefix(name, "/"):
		return bad("is absolute")
	}
	parts := strings.Split(strings.TrimSuffix(name, "/"), "/")
	if len(parts) > maxDepth {
		return bad(fmt.Sprintf("is deeper than %d directories", maxDepth))
	}
	for _, p := range parts {
		switch {
		case p == "" || p == "." || p == "..":
			return bad(fmt.Sprintf("has the part %q", p))
		case len(p) > maxComponent:
			return bad(fmt.Sprintf("has a part longer than %d bytes", maxComponent))
		}
	}
	return parts, nil
}
