package command

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/images"
)

// depot is a batchd that takes images; cut is after how many bytes of an upload the connection breaks, once.
type depot struct {
	fake
	have map[string][]byte
	cut  int
	said *pb.ImportImageRequest
	asks int
}

func (d *depot) AddImage(_ context.Context, r *pb.AddImageRequest) (int64, error) {
	d.asks++
	return int64(len(d.have[r.Upload])), d.err
}

func (d *depot) UploadImage(_ context.Context, upload string, offset int64, from io.Reader) error {
	if offset != int64(len(d.have[upload])) {
		return errors.New("another offset")
	}
	if d.cut > 0 {
		from = io.LimitReader(from, int64(d.cut))
	}
	data, err := io.ReadAll(from)
	d.have[upload] = append(d.have[upload], data...)
	if err == nil && d.cut > 0 {
		d.cut = 0
		return wire.Errorf(wire.Unavailable, "the connection broke")
	}
	return err
}

func (d *depot) ImportImage(_ context.Context, r *pb.ImportImageRequest, each func(*pb.ImageProgress) error) error {
	d.said = r
	if sum := sha256.Sum256(d.have[r.Upload]); images.DigestOf(sum[:]) != images.Digest(r.Digest) {
		return errors.New("another digest")
	}
	return errors.Join(each(&pb.ImageProgress{Stage: "squash", Done: 1}), each(&pb.ImageProgress{
		Image: &pb.Image{Name: "ada/" + r.Image.Name, Digest: r.Digest, Size: 5 << 20, Visibility: "private"}, Notes: []string{"a note"}}))
}

func TestAddGoesOnAfterACut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.sif")
	data := append(bytes.Repeat([]byte{0}, 32), "SIF_MAGIC, and so on"...)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	d := &depot{have: map[string][]byte{}, cut: 20}
	out, errs, code := runWith(d, "bimage", "add", "-d", "text", "x:1", file)
	if code != 0 || !strings.HasPrefix(out, "Image ada/x:1 is added (5M, sha256:") || !strings.Contains(errs, "goes on from where it was cut") || !strings.Contains(errs, "Note: a note") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if d.said.Image.Description != "text" || d.said.Source != "x.sif" || d.asks != 2 {
		t.Errorf("%v, asked %d times", d.said, d.asks)
	}
}

func TestBimageRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"add x":                     "needs a name and a file",
		"add x /nowhere":            "no such file",
		"add -public -group g x .":  "want one of them",
		"rm":                        "needs the name",
		"share x":                   "needs -public",
		"share -public":             "needs the name of one image",
		"nonsense":                  "no such command",
		"list x":                    "takes no names",
		"show":                      "needs the name",
		"commit 1":                  "needs a running session",
		"commit x y":                "Illegal job ID",
		"pull x":                    "needs a name and an address",
		"build a/b/c x.def":         "is no image name",
		"check":                     "needs the name",
		"check ./nowhere":           "no such image file",
		"share -group , python:3.1": "-group needs the name of a group",
	} {
		_, errs, code := runWith(&depot{}, append([]string{"bimage"}, strings.Fields(line)...)...)
		if code != failed || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q; want %q", line, code, errs, want)
		}
	}
}

func runWith(u Users, args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	env := Env{Dir: "/", Host: "sub01", Loc: time.UTC, Now: func() time.Time { return time.Date(2026, 3, 18, 2, 10, 0, 0, time.UTC) }}
	code = Run(args, strings.NewReader(""), &o, &e, env, func(*Env, func(string)) (Users, error) { return u, nil })
	return o.String(), e.String(), code
}

// What a directory's archive has: links as links, each file once, nothing from outside.
func TestTarTree(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	for name, text := range map[string]string{secret: "outside", filepath.Join(dir, "file"): "inside"} {
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o755), os.Symlink(secret, filepath.Join(dir, "link")),
		os.Symlink(filepath.Dir(secret), filepath.Join(dir, "linkdir")), os.Link(filepath.Join(dir, "file"), filepath.Join(dir, "sub", "same"))); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var b bytes.Buffer
	notes, err := tarTree(t.Context(), dir, &b)
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "1 socket") {
		t.Errorf("%q, %v", notes, err)
	}
	if strings.Contains(b.String(), "outside") {
		t.Error("a file from outside is in it")
	}
	var got []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(h.Typeflag)+h.Name+">"+strings.TrimPrefix(h.Linkname, filepath.Dir(secret)))
	}
	want := []string{"0file>", "2link>/secret", "2linkdir>", "5sub/>", "1sub/same>file"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := tarTree(t.Context(), dir, brokenPipe{}); err == nil {
		t.Error("nobody read it, and it was a success")
	}
}
