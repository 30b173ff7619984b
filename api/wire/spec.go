package wire

import (
	"time"

	"fairslice/api/pb"
	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
)

// FromSpec makes the message of a spec; it shares the spec's maps. nil gives nil.
func FromSpec(s *queue.Spec) *pb.Spec {
	if s == nil {
		return nil
	}
	return &pb.Spec{
		Name: s.Name, Array: fromArray(s.Array), Description: s.Description, Command: s.Command, Shell: s.Shell,
		ScriptHash: s.ScriptHash, EnvHash: s.EnvHash, Queue: s.Queue, Project: s.Project, Account: s.Account, App: s.App,
		MinSlots: int32(s.MinSlots), MaxSlots: int32(s.MaxSlots), RunLimit: int64(s.RunLimit), Memory: s.Memory,
		ResReq: s.ResReq, Resources: fromResReq(s.Resources), Gpu: s.GPU, GpuRequest: fromGPUOption(s.GPURequest),
		Hosts: each(s.Hosts, fromHostWish), Exclusive: s.Exclusive, Image: s.Image, ImageId: int64(s.ImageID), Writable: s.Writable, Apps: s.Apps, Begin: Nanos(s.Begin), Terminate: Nanos(s.Terminate),
		Depend: s.Depend, TermOrphan: s.TermOrphan, Hold: s.Hold, Rerunnable: s.Rerunnable, Priority: int32(s.Priority),
		PreExec: s.PreExec, PostExec: s.PostExec, SubHost: s.SubHost, SubCwd: s.SubCWD, Cwd: s.CWD,
		Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, Overwrite: s.Overwrite, OverwriteErr: s.OverwriteE,
		MailUser: s.MailUser, NotifyBegin: s.NotifyB, NotifyEnd: s.NotifyN, Umask: int32(s.Umask),
		Interactive: string(s.Interactive), Rows: uint32(s.Rows), Cols: uint32(s.Cols), Term: s.Term, Limits: s.Limits,
		Reservation: s.Reservation,
	}
}

// ToSpec is the inverse of FromSpec; it shares the message's maps.
func ToSpec(p *pb.Spec) *queue.Spec {
	if p == nil {
		return nil
	}
	return &queue.Spec{
		Name: p.Name, Array: toArray(p.Array), Description: p.Description, Command: p.Command, Shell: p.Shell,
		ScriptHash: p.ScriptHash, EnvHash: p.EnvHash, Queue: p.Queue, Project: p.Project, Account: p.Account, App: p.App,
		MinSlots: int(p.MinSlots), MaxSlots: int(p.MaxSlots), RunLimit: time.Duration(p.RunLimit), Memory: p.Memory,
		ResReq: p.ResReq, Resources: toResReq(p.Resources), GPU: p.Gpu, GPURequest: toGPUOption(p.GpuRequest),
		Hosts: each(p.Hosts, toHostWish), Exclusive: p.Exclusive, Image: p.Image, ImageID: images.ID(p.ImageId), Writable: p.Writable, Apps: p.Apps, Begin: Time(p.Begin), Terminate: Time(p.Terminate),
		Depend: p.Depend, TermOrphan: p.TermOrphan, Hold: p.Hold, Rerunnable: p.Rerunnable, Priority: int(p.Priority),
		PreExec: p.PreExec, PostExec: p.PostExec, SubHost: p.SubHost, SubCWD: p.SubCwd, CWD: p.Cwd,
		Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, Overwrite: p.Overwrite, OverwriteE: p.OverwriteErr,
		MailUser: p.MailUser, NotifyB: p.NotifyBegin, NotifyN: p.NotifyEnd, Umask: int(p.Umask),
		Interactive: queue.Interactive(p.Interactive), Rows: uint16(p.Rows), Cols: uint16(p.Cols), Term: p.Term, Limits: p.Limits,
		Reservation: p.Reservation,
	}
}

func fromArray(a *queue.Array) *pb.Array {
	if a == nil {
		return nil
	}
	return &pb.Array{Limit: int32(a.Limit), Ranges: each(a.Ranges, func(r queue.Range) *pb.Range {
		return &pb.Range{First: int32(r.First), Last: int32(r.Last), Step: int32(r.Step)}
	})}
}

func toArray(p *pb.Array) *queue.Array {
	if p == nil {
		return nil
	}
	return &queue.Array{Limit: int(p.Limit), Ranges: each(p.Ranges, func(r *pb.Range) queue.Range {
		return queue.Range{First: int(r.GetFirst()), Last: int(r.GetLast()), Step: int(r.GetStep())}
	})}
}

func fromHostWish(h queue.HostWish) *pb.HostWish {
	return &pb.HostWish{Name: h.Name, Preference: int32(h.Preference), First: h.First, Others: h.Others}
}

func toHostWish(p *pb.HostWish) queue.HostWish {
	return queue.HostWish{Name: p.GetName(), Preference: int(p.GetPreference()), First: p.GetFirst(), Others: p.GetOthers()}
}

func fromResReq(r queue.ResReq) *pb.ResReq {
	return &pb.ResReq{
		Select: string(r.Select), Order: r.Order, Memory: r.Memory, MemoryScope: string(r.MemoryScope), Fgpu: int64(r.FGPU), WholeGpus: int32(r.WholeGPUs),
		GpuMemory: r.GPUMemory, Consumables: r.Consumables, OneHost: r.OneHost, PerHost: int32(r.PerHost), Cores: int32(r.Cores), GpuModel: r.GPUModel,
	}
}

func toResReq(p *pb.ResReq) queue.ResReq {
	return queue.ResReq{
		Select: queue.Select(p.GetSelect()), Order: p.GetOrder(), Memory: p.GetMemory(), MemoryScope: queue.Scope(p.GetMemoryScope()), FGPU: nodes.Amount(p.GetFgpu()), WholeGPUs: int(p.GetWholeGpus()),
		GPUMemory: p.GetGpuMemory(), Consumables: p.GetConsumables(), OneHost: p.GetOneHost(), PerHost: int(p.GetPerHost()), Cores: int(p.GetCores()), GPUModel: p.GetGpuModel(),
	}
}

func fromGPUOption(g *queue.GPUOption) *pb.GPUOption {
	if g == nil {
		return nil
	}
	return &pb.GPUOption{Fgpu: int64(g.FGPU), Num: int32(g.Num), PerTask: g.PerTask, Exclusive: g.Exclusive, Shared: g.Shared, Memory: g.Memory, Model: g.Model}
}

func toGPUOption(p *pb.GPUOption) *queue.GPUOption {
	if p == nil {
		return nil
	}
	return &queue.GPUOption{FGPU: nodes.Amount(p.Fgpu), Num: int(p.Num), PerTask: p.PerTask, Exclusive: p.Exclusive, Shared: p.Shared, Memory: p.Memory, Model: p.Model}
}
