package command

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// tarTree writes a directory as an archive. Nothing outside of it is read: symbolic links are written as links. Sockets, pipes
// and devices are left out, which notes say. A file that cannot be read is an error: an image without it would not be the same.
func tarTree(ctx context.Context, dir string, w io.Writer) (notes []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	t := &treeWriter{root: root, out: tar.NewWriter(w), seen: map[inode]string{}}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || name == "." {
			return err
		}
		return t.entry(name)
	})
	if t.skipped > 0 {
		notes = append(notes, fmt.Sprintf("%d sockets, pipes and devices were left out", t.skipped))
	}
	return notes, errors.Join(err, t.out.Close())
}

type inode struct{ dev, ino uint64 }

type treeWriter struct {
	root    *os.Root
	out     *tar.Writer
	seen    map[inode]string // files with more than one name
	skipped int
}

func (t *treeWriter) entry(name string) error {
	info, err := t.root.Lstat(name)
	if err != nil {
		return err
	}
	target := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err = t.root.Readlink(name); err != nil {
			return err
		}
	case !info.IsDir() && !info.Mode().IsRegular():
		t.skipped++
		return nil
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name = name
	if info.IsDir() {
		h.Name += "/"
	}
	h.Format = tar.FormatPAX // whole seconds are enough, names of any length are not
	h.Uname, h.Gname = "", ""
	if !info.Mode().IsRegular() {
		return t.out.WriteHeader(h)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		key := inode{uint64(st.Dev), st.Ino}
		if first, again := t.seen[key]; again {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return t.out.WriteHeader(h)
		}
		t.seen[key] = name
	}
	return t.file(name, h)
}

func (t *treeWriter) file(name string, h *tar.Header) error {
	f, err := t.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.out.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(t.out, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size {
		err = fmt.Errorf("%s became shorter while it was read", name)
	}
	return err
}
