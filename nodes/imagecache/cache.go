package imagecache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairslice/images"
)

// Source is where files come from. Fetch writes the file from offset on to w. An error may pass: Get begins again where it ended.
type Source interface {
	Fetch(ctx context.Context, d images.Digest, offset int64, w io.Writer) error
}

// Errors of Get that callers tell apart. ErrNoRoom is the node's fault, not the job's.
var (
	ErrNoRoom  = errors.New("the node has no room for the image")
	ErrDamaged = errors.New("the image that arrived is not the one that was asked for")
	// ErrGone is a Source's word for a file that it does not have, and will not.
	ErrGone = errors.New("there is no such image file")
)

// Config says where a cache is and how large it may become.
type Config struct {
	Dir string
	// Max is how many bytes the files may have together, 0 for no limit.
	Max int64
	// Shared is where batchd's depot can be seen, "" for nowhere: what is in its directory public is used in place.
	Shared string
	// Chown gives a user's directory to the user. Without it, all jobs run as the daemon's own user.
	Chown bool
	// Pause is the first between two tries to fetch a file; 0 is a second.
	Pause time.Duration
	Now   func() time.Time
}

// Cache is a node's images. Its methods may be called by several goroutines.
type Cache struct {
	cfg    Config
	source Source

	mu      sync.Mutex
	files   map[images.Digest]*file
	held    map[string]images.Digest // by whoever holds it: a key of the caller's
	fetches map[images.Digest]*fetch
}

type file struct {
	size int64
	used time.Time
}

// Open makes the directories, and finds what is in them. Files of other names are left alone.
func Open(cfg Config, source Source) (*Cache, error) {
	if cfg.Pause == 0 {
		cfg.Pause = firstPause
	}
	c := &Cache{cfg: cfg, source: source, files: map[images.Digest]*file{}, held: map[string]images.Digest{}, fetches: map[images.Digest]*fetch{}}
	for _, d := range []struct {
		name string
		mode fs.FileMode
	}{{"", 0o711}, {"blobs", 0o700}, {"partial", 0o700}, {"public", 0o711}, {"users", 0o711}} {
		name := filepath.Join(cfg.Dir, d.name)
		if err := os.MkdirAll(name, d.mode); err != nil {
			return nil, err
		}
		if err := os.Chmod(name, d.mode); err != nil {
			return nil, err
		}
	}
	list, err := os.ReadDir(filepath.Join(cfg.Dir, "blobs"))
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		d, err := digestOf(e.Name())
		if err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		c.files[d] = &file{info.Size(), info.ModTime()}
	}
	return c, c.sweepPartial()
}

// partialKept is how long the beginning of a file is kept that nobody asks for any more.
const partialKept = 24 * time.Hour

func (c *Cache) sweepPartial() error {
	dir := filepath.Join(c.cfg.Dir, "partial")
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if info, err := e.Info(); err == nil && c.cfg.Now().Sub(info.ModTime()) > partialKept {
			_ = os.Remove(filepath.Join(dir, e.Name())) // it will be tried again
		}
	}
	return err
}

const suffix = ".sif"

func digestOf(name string) (images.Digest, error) {
	hex, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return "", fs.ErrInvalid
	}
	return images.ParseDigest("sha256:" + hex)
}

func (c *Cache) blob(d images.Digest) string {
	return filepath.Join(c.cfg.Dir, "blobs", d.Hex()+suffix)
}

// Wanted is a file for a user.
type Wanted struct {
	Digest images.Digest
	Size   int64
	Public bool // everybody may read it; else the user alone
	UID    int
	// Key names who wants it, until Release: an attempt.
	Key string
}

// Get returns the path under which the user can open the file, and keeps it until Release. Where it is not here yet it is
// fetched, however many want it only once; progress is called now and then with the bytes that have arrived. Get may be
// called again with the same key. It fails with ErrNoRoom, ErrDamaged, an error of the source, or the context's.
func (c *Cache) Get(ctx context.Context, w Wanted, progress func(done int64)) (string, error) {
	if _, err := images.ParseDigest(string(w.Digest)); err != nil {
		return "", err
	}
	if path, ok := c.shared(w); ok {
		return path, nil
	}
	c.Hold(w.Key, w.Digest)
	path, err := c.get(ctx, w, progress)
	if err != nil {
		c.Release(w.Key)
	}
	return path, err
}

