package sif

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Limits bound what Convert reads and writes. A zero field means its default.
type Limits struct {
	Bytes      int64 // of all files, unpacked; 256 GiB
	Entries    int   // files, directories and links, over all layers; 1,000,000
	PathLength int   // bytes of a name with its folders; 4095, the kernel's own
	Depth      int   // folders within folders; 128
	Ratio      int   // unpacked bytes per packed byte, looked at after the first 64 MiB; 250
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	if l.Bytes == 0 {
		l.Bytes = 256 << 30
	}
	set(&l.Entries, 1_000_000)
	set(&l.PathLength, 4095)
	set(&l.Depth, 128)
	set(&l.Ratio, 250)
	return l
}

// kind is what an entry is.
type kind uint8

const (
	isFile kind = iota
	isDir
	isSymlink
	isHardLink
	isSpecial // device, named pipe, socket
)

// entry is one name of a layer, as the layer gives it.
type entry struct {
	name   string
	kind   kind
	mode   fs.FileMode // permissions, with the set-id bits and the sticky bit
	mtime  int64       // seconds since 1970
	size   int64       // of a file
	target string      // of a link
	sparse bool        // a file with holes that only its header tells of
}

// inode is a file, directory or symbolic link to be. Names that are hard links share one.
type inode struct {
	kind   kind
	mode   fs.FileMode
	mtime  int64
	size   int64
	target string
	data   []byte // the content, where layer is synthetic
	// Where the content of a file is: the index of the entry in the layer, and how it is called there.
	layer, index int
	name         string
}

// synthetic is the layer of what Convert adds.
const synthetic = -1

// node is a name in the tree.
type node struct {
	*inode
	layer    int // in which it was named last
	children map[string]*node
}

// tree is the root file system to be: what the layers read so far make of it.
type tree struct {
	root    *node
	limits  Limits
	layered bool // names beginning with .wh. take away what lower layers have
	layer   int  // the one being read
	bytes   int64
	entries int

	setIDs, specials int // how many were changed, and left out
}

func newTree(l Limits, layered bool) *tree {
	return &tree{limits: l.withDefaults(), layered: layered,
		root: &node{inode: &inode{kind: isDir, mode: 0o755}, children: map[string]*node{}}}
}

// refused is an entry that is not let in.
func refused(name, format string, args ...any) error {
	const most = 200
	shown := strconv.Quote(name)
	if len(name) > most {
		shown = strconv.Quote(name[:most]) + "..."
	}
	return fmt.Errorf("entry %s: %w", shown, fmt.Errorf(format, args...))
}

// add judges the entry with the given index in its layer, and puts it into the tree. It does not keep what it points to.
func (t *tree) add(e entry, index int) error {
	parts, err := t.split(e.name)
	if err != nil {
		return refused(e.name, "%w", err)
	}
	if err := t.count(e); err != nil {
		return refused(e.name, "%w", err)
	}
	if len(parts) == 0 { // the root itself
		if e.kind != isDir {
			return refused(e.name, "the root is no directory")
		}
		t.root.inode = t.inode(e, index)
		return nil
	}
	dir, base := parts[:len(parts)-1], parts[len(parts)-1]
	if t.layered && strings.HasPrefix(base, whiteout) {
		return t.whiteOut(e.name, dir, base)
	}
	if e.kind == isSpecial {
		if mountedOver(parts) {
			t.specials++
			return nil
		}
		return refused(e.name, "a device, named pipe or socket; an image can have them only below /dev, /run and /tmp, where they are left out")
	}
	parent, err := t.parent(dir, true)
	if err != nil {
		return refused(e.name, "%w", err)
	}
	n := &node{inode: t.inode(e, index), layer: t.layer}
	switch e.kind {
	case isSymlink:
		err = checkSymlink(dir, e.target)
	case isHardLink:
		n.inode, err = t.hardLinkTarget(e)
	}
	if err == nil {
		err = t.put(parent, base, n)
	}
	if err != nil {
		return refused(e.name, "%w", err)
	}
	return nil
}

// split cuts a name into its parts, none for the root.
func (t *tree) split(name string) ([]string, error) {
	switch {
	case name == "":
		return nil, errors.New("it has no name")
	case len(name) > t.limits.PathLength:
		return nil, fmt.Errorf("its name has %d bytes; at most %d are allowed", len(name), t.limits.PathLength)
	case name[0] == '/':
		return nil, errors.New("its name is absolute")
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return nil, errors.New(`its name has ".." in it`)
		case len(part) > 255:
			return nil, errors.New("a part of its name has more than 255 bytes")
		case hasControl(part):
			return nil, errors.New("its name has control characters")
		}
		parts = append(parts, part)
	}
	if len(parts) > t.limits.Depth {
		return nil, fmt.Errorf("it lies %d folders deep; at most %d are allowed", len(parts), t.limits.Depth)
	}
	return parts, nil
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// count holds the entry against the limits, before anything of its content is read.
func (t *tree) count(e entry) error {
	if t.entries++; t.entries > t.limits.Entries {
		return fmt.Errorf("more than %d entries", t.limits.Entries)
	}
	if e.kind != isFile {
		return nil
	}
	if e.sparse {
		return errors.New("a sparse file; pack without --sparse")
	}
	if e.size < 0 || e.size > t.limits.Bytes-t.bytes {
		return fmt.Errorf("with its %d bytes there are more than %d, unpacked", e.size, t.limits.Bytes)
	}
	t.bytes += e.size
	return nil
}

