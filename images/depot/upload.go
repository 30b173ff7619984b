package depot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"fairslice/images"
	"fairslice/images/sif"
	"fairslice/images/steady"
)

// Upload names something that a user sends. Users cannot reach each other's.
type Upload struct {
	UID  int
	Name string // letters and digits, of the caller's choice
}

// maxUploads is how many unfinished uploads a user may have: each can be as large as an image.
const maxUploads = 4

// ParseUpload checks the name.
func ParseUpload(uid int, name string) (Upload, error) {
	for i := range len(name) {
		if c := name[i]; c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z' {
			return Upload{}, Refused{fmt.Sprintf("%.80q is no name of an upload: want letters and digits", name)}
		}
	}
	if name == "" || len(name) > 64 {
		return Upload{}, Refused{fmt.Sprintf("the name of an upload has %d characters; want 1 to 64", len(name))}
	}
	return Upload{uid, name}, nil
}

func (d *Depot) upload(u Upload) string {
	return d.path("incoming", strconv.Itoa(u.UID)+"-"+u.Name)
}

// Begin says how much of an upload is here, and refuses another one where its user has too many or it would be too large.
// size is 0 where it is not known; packed says that it is no SIF file.
func (d *Depot) Begin(u Upload, size int64, packed bool) (offset int64, err error) {
	if limit := d.limit(packed); limit > 0 && size > limit {
		return 0, Refused{fmt.Sprintf("it has %d bytes, and may have %d", size, limit)}
	}
	info, err := os.Stat(d.upload(u))
	switch {
	case err == nil:
		return info.Size(), nil
	case !errors.Is(err, fs.ErrNotExist):
		return 0, err
	}
	others, err := filepath.Glob(d.path("incoming", strconv.Itoa(u.UID)+"-*")) // a directory of ours: its name has no pattern, or Glob finds nothing
	if err != nil {
		return 0, err
	}
	if len(others) >= maxUploads {
		return 0, Refused{fmt.Sprintf("you have %d unfinished uploads, and may have %d: finish them, or wait for a day", len(others), maxUploads)}
	}
	return 0, nil
}

func (d *Depot) limit(packed bool) int64 {
	if packed {
		return d.cfg.MaxRoot
	}
	return d.cfg.MaxFile
}

// take keeps others from an upload until free.
func (d *Depot) take(u Upload) (free func(), err error) {
	key := d.upload(u)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uploads[key] {
		return nil, Refused{"this upload is under way already"}
	}
	d.uploads[key] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.uploads, key)
	}, nil
}

// Receive appends to an upload what comes from r. An offset of 0 begins it anew; any other must be where it ends. It returns how
// much is here, also with an error.
func (d *Depot) Receive(u Upload, offset int64, r io.Reader) (size int64, err error) {
	free, err := d.take(u)
	if err != nil {
		return 0, err
	}
	defer free()
	if _, err := d.Begin(u, 0, true); err != nil { // it may be the fifth
		return 0, err
	}
	flags := os.O_WRONLY | os.O_CREATE
	if offset == 0 {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(d.upload(u), flags, 0o600)
	if err != nil {
		return 0, Full(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	if size != offset {
		return size, Refused{fmt.Sprintf("the upload has %d bytes: it cannot go on from %d", size, offset)}
	}
	most := max(d.cfg.MaxFile, d.cfg.MaxRoot)
	if d.cfg.MaxFile == 0 || d.cfg.MaxRoot == 0 {
		most = 1 << 62
	}
	n, err := io.Copy(&steady.Writer{File: f}, io.LimitReader(r, most-size+1))
	if size += n; err == nil && size > most {
		err = Refused{fmt.Sprintf("it has more than %d bytes, which is the most allowed", most)}
	}
	return size, Full(err)
}

// Import makes an image of an upload, whose digest the sender says, and removes the upload when it has succeeded or the
// upload is no good. name is what the sender calls it. See Add for put.
func (d *Depot) Import(ctx context.Context, u Upload, digest images.Digest, name string, progress Progress, put func(Stored) error) error {
	free, err := d.take(u)
	if err != nil {
		return err
	}
	defer free()
	path := d.upload(u)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Refused{"nothing has been sent, or it was too long ago: send it again"}
	}
	err = d.importFile(ctx, path, digest, name, progress, put)
	// What can be tried again as it is stays, unless it has become the image.
	var no Refused
	if err == nil || errors.As(err, &no) {
		err = errors.Join(err, remove(path))
	}
	return err
}

func (d *Depot) importFile(ctx context.Context, path string, digest images.Digest, name string, progress Progress, put func(Stored) error) error {
	kind, err := sif.Detect(ctx, path, sif.Limits{Bytes: d.cfg.MaxRoot})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return d.plain(err, path, name)
	}
	return d.Add(ctx, progress, func(ctx context.Context, dst string, o sif.Options) (sif.Result, error) {
		if kind != sif.SIF {
			if err := checkDigest(ctx, path, digest); err != nil {
				return sif.Result{}, err
			}
			r, err := sif.Convert(ctx, path, dst, o)
			return r, rename(err, path, name)
		}
		info, err := sif.Inspect(ctx, path)
		if err != nil {
			return sif.Result{}, rename(err, path, name)
		}
		if info.Digest != digest {
			return sif.Result{}, damaged(info.Digest, digest)
		}
		return sif.Result{Info: info}, move(path, dst)
	}, put)
}

// move puts an upload on the disk and in the place of an image. No second name stays: what is appended to an upload must not be
// appended to an image.
func move(path, dst string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Chmod(0o600), f.Close()); err != nil {
		return err
	}
	return os.Rename(path, dst)
}

func checkDigest(ctx context.Context, path string, want images.Digest) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		sum.Write(buf[:n])
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if got := images.DigestOf(sum.Sum(nil)); got != want {
		return damaged(got, want)
	}
	return nil
}

func damaged(got, want images.Digest) error {
	return Refused{fmt.Sprintf("what has arrived is not what was sent: its digest is %s, not %s; send it again", got, want)}
}

// rename says the sender's name of a file in place of ours.
func rename(err error, path, name string) error {
	if err == nil || name == "" || !strings.Contains(err.Error(), path) {
		return err
	}
	return &renamed{err, strings.ReplaceAll(err.Error(), path, name)}
}

type renamed struct {
	err  error
	text string
}

func (r *renamed) Error() string { return r.text }
func (r *renamed) Unwrap() error { return r.err }

// Pull makes an image of one in a registry.
func (d *Depot) Pull(ctx context.Context, u sif.URL, log io.Writer, progress Progress, put func(Stored) error) error {
	return d.Add(ctx, progress, func(ctx context.Context, dst string, o sif.Options) (sif.Result, error) {
		return sif.Pull(ctx, u, dst, false, sif.ApptainerOptions{Options: o, Log: log})
	}, put)
}
