package sif

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// openDir is a temporary directory that every user can come to; t.TempDir is not.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sif-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// nobody is an ordinary user to run programs as; nil when we are one.
func nobody(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	var c syscall.Credential
	if _, err := fmt.Sscan(u.Uid+" "+u.Gid, &c.Uid, &c.Gid); err != nil {
		t.Fatal(err)
	}
	return &c
}

// inContainer runs a command in an image as an ordinary user, and gives its output.
func inContainer(t *testing.T, image string, args ...string) string {
	t.Helper()
	home := openDir(t)
	as := nobody(t)
	if as != nil {
		if err := os.Chown(home, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("apptainer", append([]string{"--silent"}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + searchPath, "HOME=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, stderr.Bytes())
	}
	return string(out)
}

// file is an entry of a test's archive. Type 0 is a regular file.
type file struct {
	name string
	kind byte
	data string // content, or the target of a link
	mode int64
}

var day = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func packTar(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: f.kind, Mode: f.mode, ModTime: day}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		switch f.kind {
		case 0:
			h.Typeflag, h.Size = tar.TypeReg, int64(len(f.data))
		default:
			h.Linkname = f.data
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if f.kind == 0 {
			if _, err := io.WriteString(w, f.data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gz(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zst(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// busyboxFiles are a root file system that runs.
func busyboxFiles(t testing.TB) []file {
	t.Helper()
	program, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	files := []file{{"bin/", tar.TypeDir, "", 0}, {"bin/busybox", 0, string(data), 0}, {"tmp/", tar.TypeDir, "", 0o1777}}
	for _, applet := range []string{"sh", "cat", "ls", "env", "echo", "stat"} {
		files = append(files, file{"bin/" + applet, tar.TypeSymlink, "busybox", 0})
	}
	return files
}

func write(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ociConfig is what the images of these tests say of themselves.
func ociConfig(t testing.TB, arch string, layers ...[]byte) []byte {
	t.Helper()
	var ids []string
	for _, l := range layers {
		ids = append(ids, "sha256:"+hexSum(l))
	}
	data, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "created": "2026-01-03T00:00:00Z",
		"config": map[string]any{
			"Env":        []string{"PATH=/opt/it's here:/bin", "GREETING=a 'b' $c \"d\"", "not-a-name=1"},
			"Entrypoint": []string{"/bin/echo", "it's"}, "Cmd": []string{"the command"}, "WorkingDir": "/work",
			"Labels": map[string]string{"ai.backend.service-ports": "jupyter:http:8091", "fairslice.min.mem": "1g"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// ociLayout gives the files of an OCI layout with one image.
func ociLayout(t testing.TB, arch string, pack func(testing.TB, []byte) []byte, layers ...[]byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion": "1.0.0"}`)}
	blob := func(kind string, data []byte) map[string]any {
		files["blobs/sha256/"+hexSum(data)] = data
		return map[string]any{"mediaType": kind, "digest": "sha256:" + hexSum(data), "size": len(data)}
	}
	var list []any
	for _, l := range layers {
		list = append(list, blob("application/vnd.oci.image.layer.v1.tar+gzip", pack(t, l)))
	}
	marshal := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	m := marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": blob("application/vnd.oci.image.config.v1+json", ociConfig(t, arch, layers...)), "layers": list})
	d := blob("application/vnd.oci.image.manifest.v1+json", m)
	d["platform"] = map[string]any{"os": "linux", "architecture": arch}
	d["annotations"] = map[string]any{"org.opencontainers.image.ref.name": "latest"}
	files["index.json"] = marshal(map[string]any{"schemaVersion": 2, "manifests": []any{d}})
	return files
}

// ociIndex gives the files of an OCI layout with an image for each architecture, and what BuildKit puts beside one: where it was
// made, as a manifest for no machine.
func ociIndex(t testing.TB, pack func(testing.TB, []byte) []byte, layers map[string][][]byte) map[string][]byte {
	t.Helper()
	var index struct {
		SchemaVersion int              `json:"schemaVersion"`
		MediaType     string           `json:"mediaType"`
		Manifests     []map[string]any `json:"manifests"`
	}
	index.SchemaVersion, index.MediaType = 2, indexType
	files := map[string][]byte{}
	for _, arch := range slices.Sorted(maps.Keys(layers)) {
		var one struct{ Manifests []map[string]any }
		layout := ociLayout(t, arch, pack, layers[arch]...)
		if err := json.Unmarshal(layout["index.json"], &one); err != nil {
			t.Fatal(err)
		}
		maps.Copy(files, layout)
		index.Manifests = append(index.Manifests, one.Manifests...)
		index.Manifests = append(index.Manifests, map[string]any{"mediaType": manifestType, "digest": one.Manifests[0]["digest"], "size": one.Manifests[0]["size"],
			"platform":    map[string]any{"os": "unknown", "architecture": "unknown"},
			"annotations": map[string]any{"vnd.docker.reference.type": "attestation-manifest"}})
	}
	data, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	files["index.json"] = data
	return files
}

func writeAll(t testing.TB, dir string, files map[string][]byte) string {
	t.Helper()
	for name, data := range files {
		write(t, dir, name, data)
	}
	return dir
}

func tarOf(t testing.TB, files map[string][]byte) []byte {
	var list []file
	for name, data := range files {
		list = append(list, file{name, 0, string(data), 0o644})
	}
	slices.SortFunc(list, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return packTar(t, list...)
}

// leftovers lists what should not be in a directory.
func leftovers(t *testing.T, dir string, but ...string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, at := range list {
		if !slices.Contains(but, at.Name()) {
			names = append(names, at.Name())
		}
	}
	return names
}

// convertTar converts an archive in memory; nothing may be left behind, whatever comes of it.
func convertTar(t *testing.T, data []byte, o Options) (Result, string, error) {
	t.Helper()
	dir := openDir(t)
	dst := filepath.Join(dir, "image.sif")
	r, err := Convert(context.Background(), write(t, openDir(t), "src", data), dst, o)
	allowed := []string{}
	if err == nil {
		allowed = append(allowed, "image.sif")
	}
	if left := leftovers(t, dir, allowed...); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	return r, dst, err
}
