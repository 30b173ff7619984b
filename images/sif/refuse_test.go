package sif

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestConvertRefuses(t *testing.T) {
	sh := file{"bin/sh", 0, "#!x", 0}
	with := func(files ...file) []byte { return packTar(t, append([]file{sh}, files...)...) }
	link := func(name, target string) file { return file{name, tar.TypeSymlink, target, 0} }
	hard := func(name, target string) file { return file{name, tar.TypeLink, target, 0} }
	zeros := string(make([]byte, 100<<20))
	for _, row := range []struct {
		what string
		data []byte
		o    Options
		want string
	}{
		{"a name above the root", with(file{"../x", 0, "", 0}), Options{}, `entry "../x": its name has ".." in it`},
		{"one that comes back", with(file{"a/../../x", 0, "", 0}), Options{}, `its name has ".." in it`},
		{"an absolute name", with(file{"/etc/x", 0, "", 0}), Options{}, `entry "/etc/x": its name is absolute`},
		{"a line break in a name", with(file{"a\nb", 0, "", 0}), Options{}, `entry "a\nb": its name has control characters`},
		{"a name that is long", with(file{strings.Repeat("abc/", 1024), tar.TypeDir, "", 0}), Options{}, "its name has 4096 bytes; at most 4095 are allowed"},
		{"a part of one that is long", with(file{strings.Repeat("x", 256), 0, "", 0}), Options{}, "more than 255 bytes"},
		{"a deep tree", with(file{strings.Repeat("a/", 11) + "b", 0, "", 0}), Options{Limits: Limits{Depth: 10}}, "it lies 12 folders deep; at most 10"},
		{"a symbolic link out", with(link("a/b", "../../x")), Options{}, `entry "a/b": a symbolic link to "../../x", which is outside of the image`},
		{"one without a target", with(link("a", "\x01")), Options{}, "no control characters"},
		{"a hard link out", with(hard("a", "../../etc/passwd")), Options{}, `a hard link to "../../etc/passwd": its name has ".." in it`},
		{"one to an absolute name", with(hard("a", "/etc/passwd")), Options{}, "its name is absolute"},
		{"one to nothing", with(hard("a", "etc/passwd")), Options{}, "there is no such file before it"},
		{"one to a directory", with(hard("a", "bin")), Options{}, "there is no such file before it"},
		{"one to itself", with(hard("a", "a")), Options{}, "there is no such file before it"},
		{"one through a link", with(link("l", "/"), hard("a", "l/bin/sh")), Options{}, `it lies behind the symbolic link l`},
		{"a file behind a link", with(link("l", "/tmp"), file{"l/x", 0, "", 0}), Options{}, `entry "l/x": it lies behind the symbolic link l`},
		{"a folder behind a link", with(link("l", "bin"), file{"l/x/", tar.TypeDir, "", 0}), Options{}, "it lies behind the symbolic link l"},
		{"a file in the place of a link", with(link("l", "/etc/passwd"), file{"l", 0, "x", 0}), Options{}, `entry "l": the name comes twice`},
		{"a file in a file", with(file{"bin/sh/x", 0, "", 0}), Options{}, "bin/sh, in which it lies, is a file"},
		{"a name twice", with(file{"./bin//sh", 0, "", 0}), Options{}, "the name comes twice"},
		{"a folder in the place of a file", with(file{"bin/sh/", tar.TypeDir, "", 0}), Options{}, "the name comes twice"},
		{"a device", with(file{"etc/sda", tar.TypeBlock, "", 0}), Options{}, `entry "etc/sda": a device`},
		{"a device named dev", with(file{"dev", tar.TypeChar, "", 0}), Options{}, `entry "dev": a device`},
		{"an unknown type", with(file{"x", 'Z', "", 0}), Options{}, `an entry of type 'Z', which is not known`},
		{"labels that are none", with(file{labelsFile, 0, "[]", 0}), Options{}, "not a JSON object"},
		{"many entries", with(file{"a/b/c", 0, "", 0}), Options{Limits: Limits{Entries: 4}}, `entry "a/b/c": more than 4 entries`},
		{"many bytes", with(file{"big", 0, "0123456789", 0}), Options{Limits: Limits{Bytes: 12}}, `entry "big": with its 10 bytes there are more than 12, unpacked`},
		{"a bomb", gz(t, with(file{"zeros", 0, zeros, 0})), Options{}, "unpacks to more than 250 times its size"},
		{"a zstd bomb", zst(t, with(file{"zeros", 0, zeros, 0})), Options{}, "unpacks to more than 250 times its size"},
		{"bytes without files", gz(t, append(with(), []byte(zeros)...)), Options{}, ""},
		{"no archive", []byte(strings.Repeat("hello", 1000)), Options{}, "neither a SIF file nor an archive"},
		{"nothing", nil, Options{}, "an empty archive, or no archive at all"},
		{"xz", []byte("\xfd7zXZ\x00......"), Options{}, "packed with xz or bzip2"},
		{"half an archive", with(file{"x", 0, strings.Repeat("x", 5000), 0})[:4000], Options{}, "unexpected EOF"},
		{"half a packed one", gz(t, with())[:50], Options{}, "unexpected EOF"},
		{"no programs", packTar(t, file{"etc/x", 0, "", 0o644}), Options{}, "there is no program in it"},
		{"the folder around", packTar(t, file{"root fs/bin/sh", 0, "", 0}), Options{}, `in the folder "root fs"; give what is in it`},
	} {
		t.Run(row.what, func(t *testing.T) {
			_, _, err := convertTar(t, row.data, row.o)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%v; want %q", err, row.want)
			}
		})
	}
}

