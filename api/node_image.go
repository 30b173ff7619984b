package api

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/images"
)

// ImageFiles opens the files of images. An error that is fs.ErrNotExist says that there is none with the digest.
type ImageFiles interface {
	OpenImage(images.Digest) (io.ReadSeekCloser, error)
}

// imageChunk is how much of a file goes into one message.
const imageChunk = 1 << 20

// Image sends a file to a node, which checks it by its digest when it is whole.
func (n nodeService) Image(ctx context.Context, req *connect.Request[pb.ImageRequest], stream *connect.ServerStream[pb.ImageChunk]) error {
	_, _, err := n.hub.enter(ctx)
	if err != nil {
		return err
	}
	defer n.hub.running.Done()
	relax(ctx)
	digest, err := images.ParseDigest(req.Msg.Digest)
	if err != nil {
		return wire.Errorf(Invalid, "%v", err)
	}
	if n.hub.Files == nil {
		return wire.Errorf(NotFound, "no images are kept here")
	}
	f, err := n.hub.Files.OpenImage(digest)
	if errors.Is(err, fs.ErrNotExist) {
		return wire.Errorf(NotFound, "no image has the digest %s", digest)
	} else if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(req.Msg.Offset, io.SeekStart); err != nil || req.Msg.Offset < 0 {
		return wire.Errorf(Invalid, "an image cannot be read from %d on", req.Msg.Offset)
	}
	ctx, cancel := until(ctx, n.hub.stopping)
	defer cancel()
	buf := make([]byte, imageChunk)
	for ctx.Err() == nil {
		read, err := io.ReadFull(f, buf)
		if read > 0 {
			if err := stream.Send(&pb.ImageChunk{Data: buf[:read]}); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		} else if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
