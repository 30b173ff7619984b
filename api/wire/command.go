package wire

import (
	"slices"

	"fairslice/api/pb"
	"fairslice/nodes"
	"fairslice/queue"
)

// FromSubmission makes the message; who submits is not in it.
func FromSubmission(s queue.Submission) *pb.SubmitRequest {
	return &pb.SubmitRequest{Token: s.Token, Spec: FromSpec(s.Spec), Script: s.Script, Env: s.Env}
}

// ToSubmission leaves Owner to the caller.
func ToSubmission(p *pb.SubmitRequest) queue.Submission {
	return queue.Submission{Token: p.GetToken(), Spec: ToSpec(p.GetSpec()), Script: p.GetScript(), Env: p.GetEnv()}
}

// FromAccepted makes the message.
func FromAccepted(a queue.Accepted) *pb.SubmitResponse {
	return &pb.SubmitResponse{Job: int64(a.Job), Queue: a.Queue, DefaultQueue: a.Default, Notes: a.Notes}
}

// ToAccepted is the inverse of FromAccepted.
func ToAccepted(p *pb.SubmitResponse) queue.Accepted {
	return queue.Accepted{Job: queue.JobID(p.GetJob()), Queue: p.GetQueue(), Default: p.GetDefaultQueue(), Notes: p.GetNotes()}
}

// FromSelection makes the message.
func FromSelection(s queue.Selection) *pb.Selection {
	return &pb.Selection{Ids: s.IDs, User: s.User, Queue: s.Queue, Name: s.Name, Host: s.Host, Project: s.Project, Account: s.Account, States: words[string](s.States), Scope: string(s.Scope),
		Since: Nanos(s.Since), Until: Nanos(s.Until)}
}

// ToSelection is the inverse of FromSelection.
func ToSelection(p *pb.Selection) queue.Selection {
	return queue.Selection{IDs: p.GetIds(), User: p.GetUser(), Queue: p.GetQueue(), Name: p.GetName(), Host: p.GetHost(), Project: p.GetProject(), Account: p.GetAccount(), States: words[queue.State](p.GetStates()), Scope: queue.Scopes(p.GetScope()),
		Since: Time(p.GetSince()), Until: Time(p.GetUntil())}
}

// FromControl makes the message; who commands is not in it.
func FromControl(c queue.Control) *pb.ControlRequest {
	return &pb.ControlRequest{
		Op: string(c.Op), Select: FromSelection(c.Select), Signal: c.Signal, Queue: c.Queue, Position: int32(c.Position), Force: c.Force, AsDone: c.AsDone, Note: c.Note,
		Options: each(c.Options, func(g queue.Given) *pb.Given { return &pb.Given{Name: g.Name, Values: g.Values} }), Latest: c.Latest, Hold: c.Hold,
	}
}

// ToControl leaves By to the caller. The message's only_states (brequeue -d -e -p -r) narrows Select.States.
func ToControl(p *pb.ControlRequest) queue.Control {
	c := queue.Control{
		Op: queue.Op(p.GetOp()), Select: ToSelection(p.GetSelect()), Signal: p.GetSignal(), Queue: p.GetQueue(), Position: int(p.GetPosition()), Force: p.GetForce(), AsDone: p.GetAsDone(), Note: p.GetNote(),
		Options: each(p.GetOptions(), func(g *pb.Given) queue.Given { return queue.Given{Name: g.GetName(), Values: g.GetValues()} }), Latest: p.GetLatest(), Hold: p.GetHold(),
	}
	if only := words[queue.State](p.GetOnlyStates()); only != nil {
		if c.Select.States != nil {
			only = slices.DeleteFunc(only, func(s queue.State) bool { return !slices.Contains(c.Select.States, s) })
		}
		c.Select.States = only
	}
	return c
}

// FromOutcome makes the message.
func FromOutcome(o queue.Outcome) *pb.Outcome { return &pb.Outcome{Id: o.ID, Ok: o.OK, Text: o.Text} }

// ToOutcome is the inverse of FromOutcome.
func ToOutcome(p *pb.Outcome) queue.Outcome {
	return queue.Outcome{ID: p.GetId(), OK: p.GetOk(), Text: p.GetText()}
}

// FromAdmin makes the message; who commands is not in it.
func FromAdmin(a queue.AdminCommand) *pb.AdminRequest {
	return &pb.AdminRequest{Op: a.Op, Names: a.Names, Reason: a.Reason}
}

// ToAdmin leaves By to the caller.
func ToAdmin(p *pb.AdminRequest) queue.AdminCommand {
	return queue.AdminCommand{Op: p.GetOp(), Names: p.GetNames(), Reason: p.GetReason()}
}

// FromReason makes the message.
func FromReason(r queue.Reason) *pb.Reason {
	return &pb.Reason{Kind: string(r.Kind), Text: r.Text, Hosts: int32(r.Hosts), Nodes: words[string](r.Nodes)}
}

// ToReason is the inverse of FromReason.
func ToReason(p *pb.Reason) queue.Reason {
	return queue.Reason{Kind: queue.ReasonKind(p.GetKind()), Text: p.GetText(), Hosts: int(p.GetHosts()), Nodes: words[nodes.ID](p.GetNodes())}
}