// A sparse file is refused by its header; the standard library cannot write one.
func TestSparseIsRefused(t *testing.T) {
	for _, h := range []*tar.Header{
		{Name: "a", Typeflag: tar.TypeGNUSparse, Size: 1},
		{Name: "a", Typeflag: tar.TypeReg, Size: 1 << 40, PAXRecords: map[string]string{"GNU.sparse.major": "1"}},
	} {
		e, ok := tarEntry(h)
		if err := newTree(Limits{}, false).add(e, 0); !ok || err == nil || !strings.Contains(err.Error(), "a sparse file") {
			t.Errorf("%v", err)
		}
	}
}

// layersOf reads layers and gives the tree as text: one "name" a line, "name -> target" or "name = content".
func layersOf(t testing.TB, layers ...[]byte) (string, error) {
	s := &source{kind: OCIArchive}
	for _, data := range layers {
		s.layers = append(s.layers, tarLayer{open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }})
	}
	tr, _, err := readLayers(context.Background(), s, Options{})
	if err != nil {
		return "", err
	}
	dir := t.TempDir()
	if _, err := extract(context.Background(), tr, s.layers, dir, func(int64) {}); err != nil {
		return "", err
	}
	var lines []string
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(p, dir), "/")
		switch {
		case err != nil || name == "":
			return err
		case d.IsDir():
			lines = append(lines, name+"/")
		case d.Type() == os.ModeSymlink:
			target, _ := os.Readlink(p)
			lines = append(lines, name+" -> "+target)
		default:
			data, _ := os.ReadFile(p)
			lines = append(lines, name+" = "+string(data))
		}
		return nil
	})
	slices.Sort(lines)
	return strings.Join(lines, "; "), err
}

func TestLayers(t *testing.T) {
	f := func(name, data string) file { return file{name, 0, data, 0} }
	d := func(name string) file { return file{name, tar.TypeDir, "", 0} }
	base := packTar(t, d("a/"), f("a/x", "1"), f("a/y", "1"), d("a/sub/"), f("a/sub/z", "1"), file{"l", tar.TypeSymlink, "a", 0}, file{"a/hard", tar.TypeLink, "a/x", 0})
	all := "a/; a/hard = 1; a/sub/; a/sub/z = 1; a/x = 1; a/y = 1; l -> a"
	for _, row := range []struct {
		what string
		top  []byte
		want string
	}{
		{"nothing on top", packTar(t), all},
		{"a file replaced", packTar(t, f("a/x", "2")), "a/; a/hard = 1; a/sub/; a/sub/z = 1; a/x = 2; a/y = 1; l -> a"},
		{"a file taken away, and its other name stays", packTar(t, f("a/.wh.x", "")), "a/; a/hard = 1; a/sub/; a/sub/z = 1; a/y = 1; l -> a"},
		{"a folder taken away", packTar(t, f(".wh.a", "")), "l -> a"},
		{"a folder emptied, before what is new", packTar(t, d("a/"), f("a/.wh..wh..opq", ""), f("a/new", "2")), "a/; a/new = 2; l -> a"},
		{"a folder emptied, after what is new", packTar(t, f("a/new", "2"), f("a/sub/z", "2"), f("a/.wh..wh..opq", "")), "a/; a/new = 2; a/sub/; a/sub/z = 2; l -> a"},
		{"a folder made anew", packTar(t, f(".wh.a", ""), d("a/"), f("a/new", "2")), "a/; a/new = 2; l -> a"},
		{"a name made anew before it is taken away", packTar(t, f("a/x", "2"), f("a/.wh.x", "")), "a/; a/hard = 1; a/sub/; a/sub/z = 1; a/x = 2; a/y = 1; l -> a"},
		{"a file in the place of a folder", packTar(t, f("a", "2")), "a = 2; l -> a"},
		{"a folder in the place of a link", packTar(t, d("l/"), f("l/x", "2")), strings.Replace(all, "l -> a", "l/; l/x = 2", 1)},
		{"a link to a lower layer's file", packTar(t, file{"b", tar.TypeLink, "a/y", 0}), strings.Replace(all, "; l ->", "; b = 1; l ->", 1)},
		{"what is not there taken away", packTar(t, f("q/.wh.x", ""), f("a/.wh.q", "")), all},
		{"a folder said again keeps what it has", packTar(t, d("a/"), d("a/")), all},
		{"what storage keeps for itself", packTar(t, f(".wh..wh.plnk", "")), all},
	} {
		if got, err := layersOf(t, base, row.top); err != nil || got != row.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", row.what, got, err, row.want)
		}
	}
	for _, row := range []struct{ name, want string }{
		{"l/x", "it lies behind the symbolic link l"},
		{"l/.wh.x", "it lies behind the symbolic link l"},
		{"a/.wh...", "it takes away nothing that has a name"},
	} {
		if got, err := layersOf(t, base, packTar(t, f(row.name, ""))); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %s, %v; want %q", row.name, got, err, row.want)
		}
	}
}

