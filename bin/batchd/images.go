package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"fairslice/api"
	"fairslice/etc"
	"fairslice/images"
	"fairslice/images/depot"
	"fairslice/images/sif"
	"fairslice/queue"
	"fairslice/queue/engine"
)

// openDepot opens the files of the images, and removes what an earlier life has left.
func openDepot(ctx context.Context, current func() *etc.Config, log *slog.Logger) (*depot.Depot, error) {
	cfg := current()
	c := &cfg.Catalogue
	d, err := depot.Open(ctx, depot.Config{
		Dir: cmp.Or(c.Dir, filepath.Join(cfg.StateDir, "images")), MaxFile: c.MaxSize, MaxRoot: c.MaxRoot,
		Apptainer: cfg.Container.Apptainer, Shared: c.Shared != "", Now: time.Now,
		Keys: func() string { return current().Catalogue.TrustedKeys }})
	if err != nil {
		return nil, err
	}
	if c.TrustedKeys != "" {
		if _, err := sif.ReadKeys(c.TrustedKeys); err != nil { // jobs run all the same
			log.Error("trusted keys not read: no image is taken until they are", "error", err)
		}
	}
	return d, d.Clear()
}

// sweepEvery is how often files that the catalogue does not have any more are looked for.
const sweepEvery = time.Minute

