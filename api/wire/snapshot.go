package wire

import (
	"fairslice/api/pb"
	"fairslice/queue"
)

func fromSnapshotOrder(o *queue.SnapshotOrder) *pb.SnapshotOrder {
	if o == nil {
		return nil
	}
	return &pb.SnapshotOrder{Labels: o.Labels}
}

func toSnapshotOrder(p *pb.SnapshotOrder) *queue.SnapshotOrder {
	if p == nil {
		return nil
	}
	return &queue.SnapshotOrder{Labels: p.Labels}
}