// Between the two times that a source is read it can change; then nothing of it is used.
func TestChangedSource(t *testing.T) {
	first, second := packTar(t, file{"bin/sh", 0, "abc", 0}), packTar(t, file{"../../x", 0, "abc", 0})
	for _, row := range []struct {
		what   string
		second []byte
	}{{"another name", second}, {"another size", packTar(t, file{"bin/sh", 0, "abcd", 0})}, {"nothing", packTar(t)}} {
		n := 0
		l := tarLayer{open: func() (io.ReadCloser, error) {
			n++
			return io.NopCloser(bytes.NewReader([][]byte{first, row.second}[n-1])), nil
		}}
		s := &source{layers: []layer{l}}
		tr, _, err := readLayers(context.Background(), s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := extract(context.Background(), tr, s.layers, t.TempDir(), func(int64) {}); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
			t.Errorf("%s: %v", row.what, err)
		}
	}
}

func TestOCIRefuses(t *testing.T) {
	base := packTar(t, file{"bin/sh", 0, "x", 0})
	other := ociLayout(t, "s390x", gz, base)
	damaged := ociLayout(t, runtime.GOARCH, gz, base)
	for name := range damaged {
		if strings.HasPrefix(name, "blobs/") && bytes.HasPrefix(damaged[name], []byte{0x1f, 0x8b}) {
			damaged[name] = gz(t, packTar(t, file{"bin/sh", 0, "y", 0}))
		}
	}
	missing := ociLayout(t, runtime.GOARCH, gz, base)
	for name := range missing {
		if strings.HasPrefix(name, "blobs/") && bytes.HasPrefix(missing[name], []byte{0x1f, 0x8b}) {
			delete(missing, name)
		}
	}
	outside := map[string][]byte{"config.json": ociConfig(t, runtime.GOARCH, base), "manifest.json": []byte(`[{"Config": "config.json", "Layers": ["../../etc/passwd"]}]`)}
	two := map[string][]byte{"manifest.json": []byte(`[{"RepoTags": ["a:1"]}, {"RepoTags": ["b:1"]}]`)}
	for _, row := range []struct {
		what  string
		files map[string][]byte
		want  string
	}{
		{"another architecture", other, `an image for architecture "s390x"; want`},
		{"two other architectures", ociIndex(t, gz, map[string][][]byte{"s390x": {base}, "riscv64": {base}}), "no image for linux/" + runtime.GOARCH + "; there are linux/riscv64, unknown/unknown, linux/s390x, unknown/unknown"},
		{"a layer with other content", damaged, "a layer is damaged: its digest is"},
		{"a layer that is not there", missing, "layer 1: open"},
		{"a layer outside of the archive", outside, "layer 1: open"},
		{"two images", two, "2 images (a:1, b:1); save the one that is wanted alone"},
		{"a digest with a path", map[string][]byte{"oci-layout": nil, "index.json": []byte(`{"manifests": [{"digest": "sha256:../../etc/passwd"}]}`)}, "is no digest"},
		{"an index of itself", map[string][]byte{"oci-layout": nil, "index.json": []byte(`{}`)}, "config: "},
	} {
		_, _, err := convertTar(t, tarOf(t, row.files), Options{})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want %q", row.what, err, row.want)
		}
	}
}