func sweepImages(ctx context.Context, d *depot.Depot, eng *engine.Engine, log *slog.Logger) {
	for {
		if err := d.Sweep(eng.ImageByDigest); err != nil {
			log.Warn("unused images not removed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
}

// speakOfImages is speak for what the depot says, too.
func (b *backend) speakOfImages(err error) error {
	var refused depot.Refused
	switch {
	case errors.As(err, &refused):
		return &api.Error{Code: api.Invalid, Msg: refused.Text}
	case errors.Is(err, depot.ErrFull):
		return &api.Error{Code: api.Conflict, Msg: depot.ErrFull.Error()}
	case errors.Is(err, depot.ErrKeys): // what is in the directory is the administrators' business
		b.log.Error("trusted keys not read: no image is taken until they are", "error", err)
		return &api.Error{Code: api.Conflict, Msg: depot.ErrKeys.Error() + ", so no image is taken: an administrator finds why in batchd's log (trusted_keys in [images])"}
	}
	return speak(err)
}

func (b *backend) Images(by queue.Identity, all bool) ([]*images.Image, error) {
	list, err := b.Engine.Images(by, all)
	return list, speak(err)
}

func (b *backend) Image(by queue.Identity, name string) (*images.Image, error) {
	i, err := b.Engine.Image(by, name)
	return i, speak(err)
}

func (b *backend) RemoveImage(ctx context.Context, by queue.Identity, name string) (*images.Image, error) {
	i, err := b.Engine.RemoveImage(ctx, by, name)
	return i, speak(err)
}

func (b *backend) ChangeImage(ctx context.Context, by queue.Identity, name string, c queue.ImageChange) (*images.Image, error) {
	i, err := b.Engine.ChangeImage(ctx, by, name, c)
	if err == nil {
		b.share(i)
	}
	return i, speak(err)
}

// share lets the nodes see a file in place, or not any more. The sweep does what fails here.
func (b *backend) share(i *images.Image) {
	if err := b.depot.Share(i.Digest, i.Visibility == images.Public); err != nil {
		b.log.Warn("image not shown to the nodes in place: they fetch it", "image", i.Ref.String(), "error", err)
	}
}

func (b *backend) ConfiguredImages() map[string]string { return b.cfg.Load().ImageFiles() }

func (b *backend) BeginImage(by queue.Identity, add api.ImageUpload) (int64, error) {
	i := add.Image
	if !add.Packed {
		i.Size = add.Size
	}
	if err := b.MayAddImage(by, &i, add.Replace); err != nil {
		return 0, speak(err)
	}
	if add.Packed {
		if err := b.vouched(by, i.Ref, toBeMade); err != nil { // before it is sent
			return 0, err
		}
	}
	u, err := depot.ParseUpload(by.UID, add.Upload)
	if err != nil {
		return 0, b.speakOfImages(err)
	}
	offset, err := b.depot.Begin(u, add.Size, add.Packed)
	return offset, b.speakOfImages(err)
}

func (b *backend) ReceiveImage(by queue.Identity, upload string, offset int64, r io.Reader) (int64, error) {
	u, err := depot.ParseUpload(by.UID, upload)
	if err != nil {
		return 0, b.speakOfImages(err)
	}
	size, err := b.depot.Receive(u, offset, r)
	return size, b.speakOfImages(err)
}

func (b *backend) ImportImage(ctx context.Context, by queue.Identity, add api.ImageUpload, progress api.ImageProgress) (*images.Image, []string, error) {
	u, err := depot.ParseUpload(by.UID, add.Upload)
	if err == nil {
		err = b.MayAddImage(by, &add.Image, add.Replace)
	}
	if err != nil {
		return nil, nil, b.speakOfImages(err)
	}
	p := put{b: b, ctx: ctx, by: by, add: add}
	p.add.Image.Source = sourceWords(add.Image.Source)
	err = b.depot.Import(ctx, u, add.Digest, p.add.Image.Source, stages(progress), p.put)
	return p.image, p.notes, b.speakOfImages(err)
}

func (b *backend) PullImage(ctx context.Context, by queue.Identity, add api.ImageUpload, url string, progress api.ImageProgress) (*images.Image, []string, error) {
	if !b.cfg.Load().Catalogue.Pull {
		return nil, nil, &api.Error{Code: api.Denied, Msg: "The batch host fetches no images from registries (pull in [images] of the configuration)"}
	}
	address, err := sif.ParseURL(url)
	if err != nil {
		return nil, nil, &api.Error{Code: api.Invalid, Msg: err.Error()}
	}
	if err := b.MayAddImage(by, &add.Image, add.Replace); err != nil {
		return nil, nil, speak(err)
	}
	if address.Layered() {
		if err := b.vouched(by, add.Image.Ref, toBeMade); err != nil {
			return nil, nil, err
		}
	}
	p := put{b: b, ctx: ctx, by: by, add: add}
	p.add.Image.Source = sourceWords(address.String())
	err = b.depot.Pull(ctx, address, io.Discard, stages(progress), p.put)
	return p.image, p.notes, b.speakOfImages(err)
}

func stages(progress api.ImageProgress) depot.Progress {
	return func(s sif.Stage, done, total int64) { progress(string(s), done, total) }
}

// sourceWords are a user's words of where an image is from, on one short line.
func sourceWords(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[len(text)-200:], "")
	}
	return cmp.Or(text, "a file")
}

// put names a file in the catalogue.
type put struct {
	b   *backend
	ctx context.Context
	by  queue.Identity
	add api.ImageUpload

	image *images.Image
	notes []string
}

func (p *put) put(r depot.Stored) error {
	i := p.add.Image
	if err := p.b.vouched(p.by, i.Ref, r); err != nil {
		return err
	}
	i.Digest, i.Size, i.Arch, i.Labels, i.Signed = r.Digest, r.Size, r.Arch, r.Labels, r.Trust.By
	out, err := p.b.PutImage(p.ctx, p.by, i, p.add.Replace)
	if err != nil {
		return err
	}
	p.image, p.notes = out, r.Notes
	if len(r.Signatures) > 0 && len(r.Trust.By) == 0 {
		p.notes = append(p.notes, "its signature does not count here: "+r.Trust.Why)
	}
	p.b.share(out)
	return nil
}

func (b *backend) VerifyImage(ctx context.Context, by queue.Identity, name string) (*images.Image, []string, error) {
	i, err := b.Engine.Image(by, name)
	if err != nil {
		return nil, nil, speak(err)
	}
	stored, err := b.depot.Verify(ctx, i.Digest)
	if err != nil {
		return nil, nil, b.speakOfImages(err)
	}
	notes := []string{"the stored file is whole, and has the digest " + string(i.Digest)}
	if _, err := images.ParseLabels(stored.Labels); err != nil {
		notes = append(notes, err.Error())
	}
	switch {
	case len(stored.Trust.By) > 0:
		notes = append(notes, "it is signed by "+strings.Join(stored.Trust.By, ", "))
	case len(stored.Signatures) > 0:
		notes = append(notes, "its signature does not count here: "+stored.Trust.Why)
	default:
		notes = append(notes, "it is not signed")
	}
	return i, notes, nil
}

func (b *backend) RequestCommit(ctx context.Context, by queue.Identity, id queue.ElementID, ref images.Ref, description string, replace bool) (*images.Commit, error) {
	c, err := b.Engine.RequestCommit(ctx, by, id, ref, description, replace)
	b.look()
	return c, speak(err)
}

func (b *backend) DecideCommit(ctx context.Context, by queue.Identity, id images.CommitID, approve bool, reason string) (*images.Commit, error) {
	c, err := b.Engine.DecideCommit(ctx, by, id, approve, reason)
	b.look()
	if err == nil && !approve {
		b.tell(ctx, c)
	}
	return c, speak(err)
}

func (b *backend) Commits(by queue.Identity, all bool) ([]*images.Commit, error) {
	list, err := b.Engine.Commits(by, all)
	return list, speak(err)
}
