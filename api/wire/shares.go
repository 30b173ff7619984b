package wire

import (
	"time"

	"fairslice/accounting"
	"fairslice/api/pb"
	"fairslice/queue"
)

// FromShares makes the message.
func FromShares(s accounting.Shares) *pb.SharesResponse {
	out := &pb.SharesResponse{Why: s.Why, At: Nanos(s.At), HalfLife: int64(s.HalfLife), GpuWeight: s.Weights.GPU, MemoryWeight: s.Weights.Memory, Flat: s.Flat, Used: s.Ordered}
	for _, x := range s.Tree {
		out.Tree = append(out.Tree, &pb.Share{Account: x.Account, User: x.User, Depth: int32(x.Depth), Shares: x.Shares, Share: x.Share, Usage: x.Usage,
			Used: x.Used, SlotSeconds: x.Raw.SlotSeconds, FgpuSeconds: x.Raw.FGPUSeconds, GibSeconds: x.Raw.GiBSeconds,
			LevelFairShare: x.LevelFairShare, Rank: int32(x.Rank), Factor: x.Factor})
	}
	return out
}

// ToShares is the inverse of FromShares.
func ToShares(m *pb.SharesResponse) accounting.Shares {
	out := accounting.Shares{Why: m.GetWhy(), At: Time(m.GetAt()), HalfLife: time.Duration(m.GetHalfLife()), Weights: accounting.Weights{GPU: m.GetGpuWeight(), Memory: m.GetMemoryWeight()}, Flat: m.GetFlat(), Ordered: m.GetUsed()}
	for _, x := range m.GetTree() {
		out.Tree = append(out.Tree, accounting.Standing{Account: x.Account, User: x.User, Depth: int(x.Depth), Shares: x.Shares, Share: x.Share, Usage: x.Usage,
			Used: x.Used, Raw: accounting.Used{SlotSeconds: x.SlotSeconds, FGPUSeconds: x.FgpuSeconds, GiBSeconds: x.GibSeconds},
			LevelFairShare: x.LevelFairShare, Rank: int(x.Rank), Factor: x.Factor})
	}
	return out
}

// FromPriority makes the message.
func FromPriority(p queue.Priority) *pb.Priority {
	out := &pb.Priority{Queue: int32(p.Queue), User: int32(p.User), Total: p.Total, Late: p.Late, OverBudget: p.OverBudget}
	for _, x := range p.Parts {
		out.Parts = append(out.Parts, &pb.PriorityPart{Name: x.Name, Weight: x.Weight, Factor: x.Factor, Points: x.Points})
	}
	return out
}
