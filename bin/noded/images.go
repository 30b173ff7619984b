package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"fairslice/api/client"
	"fairslice/api/wire"
	"fairslice/images"
	"fairslice/nodes/imagecache"
)

// batchdFiles is the source of the node's images.
type batchdFiles struct{ link *client.Node }

func (b batchdFiles) Fetch(ctx context.Context, d images.Digest, offset int64, w io.Writer) error {
	err := b.link.Fetch(ctx, d, offset, w)
	if said, ok := errors.AsType[*wire.Error](err); ok && said.Code == wire.NotFound {
		return fmt.Errorf("%w: %w", imagecache.ErrGone, err)
	}
	return err
}
