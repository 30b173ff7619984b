package api

import (
	"cmp"
	"context"
	"slices"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// Queues lists queues with their use. NJOBS and the like count slots, as LSF does.
func (u *users) Queues(ctx context.Context, req *connect.Request[pb.QueuesRequest]) (*connect.Response[pb.QueuesResponse], error) {
	if _, err := u.user(ctx); err != nil {
		return nil, err
	}
	c := u.engine.Describe()
	out := &pb.QueuesResponse{}
	byName := map[string]*pb.Queue{}
	for _, q := range c.Queues {
		named := len(req.Msg.Names) == 0 || slices.Contains(req.Msg.Names, q.Name)
		if p := fromQueue(q, c.DefaultQueue); named && admits(q.Users, req.Msg.User) && admits(q.Hosts, req.Msg.Host) {
			byName[q.Name] = p
			out.Queues = append(out.Queues, p)
		}
	}
	for _, name := range req.Msg.Names {
		if !slices.ContainsFunc(c.Queues, func(q QueueInfo) bool { return q.Name == name }) {
			out.NotFound = append(out.NotFound, name+": No such queue")
		}
	}
	u.engine.View(func(v queue.View) {
		for name, p := range byName {
			state := v.Book().Queues[name]
			p.Closed, p.Inactive, p.Reason = state.Closed, state.Inact, state.Reason
		}
		for _, j := range v.Book().Jobs {
			if p := byName[j.Queue]; p != nil {
				countQueue(p, j)
			}
		}
	})
	return answer(out, nil)
}

func admits(allowed []string, who string) bool {
	return who == "" || len(allowed) == 0 || slices.Contains(allowed, who) || slices.Contains(allowed, "all")
}

func fromQueue(q QueueInfo, byDefault string) *pb.Queue {
	return &pb.Queue{
		Name: q.Name, Description: q.Description, Priority: int32(q.Priority), IsDefault: q.Name == byDefault, MaxSlots: int32(q.MaxSlots), UserSlots: int32(q.UserSlots),
		DefaultRunLimit: int64(q.DefaultRunLimit), MaxRunLimit: int64(q.MaxRunLimit), MaxMemory: q.MaxMemory, Hosts: q.Hosts, Users: q.Users,
		Exclusive: q.Exclusive, Rerunnable: q.Rerunnable, Container: q.Container, Image: q.Image, OverlaySize: q.OverlaySize,
		IdleAfter: int64(q.IdleAfter), IdleWarn: int64(q.IdleWarn), IdleGpuBelow: int32(q.IdleGPUBelow), IdleCpuBelow: int32(q.IdleCPUBelow),
	}
}

func countQueue(p *pb.Queue, j *queue.Job) {
	for i := range j.Elements {
		e := &j.Elements[i]
		slots := int32(max(j.Plan.Slots, 1))
		if e.State.Live() && e.Attempt != nil {
			slots = 0
			for _, a := range e.Attempt.Alloc {
				slots += int32(a.Slots)
			}
		}
		switch e.State {
		case queue.Pend, queue.PSusp:
			p.Pend += slots
		case queue.USusp:
			p.Ususp += slots
		case queue.SSusp:
			p.Ssusp += slots
		case queue.Run, queue.Unkwn, queue.Zombi:
			p.Run += slots
		default:
			continue
		}
		p.Njobs += slots
	}
}

// Hosts lists nodes with what they hold.
func (u *users) Hosts(ctx context.Context, req *connect.Request[pb.HostsRequest]) (*connect.Response[pb.HostsResponse], error) {
	if _, err := u.user(ctx); err != nil {
		return nil, err
	}
	signs := u.hub.Signs()
	out := &pb.HostsResponse{}
	byID := map[nodes.ID]*pb.Host{}
	u.engine.View(func(v queue.View) {
		for _, name := range req.Msg.Names {
			if v.Book().Nodes[nodes.ID(name)] == nil {
				out.NotFound = append(out.NotFound, name+": Bad host name, host group name or cluster name")
			}
		}
		for id, n := range v.Book().Nodes {
			if len(req.Msg.Names) > 0 && !slices.Contains(req.Msg.Names, string(id)) {
				continue
			}
			sign := signs[id]
			byID[id] = &pb.Host{Node: wire.FromNode(n), Load1: sign.Heartbeat.Load1, MemoryAvailable: sign.Heartbeat.MemoryAvailable, Version: sign.Version}
		}
		for _, j := range v.Book().Jobs {
			countHosts(byID, j)
		}
	})
	for _, h := range byID {
		slices.SortFunc(h.Slices, func(a, b *pb.HeldSlice) int {
			return cmp.Or(cmp.Compare(a.Slice.Index, b.Slice.Index), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index))
		})
		out.Hosts = append(out.Hosts, h)
	}
	slices.SortFunc(out.Hosts, func(a, b *pb.Host) int { return cmp.Compare(a.Node.Id, b.Node.Id) })
	return answer(out, nil)
}

func countHosts(byID map[nodes.ID]*pb.Host, j *queue.Job) {
	for i := range j.Elements {
		e := &j.Elements[i]
		if !e.State.Live() || e.Attempt == nil {
			continue
		}
		for _, a := range e.Attempt.Alloc {
			h := byID[a.Node]
			if h == nil {
				continue
			}
			slots := int32(a.Slots)
			h.Njobs += slots
			switch e.State {
			case queue.SSusp:
				h.Ssusp += slots
			case queue.USusp:
				h.Ususp += slots
			default:
				h.Run += slots
			}
			for _, s := range a.Slices {
				held := &pb.HeldSlice{
					Slice: wire.FromSlice(s), Job: int64(j.ID), Index: int32(e.Index), User: j.Owner.User, Queue: j.Queue, Since: wire.Nanos(e.Attempt.Dispatched)}
				if u := e.Attempt.Usage.GPU(s.UUID); u != nil {
					held.Used, held.Util = u.Memory, int32(u.Util)
				}
				h.Slices = append(h.Slices, held)
			}
		}
	}
}
