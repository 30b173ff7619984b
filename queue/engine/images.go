package engine

import (
	"context"
	"strings"
	"time"

	"fairslice/images"
	"fairslice/queue"
)

// Images lists the images that a caller may see; all is for administrators, and shows everybody's and those that were
// removed while jobs need them.
func (e *Engine) Images(by queue.Identity, all bool) ([]*images.Image, error) {
	if all && !by.Admin {
		return nil, refuse("User permission denied")
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if all {
		return e.book.Images.All(), nil
	}
	return e.book.Images.List(by.Viewer()), nil
}

// Image finds what a name stands for to the caller. Administrators find everything by its full name.
func (e *Engine) Image(by queue.Identity, name string) (*images.Image, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.image(by, name)
}

func (e *Engine) image(by queue.Identity, name string) (*images.Image, error) {
	ref, err := images.ParseRef(name)
	if err != nil {
		return nil, Refusal{err.Error()}
	}
	if i := e.book.Images.Find(ref, by.Viewer()); i != nil {
		return i, nil
	}
	if by.Admin {
		if i := e.book.Images.Named(ref); i != nil {
			return i, nil
		}
	}
	return nil, refuse("%s: No such image", name)
}

// ImageByDigest is an image with this file that is listed or that jobs need; nil for none. For nodes, which know digests only.
func (e *Engine) ImageByDigest(d images.Digest) *images.Image {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.book.Images.WithDigest(d)
}

// MayAddImage says, before its file is sent, whether PutImage would take an image of that name, size and visibility.
func (e *Engine) MayAddImage(by queue.Identity, i *images.Image, replace bool) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if _, err := e.mayAdd(by, i.Ref, i.Size, replace); err != nil {
		return err
	}
	return e.mayShow(by, i.Ref, i.Visibility)
}

// mayShow refuses users who would make an image public where the site does not let them.
func (e *Engine) mayShow(by queue.Identity, ref images.Ref, v images.Visibility) error {
	if v == images.Public && !by.Admin && !e.cfg().UsersPublish {
		return refuse("%s: Only administrators make images public here", ref)
	}
	return nil
}

// mayAdd returns the image in whose place it comes, nil for none.
func (e *Engine) mayAdd(by queue.Identity, ref images.Ref, size int64, replace bool) (*images.Image, error) {
	switch {
	case ref.Owner == by.User:
	case !by.Admin:
		return nil, refuse("%s: Users may add images of their own only (%s/%s)", ref, by.User, ref.Short())
	}
	if _, ok := e.cfg().Images[ref.String()]; ok {
		return nil, refuse("%s: The site's configuration has an image of that name", ref)
	}
	old := e.book.Images.Named(ref)
	if old != nil && !replace {
		return nil, refuse("%s: There is such an image already (-f replaces it)", ref)
	}
	count, bytes := e.book.Images.Held(ref.Owner)
	if old != nil {
		count, bytes = count-1, bytes-old.Size
	}
	c := e.cfg()
	switch {
	case ref.Owner == "":
	case c.MaxUserImages > 0 && count+1 > c.MaxUserImages:
		return nil, refuse("%s has %d images, and may have %d", ref.Owner, count, c.MaxUserImages)
	case c.MaxUserImageBytes > 0 && size > c.MaxUserImageBytes-bytes:
		return nil, refuse("%s's images have %s; with %s more they would be over the quota of %s", ref.Owner,
			queue.FormatMemory(bytes), queue.FormatMemory(size), queue.FormatMemory(c.MaxUserImageBytes))
	}
	return old, nil
}

// PutImage adds an image whose file is stored, and returns it when that is durable. With replace it takes the place of one of
// the same name, which jobs that were submitted with it keep.
func (e *Engine) PutImage(ctx context.Context, by queue.Identity, i images.Image, replace bool) (out *images.Image, err error) {
	err = e.write(ctx, func(t *tx) (err error) {
		out, err = t.putImage(by, i, replace)
		return err
	})
	return out, err
}

func (t *tx) putImage(by queue.Identity, i images.Image, replace bool) (*images.Image, error) {
	cat := t.e.book.Images
	old, err := t.e.mayAdd(by, i.Ref, i.Size, replace)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Digest == i.Digest { // the same again, from a client that did not hear the answer
		return old, nil
	}
	if err := t.e.mayShow(by, i.Ref, i.Visibility); err != nil {
		return nil, err
	}
	i.ID, i.Added, i.By, i.Removed = cat.NextID(), t.now, by.User, time.Time{}
	if err := i.Check(); err != nil {
		return nil, Refusal{err.Error()}
	}
	if _, err := images.ParseLabels(i.Labels); err != nil {
		return nil, Refusal{err.Error()}
	}
	if old != nil {
		if err := t.removeImage(by, old); err != nil {
			return nil, err
		}
	}
	return &i, t.emit(0, 0, by.User, &queue.ImagePut{Image: &i})
}

func (t *tx) removeImage(by queue.Identity, old *images.Image) error {
	gone := *old
	gone.Removed = t.now
	return t.emit(0, 0, by.User, &queue.ImagePut{Image: &gone})
}

