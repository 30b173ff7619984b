package queue

import (
	"fairslice/nodes"
)

// Facts is what select[…] can ask of a host. Sizes are in MB (2^20 bytes), as LSF counts them.
type Facts interface {
	Number(name string) (float64, bool)
	Text(name string) (string, bool)
	Has(name string) bool // boolean resources, and defined()
}

// Selector is a Select ready to be evaluated many times.
type Selector struct{ root *selNode }

// Compile prepares s. An error means that s was not made by ParseSelect.
func (s Select) Compile() (Selector, error) {
	if s == "" {
		return Selector{}, nil
	}
	n, err := s.parse()
	return Selector{n}, err
}

// Match says whether s chooses the host. See Selector.Match.
func (s Select) Match(f Facts) (bool, error) {
	c, err := s.Compile()
	if err != nil {
		return false, err
	}
	return c.Match(f), nil
}

// Match says whether the host is chosen; the zero Selector chooses every host. A comparison with
// something that the host does not report is false, as in LSF, and so its negation is true.
func (c Selector) Match(f Facts) bool { return c.root == nil || c.root.match(f) }

func (n *selNode) match(f Facts) bool {
	switch n.op {
	case selOr:
		for _, k := range n.kids {
			if k.match(f) {
				return true
			}
		}
		return false
	case selAnd:
		for _, k := range n.kids {
			if !k.match(f) {
				return false
			}
		}
		return true
	case selNot:
		return !n.kids[0].match(f)
	case selBool:
		return f.Has(n.name)
	case selDefined:
		if _, ok := f.Number(n.name); ok {
			return true
		}
		_, ok := f.Text(n.name)
		return ok || f.Has(n.name)
	case selText:
		// "any" and "local" stand for every type and model: there is one kind of submission host here.
		if (n.name == "type" || n.name == "model") && (n.text == "any" || n.text == "local") {
			return n.cmp == "=="
		}
		have, ok := f.Text(n.name)
		return ok && (have == n.text) == (n.cmp == "==")
	case selSize:
		have, ok := f.Number(n.name)
		return ok && compareNumbers(have, n.cmp, float64(n.bytes)/float64(mib))
	}
	have, ok := f.Number(n.name)
	return ok && compareNumbers(have, n.cmp, n.number)
}

func compareNumbers[T int | float64](a T, cmp string, b T) bool {
	switch cmp {
	case "==":
		return a == b
	case "!=":
		return a != b
	case ">":
		return a > b
	case ">=":
		return a >= b
	case "<":
		return a < b
	}
	return a <= b
}

// NodeFacts are the facts that a node's record holds: mem (free), maxmem, ncpus, slots (free), ngpus
// and ngpus_physical (that answer), the consumables (free; a consumable also counts as a boolean),
// type, model and hname. Load and disk (ut, r1m, tmp, swp and the like) are not measured: comparisons
// with them choose no host.
func NodeFacts(n *nodes.Node) Facts { return nodeFacts{n} }

type nodeFacts struct{ n *nodes.Node }

func (f nodeFacts) Number(name string) (float64, bool) {
	n := f.n
	switch name {
	case "mem":
		return float64(n.Memory-n.UsedMemory) / float64(mib), true
	case "maxmem":
		return float64(max(n.MaxMemory, n.Memory)) / float64(mib), true
	case "ncpus":
		return float64(n.Slots), true
	case "slots":
		return float64(n.Slots - n.UsedSlots), true
	case "ngpus", "ngpus_physical":
		count := 0
		for i := range n.GPUs {
			if !n.GPUs[i].Lost {
				count++
			}
		}
		return float64(count), true
	}
	if n.Consumables == "" {
		return 0, false
	}
	have, ok := n.Consumables.Map()[name]
	return float64(have - n.UsedConsumables.Map()[name]), ok
}

func (f nodeFacts) Text(name string) (string, bool) {
	text := ""
	switch name {
	case "hname":
		text = string(f.n.ID)
	case "type":
		text = f.n.Type
	case "model":
		text = f.n.Model
	}
	return text, text != ""
}

func (f nodeFacts) Has(name string) bool {
	return f.n.Consumables != "" && f.n.Consumables.Map()[name] > 0
}
