package client

import (
	"context"
	"io"
	"net/http"

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

// Restore brings back what an archive of a sum has, and reads it. It is tried again only while nothing was sent; it may
// be asked for again, though.
func (u *Users) Restore(ctx context.Context, sum string, from io.Reader) (*pb.ArchiveResponse, error) {
	return upload(ctx, u, func(ctx context.Context, client *http.Client) *connect.ClientStreamForClient[pb.RestoreRequest, pb.ArchiveResponse] {
		return pbconnect.NewUsersClient(client, u.base).Restore(ctx)
	}, &pb.RestoreRequest{Sum: sum}, from, func(data []byte) *pb.RestoreRequest { return &pb.RestoreRequest{Data: data} })
}
