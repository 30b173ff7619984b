package session

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sent is what sendRoot makes of a directory: the entries by name, the contents, and what it says it left out.
func sent(t *testing.T, dir string, mounted map[string]bool, labels map[string]string) (map[string]*tar.Header, map[string]string, []string) {
	t.Helper()
	var b bytes.Buffer
	var left []string
	if err := sendRoot(&b, dir, mounted, labels, func(line string) { left = append(left, line) }); err != nil {
		t.Fatal(err)
	}
	entries, contents := map[string]*tar.Header{}, map[string]string{}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			return entries, contents, left
		}
		if err != nil {
			t.Fatal(err)
		}
		if entries[h.Name] != nil {
			t.Errorf("%s comes twice", h.Name)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		entries[h.Name], contents[h.Name] = h, string(data)
	}
}

// makeRoot makes files (NAME: CONTENT), directories (NAME/) and symbolic links (NAME -> TARGET) in a new directory.
func makeRoot(t *testing.T, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, line := range lines {
		name, target, link := strings.Cut(line, " -> ")
		path, content, isFile := strings.Cut(name, ": ")
		at := filepath.Join(dir, path)
		var err error
		switch {
		case strings.HasSuffix(path, "/"):
			err = os.MkdirAll(at, 0o755)
		case link:
			err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(target, at))
		case isFile:
			err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestASnapshotHasTheImageAndNothingThatIsMounted(t *testing.T) {
	dir := makeRoot(t, "usr/bin/tool: program", "usr/empty/", "etc/hosts: the node's", "etc/passwd: root", "proc/1/status: x", "home/user/secret: x",
		"var/lib/node/jobs/1/script: x", "home/other/", ".fairslice/enter: ours", "lib -> usr/lib", "up -> ../../../usr", "deep/er/link -> ../../../../etc")
	if err := os.Link(filepath.Join(dir, "usr/bin/tool"), filepath.Join(dir, "usr/same")); err != nil {
		t.Fatal(err)
	}
	mounted := map[string]bool{"/proc": true, "/home/user": true, "/etc/hosts": true, "/var/lib/node/jobs/1": true}
	entries, contents, left := sent(t, dir, mounted, nil)
	want := []string{"./deep/", "./deep/er/", "./deep/er/link", "./etc/", "./etc/passwd", "./home/", "./home/other/", "./lib", "./up",
		"./usr/", "./usr/bin/", "./usr/bin/tool", "./usr/empty/", "./usr/same"}
	var got []string
	for name := range entries {
		got = append(got, name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("sent %q\nwant %q", got, want)
	}
	if len(left) > 0 {
		t.Errorf("left out: %q", left)
	}
	if contents["./usr/bin/tool"] != "program" || entries["./usr/same"].Typeflag != tar.TypeLink || entries["./usr/same"].Linkname != "./usr/bin/tool" {
		t.Errorf("the file and its other name: %q, %+v", contents["./usr/bin/tool"], entries["./usr/same"])
	}
	for name, target := range map[string]string{"./lib": "usr/lib", "./up": "/usr", "./deep/er/link": "/etc"} {
		if e := entries[name]; e == nil || e.Linkname != target {
			t.Errorf("%s leads to %+v, want %s", name, e, target)
		}
	}
}

func TestASnapshotSaysWhatItLeavesOut(t *testing.T) {
	dir := makeRoot(t, "usr/file: 1", "usr/bad\nname: 2")
	for name, kind := range map[string]uint32{"usr/pipe": unix.S_IFIFO, "usr/socket": unix.S_IFSOCK} {
		if err := unix.Mknod(filepath.Join(dir, name), kind|0o600, 0); err != nil {
			t.Fatal(err)
		}
	}
	want := 3
	if os.Geteuid() != 0 { // root reads everything
		want = 4
		if err := os.WriteFile(filepath.Join(dir, "usr/closed"), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	entries, _, left := sent(t, dir, nil, nil)
	if len(entries) != 2 || entries["./usr/file"] == nil || len(left) != want {
		t.Errorf("sent %v, left out %q", entries, left)
	}
}

func TestASnapshotsLabels(t *testing.T) {
	for name, file := range map[string]string{"of the image": `.singularity.d/labels.json: {"a": "1", "b": "2", "n": 3}`, "of none": "usr/x: y", "that are none": ".singularity.d/labels.json: nonsense"} {
		_, contents, _ := sent(t, makeRoot(t, file), nil, map[string]string{"b": "new", "c": "4"})
		got := map[string]string{}
		if err := json.Unmarshal([]byte(contents["./.singularity.d/labels.json"]), &got); err != nil {
			t.Fatalf("labels %s: %v", name, err)
		}
		if got["b"] != "new" || got["c"] != "4" || (got["a"] == "1") != (name == "of the image") || got["n"] != "" {
			t.Errorf("labels %s: %v", name, got)
		}
	}
}

// A file that becomes shorter while it is read does not damage the archive.
func TestASnapshotOfAFileThatShrinks(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	var left []string
	r := &root{tar: tar.NewWriter(&b), left: func(line string) { left = append(left, line) }}
	if err := r.tar.WriteHeader(&tar.Header{Name: "f", Size: 100_000, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.content("/f", f, 100_000), r.tar.Close()); err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || !strings.Contains(left[0], "shorter") {
		t.Errorf("said %q", left)
	}
	in := tar.NewReader(&b)
	if _, err := in.Next(); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(in); err != nil || !bytes.Equal(data, make([]byte, 100_000)) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestMountPoints(t *testing.T) {
	own, err := mountPoints("/proc/self/mountinfo")
	if err != nil || !own["/proc"] || own["/"] {
		t.Errorf("of this process: %v, %v", own, err)
	}
	got, err := parseMountPoints("36 35 98:0 / / rw - ext3 /dev/root rw\n37 36 0:1 / /a\\040b\\134c rw,noatime master:1 - tmpfs x rw\n")
	if err != nil || len(got) != 1 || !got[`/a b\c`] {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseMountPoints("nonsense\n"); err == nil {
		t.Error("nonsense was taken")
	}
}

func FuzzParseMountPoints(f *testing.F) {
	f.Add("37 36 0:1 / /a\\040b rw,noatime master:1 - tmpfs x rw\n")
	f.Add("x \\777 \\")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseMountPoints(text)
		for p := range got {
			if err != nil || !strings.HasPrefix(p, "/") || p == "/" {
				t.Errorf("%q, %v", p, err)
			}
		}
	})
}
