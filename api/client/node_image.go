package client

import (
	"context"
	"io"

	"fairslice/api/pb"
	"fairslice/images"

	"connectrpc.com/connect"
)

// Fetch writes the file of an image from offset on to w. An error of w's own comes back as it is; any other may pass, but
// for one whose code is NotFound.
func (n *Node) Fetch(ctx context.Context, d images.Digest, offset int64, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := n.pipes.Image(ctx, connect.NewRequest(&pb.ImageRequest{Digest: string(d), Offset: offset}))
	if err != nil {
		return coded(err)
	}
	for stream.Receive() {
		if _, err := w.Write(stream.Msg().Data); err != nil {
			return err
		}
	}
	return coded(stream.Err())
}
