package wire

import (
	"fairslice/api/pb"
	"fairslice/queue"
)

// FromPolicy makes the message.
func FromPolicy(p queue.PolicyState) *pb.Policy {
	return &pb.Policy{Version: p.Version, Text: p.Text, By: p.By, At: Nanos(p.At)}
}

// ToPolicy is the inverse of FromPolicy.
func ToPolicy(p *pb.Policy) queue.PolicyState {
	return queue.PolicyState{Version: p.GetVersion(), Text: p.GetText(), By: p.GetBy(), At: Time(p.GetAt())}
}