// inode makes the inode of an entry. The bits that are dropped would have no effect in a container, and would outside.
func (t *tree) inode(e entry, index int) *inode {
	mode := e.mode.Perm()
	if e.kind == isDir {
		mode |= e.mode&fs.ModeSticky | 0o700
	} else {
		mode |= 0o400
	}
	if e.kind == isFile && e.mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		t.setIDs++
	}
	n := &inode{kind: e.kind, mode: mode, mtime: min(max(e.mtime, 0), 1<<32-1), target: e.target, layer: t.layer, index: index}
	if e.kind == isFile {
		n.size, n.name = e.size, e.name
	}
	return n
}

// parent finds the directory that a name lies in, and makes what is missing of it; nil where it is missing and not made.
func (t *tree) parent(dir []string, create bool) (*node, error) {
	at := t.root
	for i, part := range dir {
		next := at.children[part]
		if next == nil {
			if !create {
				return nil, nil
			}
			if t.entries++; t.entries > t.limits.Entries {
				return nil, fmt.Errorf("more than %d entries", t.limits.Entries)
			}
			next = &node{inode: &inode{kind: isDir, mode: 0o755}, layer: t.layer, children: map[string]*node{}}
			at.children[part] = next
		}
		switch next.kind {
		case isDir:
		case isSymlink:
			return nil, fmt.Errorf("it lies behind the symbolic link %s", strings.Join(dir[:i+1], "/"))
		default:
			return nil, fmt.Errorf("%s, in which it lies, is a file", strings.Join(dir[:i+1], "/"))
		}
		at = next
	}
	return at, nil
}

// put names an inode in a directory. What a lower layer has there is replaced, except that directories become one.
func (t *tree) put(parent *node, base string, n *node) error {
	old := parent.children[base]
	if n.kind == isDir {
		n.children = map[string]*node{}
		if old != nil && old.kind == isDir {
			n.children = old.children
			parent.children[base] = n
			return nil
		}
	}
	if old != nil && old.layer == t.layer {
		return errors.New("the name comes twice")
	}
	parent.children[base] = n
	return nil
}

// hardLinkTarget finds what a hard link is another name of: a file that is already in the tree.
func (t *tree) hardLinkTarget(e entry) (*inode, error) {
	parts, err := t.split(e.target)
	if err != nil {
		return nil, fmt.Errorf("a hard link to %.200q: %w", e.target, err)
	}
	var target *node
	if len(parts) > 0 {
		dir, err := t.parent(parts[:len(parts)-1], false)
		if err != nil {
			return nil, fmt.Errorf("a hard link to %.200q: %w", e.target, err)
		}
		if dir != nil {
			target = dir.children[parts[len(parts)-1]]
		}
	}
	if target == nil || target.kind == isDir {
		return nil, fmt.Errorf("a hard link to %.200q: there is no such file before it", e.target)
	}
	return target.inode, nil
}

// checkSymlink refuses a link that goes above the root. An absolute one means the image's root, and is common.
func checkSymlink(dir []string, target string) error {
	if target == "" || len(target) > 4095 || hasControl(target) {
		return fmt.Errorf("a symbolic link to %.200q: a target has 1 to 4095 bytes and no control characters", target)
	}
	if path.IsAbs(target) {
		return nil
	}
	depth := len(dir)
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return fmt.Errorf("a symbolic link to %.200q, which is outside of the image", target)
			}
		default:
			depth++
		}
	}
	return nil
}

// mountedOver says that Apptainer mounts something of the node over the place.
func mountedOver(parts []string) bool {
	return len(parts) > 1 && (parts[0] == "dev" || parts[0] == "run" || parts[0] == "tmp")
}

// find gives a node by its path, nil for none. No link is followed.
func (t *tree) find(name string) *node {
	at := t.root
	for part := range strings.SplitSeq(name, "/") {
		if at = at.children[part]; at == nil {
			return nil
		}
	}
	return at
}

// set puts a file of ours where nothing stood or something that is no directory. Folders that are links give way.
func (t *tree) set(name string, mode fs.FileMode, data []byte) error {
	dir, base := path.Split(name)
	at := t.root
	for part := range strings.SplitSeq(path.Clean(dir), "/") {
		next := at.children[part]
		if next == nil || next.kind != isDir {
			next = &node{inode: &inode{kind: isDir, mode: 0o755}, children: map[string]*node{}}
			at.children[part] = next
		}
		at = next
	}
	if old := at.children[base]; old != nil && old.kind == isDir {
		return fmt.Errorf("/%s is a directory in the image; Apptainer needs a file there", name)
	}
	at.children[base] = &node{inode: &inode{kind: isFile, mode: mode, size: int64(len(data)), data: data, layer: synthetic}}
	return nil
}

// mkdir makes a directory of ours below an existing one, unless something stands there.
func (t *tree) mkdir(dir *node, name string, mode fs.FileMode) *node {
	n := dir.children[name]
	if n == nil {
		n = &node{inode: &inode{kind: isDir, mode: mode}, children: map[string]*node{}}
		dir.children[name] = n
	}
	return n
}
