package images

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Catalogue is all images, and the requests to make one of a session.
type Catalogue struct {
	images  map[ID]*Image
	named   map[Ref]ID // the listed ones
	commits map[CommitID]*Commit
	last    ID
	lastReq CommitID
}

// NewCatalogue is an empty catalogue.
func NewCatalogue() *Catalogue {
	return &Catalogue{images: map[ID]*Image{}, named: map[Ref]ID{}, commits: map[CommitID]*Commit{}}
}

// NextID is that of the image to add next.
func (c *Catalogue) NextID() ID { return c.last + 1 }

// Put adds an image under the next number, or puts another state in the place of one. Two listed images cannot have one
// name, and what a number stands for (file and name) never changes.
func (c *Catalogue) Put(i *Image) error {
	if err := i.Check(); err != nil {
		return err
	}
	old := c.images[i.ID]
	switch {
	case old == nil && i.ID != c.last+1:
		return fmt.Errorf("image %d does not follow image %d", i.ID, c.last)
	case old != nil && (old.Ref != i.Ref || old.Digest != i.Digest || old.Size != i.Size):
		return fmt.Errorf("image %d is %s, %s, and cannot become %s, %s", i.ID, old.Ref, old.Digest, i.Ref, i.Digest)
	case old != nil && !old.Removed.IsZero() && i.Removed.IsZero():
		return fmt.Errorf("image %d was removed", i.ID)
	}
	if at, taken := c.named[i.Ref]; taken && at != i.ID && i.Removed.IsZero() {
		return fmt.Errorf("there is an image %s already", i.Ref)
	}
	c.restore(i)
	return nil
}

func (c *Catalogue) restore(i *Image) {
	c.images[i.ID] = i
	if i.Removed.IsZero() {
		c.named[i.Ref] = i.ID
	} else if c.named[i.Ref] == i.ID {
		delete(c.named, i.Ref)
	}
	c.last = max(c.last, i.ID)
}

// Forget drops an image that was removed and that no job needs.
func (c *Catalogue) Forget(id ID) error {
	i := c.images[id]
	if i == nil || i.Removed.IsZero() {
		return fmt.Errorf("image %d is listed, or is none", id)
	}
	delete(c.images, id)
	return nil
}

// Restore fills an empty catalogue from stored rows; last numbers are the highest ever given.
func (c *Catalogue) Restore(list []*Image, requests []*Commit, last ID, lastRequest CommitID) error {
	for _, i := range list {
		if at, taken := c.named[i.Ref]; taken && i.Removed.IsZero() {
			return fmt.Errorf("images %d and %d are both named %s", at, i.ID, i.Ref)
		}
		c.restore(i)
	}
	for _, r := range requests {
		c.commits[r.ID] = r
		c.lastReq = max(c.lastReq, r.ID)
	}
	c.dropCommits()
	c.last, c.lastReq = max(c.last, last), max(c.lastReq, lastRequest)
	return nil
}

// Get is an image by its number, removed or not; nil for none.
func (c *Catalogue) Get(id ID) *Image { return c.images[id] }

// Named is the listed image of a full name, whoever may see it; nil for none.
func (c *Catalogue) Named(r Ref) *Image { return c.images[c.named[r]] }

// Find is the listed image that a name stands for to a viewer: a short one for his own, or else the site's. nil for one
// that does not exist or that he may not see, which he cannot tell apart.
func (c *Catalogue) Find(r Ref, v Viewer) *Image {
	if r.Owner == "" && v.User != "" {
		own := r
		own.Owner = v.User
		if i := c.Named(own); i != nil {
			return i
		}
	}
	if i := c.Named(r); i != nil && i.VisibleTo(v) {
		return i
	}
	return nil
}

// List is what a viewer may see of the listed images, by name.
func (c *Catalogue) List(v Viewer) []*Image {
	return c.sorted(func(i *Image) bool { return i.Removed.IsZero() && i.VisibleTo(v) })
}

// All is every image, also those that were removed, by name.
func (c *Catalogue) All() []*Image { return c.sorted(func(*Image) bool { return true }) }

func (c *Catalogue) sorted(want func(*Image) bool) []*Image {
	var out []*Image
	for _, i := range c.images {
		if want(i) {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b *Image) int {
		return cmp.Or(strings.Compare(a.Ref.Owner, b.Ref.Owner), strings.Compare(a.Ref.Name, b.Ref.Name), strings.Compare(a.Ref.Tag, b.Ref.Tag), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Held is what a user's listed images come to: how many, and their bytes. Each counts, also where two are the same file.
func (c *Catalogue) Held(owner string) (count int, bytes int64) {
	for i := range maps.Values(c.images) {
		if i.Ref.Owner == owner && i.Removed.IsZero() {
			count++
			bytes += i.Size
		}
	}
	return count, bytes
}

// WithDigest is an image whose file has this digest, a listed one if there is one; nil for none.
func (c *Catalogue) WithDigest(d Digest) *Image {
	var found *Image
	for _, i := range c.images {
		if i.Digest == d && (found == nil || found.Removed.After(i.Removed) || found.Removed.Equal(i.Removed) && found.ID > i.ID) {
			found = i
		}
	}
	return found
}

// Removed says that images are kept only because jobs need them, or did.
func (c *Catalogue) Removed() bool { return len(c.images) > len(c.named) }
