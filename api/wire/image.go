package wire

import (
	"fairslice/api/pb"
	"fairslice/images"
	"fairslice/queue"
)

func fromNodeImage(i *queue.NodeImage) *pb.NodeImage {
	if i == nil {
		return nil
	}
	return &pb.NodeImage{Name: i.Name, Digest: string(i.Digest), Size: i.Size, Public: i.Public}
}

func toNodeImage(p *pb.NodeImage) *queue.NodeImage {
	if p == nil {
		return nil
	}
	return &queue.NodeImage{Name: p.Name, Digest: images.Digest(p.Digest), Size: p.Size, Public: p.Public}
}
