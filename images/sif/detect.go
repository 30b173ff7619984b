package sif

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Kind is a form in which an image can come.
type Kind string

const (
	SIF           Kind = "SIF file"
	Directory     Kind = "directory"      // a root file system
	Archive       Kind = "archive"        // a root file system as tar, tar.gz or tar.zst
	OCIDirectory  Kind = "OCI layout"     // a directory
	OCIArchive    Kind = "OCI archive"    // an OCI layout as tar, tar.gz or tar.zst
	DockerArchive Kind = "docker archive" // of 'docker save'; packed or not
)

func (k Kind) layered() bool { return k == OCIDirectory || k == OCIArchive || k == DockerArchive }

// Detect says what lies at a path, by its content. It reads as far into an archive as it must to tell.
func Detect(ctx context.Context, src string, l Limits) (Kind, error) {
	kind, err := detect(ctx, src, l)
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", src, err)
	}
	return kind, nil
}

func detect(ctx context.Context, src string, l Limits) (Kind, error) {
	st, err := os.Stat(src)
	if err != nil {
		return "", err
	}
	if st.IsDir() {
		if _, err := os.Stat(filepath.Join(src, "oci-layout")); err == nil {
			return OCIDirectory, nil
		}
		return Directory, nil
	}
	f, _, err := openRegular(src)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return detectFile(ctx, f, l)
}

func detectFile(ctx context.Context, f *os.File, l Limits) (Kind, error) {
	head := make([]byte, headerSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return "", err
	}
	if isSIF(head[:n]) {
		return SIF, nil
	}
	r, err := unpack(ctx, io.NewSectionReader(f, 0, 1<<62), l, func(int64) {})
	if err != nil {
		return "", err
	}
	defer r.Close()
	var in io.Reader = r
	if r.plain {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
		in = f // contents are passed over, not read
	}
	kind, entries := Archive, 0
	err = walkTar(in, func(e entry, _ io.Reader) error {
		if entries++; entries > l.withDefaults().Entries {
			return fmt.Errorf("more than %d entries", entries-1)
		}
		name := path.Clean(e.name)
		first, _, _ := strings.Cut(name, "/")
		switch {
		case name == "oci-layout" && e.kind == isFile:
			kind = OCIArchive
			return fs.SkipAll
		case name == "manifest.json" && e.kind == isFile:
			kind = DockerArchive // unless an OCI layout follows, which says more of itself
		case strings.Contains(" bin boot dev etc home lib lib64 opt proc root run sbin srv sys usr var ", " "+first+" "):
			return fs.SkipAll
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.SkipAll):
		return kind, nil
	case err != nil:
		return "", fmt.Errorf("neither a SIF file nor an archive (tar, tar.gz, tar.zst) that can be read: %w", err)
	case entries == 0:
		return "", errors.New("an empty archive, or no archive at all")
	}
	return kind, nil
}

// openSource opens what Convert is given.
func openSource(ctx context.Context, src string, work *workspace, o Options) (*source, error) {
	s := &source{}
	err := s.open(ctx, src, work, o)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *source) open(ctx context.Context, src string, work *workspace, o Options) (err error) {
	st, err := os.Stat(src)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return s.openDir(src, o)
	}
	if s.file, s.size, err = openRegular(src); err != nil {
		return err
	}
	if s.kind, err = detectFile(ctx, s.file, o.Limits); err != nil {
		return err
	}
	switch s.kind {
	case SIF:
		return nil
	case Archive:
		s.layers = []layer{tarLayer{length: s.size, open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(s.file, 0, s.size)), nil
		}}}
		s.config.arch = o.Arch
		return nil
	}
	plain, err := unpackTo(ctx, s.file, s.size, work, o)
	if err != nil {
		return err
	}
	if plain != s.file {
		s.file.Close()
		s.file = plain
	}
	b, err := indexTar(plain, o.Limits)
	if err != nil {
		return err
	}
	if s.kind == OCIArchive {
		s.layers, s.config, err = openOCI(b, o.Arch)
	} else {
		s.layers, s.config, err = openDocker(b, o.Arch)
	}
	return err
}

func (s *source) openDir(src string, o Options) (err error) {
	if s.root, err = os.OpenRoot(src); err != nil {
		return err
	}
	if _, err := s.root.Stat("oci-layout"); err == nil {
		s.kind = OCIDirectory
		s.layers, s.config, err = openOCI(dirBlobs{s.root}, o.Arch)
		return err
	}
	s.kind, s.config.arch = Directory, o.Arch
	s.layers = []layer{dirLayer{root: s.root}}
	return nil
}

// unpackTo gives the archive unpacked: itself, or a file in the workspace. Blobs have to be read in any order.
func unpackTo(ctx context.Context, f *os.File, size int64, work *workspace, o Options) (*os.File, error) {
	p := o.progress(StageOpen, size)
	r, err := unpack(ctx, io.NewSectionReader(f, 0, size), o.Limits, p.add)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.plain {
		return f, nil
	}
	out, err := os.OpenFile(filepath.Join(work.path, "archive.tar"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(out, r); err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}
