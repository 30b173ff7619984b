package client

import (
	"context"
	"io"
	"net/http"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/pb/pbconnect"
)

// Images lists the images that the caller may see; all is for administrators.
func (u *Users) Images(ctx context.Context, all bool) ([]*pb.Image, error) {
	var res pb.ListImagesResponse
	err := u.unary(ctx, always, pbconnect.ImagesListImagesProcedure, &pb.ListImagesRequest{All: all}, &res)
	return res.Images, err
}

// Image is the one that a name stands for.
func (u *Users) Image(ctx context.Context, name string) (*pb.Image, error) {
	var res pb.ImageResponse
	err := u.unary(ctx, always, pbconnect.ImagesShowImageProcedure, &pb.ShowImageRequest{Name: name}, &res)
	return res.Image, err
}

// RemoveImage takes an image out of the catalogue. After a lost answer it would not be found.
func (u *Users) RemoveImage(ctx context.Context, name string) (*pb.Image, error) {
	var res pb.ImageResponse
	err := u.unary(ctx, ifUnavailable, pbconnect.ImagesRemoveImageProcedure, &pb.ShowImageRequest{Name: name}, &res)
	return res.Image, err
}

// ChangeImage changes who sees an image, and what is said of it.
func (u *Users) ChangeImage(ctx context.Context, req *pb.ChangeImageRequest) (*pb.Image, error) {
	var res pb.ImageResponse
	err := u.unary(ctx, always, pbconnect.ImagesChangeImageProcedure, req, &res)
	return res.Image, err
}

// AddImage says whether an image would be taken, and how many bytes of its upload are there.
func (u *Users) AddImage(ctx context.Context, req *pb.AddImageRequest) (offset int64, err error) {
	var res pb.AddImageResponse
	err = u.unary(ctx, always, pbconnect.ImagesAddImageProcedure, req, &res)
	return res.Offset, err
}

// UploadImage sends what from has, which begins at offset of the file. When it fails, AddImage says how much has arrived. An
// error of from's own comes back as it is.
func (u *Users) UploadImage(ctx context.Context, id string, offset int64, from io.Reader) error {
	_, err := upload(ctx, u, func(ctx context.Context, client *http.Client) *connect.ClientStreamForClient[pb.UploadImageRequest, pb.UploadImageResponse] {
		return pbconnect.NewImagesClient(client, u.base).UploadImage(ctx)
	}, &pb.UploadImageRequest{Upload: id, Offset: offset}, from, func(data []byte) *pb.UploadImageRequest { return &pb.UploadImageRequest{Data: data} })
	return err
}

// ImportImage makes an image of an upload. each hears how far it is; the last message has the image.
func (u *Users) ImportImage(ctx context.Context, req *pb.ImportImageRequest, each func(*pb.ImageProgress) error) error {
	return listen(ctx, u, ifUnavailable, pbconnect.ImagesImportImageProcedure, req, each)
}

// PullImage fetches an image from a registry on the batch host.
func (u *Users) PullImage(ctx context.Context, req *pb.PullImageRequest, each func(*pb.ImageProgress) error) error {
	return listen(ctx, u, ifUnavailable, pbconnect.ImagesPullImageProcedure, req, each)
}

// VerifyImage reads the stored file of an image again.
func (u *Users) VerifyImage(ctx context.Context, name string, each func(*pb.ImageProgress) error) error {
	return listen(ctx, u, always, pbconnect.ImagesVerifyImageProcedure, &pb.ShowImageRequest{Name: name}, each)
}

// RequestCommit asks that a session becomes an image. Asked again after a lost answer, the first request is in the way.
func (u *Users) RequestCommit(ctx context.Context, req *pb.CommitRequest) (*pb.Commit, error) {
	var res pb.CommitResponse
	err := u.unary(ctx, ifUnavailable, pbconnect.ImagesRequestCommitProcedure, req, &res)
	return res.Commit, err
}

// Commits lists requests, newest first; all is for administrators.
func (u *Users) Commits(ctx context.Context, all bool) ([]*pb.Commit, error) {
	var res pb.ListCommitsResponse
	err := u.unary(ctx, always, pbconnect.ImagesListCommitsProcedure, &pb.ListCommitsRequest{All: all}, &res)
	return res.Commits, err
}

// DecideCommit approves or refuses a request.
func (u *Users) DecideCommit(ctx context.Context, req *pb.DecideCommitRequest) (*pb.Commit, error) {
	var res pb.CommitResponse
	err := u.unary(ctx, ifUnavailable, pbconnect.ImagesDecideCommitProcedure, req, &res)
	return res.Commit, err
}
