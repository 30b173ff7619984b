package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"fairslice/images"
	"fairslice/images/sif"
)

// Config says where a depot is and what it takes.
type Config struct {
	Dir       string
	MaxFile   int64 // bytes of an image's file, 0 for no limit
	MaxRoot   int64 // bytes of what is unpacked for one, and of an upload that is no SIF file; 0 for no limit
	Apptainer string
	Shared    bool // nodes see Dir: what everybody may see can be read in public
	// Keys is the directory of the keys that signatures are held against, "" for none. It is read anew for each image. nil: none.
	Keys func() string
	Now  func() time.Time
}

// imports is how many images are made at once: each keeps the processors and the disk busy.
const imports = 2

// Depot is the files of images. Its methods may be called by several goroutines.
type Depot struct {
	cfg   Config
	lock  *os.File
	slots chan struct{} // of imports

	mu      sync.Mutex
	pinned  map[images.Digest]int // files that are about to be named in the catalogue
	uploads map[string]bool       // that somebody is at work on
}

// openWithin is how long Open waits for another process to leave: the batchd of before, which is just ending.
const openWithin = 10 * time.Second

// Open makes the directories where they are missing, and takes the depot for this process alone until Close.
func Open(ctx context.Context, cfg Config) (*Depot, error) {
	d := &Depot{cfg: cfg, slots: make(chan struct{}, imports), pinned: map[images.Digest]int{}, uploads: map[string]bool{}}
	if err := os.MkdirAll(cfg.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("open the image depot: %w", err)
	}
	shared := fs.FileMode(0o700)
	if cfg.Shared {
		shared = 0o711
	}
	for name, mode := range map[string]fs.FileMode{"incoming": 0o700, "files": 0o700, "public": shared} {
		if err := os.Mkdir(d.path(name), mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("open the image depot: %w", err)
		}
		if err := os.Chmod(d.path(name), mode); err != nil {
			return nil, fmt.Errorf("open the image depot: %w", err)
		}
	}
	var err error
	if d.lock, err = os.OpenFile(d.path("lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open the image depot: %w", err)
	}
	if err := d.takeLock(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the image depot %s: %w", cfg.Dir, err), d.lock.Close())
	}
	return d, nil
}

