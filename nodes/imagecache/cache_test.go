package imagecache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairslice/images"
)

// batchd has files, and what goes wrong: a transfer is cut after so many bytes.
type batchd struct {
	files   map[images.Digest][]byte
	cut     atomic.Int64 // bytes of the next transfer, 0 for all
	fetches atomic.Int64
	sent    atomic.Int64
	block   chan struct{}
}

func (b *batchd) Fetch(ctx context.Context, d images.Digest, offset int64, w io.Writer) error {
	b.fetches.Add(1)
	if b.block != nil {
		select {
		case <-b.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	data := b.files[d][offset:]
	cut := b.cut.Swap(0)
	if cut > 0 && cut < int64(len(data)) {
		data = data[:cut]
	}
	n, err := io.Copy(w, bytes.NewReader(data))
	b.sent.Add(n)
	if err == nil && cut > 0 {
		err = errors.New("the connection was cut")
	}
	return err
}

func (b *batchd) add(size int) Wanted {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	sum := sha256.Sum256(data)
	d := images.DigestOf(sum[:])
	b.files[d] = data
	return Wanted{Digest: d, Size: int64(size), UID: os.Getuid()}
}

type clock struct{ at time.Time }

func (c *clock) now() time.Time { c.at = c.at.Add(time.Second); return c.at }

func open(t *testing.T, dir string, max int64, b *batchd) *Cache {
	t.Helper()
	c, err := Open(Config{Dir: dir, Max: max, Pause: time.Millisecond, Now: (&clock{time.Now()}).now}, b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newBatchd() *batchd { return &batchd{files: map[images.Digest][]byte{}} }

// got fetches for a key and compares.
func got(t *testing.T, c *Cache, b *batchd, w Wanted, key string) string {
	t.Helper()
	w.Key = key
	path, err := c.Get(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(data, b.files[w.Digest]) {
		t.Fatalf("%s: %v, or another file", path, err)
	}
	return path
}

func TestAFileIsFetchedOnce(t *testing.T) {
	b := newBatchd()
	c := open(t, t.TempDir(), 0, b)
	w := b.add(3 << 20)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			w := w
			w.Key, w.Public = string(rune('a'+i)), i%2 == 0
			if _, err := c.Get(t.Context(), w, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := b.fetches.Load(); n != 1 {
		t.Errorf("%d fetches of one file", n)
	}
}

func TestAFetchGoesOnWhereItWasCut(t *testing.T) {
	b := newBatchd()
	dir := t.TempDir()
	w := b.add(1 << 20)
	b.cut.Store(700_000)
	got(t, open(t, dir, 0, b), b, w, "k")
	if n := b.sent.Load(); n != 1<<20 {
		t.Errorf("%d bytes were sent for a file of %d", n, 1<<20)
	}
	// And after the daemon was killed in a fetch.
	w = b.add(1 << 20)
	b.sent.Store(0)
	if err := os.WriteFile(filepath.Join(dir, "partial", w.Digest.Hex()), b.files[w.Digest][:1_000_000], 0o600); err != nil {
		t.Fatal(err)
	}
	got(t, open(t, dir, 0, b), b, w, "k")
	if n := b.sent.Load(); n != 1<<20-1_000_000 {
		t.Errorf("%d bytes were sent for the rest", n)
	}
}

func TestADamagedFileIsNeverUsed(t *testing.T) {
	for name, spoil := range map[string]func(b *batchd, w *Wanted, partial string){
		"other bytes":      func(b *batchd, w *Wanted, _ string) { b.files[w.Digest][5] ^= 1 },
		"too short":        func(b *batchd, w *Wanted, _ string) { b.files[w.Digest] = b.files[w.Digest][:99] },
		"too long":         func(b *batchd, w *Wanted, _ string) { b.files[w.Digest] = append(b.files[w.Digest], 1) },
		"no such digest":   func(b *batchd, w *Wanted, _ string) { w.Digest = "sha256:../../x" },
		"partial too long": func(b *batchd, w *Wanted, p string) { _ = os.WriteFile(p, make([]byte, 2000), 0o600) },
		"partial wrong":    func(b *batchd, w *Wanted, p string) { _ = os.WriteFile(p, make([]byte, 500), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBatchd()
			dir := t.TempDir()
			c := open(t, dir, 0, b)
			w := b.add(1000)
			spoil(b, &w, filepath.Join(dir, "partial", w.Digest.Hex()))
			w.Key = "k"
			path, err := c.Get(t.Context(), w, nil)
			if name == "partial wrong" || name == "partial too long" { // begun anew
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Errorf("a path: %s", path)
			}
			if list, _ := filepath.Glob(filepath.Join(dir, "*", "*.sif")); len(list) > 0 {
				t.Errorf("left behind: %v", list)
			}
		})
	}
}

func TestWhatWasUsedLongestAgoGoesFirst(t *testing.T) {
	b := newBatchd()
	dir := t.TempDir()
	c := open(t, dir, 1000, b)
	x, y, z := b.add(400), b.add(400), b.add(400)
	xPath := got(t, c, b, x, "x")
	yPath := got(t, c, b, y, "y")
	if _, err := c.Get(t.Context(), Wanted{Digest: z.Digest, Size: z.Size, Key: "z"}, nil); !errors.Is(err, ErrNoRoom) {
		t.Fatalf("running jobs' files made room: %v", err)
	}
	c.Release("x")
	c.Release("y")
	got(t, c, b, x, "x") // used later than y now
	c.Release("x")
	// A restart knows the order, and what runs.
	c = open(t, dir, 1000, b)
	got(t, c, b, z, "z")
	if _, err := os.Stat(yPath); err == nil {
		t.Error("y is still there")
	}
	if _, err := os.Stat(xPath); err != nil {
		t.Error(err)
	}
	c = open(t, dir, 1000, b)
	c.Hold("job of before", x.Digest)
	c.Hold("another", z.Digest)
	if _, err := c.Get(t.Context(), Wanted{Digest: y.Digest, Size: y.Size, Key: "y"}, nil); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a running job's file made room after a restart: %v", err)
	}
	if _, err := c.Get(t.Context(), Wanted{Digest: b.add(1001).Digest, Size: 1001, Key: "big"}, nil); !errors.Is(err, ErrNoRoom) {
		t.Errorf("larger than all: %v", err)
	}
}

func TestAFetchThatNobodyWaitsForEnds(t *testing.T) {
	b := newBatchd()
	b.block = make(chan struct{})
	c := open(t, t.TempDir(), 0, b)
	w := b.add(1000)
	w.Key = "k"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Get(ctx, w, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	deadline := time.After(10 * time.Second)
	for {
		c.mu.Lock()
		f := c.fetches[w.Digest]
		c.mu.Unlock()
		if f == nil {
			break
		}
		select {
		case <-f.done:
		case <-deadline:
			t.Fatal("it goes on")
		}
	}
	close(b.block)
	got(t, c, b, w, "again")
}

// As root the files of a user are in a directory that only that user can enter.
func TestOthersCannotReachAPrivateFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to have two users")
	}
	b := newBatchd()
	dir := t.TempDir()
	c, err := Open(Config{Dir: dir, Chown: true, Now: time.Now}, b)
	if err != nil {
		t.Fatal(err)
	}
	w := b.add(1000)
	w.UID, w.Key = 12345, "k"
	path, err := c.Get(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{dir: 0o711, filepath.Join(dir, "blobs"): 0o700, filepath.Dir(path): 0o500, path: 0o444} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), want)
		}
	}
	if pub, _ := filepath.Glob(filepath.Join(dir, "public", "*")); len(pub) > 0 {
		t.Errorf("a private file is public: %v", pub)
	}
}

// What batchd shows to everybody is used in place; a private image is fetched all the same, as is one that is not whole there.
func TestASharedFileIsUsedInPlace(t *testing.T) {
	b := newBatchd()
	shared := t.TempDir()
	if err := os.Mkdir(filepath.Join(shared, "public"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := Open(Config{Dir: t.TempDir(), Shared: shared, Now: time.Now}, b)
	if err != nil {
		t.Fatal(err)
	}
	whole, half, private := b.add(1000), b.add(1000), b.add(1000)
	whole.Public, half.Public = true, true
	for w, data := range map[Wanted][]byte{whole: b.files[whole.Digest], half: b.files[half.Digest][:500], private: b.files[private.Digest]} {
		if err := os.WriteFile(filepath.Join(shared, "public", w.Digest.Hex()+".sif"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for w, inPlace := range map[Wanted]bool{whole: true, half: false, private: false} {
		if path := got(t, c, b, w, "k"); (filepath.Dir(path) == filepath.Join(shared, "public")) != inPlace {
			t.Errorf("%+v: %s", w, path)
		}
	}
}
