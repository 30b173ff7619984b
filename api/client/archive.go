package client

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/pb/pbconnect"
)

// Export writes an archive of the jobs that finished before a date, YYYY-MM-DD. keep says that they are to stay. What is written
// before an error is worth nothing.
func (u *Users) Export(ctx context.Context, before string, keep bool, w io.Writer) error {
	return listen(ctx, u, always, pbconnect.UsersExportProcedure, &pb.ExportRequest{Before: before, Keep: keep}, func(part *pb.ExportResponse) error {
		_, err := w.Write(part.Data)
		return err
	})
}

// Purge deletes what the archive of a sum has, which was exported for the date. Twice is once, so it is tried again whatever breaks.
func (u *Users) Purge(ctx context.Context, before, sum string) (*pb.ArchiveResponse, error) {
	res := new(pb.ArchiveResponse)
	return res, u.unary(ctx, always, pbconnect.UsersPurgeProcedure, &pb.PurgeRequest{Before: before, Sum: sum}, res)
}

// restorePart is how much of a file one message has.
const restorePart = 256 << 10

// Restore brings back what an archive of a sum has, and reads it. It is tried again only while nothing was sent; it may
// be asked for again, though.
func (u *Users) Restore(ctx context.Context, sum string, from io.Reader) (*pb.ArchiveResponse, error) {
	client, err := u.client()
	if err != nil {
		return nil, err
	}
	var stream *connect.ClientStreamForClient[pb.RestoreRequest, pb.ArchiveResponse]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = u.config.retry(ctx, ifNotSent, func() error {
		stream = pbconnect.NewUsersClient(client, u.base).Restore(ctx)
		err := stream.Send(&pb.RestoreRequest{Sum: sum})
		if errors.Is(err, io.EOF) { // Connect's word for "ask for the answer"
			_, err = stream.CloseAndReceive()
		}
		if err == nil || errors.Is(err, errNotSent) {
			return err
		}
		return coded(err)
	})
	if err != nil {
		return nil, err
	}
	buf := make([]byte, restorePart)
	for {
		n, err := io.ReadFull(from, buf)
		if n > 0 {
			if err := stream.Send(&pb.RestoreRequest{Data: buf[:n]}); err != nil {
				break // the answer says why
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		} else if err != nil {
			return nil, err // the call ends with ctx, and leaves nothing
		}
	}
	res, err := stream.CloseAndReceive()
	if err != nil {
		return nil, coded(err)
	}
	return res.Msg, nil
}