func (d *Depot) takeLock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	for {
		err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("another process uses it")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Close lets others take the depot. Call it when no method runs any more.
func (d *Depot) Close() error { return d.lock.Close() }

func (d *Depot) path(names ...string) string {
	return filepath.Join(append([]string{d.cfg.Dir}, names...)...)
}

const suffix = ".sif"

func (d *Depot) file(digest images.Digest) string { return d.path("files", digest.Hex()+suffix) }

// OpenImage opens a file. fs.ErrNotExist is in the error where there is none.
func (d *Depot) OpenImage(digest images.Digest) (io.ReadSeekCloser, error) {
	if _, err := images.ParseDigest(string(digest)); err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return os.Open(d.file(digest))
}

// Verify reads a file again, and says what is wrong with it. Its signatures are held against the keys of today.
func (d *Depot) Verify(ctx context.Context, digest images.Digest) (Stored, error) {
	info, err := sif.Inspect(ctx, d.file(digest))
	switch {
	case err != nil:
		return Stored{}, d.plain(err, d.file(digest), "the stored file")
	case info.Digest != digest:
		return Stored{}, fmt.Errorf("the stored file is damaged: its digest is %s, and was %s", info.Digest, digest)
	}
	keys, err := d.keys()
	if err != nil {
		return Stored{}, err
	}
	trust, err := d.trust(ctx, keys, d.file(digest))
	return Stored{sif.Result{Info: info}, trust}, err
}

// Stored is an image's file in the depot, or about to be.
type Stored struct {
	sif.Result
	// Trust is what its signatures come to; of one that was made here, and where the site trusts no keys, nothing was asked.
	Trust sif.Trust
}

// ErrKeys says that the keys that signatures are held against cannot be read; the error's text says why.
var ErrKeys = errors.New("the site's trusted keys cannot be read")

// keys are those that the site trusts; nil for none.
func (d *Depot) keys() (*sif.Keys, error) {
	if d.cfg.Keys == nil {
		return nil, nil
	}
	dir := d.cfg.Keys()
	if dir == "" {
		return nil, nil
	}
	keys, err := sif.ReadKeys(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	return keys, nil
}

// trust holds the signatures of a file against the site's keys.
func (d *Depot) trust(ctx context.Context, keys *sif.Keys, path string) (sif.Trust, error) {
	if keys == nil {
		return sif.Trust{Why: "the site trusts no keys"}, nil
	}
	t, err := keys.Check(ctx, path)
	switch {
	case err != nil && ctx.Err() != nil:
		return t, context.Cause(ctx)
	case err != nil:
		return t, d.plain(err, path, "the image")
	}
	return t, nil
}

// Progress hears how far a stage is, in bytes; total is 0 where it is not known.
type Progress func(stage sif.Stage, done, total int64)

// Maker makes an image file at dst, which is in the depot's own directory, within the limits and with the progress of o.
type Maker func(ctx context.Context, dst string, o sif.Options) (sif.Result, error)

// Add makes an image, puts it in its place, and calls put, which names it in the catalogue. Until put has returned, Sweep
// leaves the file; when put fails, it goes, unless another image is the same. What make leaves behind in the directory of dst
// is removed by the next Sweep. Every image comes through here, so here its signatures are looked at; put judges them.
func (d *Depot) Add(ctx context.Context, progress Progress, make Maker, put func(Stored) error) error {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	keys, err := d.keys() // before make takes an upload away
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(d.path("incoming"), working)
	if err != nil {
		return Full(err)
	}
	defer os.RemoveAll(work) // what stays is swept
	dst := filepath.Join(work, "image.sif")
	stop := d.writeSteadily()
	made, err := make(ctx, dst, d.options(progress))
	stop()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return d.plain(err, dst, "the image")
	}
	image := Stored{Result: made}
	if !made.Made {
		if image.Trust, err = d.trust(ctx, keys, dst); err != nil {
			return err
		}
	}
	return d.keep(dst, image, put)
}

// working is how the names of directories begin in which images are made.
const working = ".fairslice-add-"

func (d *Depot) options(progress Progress) sif.Options {
	return sif.Options{Limits: sif.Limits{Bytes: d.cfg.MaxRoot}, Progress: progress, Mode: 0o600, Apptainer: d.cfg.Apptainer}
}

// keep puts a checked file, which is on the disk, in its place.
func (d *Depot) keep(from string, made Stored, put func(Stored) error) error {
	if d.cfg.MaxFile > 0 && made.Size > d.cfg.MaxFile {
		return Refused{fmt.Sprintf("the image's file has %d bytes, and may have %d", made.Size, d.cfg.MaxFile)}
	}
	d.pin(made.Digest)
	defer d.unpin(made.Digest)
	// Over one that is there: that one is the same, or was damaged since.
	if err := os.Rename(from, d.file(made.Digest)); err != nil {
		return Full(err)
	}
	if err := syncDir(d.path("files")); err != nil {
		return err
	}
	return put(made)
}

func (d *Depot) pin(digest images.Digest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pinned[digest]++
}

func (d *Depot) unpin(digest images.Digest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pinned[digest]--; d.pinned[digest] == 0 {
		delete(d.pinned, digest)
	}
}

// Refused is an error that is the caller's fault: its text is for him.
type Refused struct{ Text string }

func (r Refused) Error() string { return r.Text }

// ErrFull says that the disk of the depot is full.
var ErrFull = errors.New("the batch host has no room for the image")

// Full turns a full disk into ErrFull.
func Full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// plain is an error of package sif without the names of the depot's own files.
func (d *Depot) plain(err error, path, name string) error {
	if err = Full(err); errors.Is(err, ErrFull) {
		return err
	}
	// Programs that are run say it, too, in words only.
	text := err.Error()
	if strings.Contains(text, "No space left on device") || strings.Contains(text, "Disk quota exceeded") {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	text = strings.ReplaceAll(text, path, name)
	return Refused{strings.ReplaceAll(text, d.cfg.Dir+"/", "")}
}

func syncDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
