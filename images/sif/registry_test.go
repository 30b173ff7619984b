package sif

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sylabs/sif/v2/pkg/integrity"
)

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// registry serves the one image of an OCI layout as NAME:latest, or its index where it has images for several architectures, by the
// distribution protocol, for reading.
type registry struct{ *httptest.Server }

func newRegistry(t *testing.T, name string, files map[string][]byte, missing func(digest string) bool) *registry {
	r := &registry{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		rest, ok := strings.CutPrefix(q.URL.Path, "/v2/")
		if !ok || rest == "" {
			return
		}
		what, ok := strings.CutPrefix(rest, name+"/")
		reference := path.Base(what)
		kind := "application/octet-stream"
		if strings.HasPrefix(what, "manifests/") && reference == "latest" && bytes.Contains(files["index.json"], []byte(indexType)) {
			w.Header().Set("Content-Type", indexType)
			http.ServeContent(w, q, "", day, bytes.NewReader(files["index.json"]))
			return
		}
		if strings.HasPrefix(what, "manifests/") {
			kind = manifestType
			if reference == "latest" {
				for file, data := range files {
					if bytes.Contains(data, []byte(manifestType)) && file != "index.json" {
						reference = "sha256:" + path.Base(file)
					}
				}
			}
		}
		data, found := files["blobs/"+strings.Replace(reference, ":", "/", 1)]
		if !ok || !found || missing(reference) {
			http.NotFound(w, q)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Docker-Content-Digest", reference)
		http.ServeContent(w, q, "", day, bytes.NewReader(data))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *registry) url(t *testing.T, name string) URL { return r.as(t, "docker", name) }

func (r *registry) as(t *testing.T, scheme, name string) URL {
	t.Helper()
	u, err := ParseURL(scheme + "://" + strings.TrimPrefix(r.URL, "http://") + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestPull(t *testing.T) {
	top := packTar(t, file{"opt/", tar.TypeDir, "", 0}, file{"opt/data", 0, "hello\n", 0o644})
	base := packTar(t, busyboxFiles(t)...)
	files := ociLayout(t, runtime.GOARCH, gz, base, top)
	last := "sha256:" + hexSum(gz(t, top))
	var absent atomic.Bool
	absent.Store(true)
	r := newRegistry(t, "team/tool", files, func(digest string) bool { return absent.Load() && digest == last })
	as := nobody(t)
	cache, dir := openDir(t), openDir(t)
	if as != nil {
		if err := os.Chown(cache, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	var fetched int64
	o := ApptainerOptions{As: as, Cache: cache, Options: Options{Progress: func(s Stage, done, _ int64) {
		if s == StageFetch {
			fetched = max(fetched, done)
		}
	}}}
	dst := filepath.Join(dir, "image.sif")
	// The first try fails in the middle.
	_, err := Pull(context.Background(), r.url(t, "team/tool"), dst, true, o)
	if err == nil || !strings.Contains(err.Error(), "pull image docker://") {
		t.Fatalf("a layer is missing: %v", err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	absent.Store(false)
	got, err := Pull(context.Background(), r.url(t, "team/tool:latest"), dst, true, o)
	if err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir, "image.sif"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	// A pull that fails keeps the layers that it has.
	if _, err := os.Stat(filepath.Join(cache, "cache/blob/blobs/sha256", hexSum(gz(t, base)))); err != nil {
		t.Error(err)
	}
	if fetched < 1<<20 {
		t.Errorf("progress of %d bytes", fetched)
	}
	if got.Labels["fairslice.min.mem"] != "1g" || got.Arch != runtime.GOARCH {
		t.Errorf("%+v", got)
	}
	if out := inContainer(t, dst, "exec", dst, "/bin/cat", "/opt/data"); out != "hello\n" {
		t.Errorf("%q", out)
	}
	if _, err := Pull(context.Background(), r.url(t, "team/other"), dst, true, o); err == nil {
		t.Error("an image that is not there was pulled")
	}
}

// Of an index the image for this machine is taken, whatever its layers are packed with; one that has none is refused in words.
func TestPullOfSeveralArchitectures(t *testing.T) {
	root := func(arch string) [][]byte {
		return [][]byte{packTar(t, busyboxFiles(t)...), packTar(t, file{"arch", 0, arch, 0o644})}
	}
	other := "s390x"
	if runtime.GOARCH == other {
		other = "amd64"
	}
	dst := filepath.Join(openDir(t), "image.sif")
	for _, pack := range []func(testing.TB, []byte) []byte{gz, zst} {
		r := newRegistry(t, "tool", ociIndex(t, pack, map[string][][]byte{runtime.GOARCH: root(runtime.GOARCH), other: root(other)}), func(string) bool { return false })
		got, err := Pull(context.Background(), r.url(t, "tool"), dst, true, ApptainerOptions{As: nobody(t)})
		if err != nil || got.Arch != runtime.GOARCH || !got.Made {
			t.Fatalf("%+v, %v", got, err)
		}
		if out := inContainer(t, dst, "exec", dst, "/bin/cat", "/arch"); out != runtime.GOARCH {
			t.Errorf("the image for %q was taken", out)
		}
	}
	if left := leftovers(t, filepath.Dir(dst), "image.sif"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	r := newRegistry(t, "tool", ociIndex(t, gz, map[string][][]byte{other: root(other), "riscv64": root("riscv64")}), func(string) bool { return false })
	if _, err := Pull(context.Background(), r.url(t, "tool"), dst, true, ApptainerOptions{As: nobody(t)}); err == nil || !strings.Contains(err.Error(), runtime.GOARCH) {
		t.Errorf("an index without this architecture: %v", err)
	}
	r = newRegistry(t, "tool", ociLayout(t, other, gz, root(other)...), func(string) bool { return false })
	got, err := Pull(context.Background(), r.url(t, "tool"), dst, true, ApptainerOptions{As: nobody(t)})
	if err == nil || !strings.Contains(err.Error(), `an image for architecture "`+other+`"; want `+runtime.GOARCH) {
		t.Errorf("one image, for another architecture: %+v, %v", got.Info, err)
	}
}

// A SIF file in a registry comes as it is, with its signature.
func TestPullOfASIFFile(t *testing.T) {
	_, image, err := convertTar(t, packTar(t, busyboxFiles(t)...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ada := pgpKey(t, "Ada")
	data, err := os.ReadFile(signed(t, image, integrity.OptSignWithEntity(ada)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	blob := func(kind string, data []byte) string {
		files["blobs/sha256/"+hexSum(data)] = data
		return fmt.Sprintf(`{"mediaType": %q, "digest": "sha256:%s", "size": %d, "annotations": {"org.opencontainers.image.title": "x.sif"}}`, kind, hexSum(data), len(data))
	}
	blob(manifestType, fmt.Appendf(nil, `{"schemaVersion": 2, "mediaType": %q, "config": %s, "layers": [%s]}`, manifestType,
		blob("application/vnd.sylabs.sif.config.v1+json", []byte("{}")), blob("application/vnd.sylabs.sif.layer.v1.sif", data)))
	r := newRegistry(t, "tool", files, func(string) bool { return false })
	dst := filepath.Join(openDir(t), "image.sif")
	got, err := Pull(context.Background(), r.as(t, "oras", "tool:latest"), dst, true, ApptainerOptions{As: nobody(t)})
	if err != nil || got.Made || got.Digest.Hex() != hexSum(data) {
		t.Fatalf("%+v, %v", got, err)
	}
	if trust, err := keysOf(t, armored(t, ada, false)).Check(t.Context(), dst); err != nil || len(trust.By) != 1 {
		t.Errorf("%+v, %v", trust, err)
	}
}

func TestPullIsStopped(t *testing.T) {
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	files := ociLayout(t, runtime.GOARCH, gz, packTar(t, busyboxFiles(t)...))
	r := newRegistry(t, "x", files, func(string) bool { cancel(stop); return false })
	dir := openDir(t)
	_, err := Pull(ctx, r.url(t, "x"), filepath.Join(dir, "image.sif"), true, ApptainerOptions{As: nobody(t)})
	if !errors.Is(err, stop) {
		t.Error(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
