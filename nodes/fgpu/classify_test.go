package fgpu

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func TestClassify(t *testing.T) {
	file := &fstest.MapFile{Data: []byte("musl libc (x86_64)"), Mode: 0o755}
	loader := &fstest.MapFile{Data: []byte("\x7fELF \x00GLIBC_2.2.5\x00GLIBC_PRIVATE\x00"), Mode: 0o755}
	link := func(to string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
	}
	cases := map[string]struct {
		root fstest.MapFS
		want Libc
	}{
		"Debian":                {fstest.MapFS{"lib64/ld-linux-x86-64.so.2": link("../lib/x86_64-linux-gnu/ld-2.31.so"), "lib/x86_64-linux-gnu/ld-2.31.so": loader}, Glibc},
		"a merged /usr":         {fstest.MapFS{"usr/lib64/ld-linux-x86-64.so.2": loader, "lib64": link("usr/lib64")}, Glibc},
		"arm64":                 {fstest.MapFS{"lib/ld-linux-aarch64.so.1": loader}, Glibc},
		"Alpine":                {fstest.MapFS{"lib/ld-musl-x86_64.so.1": file, "lib/libc.so": file}, Musl},
		"Alpine with gcompat":   {fstest.MapFS{"lib/ld-musl-x86_64.so.1": file, "lib64/ld-linux-x86-64.so.2": link("../lib/ld-musl-x86_64.so.1")}, Musl},
		"gcompat's own loader":  {fstest.MapFS{"lib/ld-musl-x86_64.so.1": file, "lib/ld-linux-x86-64.so.2": file, "lib64/ld-linux-x86-64.so.2": link("../lib/ld-linux-x86-64.so.2")}, Musl},
		"Debian with musl":      {fstest.MapFS{"lib64/ld-linux-x86-64.so.2": loader, "lib/ld-musl-x86_64.so.1": link("x86_64-linux-musl/libc.so")}, Mixed},
		"one static program":    {fstest.MapFS{"app": file}, Static},
		"nothing":               {fstest.MapFS{}, Static},
		"a dangling loader":     {fstest.MapFS{"lib64/ld-linux-x86-64.so.2": link("gone")}, Static},
		"a folder of that name": {fstest.MapFS{"lib64/ld-linux-x86-64.so.2/x": file}, Static},
		"a 32-bit loader only":  {fstest.MapFS{"lib/ld-linux.so.2": file}, Static},
		"names that are alike":  {fstest.MapFS{"lib/ld-musl-x86_64.so.2": file, "lib/xld-musl-x86_64.so.1": file}, Static},
	}
	for name, c := range cases {
		got, err := Classify(c.root)
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
		if c.want != Glibc && c.want.Why() == "" || c.want == Glibc && c.want.Why() != "" {
			t.Errorf("%s: explained as %q", name, c.want.Why())
		}
		if c.want.Fenced() != (c.want == Glibc || c.want == Mixed) {
			t.Errorf("%s: fenced %v", name, c.want.Fenced())
		}
	}
}

type closedFS struct{ fstest.MapFS }

func (c closedFS) ReadDir(name string) ([]fs.DirEntry, error) { return nil, fs.ErrPermission }

func TestAnImageThatCannotBeLookedAtIsAnError(t *testing.T) {
	if got, err := Classify(closedFS{fstest.MapFS{"lib64/ld-linux-x86-64.so.2": {Mode: 0o755}}}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestClassifyARealRoot(t *testing.T) {
	if _, err := Classify(os.DirFS("/")); err != nil {
		t.Errorf("this machine: %v", err)
	}
	if interpreter, err := os.ReadFile("/lib64/ld-linux-x86-64.so.2"); err == nil { // a machine with glibc
		if got, err := Classify(fstest.MapFS{"lib64/ld-linux-x86-64.so.2": {Data: interpreter, Mode: 0o755}}); err != nil || got != Glibc {
			t.Errorf("this machine's loader: %q, %v", got, err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lib"), nil, 0o600); err != nil { // not a folder
		t.Fatal(err)
	}
	if got, err := Classify(os.DirFS(dir)); err != nil || got != Static {
		t.Errorf("%q, %v", got, err)
	}
}
