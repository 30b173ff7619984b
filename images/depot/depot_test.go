package depot

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairslice/images"
	"fairslice/images/sif"
)

// catalogue is what put and Sweep see of the real one.
type catalogue struct {
	mu     sync.Mutex
	images map[images.Digest]*images.Image
}

func (c *catalogue) put(r Stored) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.images == nil {
		c.images = map[images.Digest]*images.Image{}
	}
	c.images[r.Digest] = &images.Image{Digest: r.Digest, Size: r.Size, Visibility: images.Private}
	return nil
}

func (c *catalogue) find(d images.Digest) *images.Image {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.images[d]
}

func open(t *testing.T, cfg Config) *Depot {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "images")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	d, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// archive is a root file system whose one program is its content.
func archive(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "bin/sh", Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func digest(data []byte) images.Digest {
	sum := sha256.Sum256(data)
	return images.DigestOf(sum[:])
}

func upload(t *testing.T, name string) Upload {
	t.Helper()
	u, err := ParseUpload(1000, name)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func quiet(sif.Stage, int64, int64) {}

// send uploads and imports.
func send(t *testing.T, d *Depot, c *catalogue, name string, data []byte) error {
	t.Helper()
	u := upload(t, name)
	offset, err := d.Begin(u, int64(len(data)), true)
	if err != nil {
		return err
	}
	if _, err := d.Receive(u, offset, bytes.NewReader(data[offset:])); err != nil {
		return err
	}
	return d.Import(t.Context(), u, digest(data), "rootfs.tar", quiet, c.put)
}

func files(t *testing.T, d *Depot, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(d.path(dir))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

func needsSquashfs(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("mksquashfs"); err != nil {
		t.Fatal("needs mksquashfs (squashfs-tools): make setup installs it")
	}
}

// made gives the one file of a depot.
func made(t *testing.T, d *Depot, c *catalogue) (images.Digest, []byte) {
	t.Helper()
	if len(c.images) != 1 {
		t.Fatalf("%d images", len(c.images))
	}
	for dig := range c.images {
		f, err := d.OpenImage(dig)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		data, err := io.ReadAll(f)
		if err != nil || digest(data) != dig {
			t.Fatalf("file of %s: %v, digest %s", dig, err, digest(data))
		}
		return dig, data
	}
	return "", nil
}

func TestAnUploadBecomesAnImage(t *testing.T) {
	needsSquashfs(t)
	d, c := open(t, Config{}), &catalogue{}
	if err := send(t, d, c, "a", archive(t, "#!shell")); err != nil {
		t.Fatal(err)
	}
	dig, data := made(t, d, c)
	if _, err := d.Verify(t.Context(), dig); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]fs.FileMode{"files": 0o700, "incoming": 0o700, "public": 0o700, "files/" + dig.Hex() + ".sif": 0o600} {
		if st, err := os.Stat(d.path(name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", name, st.Mode().Perm(), err, want)
		}
	}
	// The SIF file itself, sent under another name, is the same file.
	if err := send(t, d, c, "b", data); err != nil {
		t.Fatal(err)
	}
	if got := files(t, d, "files"); len(got) != 1 {
		t.Errorf("two names of one image are %v", got)
	}
	if left := files(t, d, "incoming"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// A file that was damaged is made good by the next one.
	if err := os.WriteFile(d.file(dig), data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Verify(t.Context(), dig); err == nil {
		t.Error("half a file is whole")
	}
	if err := send(t, d, c, "c", data); err != nil {
		t.Fatal(err)
	}
	made(t, d, c)
}

func TestAnUploadGoesOnWhereItWasCut(t *testing.T) {
	needsSquashfs(t)
	dir := filepath.Join(t.TempDir(), "images")
	d, c := open(t, Config{Dir: dir}), &catalogue{}
	data := archive(t, "#!shell")
	u := upload(t, "cut")
	cut := io.MultiReader(bytes.NewReader(data[:700]), errReader{syscall.ECONNRESET})
	if n, err := d.Receive(u, 0, cut); n != 700 || !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%d, %v", n, err)
	}
	if err := d.Close(); err != nil { // batchd was killed, too
		t.Fatal(err)
	}
	d = open(t, Config{Dir: dir})
	if _, err := d.Receive(u, 600, bytes.NewReader(nil)); err == nil {
		t.Error("a part was written over")
	}
	if offset, err := d.Begin(u, int64(len(data)), true); offset != 700 || err != nil {
		t.Fatalf("%d, %v", offset, err)
	}
	if err := send(t, d, c, "cut", data); err != nil {
		t.Fatal(err)
	}
	made(t, d, c)
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestWhatIsNotTaken(t *testing.T) {
	needsSquashfs(t)
	for _, name := range []string{"", "../x", "a/b", "a b", strings.Repeat("x", 65)} {
		if _, err := ParseUpload(1, name); err == nil {
			t.Errorf("upload %q", name)
		}
	}
	d, c := open(t, Config{MaxFile: 4 << 10, MaxRoot: 64 << 10}), &catalogue{}
	var refused Refused
	noise := make([]byte, 20<<10)
	_, _ = rand.Read(noise)
	big := archive(t, string(noise))
	for name, err := range map[string]error{
		"no image":  send(t, d, c, "a", []byte(strings.Repeat("no image at all\n", 100))),
		"too large": send(t, d, c, "b", big),
		"a bomb":    send(t, d, c, "c", archive(t, strings.Repeat("x", 80<<10))[:70<<10]),
	} {
		if !errors.As(err, &refused) || strings.Contains(err.Error(), d.cfg.Dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	u := upload(t, "damaged")
	data := archive(t, "#!shell")
	if _, err := d.Receive(u, 0, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if err := d.Import(t.Context(), u, digest([]byte("other")), "x", quiet, c.put); !errors.As(err, &refused) {
		t.Errorf("a damaged upload: %v", err)
	}
	if err := d.Import(t.Context(), upload(t, "never"), digest(data), "x", quiet, c.put); !errors.As(err, &refused) {
		t.Errorf("an upload that never was: %v", err)
	}
	for i := range maxUploads {
		if _, err := d.Receive(upload(t, string(rune('p'+i))), 0, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Receive(upload(t, "z"), 0, strings.NewReader("x")); !errors.As(err, &refused) {
		t.Errorf("one upload too many: %v", err)
	}
	if err := d.Sweep(c.find); err != nil {
		t.Fatal(err)
	}
	if len(c.images) > 0 || len(files(t, d, "files")) > 0 {
		t.Errorf("images %v, files %v", c.images, files(t, d, "files"))
	}
}

func TestSweepLeavesWhatAnImportIsAboutToAdd(t *testing.T) {
	needsSquashfs(t)
	d, c := open(t, Config{}), &catalogue{}
	u := upload(t, "a")
	data := archive(t, "#!shell")
	if _, err := d.Receive(u, 0, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	err := d.Import(t.Context(), u, digest(data), "x", quiet, func(r Stored) error {
		if err := d.Sweep(c.find); err != nil { // the catalogue does not have it yet
			t.Error(err)
		}
		return c.put(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	dig, _ := made(t, d, c)
	c.images = nil
	if err := d.Sweep(c.find); err != nil {
		t.Fatal(err)
	}
	if _, err := d.OpenImage(dig); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that no image has: %v", err)
	}
}

// Two imports of the same bytes at once give one file and two successes, whatever Sweep does beside.
func TestTheSameTwiceAtOnce(t *testing.T) {
	needsSquashfs(t)
	d, c := open(t, Config{}), &catalogue{}
	data := archive(t, "#!shell")
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		wg.Go(func() {
			if err := send(t, d, c, name, data); err != nil {
				t.Error(err)
			}
		})
	}
	for range 50 {
		if err := d.Sweep(c.find); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	made(t, d, c)
	if got := files(t, d, "files"); len(got) != 1 {
		t.Errorf("files %v", got)
	}
}

func TestWhatAKilledProcessLeavesGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	now := time.Now()
	d := open(t, Config{Dir: dir, Now: func() time.Time { return now }})
	for _, name := range []string{"incoming/1000-old", "incoming/1000-new", "files/" + digest([]byte("x")).Hex() + ".sif"} {
		if err := os.WriteFile(d.path(name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(d.path("incoming", working+"1", ".fairslice-sif-2"), 0o700); err != nil {
		t.Fatal(err)
	}
	old := now.Add(-25 * time.Hour)
	if err := os.Chtimes(d.path("incoming/1000-old"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Clear(), d.Sweep((&catalogue{}).find)); err != nil {
		t.Fatal(err)
	}
	if got := files(t, d, "incoming"); len(got) != 1 || got[0] != "1000-new" {
		t.Errorf("incoming: %v", got)
	}
	if got := files(t, d, "files"); len(got) > 0 {
		t.Errorf("files: %v", got)
	}
}

func TestOneProcessUsesADepot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	first := open(t, Config{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Config{Dir: dir, Now: time.Now}); err == nil {
		t.Fatal("two depots in one directory")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Config{Dir: dir})
}

func TestSharedFiles(t *testing.T) {
	needsSquashfs(t)
	d, c := open(t, Config{Shared: true}), &catalogue{}
	if err := send(t, d, c, "a", archive(t, "#!shell")); err != nil {
		t.Fatal(err)
	}
	dig, _ := made(t, d, c)
	if got := files(t, d, "public"); len(got) > 0 {
		t.Fatalf("a private image is public: %v", got)
	}
	if err := d.Share(dig, true); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(d.path("public", dig.Hex()+".sif"))
	if err != nil || st.Mode().Perm() != 0o644 {
		t.Fatalf("%v %v", st, err)
	}
	// The catalogue says that it is private: whoever was killed in between, the sweep closes it.
	if err := d.Sweep(c.find); err != nil {
		t.Fatal(err)
	}
	if got := files(t, d, "public"); len(got) > 0 {
		t.Errorf("still public: %v", got)
	}
}

// A full disk: a small file system, where root can make one.
func TestAFullDisk(t *testing.T) {
	needsSquashfs(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("needs a small file system: mount: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	d, c := open(t, Config{Dir: filepath.Join(dir, "images")}), &catalogue{}
	noise := make([]byte, 180<<10)
	_, _ = rand.Read(noise)
	if err := send(t, d, c, "a", archive(t, string(noise))); !errors.Is(err, ErrFull) {
		t.Errorf("an import into a full disk: %v", err)
	}
	noise = make([]byte, 300<<10)
	if err := send(t, d, c, "b", noise); !errors.Is(err, ErrFull) {
		t.Errorf("an upload onto a full disk: %v", err)
	}
	if len(c.images) > 0 || len(files(t, d, "files")) > 0 {
		t.Errorf("half an image was kept: %v", files(t, d, "files"))
	}
	_ = d.Close()
}

func FuzzParseUpload(f *testing.F) {
	f.Add("a1B2")
	f.Add("../../etc/passwd")
	f.Fuzz(func(t *testing.T, name string) {
		u, err := ParseUpload(1000, name)
		if err == nil && (u.Name != name || filepath.Base("1000-"+name) != "1000-"+name || strings.HasPrefix(name, ".")) {
			t.Errorf("%q was taken", name)
		}
	})
}
