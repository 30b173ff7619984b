package etc

import (
	"bytes"
	"errors"
	"sort"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// item is a value of the file and where it stands.
type item struct {
	offset int           // of its key; of itself inside an array
	kind   unstable.Kind // Table, ArrayTable, Array or the kind of a scalar
	text   string        // of a scalar: a string's contents, anything else as written
	keys   []string      // of a table, in the order of the file
	table  map[string]*item
	list   []*item // of an Array or an ArrayTable
}

// child is the value of a table's key, or nil.
func (i *item) child(key string) *item {
	if i == nil {
		return nil
	}
	return i.table[key]
}

func (i *item) put(key string, c *item) {
	if i.table == nil {
		i.table = map[string]*item{}
	}
	if _, again := i.table[key]; !again {
		i.keys = append(i.keys, key)
	}
	i.table[key] = c
}

// document is a file's tree.
type document struct {
	root  *item
	lines []int // offset of each line's first byte
}

// position gives line and column, from 1, the column in bytes.
func (d *document) position(offset int) (line, column int) {
	line = sort.SearchInts(d.lines, offset+1)
	return line, offset - d.lines[line-1] + 1
}

// readTree reads TOML. A mistake of form ends the tree where it stands; then the tree is not whole, and what refers
// from one part of it to another cannot be judged. Of keys given twice, which the decoder finds, the last counts.
func readTree(data []byte) (d *document, whole bool, mistakes []Mistake) {
	d = &document{root: &item{kind: unstable.Table}, lines: []int{0}}
	data = bytes.Clone(data) // the parser finds positions by capacity, so data must be all of its array
	for i, c := range data {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	var p unstable.Parser
	p.Reset(data)
	b := builder{doc: d, at: d.root}
	for p.NextExpression() {
		b.add(p.Expression())
	}
	whole = p.Error() == nil
	// The decoder checks what the parser leaves open: keys given twice, numbers too large, dates that are none.
	var into map[string]any
	var wrong *toml.DecodeError
	err := toml.Unmarshal(data, &into)
	switch {
	case errors.As(err, &wrong):
		line, column := wrong.Position()
		return d, whole, []Mistake{{Line: line, Column: column, Msg: trimPrefix(wrong.Error())}}
	case err != nil:
		return d, whole, []Mistake{{Msg: trimPrefix(err.Error())}}
	}
	return d, whole, nil
}

// builder hangs one expression after the other into the tree. It never fails: where the file contradicts
// itself (a key both table and value), the decoder has a mistake to report, and the builder only must not fall over.
type builder struct {
	doc *document
	at  *item // the table of the last header
}

func (b *builder) add(n *unstable.Node) {
	switch n.Kind {
	case unstable.KeyValue:
		addKeyValue(b.at, n)
	case unstable.Table, unstable.ArrayTable:
		at := b.doc.root
		it := n.Key()
		for it.Next() {
			if k := it.Node(); it.IsLast() && n.Kind == unstable.ArrayTable {
				at = appendTable(at, k)
			} else {
				at = enter(at, k)
			}
		}
		b.at = at
	}
}

// enter is the table at a key: the one that is there, the last of a list of tables, or a new one.
func enter(at *item, k *unstable.Node) *item {
	key := string(k.Data)
	c := at.child(key)
	if c != nil && c.kind == unstable.ArrayTable {
		return c.list[len(c.list)-1]
	}
	if c == nil || c.kind != unstable.Table {
		c = &item{kind: unstable.Table, offset: int(k.Raw.Offset)}
		at.put(key, c)
	}
	return c
}

func appendTable(at *item, k *unstable.Node) *item {
	key := string(k.Data)
	c := at.child(key)
	if c == nil || c.kind != unstable.ArrayTable {
		c = &item{kind: unstable.ArrayTable, offset: int(k.Raw.Offset)}
		at.put(key, c)
	}
	t := &item{kind: unstable.Table, offset: int(k.Raw.Offset)}
	c.list = append(c.list, t)
	return t
}

func addKeyValue(at *item, n *unstable.Node) {
	it := n.Key()
	for it.Next() {
		k := it.Node()
		if !it.IsLast() {
			at = enter(at, k)
			continue
		}
		v := newItem(n.Value(), int(k.Raw.Offset))
		at.put(string(k.Data), v)
	}
}

// newItem copies a value out of the parser, which reuses its memory for the next expression.
func newItem(n *unstable.Node, offset int) *item {
	i := &item{kind: n.Kind, offset: offset}
	switch n.Kind {
	case unstable.InlineTable:
		i.kind = unstable.Table
		for c := n.Child(); c != nil; c = c.Next() {
			if c.Kind == unstable.KeyValue {
				addKeyValue(i, c)
			}
		}
	case unstable.Array:
		for c := n.Child(); c != nil; c = c.Next() {
			if c.Kind == unstable.Comment {
				continue
			}
			at := offset
			if c.Raw.Length > 0 { // scalars know their place, arrays do not
				at = int(c.Raw.Offset)
			}
			i.list = append(i.list, newItem(c, at))
		}
	default:
		i.text = string(n.Data)
	}
	return i
}
