package tree

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Receive puts a stream's tree into to where that is a directory, and otherwise makes its one top entry to. An error ends
// the copy; what merely cannot be written is noted. r is read to the end of the archive.
func Receive(r io.Reader, to string, o Options) error {
	rc := &receiver{Options: o, tar: tar.NewReader(r)}
	if err := rc.open(to); err != nil {
		return err
	}
	err := rc.all()
	rc.leave(0)
	_ = rc.levels[0].root.Close()
	return err
}

type receiver struct {
	Options
	tar     *tar.Reader
	top     string // what the stream's one top entry is to be called; "" in a directory
	first   string // what the stream calls it
	levels  []level
	skipped string // a directory that could not be made: what is in it is passed over
}

// level is an open directory of the way to the present entry.
type level struct {
	root  *os.Root
	name  string      // below the level before
	mode  fs.FileMode // to be set when all in it is there
	times time.Time
}

func (rc *receiver) open(to string) error {
	st, err := os.Stat(to)
	switch {
	case err == nil && st.IsDir():
	case rc.Into || strings.HasSuffix(to, "/"):
		if err == nil {
			err = &fs.PathError{Op: "copy into", Path: to, Err: syscall.ENOTDIR}
		}
		return err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		to, rc.top = filepath.Split(filepath.Clean(to))
		if to == "" {
			to = "."
		}
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	rc.levels = []level{{root: root}}
	return nil
}

func (rc *receiver) all() error {
	for {
		h, err := rc.tar.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		if err := rc.entry(h); err != nil {
			return err
		}
	}
}

// entry makes one entry. An error ends the copy.
func (rc *receiver) entry(h *tar.Header) error {
	parts, err := parseName(h.Name)
	if err != nil {
		return err
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // its size costs the sender nothing
			return fmt.Errorf("%q in the stream is sparse", h.Name)
		}
	}
	if rc.top != "" {
		if rc.first == "" {
			rc.first = parts[0]
		}
		if parts[0] != rc.first {
			return errors.New("the stream has more than one entry: copy into a directory")
		}
		parts[0] = rc.top
	}
	if rc.skipped != "" && strings.HasPrefix(strings.Join(parts, "/")+"/", rc.skipped) {
		return nil
	}
	last := len(parts) - 1
	if err := rc.enter(parts[:last]); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = rc.directory(h, parts)
	case tar.TypeReg:
		rc.each(strings.Join(parts, "/"))
		err = rc.file(h, parts[last])
	case tar.TypeSymlink:
		err = rc.link(h, parts[last])
	default:
		return fmt.Errorf("%q in the stream is of type %q: only files, directories and symbolic links are taken", h.Name, h.Typeflag)
	}
	switch {
	case err == nil:
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, errStream):
		return err
	default:
		rc.Note(strings.Join(parts, "/") + ": " + plain(err).Error())
	}
	return nil
}

var errStream = errors.New("read the stream")

// plain is an error without the name that it is about, which here is relative to somewhere.
func plain(err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

// enter opens the directories of a way, which the stream must have named before, and leaves others.
func (rc *receiver) enter(way []string) error {
	same := 0
	for same < len(way) && same+1 < len(rc.levels) && rc.levels[same+1].name == way[same] {
		same++
	}
	rc.leave(same)
	if same < len(way) {
		return fmt.Errorf("%q in the stream is in a directory that does not come right before it", strings.Join(way, "/"))
	}
	return nil
}

// leave closes the levels behind keep, and gives each its mode and time.
func (rc *receiver) leave(keep int) {
	for len(rc.levels) > keep+1 {
		l := rc.levels[len(rc.levels)-1]
		rc.levels = rc.levels[:len(rc.levels)-1]
		err := l.root.Chmod(".", l.mode)
		if err == nil {
			err = l.root.Chtimes(".", time.Time{}, l.times)
		}
		if err != nil {
			rc.Note(l.name + ": " + plain(err).Error())
		}
		_ = l.root.Close()
	}
}

func (rc *receiver) here() *os.Root { return rc.levels[len(rc.levels)-1].root }

func (rc *receiver) directory(h *tar.Header, parts []string) error {
	name := parts[len(parts)-1]
	err := rc.makeDirectory(name)
	if err != nil {
		rc.skipped = strings.Join(parts, "/") + "/"
		return err
	}
	root, err := openReal(rc.here(), name)
	if err != nil {
		rc.skipped = strings.Join(parts, "/") + "/"
		return err
	}
	rc.levels = append(rc.levels, level{root: root, name: name, mode: fs.FileMode(h.Mode).Perm(), times: h.ModTime})
	return nil
}

func (rc *receiver) makeDirectory(name string) error {
	err := rc.here().Mkdir(name, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil // openReal looks what it is
}

// openReal opens a directory that is one itself, not a link to one.
func openReal(in *os.Root, name string) (*os.Root, error) {
	st, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	root, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := root.Stat("."); err != nil || !os.SameFile(st, now) {
		_ = root.Close()
		return nil, fmt.Errorf("%s changes while it is written to", name)
	}
	return root, nil
}

func temporary() string { return ".bcp-" + rand.Text() }

func (rc *receiver) file(h *tar.Header, name string) error {
	in, temp := rc.here(), temporary()
	f, err := in.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = rc.fill(f, h.Size)
	if err == nil {
		err = f.Chmod(fs.FileMode(h.Mode).Perm())
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = in.Chtimes(temp, time.Time{}, h.ModTime)
	}
	return rc.put(temp, name, err)
}

// put gives what was made under a temporary name its own, or removes it. A directory is not replaced.
func (rc *receiver) put(temp, name string, err error) error {
	in := rc.here()
	if err == nil {
		err = in.Rename(temp, name)
	}
	if err != nil {
		_ = in.Remove(temp)
	}
	return err
}

// fill writes the present entry's data; blocks of zeros become holes.
func (rc *receiver) fill(f *os.File, size int64) error {
	buf := make([]byte, 64<<10)
	for at := int64(0); at < size; {
		n, err := io.ReadFull(rc.tar, buf[:min(int64(len(buf)), size-at)])
		if err != nil {
			return fmt.Errorf("%w: %w", errStream, err)
		}
		if !empty(buf[:n]) {
			if _, err := f.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	return f.Truncate(size)
}

var zeroBlock [64 << 10]byte

func empty(b []byte) bool { return bytes.Equal(b, zeroBlock[:len(b)]) }

func (rc *receiver) link(h *tar.Header, name string) error {
	if h.Linkname == "" || len(h.Linkname) > maxName || strings.IndexByte(h.Linkname, 0) >= 0 {
		return fmt.Errorf("%w: the link %q leads to %.120q", errStream, h.Name, h.Linkname)
	}
	temp := temporary()
	return rc.put(temp, name, rc.here().Symlink(h.Linkname, temp))
}
