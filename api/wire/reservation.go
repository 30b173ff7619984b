package wire

import (
	"fairslice/api/pb"
	"fairslice/queue"
)

// FromReservation makes the message.
func FromReservation(r *queue.Reservation) *pb.Reservation {
	p := &pb.Reservation{
		Id: r.ID, Users: r.Users, Groups: each(r.Groups, func(g queue.Group) *pb.Group { return &pb.Group{Name: g.Name, Gid: int32(g.GID)} }),
		Creator: r.Creator, Description: r.Description, Begin: Nanos(r.Begin), End: Nanos(r.End), Shares: each(r.Shares, FromAllocation),
	}
	if w := r.Recurring; w != nil {
		p.Recurring = &pb.TimeWindow{Daily: w.Daily, Begin: int32(w.Begin), End: int32(w.End)}
	}
	return p
}

// ToReservation is the inverse of FromReservation.
func ToReservation(p *pb.Reservation) *queue.Reservation {
	r := &queue.Reservation{
		ID: p.GetId(), Users: p.GetUsers(), Groups: each(p.GetGroups(), func(g *pb.Group) queue.Group { return queue.Group{Name: g.GetName(), GID: uid(g.GetGid())} }),
		Creator: p.GetCreator(), Description: p.GetDescription(), Begin: Time(p.GetBegin()), End: Time(p.GetEnd()), Shares: each(p.GetShares(), ToAllocation),
	}
	if w := p.GetRecurring(); w != nil {
		r.Recurring = &queue.TimeWindow{Daily: w.GetDaily(), Begin: int(w.GetBegin()), End: int(w.GetEnd())}
	}
	return r
}

// FromReservationRequest makes the message; who asks, and the numbers of groups, are not in it.
func FromReservationRequest(q queue.ReservationRequest) *pb.AddReservationRequest {
	return &pb.AddReservationRequest{
		Name: q.Name, Users: q.Users, Groups: each(q.Groups, func(g queue.Group) string { return g.Name }), System: q.System, Hosts: q.Hosts,
		Slots: int32(q.Slots), WholeHosts: q.WholeHosts, Gpu: q.GPU, Begin: q.Begin, End: q.End, Window: q.Window, Description: q.Description,
	}
}

// ToReservationRequest leaves By and the numbers of groups to the caller.
func ToReservationRequest(p *pb.AddReservationRequest) queue.ReservationRequest {
	return queue.ReservationRequest{
		Name: p.GetName(), Users: p.GetUsers(), Groups: each(p.GetGroups(), func(s string) queue.Group { return queue.Group{Name: s} }), System: p.GetSystem(), Hosts: p.GetHosts(),
		Slots: int(p.GetSlots()), WholeHosts: p.GetWholeHosts(), GPU: p.GetGpu(), Begin: p.GetBegin(), End: p.GetEnd(), Window: p.GetWindow(), Description: p.GetDescription(),
	}
}
