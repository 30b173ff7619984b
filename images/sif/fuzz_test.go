package sif

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Whatever an archive names, nothing is written outside of the directory.
func FuzzLayers(f *testing.F) {
	f.Add("bin/sh", byte('0'), "x", "l", byte('2'), "../..", "l/x", byte('0'), "y")
	f.Add("a", byte('2'), "/", "a/", byte('5'), "", "a/b", byte('1'), "a")
	f.Add("a/x", byte('0'), "", "a/.wh..wh..opq", byte('0'), "", ".wh.a", byte('0'), "")
	f.Fuzz(func(t *testing.T, n1 string, k1 byte, d1, n2 string, k2 byte, d2, n3 string, k3 byte, d3 string) {
		var layers [][]byte
		for _, x := range []file{{n1, k1, d1, 0}, {n2, k2, d2, 0}, {n3, k3, d3, 0}} {
			if x.kind == '0' {
				x.kind = 0
			}
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			h := &tar.Header{Name: x.name, Typeflag: x.kind, Mode: 0o755, Linkname: x.data}
			if x.kind == 0 {
				h.Typeflag, h.Size, h.Linkname = tar.TypeReg, int64(len(x.data)), ""
			}
			if w.WriteHeader(h) != nil {
				return
			}
			if x.kind == 0 {
				_, _ = io.WriteString(w, x.data)
			}
			if w.Close() != nil {
				return
			}
			layers = append(layers, b.Bytes())
		}
		all := slices.Concat(layers[0][:len(layers[0])-1024], layers[1][:len(layers[1])-1024], layers[2])
		for _, list := range [][][]byte{layers, {all}} {
			around := t.TempDir()
			s := &source{kind: OCIArchive}
			for _, data := range list {
				s.layers = append(s.layers, tarLayer{open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }})
			}
			tr, _, err := readLayers(context.Background(), s, Options{})
			if err != nil {
				continue
			}
			if _, err := tr.metadata(config{}, nil); err != nil {
				continue
			}
			dir := filepath.Join(around, "in")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			// What was found good can be written.
			if _, err := extract(context.Background(), tr, s.layers, dir, func(int64) {}); err != nil {
				t.Fatalf("%q %q %q: %v", n1, n2, n3, err)
			}
			if list, err := os.ReadDir(around); err != nil || len(list) != 1 {
				t.Fatalf("written outside: %v, %v", list, err)
			}
		}
	})
}

func FuzzArchive(f *testing.F) {
	f.Add(packTar(f, file{"bin/sh", 0, "x", 0}))
	f.Add(gz(f, packTar(f, file{"bin/sh", 0, "x", 0})))
	f.Add(zst(f, packTar(f, file{"bin/sh", 0, "x", 0})))
	f.Add(tarOf(f, ociLayout(f, "amd64", gz, packTar(f, file{"bin/sh", 0, "x", 0}))))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		work, err := newWorkspace(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := openSource(context.Background(), write(t, dir, "src", data), work, Options{Arch: "amd64", Limits: Limits{Bytes: 1 << 20, Entries: 100}})
		if err == nil {
			_, _, _ = readLayers(context.Background(), s, Options{Limits: Limits{Bytes: 1 << 20, Entries: 100}})
			s.close()
		}
		if err := work.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
