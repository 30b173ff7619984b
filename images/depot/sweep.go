package depot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fairslice/images"
	"fairslice/images/sif"
)

// uploadKept is how long an upload is kept that nobody goes on with.
const uploadKept = 24 * time.Hour

// Sweep removes files that the catalogue does not have, uploads of long ago, and what killed processes have left. inCatalogue finds an
// image with a digest, removed ones that jobs need included; nil for none. It is called with the depot locked.
func (d *Depot) Sweep(inCatalogue func(images.Digest) *images.Image) error {
	list, err := os.ReadDir(d.path("files"))
	problems := []error{err, sif.Sweep(d.path("incoming")), d.sweepIncoming()}
	for _, e := range list {
		digest, ok := digestOf(e.Name())
		if !ok {
			continue
		}
		problems = append(problems, d.sweepFile(digest, inCatalogue))
	}
	problems = append(problems, d.sweepPublic(inCatalogue))
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("sweep the image depot: %w", err)
	}
	return nil
}

func digestOf(name string) (images.Digest, bool) {
	hex, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return "", false
	}
	digest, err := images.ParseDigest("sha256:" + hex)
	return digest, err == nil
}

func (d *Depot) sweepFile(digest images.Digest, inCatalogue func(images.Digest) *images.Image) error {
	d.mu.Lock() // an import that has pinned nothing yet will put the file here again
	defer d.mu.Unlock()
	if d.pinned[digest] > 0 || inCatalogue(digest) != nil {
		return nil
	}
	return remove(d.file(digest))
}

func (d *Depot) sweepIncoming() error {
	list, err := os.ReadDir(d.path("incoming"))
	problems := []error{err}
	for _, e := range list {
		info, err := e.Info()
		if err != nil || d.cfg.Now().Sub(info.ModTime()) < uploadKept || d.busy(e.Name()) {
			continue
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), working) {
			problems = append(problems, os.RemoveAll(d.path("incoming", e.Name())))
		} else if e.Type().IsRegular() {
			problems = append(problems, remove(d.path("incoming", e.Name())))
		}
	}
	return errors.Join(problems...)
}

func (d *Depot) busy(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uploads[d.path("incoming", name)]
}

// Clear removes what a killed process has left of images that it was making. Call it after Open, before any Add.
func (d *Depot) Clear() error {
	left, err := filepath.Glob(d.path("incoming", working+"*"))
	problems := []error{err}
	for _, name := range left {
		problems = append(problems, sif.Sweep(name), os.RemoveAll(name))
	}
	return errors.Join(problems...)
}

// Share makes a file readable to everybody who sees the depot's directory, or not any more. It does nothing where nodes do not.
func (d *Depot) Share(digest images.Digest, public bool) error {
	if !d.cfg.Shared {
		return nil
	}
	link := d.path("public", digest.Hex()+suffix)
	if !public {
		// The link goes first: between the two nobody reaches the file.
		return errors.Join(remove(link), chmod(d.file(digest), 0o600))
	}
	if err := chmod(d.file(digest), 0o644); err != nil {
		return err
	}
	if err := os.Link(d.file(digest), link); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func chmod(name string, mode fs.FileMode) error {
	if err := os.Chmod(name, mode); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweepPublic makes public what should be, and nothing else.
func (d *Depot) sweepPublic(inCatalogue func(images.Digest) *images.Image) error {
	list, err := os.ReadDir(d.path("public"))
	problems := []error{err}
	for _, e := range list {
		digest, ok := digestOf(e.Name())
		if i := inCatalogue(digest); ok && (!d.cfg.Shared || i == nil || i.Visibility != images.Public) {
			problems = append(problems, remove(d.path("public", e.Name())))
		}
	}
	return errors.Join(problems...)
}

func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
