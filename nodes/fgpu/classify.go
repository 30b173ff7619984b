package fgpu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Libc is what the programs of an image are linked with, as far as its root shows. The shim is made for glibc: its loader reads
// /etc/ld.so.preload, that of musl does not, and a static program has none.
type Libc string

const (
	Glibc  Libc = "glibc"  // can be fenced
	Musl   Libc = "musl"   // cannot
	Mixed  Libc = "mixed"  // both loaders are there: programs of musl cannot be fenced
	Static Libc = "static" // no loader is there: nothing can be fenced
)

// glibcLoaders are the names of glibc's loader, by which its programs ask for it; musl's is ld-musl-MACHINE.so.1.
var glibcLoaders = []string{
	"lib64/ld-linux-x86-64.so.2", "lib/ld-linux-x86-64.so.2", // x86-64
	"lib/ld-linux-aarch64.so.1", "lib64/ld-linux-aarch64.so.1", // arm64
}

// Fenced says whether the shim can be loaded into the image's programs, or into all but some.
func (l Libc) Fenced() bool { return l == Glibc || l == Mixed }

// Why explains a Libc that is not Glibc to the one whose job it is.
func (l Libc) Why() string {
	switch l {
	case Musl:
		return "the image's programs are linked with musl, which loads no fence; use an image with glibc"
	case Static:
		return "the image has no loader of glibc, so that its programs are static and load no fence"
	case Mixed:
		return "programs of the image that are linked with musl load no fence"
	}
	return ""
}

// Classify looks at an image's root. It must be seen from inside, so that the links of the image lead where they lead there: os.DirFS("/") in
// the container. Under the name of glibc's loader may be another's (Alpine's gcompat), so what is there is looked at. What
// cannot be looked at is an error, not an absence.
func Classify(root fs.FS) (Libc, error) {
	var glibc, musl bool
	for _, name := range glibcLoaders {
		is, err := isGlibc(root, name)
		if err != nil {
			return "", fmt.Errorf("which libc the image has: %w", err)
		}
		glibc = glibc || is
	}
	for _, dir := range []string{"lib", "lib64", "usr/lib"} {
		entries, err := fs.ReadDir(root, dir)
		switch {
		case isAbsent(err):
			continue
		case err != nil:
			return "", fmt.Errorf("which libc the image has: %w", err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "ld-musl-") && strings.HasSuffix(e.Name(), ".so.1") {
				musl = true
			}
		}
	}
	switch {
	case glibc && musl:
		return Mixed, nil
	case glibc:
		return Glibc, nil
	case musl:
		return Musl, nil
	}
	return Static, nil
}

// isGlibc: glibc's libraries know each other by symbols of a version of that name, its loader among them.
func isGlibc(root fs.FS, name string) (bool, error) {
	info, err := fs.Stat(root, name)
	if isAbsent(err) || err == nil && !info.Mode().IsRegular() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f, err := root.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	const most = 4 << 20 // a loader has some 200 KiB
	content, err := io.ReadAll(io.LimitReader(f, most))
	return bytes.Contains(content, []byte("GLIBC_PRIVATE")), err
}

// isAbsent: a file where a folder should be is no loader either.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }
