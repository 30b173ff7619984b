package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Send writes the tree of these paths, each under its last name. An error ends the stream early; what merely cannot be
// read is noted.
func Send(w io.Writer, paths []string, o Options) error {
	s := &sender{Options: o, tar: tar.NewWriter(w)}
	for _, p := range paths {
		if err := s.named(p); err != nil {
			return err
		}
	}
	return s.tar.Close()
}

type sender struct {
	Options
	tar *tar.Writer
}

// named sends what the user named. As with cp, a symbolic link is followed unless directories are copied, too.
func (s *sender) named(path string) error {
	path = filepath.Clean(path)
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	name := filepath.Base(path)
	look := os.Lstat
	if !s.Recursive {
		look = os.Stat
	}
	st, err := look(path)
	switch {
	case err != nil:
		s.Note(err.Error())
		return nil
	case name == "/":
		s.Note("/ has no name: copy the directories in it")
		return nil
	case st.IsDir() && !s.Recursive:
		s.Note(path + ": is a directory: -r copies it")
		return nil
	}
	return s.entry(path, name, st)
}

func (s *sender) entry(path, name string, st fs.FileInfo) error {
	h := &tar.Header{Name: name, Mode: int64(st.Mode().Perm()), ModTime: st.ModTime(), Format: tar.FormatPAX}
	switch mode := st.Mode(); {
	case mode.IsDir():
		return s.directory(path, h)
	case mode.IsRegular():
		return s.file(path, h)
	case mode&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err != nil {
			s.Note(err.Error())
			return nil
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, to
		return s.tar.WriteHeader(h)
	}
	s.Note(path + ": is no file, directory or link: left out")
	return nil
}

func (s *sender) directory(path string, h *tar.Header) error {
	name := h.Name
	entries, err := os.ReadDir(path)
	if err != nil {
		s.Note(err.Error()) // what was read of it is sent
	}
	h.Typeflag, h.Name = tar.TypeDir, name+"/"
	if err := s.tar.WriteHeader(h); err != nil {
		return err
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) { // it has gone meanwhile
				s.Note(err.Error())
			}
			continue
		}
		if err := s.entry(filepath.Join(path, e.Name()), name+"/"+e.Name(), st); err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) file(path string, h *tar.Header) error {
	// Not what may have taken its place: a link, or a pipe that nobody writes.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		s.Note(err.Error())
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		s.Note(path + ": changed while it was copied: left out")
		return nil
	}
	h.Typeflag, h.Size, h.Mode, h.ModTime = tar.TypeReg, st.Size(), int64(st.Mode().Perm()), st.ModTime()
	s.each(h.Name)
	if err := s.tar.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(s.tar, io.LimitReader(f, h.Size))
	if n < h.Size && (err == nil || isReadError(err)) {
		why := "became shorter"
		if err != nil {
			why = err.Error()
		}
		s.Note(fmt.Sprintf("%s: %s while it was copied: the copy is padded with zeros", path, why))
		_, err = io.CopyN(s.tar, zeros{}, h.Size-n)
	}
	return err
}

func isReadError(err error) bool {
	var e *os.PathError
	return errors.As(err, &e) && e.Op == "read"
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
