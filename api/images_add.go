package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/images"
	"fairslice/queue"
)

// newImage reads what is said of an image to be.
func (s imageService) newImage(by queue.Identity, p *pb.NewImage) (ImageUpload, error) {
	ref, err := images.ParseRef(p.GetName())
	switch {
	case err != nil:
		return ImageUpload{}, wire.Errorf(Invalid, "%v", err)
	case p.GetSite() && ref.Owner != "":
		return ImageUpload{}, wire.Errorf(Invalid, "%s: an image of the site has no owner in its name", ref)
	case p.GetSite() && !by.Admin:
		return ImageUpload{}, wire.Errorf(Denied, "User permission denied")
	case !p.GetSite() && ref.Owner == "":
		ref.Owner = by.User
	}
	text := p.GetVisibility()
	switch {
	case text != "":
	case ref.Owner == "":
		text = string(images.Public)
	default:
		text = string(images.Private)
	}
	v, groups, err := s.visibility(text, p.GetGroups())
	if err != nil {
		return ImageUpload{}, err
	}
	return ImageUpload{Image: images.Image{Ref: ref, Visibility: v, Groups: groups, Description: p.GetDescription()}, Replace: p.GetReplace()}, nil
}

func (s imageService) AddImage(ctx context.Context, req *connect.Request[pb.AddImageRequest]) (*connect.Response[pb.AddImageResponse], error) {
	by, err := s.user(ctx)
	if err != nil {
		return nil, err
	}
	add, err := s.newImage(by, req.Msg.GetImage())
	if err != nil {
		return nil, err
	}
	add.Upload, add.Size, add.Packed = req.Msg.GetUpload(), req.Msg.GetSize(), req.Msg.GetPacked()
	if add.Size < 0 {
		return nil, wire.Errorf(Invalid, "a size of %d bytes", add.Size)
	}
	offset, err := s.engine.BeginImage(by, add)
	return answer(&pb.AddImageResponse{Offset: offset}, err)
}

func (s imageService) UploadImage(ctx context.Context, stream *connect.ClientStream[pb.UploadImageRequest]) (*connect.Response[pb.UploadImageResponse], error) {
	by, err := s.user(ctx)
	if err != nil {
		return nil, err
	}
	_, done := s.streaming(ctx)
	defer done()
	if !stream.Receive() {
		return nil, errors.Join(wire.Errorf(Invalid, "the first message must name the upload"), stream.Err())
	}
	first := stream.Msg()
	size, err := s.engine.ReceiveImage(by, first.GetUpload(), first.GetOffset(), &messages[pb.UploadImageRequest]{stream: stream, data: (*pb.UploadImageRequest).GetData})
	return answer(&pb.UploadImageResponse{Size: size}, err)
}

type progressStream = connect.ServerStream[pb.ImageProgress]

func (s imageService) ImportImage(ctx context.Context, req *connect.Request[pb.ImportImageRequest], stream *progressStream) error {
	by, err := s.user(ctx)
	if err != nil {
		return err
	}
	add, err := s.newImage(by, req.Msg.GetImage())
	if err != nil {
		return err
	}
	if add.Digest, err = images.ParseDigest(req.Msg.GetDigest()); err != nil {
		return wire.Errorf(Invalid, "%v", err)
	}
	add.Upload, add.Image.Source = req.Msg.GetUpload(), req.Msg.GetSource()
	return s.work(ctx, stream, func(ctx context.Context, p ImageProgress) (*images.Image, []string, error) {
		return s.engine.ImportImage(ctx, by, add, p)
	})
}

func (s imageService) PullImage(ctx context.Context, req *connect.Request[pb.PullImageRequest], stream *progressStream) error {
	by, err := s.user(ctx)
	if err != nil {
		return err
	}
	add, err := s.newImage(by, req.Msg.GetImage())
	if err != nil {
		return err
	}
	return s.work(ctx, stream, func(ctx context.Context, p ImageProgress) (*images.Image, []string, error) {
		return s.engine.PullImage(ctx, by, add, req.Msg.GetUrl(), p)
	})
}

func (s imageService) VerifyImage(ctx context.Context, req *connect.Request[pb.ShowImageRequest], stream *progressStream) error {
	by, err := s.user(ctx)
	if err != nil {
		return err
	}
	return s.work(ctx, stream, func(ctx context.Context, _ ImageProgress) (*images.Image, []string, error) {
		return s.engine.VerifyImage(ctx, by, req.Msg.GetName())
	})
}

// progressEvery is how often a caller hears how far the work is. A caller that is gone is noticed so, too.
const progressEvery = 500 * time.Millisecond

// work tells the caller how far f is, and what it comes to.
func (s imageService) work(ctx context.Context, stream *progressStream, f func(context.Context, ImageProgress) (*images.Image, []string, error)) error {
	ctx, done := s.streaming(ctx)
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	last := &pb.ImageProgress{}
	result := make(chan error, 1)
	end := &pb.ImageProgress{}
	go func() {
		i, notes, err := f(ctx, func(stage string, done, total int64) {
			mu.Lock()
			defer mu.Unlock()
			last = &pb.ImageProgress{Stage: stage, Done: done, Total: total}
		})
		if err == nil {
			end = &pb.ImageProgress{Image: wire.FromImage(i), Notes: notes}
		}
		result <- err
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-result:
			if err != nil {
				return err
			}
			return stream.Send(end)
		case <-tick.C:
			mu.Lock()
			m := last
			mu.Unlock()
			if err := stream.Send(m); err != nil {
				cancel()
				return errors.Join(err, <-result)
			}
		}
	}
}
