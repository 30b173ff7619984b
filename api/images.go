package api

import (
	"context"
	"io"
	"maps"
	"slices"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/images"
	"fairslice/queue"
)

// Catalogue is the images that a caller may see, use and change. What he may not see is to him as if it did not exist. Mistakes are *Error.
type Catalogue interface {
	Images(by queue.Identity, all bool) ([]*images.Image, error)
	Image(by queue.Identity, name string) (*images.Image, error)
	RemoveImage(ctx context.Context, by queue.Identity, name string) (*images.Image, error)
	ChangeImage(ctx context.Context, by queue.Identity, name string, c queue.ImageChange) (*images.Image, error)
	// ConfiguredImages are the images of the configuration, which lie on the nodes: file by NAME:TAG.
	ConfiguredImages() map[string]string
}

// ImageProgress hears how far a stage of the work is, in bytes; total is 0 where it is not known.
type ImageProgress func(stage string, done, total int64)

// Depot takes the files of images.
type Depot interface {
	// BeginImage says whether an image would be taken, and how much of its upload is here.
	BeginImage(by queue.Identity, add ImageUpload) (offset int64, err error)
	// ReceiveImage appends to an upload, and says how much is here.
	ReceiveImage(by queue.Identity, upload string, offset int64, r io.Reader) (size int64, err error)
	// ImportImage makes an image of an upload. notes are for the user.
	ImportImage(ctx context.Context, by queue.Identity, add ImageUpload, progress ImageProgress) (i *images.Image, notes []string, err error)
	PullImage(ctx context.Context, by queue.Identity, add ImageUpload, url string, progress ImageProgress) (*images.Image, []string, error)
	// VerifyImage reads the stored file again.
	VerifyImage(ctx context.Context, by queue.Identity, name string) (i *images.Image, notes []string, err error)
}

// Committer turns running sessions into images.
type Committer interface {
	RequestCommit(ctx context.Context, by queue.Identity, id queue.ElementID, ref images.Ref, description string, replace bool) (*images.Commit, error)
	DecideCommit(ctx context.Context, by queue.Identity, id images.CommitID, approve bool, reason string) (*images.Commit, error)
	Commits(by queue.Identity, all bool) ([]*images.Commit, error)
}

// ImageUpload is an image that a user wants to add.
type ImageUpload struct {
	Image   images.Image // Ref, Visibility, Groups, Description, Source
	Replace bool

	Upload string        // the caller's name for it
	Size   int64         // of what is sent; 0 where it is not known
	Packed bool          // what is sent is no SIF file
	Digest images.Digest // of what was sent
}

// imageService is the Images service. Each method begins with Server.user: who calls decides.
type imageService struct{ *Server }

func (s imageService) ListImages(ctx context.Context, req *connect.Request[pb.ListImagesRequest]) (*connect.Response[pb.ListImagesResponse], error) {
	by, err := s.user(ctx)
	if err != nil {
		return nil, err
	}
	list, err := s.engine.Images(by, req.Msg.GetAll())
	if err != nil {
		return nil, err
	}
	res := &pb.ListImagesResponse{}
	for _, i := range list {
		res.Images = append(res.Images, wire.FromImage(i))
	}
	files := s.engine.ConfiguredImages()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		res.Images = append(res.Images, configured(name, files[name]))
	}
	return answer(res, nil)
}

func configured(name, file string) *pb.Image {
	return &pb.Image{Name: name, File: file, Visibility: string(images.Public)}
}

// find is an image of the catalogue that the caller may see, or one of the configuration.
func (s imageService) find(by queue.Identity, name string) (*pb.Image, error) {
	i, err := s.engine.Image(by, name)
	if ref, bad := images.ParseRef(name); bad == nil && (err != nil || i.Ref.Owner != by.User) {
		if file, ok := s.engine.ConfiguredImages()[ref.String()]; ok {
			return configured(ref.String(), file), nil
		}
	}
	if err != nil {
		return nil, err
	}
	return wire.FromImage(i), nil
}

func (s imageService) ShowImage(ctx context.Context, req *connect.Request[pb.ShowImageRequest]) (*connect.Response[pb.ImageResponse], error) {
	by, err := s.user(ctx)
	if err != nil {
		return nil, err
	}
	i, err := s.find(by, req.Msg.GetName())
	return answer(&pb.ImageResponse{Image: i}, err)
}

func (s imageService) RemoveImage(ctx context.Context, req *connect.Request[pb.ShowImageRequest]) (*connect.Response[pb.ImageResponse], error) {
	by, err := s.user(ctx)
	if err != nil {
		return nil, err
	}
	i, err := s.engine.RemoveImage(ctx, by, req.Msg.GetName())
	return imageAnswer(i, err)
}

func imageAnswer(i *images.Image, err error) (*connect.Response[pb.ImageResponse], error) {
	if err != nil {
		return nil, err
	}
	return answer(&pb.ImageResponse{Image: wire.FromImage(i)}, nil)
}

func (s imageService) ChangeImage(ctx context.Context, req *connect.Request[pb.ChangeImageRequest]) (*connect.Response[pb.ImageResponse], error) {
	by, err := s.user(ctx)
	if err != nil {
		return nil, err
	}
	c := queue.ImageChange{Description: req.Msg.Description}
	if req.Msg.GetVisibility() != "" {
		v, groups, err := s.visibility(req.Msg.GetVisibility(), req.Msg.GetGroups())
		if err != nil {
			return nil, err
		}
		c.Visibility, c.Groups = &v, groups
	}
	i, err := s.engine.ChangeImage(ctx, by, req.Msg.GetName(), c)
	return imageAnswer(i, err)
}

// visibility reads the words, and looks the groups up on this machine.
func (s imageService) visibility(text string, names []string) (images.Visibility, []images.Group, error) {
	v, err := images.ParseVisibility(text)
	if err != nil {
		return "", nil, wire.Errorf(Invalid, "%v", err)
	}
	if len(names) > images.MaxGroups {
		return "", nil, wire.Errorf(Invalid, "%d groups are named, and may be %d", len(names), images.MaxGroups)
	}
	var groups []images.Group
	for _, name := range names {
		g, err := s.people.group(name)
		if err != nil {
			return "", nil, err
		}
		groups = append(groups, images.Group{Name: g.Name, GID: g.GID})
	}
	return v, groups, nil
}