// RemoveImage takes an image out of the catalogue. Jobs that were submitted with it keep it. Its owner may, and administrators.
func (e *Engine) RemoveImage(ctx context.Context, by queue.Identity, name string) (out *images.Image, err error) {
	err = e.write(ctx, func(t *tx) (err error) {
		if out, err = t.ownImage(by, name); err != nil {
			return err
		}
		return t.removeImage(by, out)
	})
	return out, err
}

// ChangeImage changes who sees an image, and what is said of it; nil leaves as it is. Its owner may, and administrators;
// to the public only administrators show an image, unless the site lets users.
func (e *Engine) ChangeImage(ctx context.Context, by queue.Identity, name string, c queue.ImageChange) (out *images.Image, err error) {
	err = e.write(ctx, func(t *tx) error {
		old, err := t.ownImage(by, name)
		if err != nil {
			return err
		}
		i := *old
		if c.Visibility != nil {
			if err := t.e.mayShow(by, old.Ref, *c.Visibility); err != nil {
				return err
			}
			i.Visibility, i.Groups = *c.Visibility, c.Groups
		}
		if c.Description != nil {
			i.Description = *c.Description
		}
		if err := i.Check(); err != nil {
			return Refusal{err.Error()}
		}
		out = &i
		return t.emit(0, 0, by.User, &queue.ImagePut{Image: &i})
	})
	return out, err
}

func (t *tx) ownImage(by queue.Identity, name string) (*images.Image, error) {
	i, err := t.e.image(by, name)
	if err == nil && i.Ref.Owner != by.User && !by.Admin {
		err = refuse("%s: The image is not yours", name)
	}
	return i, err
}

// chooseImage turns a name of the catalogue into the image that it stands for now, which the job keeps. A user's own images
// come before the site's. Paths, and images of the configuration, stay as they are.
func (e *Engine) chooseImage(s *queue.Spec, owner queue.Identity) error {
	if s.ImageID = 0; !namesImage(s) { // most jobs do not, and must not wait here for the commit under way
		return nil
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.findImage(s, owner)
}

// namesImage says that a job asks for an image by its name.
func namesImage(s *queue.Spec) bool { return s.Image != "" && !images.IsFile(s.Image) }

// findImage is chooseImage with the book locked.
func (e *Engine) findImage(s *queue.Spec, owner queue.Identity) error {
	s.ImageID = 0
	if !namesImage(s) {
		return nil
	}
	ref, err := images.ParseRef(s.Image)
	if err != nil {
		return Refusal{err.Error()}
	}
	i := e.book.Images.Find(ref, owner.Viewer())
	if _, err := e.cfg().imageFile(s.Image); err == nil && (i == nil || i.Ref.Owner != owner.User) {
		return nil
	}
	if i == nil {
		return refuse("%s: No such image", s.Image)
	}
	s.Image, s.ImageID = i.Ref.String(), i.ID
	return nil
}

// catalogued is the image of the catalogue that j runs in; nil where it runs in another, or in none.
func (e *Engine) catalogued(j *queue.Job) *images.Image {
	if j.Spec.ImageID == 0 {
		return nil
	}
	return e.book.Images.Get(j.Spec.ImageID)
}

// imageKept is how long an image stays after it was removed, however few jobs need it: somebody may be about to submit.
const imageKept = time.Minute

// sweepImages forgets images that were removed and that no job needs.
func (t *tx) sweepImages() error {
	var gone []*images.Image
	for _, i := range t.e.book.Images.All() {
		if !i.Removed.IsZero() && t.now.Sub(i.Removed) > imageKept {
			gone = append(gone, i)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	needed := map[images.ID]bool{}
	t.e.book.Each(func(j *queue.Job) bool {
		if !j.Finished() {
			needed[j.Spec.ImageID] = true
		}
		return true
	})
	for _, i := range gone {
		if !needed[i.ID] {
			if err := t.emit(0, 0, "", &queue.ImageForgotten{ID: i.ID}); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayUseImage refuses a job whose image was removed in this very moment, or that asks for less than its image says it needs:
// nothing is raised silently, as the user pays for it.
func (t *tx) mayUseImage(s *queue.Spec, sh *queue.Shape) error {
	if s.ImageID == 0 {
		return nil
	}
	i := t.e.book.Images.Get(s.ImageID)
	if i == nil || !i.Removed.IsZero() {
		return refuse("%s: No such image", s.Image)
	}
	labels, err := images.ParseLabels(i.Labels)
	if err != nil {
		return refuse("%s: %v", i.Ref, err)
	}
	memory := sh.Host.Memory
	if memory == 0 {
		memory = sh.MemoryMax
	}
	asked := images.Resources{CPU: sh.Slots, Memory: memory, FGPU: sh.Host.GPU.Amount, GPUs: sh.Host.GPU.Whole}
	if g := &sh.Host.GPU; g.Memory > 0 { // slices by memory: how much that is depends on the GPU
		asked.FGPU = labels.Min.FGPU
	}
	if lacks := labels.Lacks(asked); len(lacks) > 0 {
		return refuse("%s: The image needs more: %s", i.Ref, strings.Join(lacks, "; "))
	}
	return nil
}
