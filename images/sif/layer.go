package sif

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"fairslice/images"
)

// layer is one archive or directory that gives entries. Walked twice, it gives the same, or the second walk fails.
type layer interface {
	// walk calls visit for each entry in turn, with the content of a file. read gets the number of bytes of the source
	// that were read since the last call.
	walk(ctx context.Context, l Limits, read func(int64), visit func(entry, io.Reader) error) error
	size() int64 // bytes to read; 0: not known
}

// tarLayer is a tar archive, packed or not.
type tarLayer struct {
	open   func() (io.ReadCloser, error)
	length int64
	digest images.Digest // of the unpacked archive; empty: not known
}

func (t tarLayer) size() int64 { return t.length }

func (t tarLayer) walk(ctx context.Context, l Limits, read func(int64), visit func(entry, io.Reader) error) error {
	f, err := t.open()
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := unpack(ctx, f, l, read)
	if err != nil {
		return err
	}
	defer r.Close()
	var in io.Reader = r
	var sum hash.Hash
	if t.digest != "" {
		sum = sha256.New()
		in = io.TeeReader(r, sum)
	}
	if err := walkTar(in, visit); err != nil {
		return err
	}
	if sum == nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // what is behind the end belongs to the digest
		return err
	}
	if got := images.DigestOf(sum.Sum(nil)); got != t.digest {
		return fmt.Errorf("a layer is damaged: its digest is %s, and should be %s", got, t.digest)
	}
	return nil
}

func walkTar(r io.Reader, visit func(entry, io.Reader) error) error {
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		e, ok := tarEntry(h)
		if !ok {
			return refused(h.Name, "an entry of type %q, which is not known", h.Typeflag)
		}
		if err := visit(e, tr); err != nil {
			return err
		}
	}
}

func tarEntry(h *tar.Header) (entry, bool) {
	e := entry{name: h.Name, mode: h.FileInfo().Mode(), mtime: h.ModTime.Unix(), target: h.Linkname}
	switch h.Typeflag {
	case tar.TypeReg, 0, tar.TypeGNUSparse:
		e.size = h.Size
		_, pax := h.PAXRecords["GNU.sparse.major"]
		_, old := h.PAXRecords["GNU.sparse.size"]
		_, map0 := h.PAXRecords["GNU.sparse.map"]
		e.sparse = h.Typeflag == tar.TypeGNUSparse || pax || old || map0
	case tar.TypeDir:
		e.kind = isDir
	case tar.TypeSymlink:
		e.kind = isSymlink
	case tar.TypeLink:
		e.kind = isHardLink
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		e.kind = isSpecial
	case tar.TypeXGlobalHeader:
		e.name, e.kind = "./", isDir // says nothing that is kept
	default:
		return e, false
	}
	return e, true
}

// unpack gives what a stream of tar, tar.gz or tar.zst holds, as the first bytes say. Reading it fails once it
// has unpacked more than the limits allow.
func unpack(ctx context.Context, r io.Reader, l Limits, read func(int64)) (*bounded, error) {
	packed := &counting{ctx: ctx, r: r, read: read}
	b := bufio.NewReaderSize(packed, 1<<20)
	magic, err := b.Peek(6)
	if err != nil && err != io.EOF {
		return nil, err
	}
	out := &bounded{limits: l.withDefaults(), packed: packed, close: func() {}}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("read gzip: %w", err)
		}
		out.r = z
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, fmt.Errorf("read zstd: %w", err)
		}
		out.r, out.close = z, z.Close
	case bytes.HasPrefix(magic, []byte("\xfd7zXZ")), bytes.HasPrefix(magic, []byte("BZh")):
		return nil, errors.New("packed with xz or bzip2; gzip and zstd can be read")
	default:
		out.r, out.plain = b, true
	}
	return out, nil
}

// counting counts what is read of a source, and stops with the context.
type counting struct {
	ctx  context.Context
	r    io.Reader
	n    int64
	read func(int64)
}

func (c *counting) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.read(int64(n))
	return n, err
}

// bounded is an unpacked stream. Beside the files that the tree counts there are headers; they are bounded too.
type bounded struct {
	r      io.Reader
	limits Limits
	packed *counting
	n      int64
	plain  bool // it was not packed
	close  func()
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += int64(n)
	const free = 64 << 20
	if !b.plain && b.n > free && b.n/int64(b.limits.Ratio) > b.packed.n {
		return 0, fmt.Errorf("it unpacks to more than %d times its size", b.limits.Ratio)
	}
	if headers := b.n - b.limits.Bytes; headers > free+4096*int64(b.limits.Entries) {
		return 0, fmt.Errorf("it unpacks to more than %d bytes", b.limits.Bytes)
	}
	return n, err
}

func (b *bounded) Close() error { b.close(); return nil }

// dirLayer is a directory. Names are looked up below it, so that whoever changes it meanwhile cannot lead out.
type dirLayer struct{ root *os.Root }

func (d dirLayer) size() int64 { return 0 }

func (d dirLayer) walk(ctx context.Context, _ Limits, read func(int64), visit func(entry, io.Reader) error) error {
	st, err := d.root.Stat(".")
	if err != nil {
		return err
	}
	device := st.Sys().(*syscall.Stat_t).Dev
	names := map[uint64]string{} // first name of each file with several
	// Not fs.WalkDir: its names are UTF-8.
	var walk func(name string) error
	walk = func(name string) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		st, err := d.root.Lstat(name)
		if err != nil {
			return err
		}
		e := entry{name: name, mode: st.Mode(), mtime: st.ModTime().Unix()}
		sys := st.Sys().(*syscall.Stat_t)
		switch {
		case st.IsDir():
			e.kind = isDir
			if err := visit(e, nil); err != nil || sys.Dev != device { // what is mounted there is not of the image
				return err
			}
			list, err := d.list(name)
			for i := 0; i < len(list) && err == nil; i++ {
				err = walk(path.Join(name, list[i]))
			}
			return err
		case st.Mode()&fs.ModeSymlink != 0:
			e.kind = isSymlink
			if e.target, err = d.root.Readlink(name); err != nil {
				return err
			}
			return visit(e, nil)
		case !st.Mode().IsRegular():
			e.kind = isSpecial
			return visit(e, nil)
		}
		if sys.Nlink > 1 {
			if first, ok := names[sys.Ino]; ok {
				e.kind, e.target = isHardLink, first
				return visit(e, nil)
			}
			names[sys.Ino] = name
		}
		return d.file(ctx, name, e, read, visit)
	}
	return walk(".")
}

// list gives the names in a directory, sorted: the same in both walks.
func (d dirLayer) list(name string) ([]string, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// file visits a regular file, which may have become something else: opening it does not wait, and follows no link.
func (d dirLayer) file(ctx context.Context, name string, e entry, read func(int64), visit func(entry, io.Reader) error) error {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return refused(name, "it was changed while it was read")
	}
	e.size = st.Size()
	return visit(e, io.LimitReader(&counting{ctx: ctx, r: f, read: read}, e.size))
}
