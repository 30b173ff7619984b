package wire

import (
	"fairslice/api/pb"
	"fairslice/images"
)

// FromImage makes the message.
func FromImage(i *images.Image) *pb.Image {
	p := &pb.Image{
		Id: int64(i.ID), Name: i.Ref.String(), Digest: string(i.Digest), Size: i.Size, Arch: i.Arch, Visibility: string(i.Visibility),
		Description: i.Description, Labels: i.Labels, Source: i.Source, Signed: i.Signed, Added: Nanos(i.Added), By: i.By, Removed: Nanos(i.Removed),
	}
	for _, g := range i.Groups {
		p.Groups = append(p.Groups, g.Name)
	}
	return p
}

// FromCommit makes the message.
func FromCommit(r *images.Commit) *pb.Commit {
	return &pb.Commit{
		Id: int64(r.ID), Name: r.Ref.String(), Job: r.Job, Index: int32(r.Index), State: string(r.State), Reason: r.Reason,
		Asked: Nanos(r.Asked), Decided: Nanos(r.Decided), DecidedBy: r.DecidedBy, Ended: Nanos(r.Ended), Description: r.Description,
		Words: r.Words(),
	}
}
