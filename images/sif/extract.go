package sif

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// content is a file to be written, with all its names.
type content struct {
	*inode
	paths []string
}

// plan is a tree in the order in which it is written.
type plan struct {
	dirs     []named // a directory before what is in it
	files    map[int][]*content
	symlinks []named
	newest   int64 // modification time
}

type named struct {
	path string
	*inode
}

// plan lays out a tree that is complete.
func (t *tree) plan() *plan {
	p := &plan{files: map[int][]*content{}}
	seen := map[*inode]*content{}
	var walk func(at *node, name string)
	walk = func(at *node, name string) {
		p.newest = max(p.newest, at.mtime)
		switch at.kind {
		case isDir:
			p.dirs = append(p.dirs, named{name, at.inode})
			for _, child := range slices.Sorted(maps.Keys(at.children)) {
				walk(at.children[child], path.Join(name, child))
			}
		case isSymlink:
			p.symlinks = append(p.symlinks, named{name, at.inode})
		default:
			c := seen[at.inode]
			if c == nil {
				c = &content{inode: at.inode}
				seen[at.inode] = c
				p.files[c.layer] = append(p.files[c.layer], c)
			}
			c.paths = append(c.paths, name)
		}
	}
	walk(t.root, ".")
	for _, list := range p.files {
		slices.SortFunc(list, func(a, b *content) int { return a.index - b.index })
	}
	return p
}

// writer writes a plan below a directory that is empty and ours.
type writer struct {
	root *os.Root
	// The directory written to last: most entries of an archive follow others of their folder.
	last string
	dir  *os.Root
}

// extract writes the tree's files into dir. The layers are read again, and must be what they were.
func extract(ctx context.Context, t *tree, layers []layer, dir string, read func(int64)) (newest int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	w := &writer{root: root, last: ".", dir: root}
	defer w.close()
	p := t.plan()
	for _, d := range p.dirs[1:] { // the first is the root
		if err := root.Mkdir(d.path, 0o700); err != nil {
			return 0, err
		}
	}
	for _, c := range p.files[synthetic] {
		if err := w.file(c, nil); err != nil {
			return 0, err
		}
	}
	for i, l := range layers {
		if err := w.layer(ctx, p.files[i], l, t.limits, read); err != nil {
			return 0, err
		}
	}
	for _, s := range p.symlinks {
		if err := root.Symlink(s.target, s.path); err != nil {
			return 0, err
		}
	}
	for _, d := range slices.Backward(p.dirs) {
		if err := root.Chmod(d.path, d.mode); err != nil {
			return 0, err
		}
		when := time.Unix(d.mtime, 0)
		if err := root.Chtimes(d.path, when, when); err != nil {
			return 0, err
		}
	}
	return p.newest, nil
}

// layer writes the files whose content is in a layer.
func (w *writer) layer(ctx context.Context, files []*content, l layer, limits Limits, read func(int64)) error {
	index := -1
	err := l.walk(ctx, limits, read, func(e entry, r io.Reader) error {
		index++
		if len(files) == 0 || files[0].index != index {
			return nil
		}
		c := files[0]
		files = files[1:]
		if e.kind != isFile || e.name != c.name || e.size != c.size {
			return refused(e.name, "it was changed while it was read")
		}
		return w.file(c, r)
	})
	if err == nil && len(files) > 0 {
		err = refused(files[0].name, "it was changed while it was read")
	}
	return err
}

func (w *writer) file(c *content, r io.Reader) error {
	name := c.paths[0]
	dir, err := w.at(path.Dir(name))
	if err != nil {
		return err
	}
	f, err := dir.OpenFile(path.Base(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(f, c, r), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	for _, other := range c.paths[1:] {
		if err := w.root.Link(name, other); err != nil {
			return err
		}
	}
	return nil
}

func fill(f *os.File, c *content, r io.Reader) error {
	n := c.size
	var err error
	if c.layer == synthetic {
		_, err = f.Write(c.data)
	} else {
		n, err = io.Copy(f, r)
	}
	if err == nil && n != c.size {
		err = fmt.Errorf("it has %d bytes, not %d: it was changed while it was read", n, c.size)
	}
	if err == nil {
		err = f.Chmod(c.mode)
	}
	if err == nil {
		when := []syscall.Timeval{{Sec: c.mtime}, {Sec: c.mtime}}
		err = syscall.Futimes(int(f.Fd()), when)
	}
	return err
}

// at opens a directory of the tree.
func (w *writer) at(dir string) (*os.Root, error) {
	if dir == w.last {
		return w.dir, nil
	}
	next, err := w.root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if w.dir != w.root {
		w.dir.Close()
	}
	w.last, w.dir = dir, next
	return next, nil
}

func (w *writer) close() {
	if w.dir != w.root {
		w.dir.Close()
	}
	w.root.Close()
}
