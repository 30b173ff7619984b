package sif

import "strings"

// The names by which a layer takes away what the layers below it have.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	internal = ".wh..wh." // of the storage of long ago
)

func (t *tree) whiteOut(name string, dir []string, base string) error {
	parent, err := t.parent(dir, false)
	if err != nil {
		return refused(name, "%w", err)
	}
	hidden := strings.TrimPrefix(base, whiteout)
	switch {
	case parent == nil:
	case base == opaque:
		for child := range parent.children {
			t.prune(parent, child)
		}
	case strings.HasPrefix(base, internal):
	case hidden == "" || hidden == "." || hidden == "..":
		return refused(name, "it takes away nothing that has a name")
	default:
		t.prune(parent, hidden)
	}
	return nil
}

// prune takes away what lower layers have of a name; what this layer has put there, also before, stays.
func (t *tree) prune(parent *node, name string) {
	n := parent.children[name]
	if n == nil {
		return
	}
	for child := range n.children {
		t.prune(n, child)
	}
	if n.layer < t.layer && len(n.children) == 0 {
		delete(parent.children, name)
	}
}
