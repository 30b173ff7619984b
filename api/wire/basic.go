package wire

import (
	"time"

	"fairslice/api/pb"
	"fairslice/nodes"
	"fairslice/queue"
)

// number is any integer type that the domain and protobuf disagree about.
type number interface {
	~int | ~int32 | ~int64 | ~uint16 | ~uint32
}

func each[A, B any](in []A, f func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func numbers[B, A number](in []A) []B { return each(in, func(a A) B { return B(a) }) }

func words[B, A ~string](in []A) []B { return each(in, func(a A) B { return B(a) }) }

// Nanos is how a time travels: Unix nanoseconds, 0 for the zero time.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Time is the inverse of Nanos, in UTC.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// FromIdentity leaves Admin behind: a right is decided at each call, never taken from a message.
func FromIdentity(i queue.Identity) *pb.Identity {
	return &pb.Identity{User: i.User, Uid: int32(i.UID), Gid: int32(i.GID), Groups: numbers[int32](i.Groups), Home: i.Home, Shell: i.Shell}
}

// uid undoes the wrap of numbers above 2^31, which directories do give out.
func uid(n int32) int { return int(uint32(n)) }

// ToIdentity gives an identity without rights.
func ToIdentity(p *pb.Identity) queue.Identity {
	return queue.Identity{User: p.GetUser(), UID: uid(p.GetUid()), GID: uid(p.GetGid()), Groups: each(p.GetGroups(), uid), Home: p.GetHome(), Shell: p.GetShell()}
}

// FromSlice makes the message of a slice.
func FromSlice(s nodes.Slice) *pb.Slice {
	return &pb.Slice{Uuid: s.UUID, Index: int32(s.Index), Amount: int64(s.Amount), Memory: s.Memory, SmShare: int32(s.SMShare), Mode: string(s.Mode)}
}

// ToSlice is the inverse of FromSlice.
func ToSlice(p *pb.Slice) nodes.Slice {
	return nodes.Slice{UUID: p.GetUuid(), Index: int(p.GetIndex()), Amount: nodes.Amount(p.GetAmount()), Memory: p.GetMemory(), SMShare: int(p.GetSmShare()), Mode: nodes.Mode(p.GetMode())}
}

// FromAllocation makes the message of an allocation.
func FromAllocation(a nodes.Allocation) *pb.Allocation {
	return &pb.Allocation{Node: string(a.Node), Slots: int32(a.Slots), Memory: a.Memory, Slices: each(a.Slices, FromSlice), Consumables: string(a.Consumables), Exclusive: a.Exclusive, User: a.User}
}

// ToAllocation is the inverse of FromAllocation.
func ToAllocation(p *pb.Allocation) nodes.Allocation {
	return nodes.Allocation{Node: nodes.ID(p.GetNode()), Slots: int(p.GetSlots()), Memory: p.GetMemory(), Slices: each(p.GetSlices(), ToSlice), Consumables: nodes.Consumables(p.GetConsumables()), Exclusive: p.GetExclusive(), User: p.GetUser()}
}

func fromGPU(g nodes.GPU) *pb.GPU {
	return &pb.GPU{Index: int32(g.Index), Uuid: g.UUID, Model: g.Model, Memory: g.Memory, Capacity: int64(g.Capacity), Mode: string(g.Mode), Simulated: g.Simulated, Lost: g.Lost, Used: int64(g.Used), Excess: int64(g.Excess),
		Unfenced: g.Unfenced, Parent: g.Parent, Fraction: int32(g.Fraction), Holder: g.Holder}
}

func toGPU(p *pb.GPU) nodes.GPU {
	return nodes.GPU{Index: int(p.GetIndex()), UUID: p.GetUuid(), Model: p.GetModel(), Memory: p.GetMemory(), Capacity: nodes.Amount(p.GetCapacity()), Mode: nodes.Mode(p.GetMode()), Simulated: p.GetSimulated(), Lost: p.GetLost(), Used: nodes.Amount(p.GetUsed()), Excess: nodes.Amount(p.GetExcess()),
		Unfenced: p.GetUnfenced(), Parent: p.GetParent(), Fraction: int(p.GetFraction()), Holder: p.GetHolder()}
}

// FromNode makes the message of a node, with what of it is held.
func FromNode(n *nodes.Node) *pb.Node {
	return &pb.Node{
		Id: string(n.ID), Alive: n.Alive, Closed: n.Closed, Reason: n.Reason, ClosedBy: n.ClosedBy, Since: Nanos(n.Since), BootId: n.BootID,
		Slots: int32(n.Slots), Memory: n.Memory, Gpus: each(n.GPUs, fromGPU), Consumables: string(n.Consumables), Type: n.Type, Model: n.Model, MaxMemory: n.MaxMemory,
		UsedSlots: int32(n.UsedSlots), UsedMemory: n.UsedMemory, UsedConsumables: string(n.UsedConsumables), Holders: int32(n.Holders), Taken: n.Taken, Unenforced: n.Unenforced,
		ExcessSlots: int32(n.Excess.Slots), ExcessMemory: n.Excess.Memory, ExcessConsumables: string(n.Excess.Consumables),
	}
}

// ToNode is the inverse of FromNode.
func ToNode(p *pb.Node) nodes.Node {
	return nodes.Node{
		ID: nodes.ID(p.GetId()), Alive: p.GetAlive(), Closed: p.GetClosed(), Reason: p.GetReason(), ClosedBy: p.GetClosedBy(), Since: Time(p.GetSince()), BootID: p.GetBootId(),
		Slots: int(p.GetSlots()), Memory: p.GetMemory(), GPUs: each(p.GetGpus(), toGPU), Consumables: nodes.Consumables(p.GetConsumables()), Type: p.GetType(), Model: p.GetModel(), MaxMemory: p.GetMaxMemory(),
		UsedSlots: int(p.GetUsedSlots()), UsedMemory: p.GetUsedMemory(), UsedConsumables: nodes.Consumables(p.GetUsedConsumables()), Holders: int(p.GetHolders()), Taken: p.GetTaken(), Unenforced: p.GetUnenforced(),
		Excess: nodes.Excess{Slots: int(p.GetExcessSlots()), Memory: p.GetExcessMemory(), Consumables: nodes.Consumables(p.GetExcessConsumables())},
	}
}

// FromUsage makes the message of a usage.
func FromUsage(u queue.Usage) *pb.Usage {
	return &pb.Usage{
		Cpu: int64(u.CPU), UserCpu: int64(u.UserCPU), SysCpu: int64(u.SysCPU), Memory: u.Memory, MaxMemory: u.MaxMemory, AvgMemory: u.AvgMemory,
		Processes: int32(u.Processes), MaxProcs: int32(u.MaxProcs), Threads: int32(u.Threads), MaxThreads: int32(u.MaxThrds), Pids: numbers[int32](u.Pids), Pgid: int32(u.PGID),
		Gpus: each(u.GPUs, fromGPUUsage),
	}
}

// ToUsage is the inverse of FromUsage.
func ToUsage(p *pb.Usage) queue.Usage {
	return queue.Usage{
		CPU: time.Duration(p.GetCpu()), UserCPU: time.Duration(p.GetUserCpu()), SysCPU: time.Duration(p.GetSysCpu()), Memory: p.GetMemory(), MaxMemory: p.GetMaxMemory(), AvgMemory: p.GetAvgMemory(),
		Processes: int(p.GetProcesses()), MaxProcs: int(p.GetMaxProcs()), Threads: int(p.GetThreads()), MaxThrds: int(p.GetMaxThreads()), Pids: numbers[int](p.GetPids()), PGID: int(p.GetPgid()),
		GPUs: each(p.GetGpus(), toGPUUsage),
	}
}

func fromGPUUsage(u queue.GPUUsage) *pb.GPUUsage {
	return &pb.GPUUsage{Uuid: u.UUID, Index: int32(u.Index), Memory: u.Memory, MaxMemory: u.MaxMemory, Util: int32(u.Util), SmTime: int64(u.SMTime), Measured: int64(u.Measured)}
}

func toGPUUsage(p *pb.GPUUsage) queue.GPUUsage {
	return queue.GPUUsage{UUID: p.GetUuid(), Index: int(p.GetIndex()), Memory: p.GetMemory(), MaxMemory: p.GetMaxMemory(), Util: int(p.GetUtil()), SMTime: time.Duration(p.GetSmTime()), Measured: time.Duration(p.GetMeasured())}
}
