package agent

import (
	"context"
	"errors"

	"fairslice/images"
	"fairslice/nodes/imagecache"
	"fairslice/queue"
)

// fetchImage has an image of the catalogue on this node, and names its file in as. Meanwhile the job can be killed.
func (t *attempt) fetchImage(ctx context.Context, as *queue.Assignment) error {
	if as.Image == nil {
		return nil
	}
	if t.a.cfg.Images == nil {
		return &failure{code: "image", detail: "the node keeps no images"}
	}
	getting, cancel := context.WithCancel(ctx)
	defer cancel()
	t.setFetching(0)
	defer t.endFetching()
	result := make(chan error, 1)
	go func() {
		var err error
		as.ImageFile, err = t.a.cfg.Images.Get(getting, t.wanted(as), t.setFetching)
		result <- err
	}()
	for {
		select {
		case err := <-result:
			return imageFailure(as.Image.Name, err)
		case o := <-t.orders:
			if o.Op == queue.OrderKill || o.Op == queue.OrderForget {
				cancel()
				<-result
				return t.killedEarly(o)
			}
		}
	}
}

func (t *attempt) wanted(as *queue.Assignment) imagecache.Wanted {
	return imagecache.Wanted{Digest: as.Image.Digest, Size: as.Image.Size, Public: as.Image.Public, UID: as.Owner.UID, Key: t.key}
}

// imageFailure is the node's fault but where no other would do better.
func imageFailure(name string, err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, imagecache.ErrGone):
		return &failure{code: "image", detail: "image " + name + ": the batch daemon does not have its file", jobFault: true,
			exitCode: exitCannotRun, verdict: queue.TermOther}
	}
	return &failure{code: "image", detail: "image " + name + ": " + err.Error()}
}

func (t *attempt) setFetching(done int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fetching = &queue.AttemptFetch{ID: t.id, Attempt: t.number, Done: done, Total: t.rec.Assignment.Image.Size}
}

func (t *attempt) endFetching() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fetching = nil
}

// fetch is how far the image is; nil when it is not on its way.
func (t *attempt) fetch() *queue.AttemptFetch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fetching
}

// holdImage keeps the file of an attempt of an earlier life of noded, and releaseImage lets it go.
func (t *attempt) holdImage() {
	r := t.snapshot()
	if i := r.Assignment.Image; i != nil && t.a.cfg.Images != nil && r.Stage != ended {
		t.a.cfg.Images.Hold(t.key, images.Digest(i.Digest))
	}
}

func (t *attempt) releaseImage() {
	if t.a.cfg.Images != nil {
		t.a.cfg.Images.Release(t.key)
	}
}
