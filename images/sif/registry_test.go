package sif

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// registry serves the one image of an OCI layout as NAME:latest, by the distribution protocol, for reading.
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

func (r *registry) url(t *testing.T, name string) URL {
	t.Helper()
	u, err := ParseURL("docker://" + strings.TrimPrefix(r.URL, "http://") + "/" + name)
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
	absent := true
	r := newRegistry(t, "team/tool", files, func(digest string) bool { return absent && digest == last })
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
	absent = false
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

func TestBuild(t *testing.T) {
	base := filepath.Join(openDir(t), "base.sif") // with a C library, as Apptainer's fakeroot needs it
	if out, err := exec.Command("../../etc/image.sh", "base", base).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	definition := "Bootstrap: localimage\nFrom: " + base + "\n%post\n  echo \"as $(id -u)\" >/made\n  seq 100000\n" +
		"%labels\n  fairslice.apps lab:http:8888\n"
	dir := openDir(t)
	dst := filepath.Join(dir, "image.sif")
	var log bytes.Buffer
	o := BuildOptions{ApptainerOptions: ApptainerOptions{As: nobody(t), Log: &log, LogBytes: 10_000}}
	r, err := Build(context.Background(), definition, dst, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if r.Labels["fairslice.apps"] != "lab:http:8888" || !strings.Contains(r.Definition, "seq 100000") {
		t.Errorf("%+v", r)
	}
	if log.Len() < 5_000 || log.Len() > 11_000 || !strings.HasSuffix(log.String(), "[the rest of the output is left out]\n") {
		t.Errorf("the log has %d bytes, and ends in %q", log.Len(), log.String()[max(0, log.Len()-50):])
	}
	if out := inContainer(t, dst, "exec", dst, "/bin/cat", "/made"); !strings.HasPrefix(out, "as 0") {
		t.Errorf("%q", out)
	}
	if left := leftovers(t, dir, "image.sif"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := Build(context.Background(), "Bootstrap: localimage\nFrom: "+base+"\n%post\n  exit 3\n", dst, o); err == nil || !strings.Contains(err.Error(), "build image: apptainer: exit status") {
		t.Errorf("a definition that fails: %v", err)
	}
	if _, err := Build(context.Background(), "Bootstrap: localimage\nFrom: x\n%setup\n", dst, o); err == nil || !strings.Contains(err.Error(), "%setup runs outside") {
		t.Errorf("a definition with %%setup: %v", err)
	}
	if os.Geteuid() == 0 {
		if _, err := Build(context.Background(), definition, dst, BuildOptions{}); err == nil || !strings.Contains(err.Error(), "never run as root") {
			t.Errorf("as root: %v", err)
		}
	}
}

func TestVerify(t *testing.T) {
	_, image, err := convertTar(t, packTar(t, busyboxFiles(t)...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	keys := func() (dir, public string) {
		dir = openDir(t)
		cmd := exec.Command("apptainer", "key", "newpair", "--keysdir", dir, "--name=n", "--email=a@b.c", "--comment=c", "--password=", "--push=false", "--bit-length=2048")
		cmd.Env = []string{"PATH=" + searchPath, "HOME=" + dir}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return dir, filepath.Join(dir, "pgp-public")
	}
	dir, mine := keys()
	_, others := keys()
	ctx := context.Background()
	if err := Verify(ctx, image, mine, Options{}); err == nil || !strings.Contains(err.Error(), "signature not found") {
		t.Errorf("not signed: %v", err)
	}
	sign := exec.Command("apptainer", "sign", image)
	sign.Env = []string{"PATH=" + searchPath, "HOME=" + dir, "APPTAINER_KEYSDIR=" + dir}
	if out, err := sign.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := Verify(ctx, image, mine, Options{Temp: openDir(t)}); err != nil {
		t.Error(err)
	}
	if err := Verify(ctx, image, others, Options{}); err == nil || !strings.Contains(err.Error(), "unknown entity") {
		t.Errorf("signed by somebody else: %v", err)
	}
	info, err := Inspect(ctx, image)
	if err != nil || len(info.Signatures) != 1 || len(info.Signatures[0]) != 40 {
		t.Errorf("%q, %v", info.Signatures, err)
	}
	c, f := parts(t, image)
	f.Close()
	w, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.WriteAt([]byte("changed"), c.root.Offset()+c.root.Size()-200)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := Verify(ctx, image, mine, Options{}); err == nil || !strings.Contains(err.Error(), "integrity") {
		t.Errorf("changed after it was signed: %v", err)
	}
}
