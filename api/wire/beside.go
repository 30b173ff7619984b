package wire

import (
	"encoding/json"

	"fairslice/api/pb"
	"fairslice/images"
	"fairslice/queue"
)

// FromExecOrder makes the message; it shares the order's slices. nil gives nil.
func FromExecOrder(o *queue.ExecOrder) *pb.ExecOrder {
	if o == nil {
		return nil
	}
	return &pb.ExecOrder{Args: o.Args, Env: o.Env, Dir: o.Dir, Tty: o.TTY, Term: o.Term}
}

// ToExecOrder is the inverse of FromExecOrder.
func ToExecOrder(p *pb.ExecOrder) *queue.ExecOrder {
	if p == nil {
		return nil
	}
	return &queue.ExecOrder{Args: p.Args, Env: p.Env, Dir: p.Dir, TTY: p.Tty, Term: p.Term}
}

// FromCopyOrder makes the message; it shares the order's slices. nil gives nil.
func FromCopyOrder(o *queue.CopyOrder) *pb.CopyOrder {
	if o == nil {
		return nil
	}
	return &pb.CopyOrder{Paths: o.Paths, To: o.To, Into: o.Into, Recursive: o.Recursive}
}

// ToCopyOrder is the inverse of FromCopyOrder.
func ToCopyOrder(p *pb.CopyOrder) *queue.CopyOrder {
	if p == nil {
		return nil
	}
	return &queue.CopyOrder{Paths: p.Paths, To: p.To, Into: p.Into, Recursive: p.Recursive}
}

// FromDialOrder makes the message. nil gives nil.
func FromDialOrder(o *queue.DialOrder) *pb.DialOrder {
	if o == nil {
		return nil
	}
	return &pb.DialOrder{Port: int32(o.Port), Path: o.Path, Own: o.Own}
}

// ToDialOrder is the inverse of FromDialOrder.
func ToDialOrder(p *pb.DialOrder) *queue.DialOrder {
	if p == nil {
		return nil
	}
	return &queue.DialOrder{Port: int(p.Port), Path: p.Path, Own: p.Own}
}

// FromPipeOutput makes the message.
func FromPipeOutput(o queue.PipeOutput) *pb.PipeUp {
	return &pb.PipeUp{Data: o.Data, Err: o.Err, Taken: uint32(o.Taken), Eof: o.EOF, Exited: o.Exited, Status: int32(o.Status)}
}

// ToPipeOutput is the inverse of FromPipeOutput.
func ToPipeOutput(p *pb.PipeUp) queue.PipeOutput {
	return queue.PipeOutput{Data: p.GetData(), Err: p.GetErr(), Taken: int(p.GetTaken()), EOF: p.GetEof(), Exited: p.GetExited(), Status: int(p.GetStatus())}
}

// fromAppOrder makes the text; nil gives none. An order cannot fail to become one.
func fromAppOrder(o *images.AppOrder) []byte {
	if o == nil {
		return nil
	}
	b, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	return b
}

// toAppOrder is the inverse of fromAppOrder. What cannot be read is none, and the node says that the order lacks it.
func toAppOrder(b []byte) *images.AppOrder {
	o := new(images.AppOrder)
	if len(b) == 0 || json.Unmarshal(b, o) != nil {
		return nil
	}
	return o
}