func (c *Cache) get(ctx context.Context, w Wanted, progress func(int64)) (string, error) {
	for {
		c.mu.Lock()
		if f := c.files[w.Digest]; f != nil {
			f.used = c.cfg.Now()
			path, err := c.link(w)
			c.mu.Unlock()
			if !errors.Is(err, fs.ErrNotExist) {
				return path, err
			}
			c.drop(w.Digest) // somebody has cleaned up by hand
			continue
		}
		f := c.join(w)
		c.mu.Unlock()
		if err := f.wait(ctx, progress); err != nil {
			return "", err
		}
	}
}

// shared finds the file where batchd keeps it. Only what everybody may read can be: others' rights are not known there.
func (c *Cache) shared(w Wanted) (string, bool) {
	if c.cfg.Shared == "" || !w.Public {
		return "", false
	}
	path := filepath.Join(c.cfg.Shared, "public", w.Digest.Hex()+suffix)
	info, err := os.Stat(path)
	return path, err == nil && info.Mode().IsRegular() && info.Size() == w.Size && info.Mode().Perm()&0o004 != 0
}

// link makes the file visible to the user. The caller holds c.mu.
func (c *Cache) link(w Wanted) (string, error) {
	blob := c.blob(w.Digest)
	if err := os.Chtimes(blob, time.Time{}, c.cfg.Now()); err != nil { // the order of use, for after a restart
		return "", err
	}
	dir := filepath.Join(c.cfg.Dir, "public")
	if !w.Public {
		dir = filepath.Join(c.cfg.Dir, "users", strconv.Itoa(w.UID))
		if err := c.userDir(dir, w.UID); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, filepath.Base(blob))
	if err := os.Link(blob, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, nil
}

func (c *Cache) userDir(dir string, uid int) error {
	if !c.cfg.Chown {
		return os.MkdirAll(dir, 0o700)
	}
	if err := os.Mkdir(dir, 0o500); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chown(dir, uid, -1)
}

// Hold keeps a file until Release(key), whether it is here yet or not: for the jobs that a restarted daemon finds running.
func (c *Cache) Hold(key string, d images.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[key] = d
}

// Release lets go of what a key holds; of a key that holds nothing, too.
func (c *Cache) Release(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, key)
}

// drop forgets a file and removes it with its links.
func (c *Cache) drop(d images.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(d)
}

func (c *Cache) remove(d images.Digest) {
	delete(c.files, d)
	name := d.Hex() + suffix
	links, _ := filepath.Glob(filepath.Join(c.cfg.Dir, "users", "*", name)) // a fixed pattern is never malformed
	for _, path := range append(links, filepath.Join(c.cfg.Dir, "public", name), c.blob(d)) {
		_ = os.Remove(path) // what stays takes room, and is found again
	}
}

// makeRoom drops what was used longest ago until size more bytes fit. The caller holds c.mu.
func (c *Cache) makeRoom(size int64) error {
	if c.cfg.Max == 0 {
		return nil
	}
	total := size
	for _, f := range c.files {
		total += f.size
	}
	for _, f := range c.fetches { // what is on the way has its place
		total += f.size
	}
	for total > c.cfg.Max {
		d, ok := c.oldest()
		if !ok {
			return fmt.Errorf("%w: it has %d bytes, the limit of the node's images is %d, and running jobs use the others", ErrNoRoom, size, c.cfg.Max)
		}
		total -= c.files[d].size
		c.remove(d)
	}
	return nil
}

// oldest is the file that was used longest ago, of those that nobody holds.
func (c *Cache) oldest() (images.Digest, bool) {
	held := map[images.Digest]bool{}
	for _, d := range c.held {
		held[d] = true
	}
	var free []images.Digest
	for d := range c.files {
		if !held[d] {
			free = append(free, d)
		}
	}
	if len(free) == 0 {
		return "", false
	}
	return slices.MinFunc(free, func(a, b images.Digest) int {
		return cmp.Or(c.files[a].used.Compare(c.files[b].used), cmp.Compare(a, b))
	}), true
}
