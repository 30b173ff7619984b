package tree

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// noted collects notes.
type noted []string

func (n *noted) note(line string) { *n = append(*n, line) }

func copyTree(t *testing.T, paths []string, to string, o Options) (notes noted, err error) {
	t.Helper()
	o.Note = notes.note
	var stream bytes.Buffer
	if err := Send(&stream, paths, o); err != nil {
		t.Fatal("send: ", err)
	}
	err = Receive(&stream, to, o)
	return notes, err
}

// list describes a tree, a line for each entry.
func list(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, p)
		fmt.Fprintf(&b, "%s %s", name, st.Mode())
		switch {
		case st.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			fmt.Fprintf(&b, " -> %s", to)
		case st.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d %.20q %s", len(data), data, st.ModTime().UTC().Format(time.RFC3339Nano))
		case name != ".":
			fmt.Fprintf(&b, " %s", st.ModTime().UTC().Format(time.RFC3339Nano))
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// names is list without times: of a directory in which something was tried they may change.
func names(t *testing.T, root string) string {
	return regexp.MustCompile(` [0-9T:.-]+Z\n`).ReplaceAllString(list(t, root), "\n")
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestATreeArrivesAsItWas(t *testing.T) {
	from := filepath.Join(t.TempDir(), "data")
	write(t, from+"/a", "hello", 0o640)
	write(t, from+"/deep/"+strings.Repeat("n", 200)+"/ü \n", "name", 0o755)
	write(t, from+"/zeros", strings.Repeat("\x00", 300<<10)+"end", 0o600)
	if err := os.Symlink("/etc/passwd", from+"/absolute"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../nowhere", from+"/deep/broken"); err != nil {
		t.Fatal(err)
	}
	old := time.Date(2001, 2, 3, 4, 5, 6, 789_000_000, time.UTC)
	for _, p := range []string{from + "/a", from + "/deep"} {
		if err := os.Chtimes(p, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(from+"/deep", 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(from+"/deep", 0o755)
	to := t.TempDir()
	for range 2 { // the second time over what is there
		if notes, err := copyTree(t, []string{from}, to, Options{Recursive: true}); err != nil || len(notes) > 0 && os.Geteuid() == 0 {
			t.Fatal(err, notes)
		}
	}
	if got, want := list(t, to+"/data"), list(t, from); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := os.Chmod(to+"/data/deep", 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestHolesStayHoles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/sparse", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(dir+"/sparse", 64<<20); err != nil {
		t.Fatal(err)
	}
	if notes, err := copyTree(t, []string{dir + "/sparse"}, dir+"/copy", Options{}); err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	st, err := os.Stat(dir + "/copy")
	if err != nil {
		t.Fatal(err)
	}
	if blocks := st.Sys().(*syscall.Stat_t).Blocks; st.Size() != 64<<20 || blocks*512 > 1<<20 {
		t.Errorf("size %d in %d blocks", st.Size(), blocks)
	}
}

func TestWhereThingsGo(t *testing.T) {
	for _, row := range []struct {
		what, from, to string
		o              Options
		want           string // what is there then, "" for a failure
	}{
		{"a file into a directory", "file", "dir", Options{}, "dir/file"},
		{"a file to a new name", "file", "new", Options{}, "new"},
		{"a file over another", "file", "other", Options{}, "other"},
		{"a file where no directory is", "file", "nowhere/", Options{}, ""},
		{"a file below nothing", "file", "nowhere/x", Options{}, ""},
		{"into what is no directory", "file", "other", Options{Into: true}, ""},
		{"a directory into a directory", "tree", "dir", Options{Recursive: true}, "dir/tree/in"},
		{"a directory to a new name", "tree", "new", Options{Recursive: true}, "new/in"},
		{"a directory over a file", "tree", "other", Options{Recursive: true}, ""},
		{"a file over a directory", "file", "dir2", Options{}, ""},
		{"a directory without -r", "tree", "dir", Options{}, ""},
		{"a link without -r", "link", "dir", Options{}, "dir/link"},
		{"a link to a directory as destination", "file", "dirlink", Options{}, "dir/file"},
	} {
		t.Run(row.what, func(t *testing.T) {
			root := t.TempDir()
			t.Chdir(root)
			write(t, "file", "text", 0o644)
			write(t, "other", "old", 0o644)
			write(t, "tree/in", "text", 0o644)
			if err := os.MkdirAll("dir2/file", 0o755); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{os.Mkdir("dir", 0o755), os.Symlink("file", "link"), os.Symlink("dir", "dirlink")} {
				if err != nil {
					t.Fatal(err)
				}
			}
			before := names(t, root)
			notes, err := copyTree(t, []string{row.from}, row.to, row.o)
			if row.want == "" {
				if err == nil && len(notes) == 0 {
					t.Error("no word of it")
				}
				if after := names(t, root); after != before {
					t.Errorf("it changed\n%s\nto\n%s", before, after)
				}
				return
			}
			data, readErr := os.ReadFile(row.want)
			st, _ := os.Lstat(row.want)
			if err != nil || len(notes) > 0 || readErr != nil || string(data) != "text" || !st.Mode().IsRegular() {
				t.Errorf("%v %v; %s: %q %v", err, notes, row.want, data, readErr)
			}
		})
	}
}

// entry of a hostile stream.
type entry struct {
	name, link string
	kind       byte
	data       string
	pax        map[string]string
}

func archive(t testing.TB, list []entry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range list {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Size: int64(len(e.data)), Mode: 0o7777, PAXRecords: e.pax}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Whatever the stream says, nothing changes outside of the destination, and through no link.
func TestHostileStreams(t *testing.T) {
	file := func(name string) entry { return entry{name: name, kind: tar.TypeReg, data: "evil"} }
	for _, row := range []struct {
		what    string
		entries []entry
		want    string // part of the error or note
	}{
		{"up and out", []entry{file("../outside/evil")}, `".."`},
		{"up in the middle", []entry{{name: "d/", kind: tar.TypeDir}, file("d/../../outside/evil")}, `".."`},
		{"absolute", []entry{file("/OUTSIDE/evil")}, "absolute"},
		{"an empty part", []entry{{name: "d/", kind: tar.TypeDir}, file("d//evil")}, `part ""`},
		{"nothing but a dot", []entry{{name: "./", kind: tar.TypeDir}}, `part "."`},
		{"through a link out", []entry{{name: "l", link: "OUTSIDE", kind: tar.TypeSymlink}, file("l/evil")}, "right before it"},
		{"into a link out", []entry{{name: "l", link: "OUTSIDE", kind: tar.TypeSymlink}, {name: "l/", kind: tar.TypeDir}, file("l/evil")}, "not a directory"},
		{"into a link that was there", []entry{{name: "there/", kind: tar.TypeDir}, file("there/evil")}, "not a directory"},
		{"over a link that was there", []entry{file("thefile")}, ""},
		{"into a link inside", []entry{{name: "d/", kind: tar.TypeDir}, {name: "l", link: "d", kind: tar.TypeSymlink}, {name: "l/", kind: tar.TypeDir}}, "not a directory"},
		{"a hard link out", []entry{{name: "h", link: "OUTSIDE/victim", kind: tar.TypeLink}}, "only files, directories"},
		{"a device", []entry{{name: "dev", kind: tar.TypeChar}}, "only files, directories"},
		{"a pipe", []entry{{name: "fifo", kind: tar.TypeFifo}}, "only files, directories"},
		{"a directory that never came", []entry{file("a/b")}, "right before it"},
		{"a directory that was left", []entry{{name: "a/", kind: tar.TypeDir}, {name: "b/", kind: tar.TypeDir}, file("a/x")}, "right before it"},
		{"a long name", []entry{file(strings.Repeat("x", 256))}, "longer than 255"},
		{"too deep", []entry{file(strings.Repeat("a/", 300) + "x")}, "deeper than"},
		{"a link with no end", []entry{{name: "l", link: strings.Repeat("x", 5000), kind: tar.TypeSymlink}}, "leads to"},
	} {
		t.Run(row.what, func(t *testing.T) {
			outside, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
			write(t, outside+"/victim", "good", 0o600)
			if err := os.MkdirAll(to, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, target := range map[string]string{"there": outside, "thefile": outside + "/victim"} {
				if err := os.Symlink(target, filepath.Join(to, name)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range row.entries {
				e := &row.entries[i]
				e.name, e.link = strings.ReplaceAll(e.name, "OUTSIDE", outside), strings.ReplaceAll(e.link, "OUTSIDE", outside)
			}
			before := list(t, outside)
			var notes noted
			err := Receive(bytes.NewReader(archive(t, row.entries)), to, Options{Note: notes.note})
			said := strings.Join(notes, "\n") + fmt.Sprint(err)
			if !strings.Contains(said, row.want) || row.want == "" && said != fmt.Sprint(nil) {
				t.Errorf("it says %q, want %q", said, row.want)
			}
			if after := list(t, outside); after != before {
				t.Errorf("outside changed from\n%s\nto\n%s", before, after)
			}
			if left, _ := filepath.Glob(to + "/.bcp-*"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if up, _ := filepath.Glob(filepath.Dir(to) + "/*"); len(up) != 1 {
				t.Errorf("beside the destination: %v", up)
			}
		})
	}
}

// A sparse entry would cost its sender nothing, and us the time to write the holes.
func TestSparseEntriesAreRefused(t *testing.T) {
	b := archive(t, []entry{{name: "huge", kind: tar.TypeReg, data: "0\n", pax: map[string]string{"FAI.sparse.major": "1", "FAI.sparse.minor": "0",
		"FAI.sparse.realsize": "9223372036854775807", "FAI.sparse.name": "huge"}}})
	b = bytes.ReplaceAll(b, []byte("FAI.sparse"), []byte("GNU.sparse")) // package tar writes no such records itself
	var notes noted
	done := make(chan error, 1)
	go func() { done <- Receive(bytes.NewReader(b), t.TempDir(), Options{Note: notes.note}) }()
	select {
	case err := <-done:
		if err == nil && len(notes) == 0 {
			t.Error("it was taken")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it writes for ever")
	}
}

func TestACutOffStreamIsAnError(t *testing.T) {
	whole := archive(t, []entry{{name: "a", kind: tar.TypeReg, data: strings.Repeat("x", 4000)}})
	to := t.TempDir()
	var notes noted
	if err := Receive(bytes.NewReader(whole[:2000]), to, Options{Note: notes.note}); err == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(to); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAFullDiskEndsTheCopy(t *testing.T) {
	var notes noted
	err := Receive(bytes.NewReader(archive(t, []entry{{name: "a", kind: tar.TypeReg, data: "x"}})), fullDisk(t), Options{Note: notes.note})
	if err == nil || len(notes) > 0 {
		t.Errorf("%v %v", err, notes)
	}
}

// fullDisk is a directory in which nothing can be written, for want of room.
func fullDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4k,nr_inodes=8"); err != nil {
		t.Skip("cannot mount a file system here: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	if err := os.WriteFile(dir+"/filler", make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"a", "a/b/", "../a", "/a", "a//b", "a/./b", "", "a\x00b", strings.Repeat("a/", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		parts, err := parseName(name)
		if err != nil {
			return
		}
		back := strings.Join(parts, "/")
		if back != strings.TrimSuffix(name, "/") || !filepath.IsLocal(back) || filepath.Clean(back) != back {
			t.Errorf("%q became %q", name, parts)
		}
	})
}

func FuzzReceive(f *testing.F) {
	f.Add(archive(f, []entry{{name: "d/", kind: tar.TypeDir}, {name: "d/a", kind: tar.TypeReg, data: "x"}, {name: "l", link: "/", kind: tar.TypeSymlink}}))
	f.Add(archive(f, []entry{{name: "../x", kind: tar.TypeReg, data: "x"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		up := t.TempDir()
		to := filepath.Join(up, "to")
		if err := os.Mkdir(to, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = Receive(bytes.NewReader(b), to, Options{Note: func(string) {}})
		if beside, _ := os.ReadDir(up); len(beside) != 1 {
			t.Errorf("beside the destination: %v", beside)
		}
	})
}
