package wire

import (
	"time"

	"fairslice/api/pb"
	"fairslice/queue"
)

func elementID(job int64, index int32) queue.ElementID {
	return queue.ElementID{Job: queue.JobID(job), Index: int(index)}
}

// FromAssignment makes the message.
func FromAssignment(a queue.Assignment) *pb.Assignment {
	return &pb.Assignment{
		Job: int64(a.ID.Job), Index: int32(a.ID.Index), Attempt: int32(a.Attempt), Owner: FromIdentity(a.Owner), Spec: FromSpec(a.Spec), Script: a.Script, Env: a.Env,
		Alloc: each(a.Alloc, FromAllocation), RunLimit: int64(a.RunLimit), MemoryLimit: a.MemoryLimit, ImageFile: a.ImageFile, Image: fromNodeImage(a.Image), Cwd: a.CWD, CreateCwd: a.CreateCWD,
		Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, DisplayName: a.DisplayName, Queue: a.Queue, Cluster: a.Cluster, Submitted: Nanos(a.Submitted),
		ReportInOutput: a.Report, Deadline: Nanos(a.Deadline), Binds: a.Binds, Unfenced: a.Unfenced, OverlaySize: a.OverlaySize,
	}
}

// ToAssignment is the inverse of FromAssignment.
func ToAssignment(p *pb.Assignment) queue.Assignment {
	return queue.Assignment{
		ID: elementID(p.GetJob(), p.GetIndex()), Attempt: int(p.GetAttempt()), Owner: ToIdentity(p.GetOwner()), Spec: ToSpec(p.GetSpec()), Script: p.GetScript(), Env: p.GetEnv(),
		Alloc: each(p.GetAlloc(), ToAllocation), RunLimit: time.Duration(p.GetRunLimit()), MemoryLimit: p.GetMemoryLimit(), ImageFile: p.GetImageFile(), Image: toNodeImage(p.GetImage()), CWD: p.GetCwd(), CreateCWD: p.GetCreateCwd(),
		Stdin: p.GetStdin(), Stdout: p.GetStdout(), Stderr: p.GetStderr(), DisplayName: p.GetDisplayName(), Queue: p.GetQueue(), Cluster: p.GetCluster(), Submitted: Time(p.GetSubmitted()),
		Report: p.GetReportInOutput(), Deadline: Time(p.GetDeadline()), Binds: p.GetBinds(), Unfenced: p.GetUnfenced(), OverlaySize: p.GetOverlaySize(),
	}
}

// FromOrder makes the message.
func FromOrder(o queue.Order) *pb.Order {
	return &pb.Order{
		Job: int64(o.ID.Job), Index: int32(o.ID.Index), Attempt: int32(o.Attempt), Op: string(o.Op), Verdict: string(o.Verdict), Signal: o.Signal, AtOnce: o.AtOnce,
		RunLimit: int64(o.RunLimit), MemoryLimit: o.MemoryLimit, Text: o.Text,
	}
}

// ToOrder is the inverse of FromOrder.
func ToOrder(p *pb.Order) queue.Order {
	return queue.Order{
		ID: elementID(p.GetJob(), p.GetIndex()), Attempt: int(p.GetAttempt()), Op: queue.OrderOp(p.GetOp()), Verdict: queue.Verdict(p.GetVerdict()), Signal: p.GetSignal(), AtOnce: p.GetAtOnce(),
		RunLimit: time.Duration(p.GetRunLimit()), MemoryLimit: p.GetMemoryLimit(), Text: p.GetText(),
	}
}

// FromReport makes the message. Only the parts that belong to r.Kind travel.
func FromReport(r queue.Report) *pb.Report {
	p := &pb.Report{Job: int64(r.ID.Job), Index: int32(r.ID.Index), Attempt: int32(r.Attempt), At: Nanos(r.At)}
	switch r.Kind {
	case queue.ReportBegan:
		b := r.Began
		if b == nil {
			b = &queue.Began{}
		}
		p.Kind = &pb.Report_Began{Began: fromBegan(b)}
	case queue.ReportEnded:
		p.Kind = &pb.Report_Ended{Ended: &pb.EndedReport{Status: int32(r.Status), Verdict: string(r.Verdict), Detail: r.Detail, Usage: FromUsage(r.Usage), Began: Nanos(r.Ran), Lost: r.Lost, First: fromBegan(r.Began)}}
	case queue.ReportStopped:
		p.Kind = &pb.Report_Stopped{Stopped: &pb.StoppedReport{Stopped: r.Stopped}}
	case queue.ReportNoted:
		p.Kind = &pb.Report_Noted{Noted: &pb.NotedReport{Text: r.Detail}}
	case queue.ReportFailed:
		p.Kind = &pb.Report_Failed{Failed: &pb.StartFailed{Code: r.Code, Detail: r.Detail, JobFault: r.JobFault, Verdict: string(r.Verdict), ExitCode: int32(r.ExitCode)}}
	}
	return p
}

func fromBegan(b *queue.Began) *pb.BeganReport {
	if b == nil {
		return nil
	}
	return &pb.BeganReport{Pid: int32(b.Pid), Home: b.Home, Cwd: b.CWD, Stdout: b.Stdout, Stderr: b.Stderr, Image: b.Image, Note: b.Note, Ran: Nanos(b.Ran)}
}

func toBegan(b *pb.BeganReport) *queue.Began {
	if b == nil {
		return nil
	}
	return &queue.Began{Pid: int(b.GetPid()), Home: b.GetHome(), CWD: b.GetCwd(), Stdout: b.GetStdout(), Stderr: b.GetStderr(), Image: b.GetImage(), Note: b.GetNote(), Ran: Time(b.GetRan())}
}

// ToReport is the inverse of FromReport. A kind of a newer version comes out empty: see Report.Kind.
func ToReport(p *pb.Report) queue.Report {
	r := queue.Report{ID: elementID(p.GetJob(), p.GetIndex()), Attempt: int(p.GetAttempt()), At: Time(p.GetAt())}
	switch k := p.GetKind().(type) {
	case *pb.Report_Began:
		r.Kind, r.Began = queue.ReportBegan, toBegan(k.Began)
	case *pb.Report_Ended:
		e := k.Ended
		r.Kind, r.Began = queue.ReportEnded, toBegan(e.GetFirst())
		r.Status, r.Verdict, r.Detail, r.Usage, r.Ran, r.Lost = int(e.GetStatus()), queue.Verdict(e.GetVerdict()), e.GetDetail(), ToUsage(e.GetUsage()), Time(e.GetBegan()), e.GetLost()
	case *pb.Report_Stopped:
		r.Kind, r.Stopped = queue.ReportStopped, k.Stopped.GetStopped()
	case *pb.Report_Noted:
		r.Kind, r.Detail = queue.ReportNoted, k.Noted.GetText()
	case *pb.Report_Failed:
		f := k.Failed
		r.Kind = queue.ReportFailed
		r.Code, r.Detail, r.JobFault, r.Verdict, r.ExitCode = f.GetCode(), f.GetDetail(), f.GetJobFault(), queue.Verdict(f.GetVerdict()), int(f.GetExitCode())
	}
	return r
}

// FromHello makes the message.
func FromHello(h queue.Hello) *pb.Hello {
	return &pb.Hello{Node: FromNode(&h.Node), Version: h.Version, Attempts: each(h.Attempts, func(a queue.AttemptState) *pb.AttemptState {
		return &pb.AttemptState{Job: int64(a.ID.Job), Index: int32(a.ID.Index), Attempt: int32(a.Attempt), State: a.State}
	})}
}

// ToHello is the inverse of FromHello.
func ToHello(p *pb.Hello) queue.Hello {
	return queue.Hello{Node: ToNode(p.GetNode()), Version: p.GetVersion(), Attempts: each(p.GetAttempts(), func(a *pb.AttemptState) queue.AttemptState {
		return queue.AttemptState{ID: elementID(a.GetJob(), a.GetIndex()), Attempt: int(a.GetAttempt()), State: a.GetState()}
	})}
}

// FromHeartbeat makes the message.
func FromHeartbeat(h queue.Heartbeat) *pb.Heartbeat {
	return &pb.Heartbeat{Load1: h.Load1, MemoryAvailable: h.MemoryAvailable, LostGpus: h.LostGPUs, Usage: each(h.Usage, func(u queue.AttemptUsage) *pb.AttemptUsage {
		return &pb.AttemptUsage{Job: int64(u.ID.Job), Index: int32(u.ID.Index), Attempt: int32(u.Attempt), Usage: FromUsage(u.Usage)}
	}), Fetches: each(h.Fetches, func(f queue.AttemptFetch) *pb.AttemptFetch {
		return &pb.AttemptFetch{Job: int64(f.ID.Job), Index: int32(f.ID.Index), Attempt: int32(f.Attempt), Done: f.Done, Total: f.Total}
	})}
}

// ToHeartbeat is the inverse of FromHeartbeat.
func ToHeartbeat(p *pb.Heartbeat) queue.Heartbeat {
	return queue.Heartbeat{Load1: p.GetLoad1(), MemoryAvailable: p.GetMemoryAvailable(), LostGPUs: p.GetLostGpus(), Usage: each(p.GetUsage(), func(u *pb.AttemptUsage) queue.AttemptUsage {
		return queue.AttemptUsage{ID: elementID(u.GetJob(), u.GetIndex()), Attempt: int(u.GetAttempt()), Usage: ToUsage(u.GetUsage())}
	}), Fetches: each(p.GetFetches(), func(f *pb.AttemptFetch) queue.AttemptFetch {
		return queue.AttemptFetch{ID: elementID(f.GetJob(), f.GetIndex()), Attempt: int(f.GetAttempt()), Done: f.GetDone(), Total: f.GetTotal()}
	})}
}

// FromPipeOrder makes the message.
func FromPipeOrder(o queue.PipeOrder) *pb.OpenPipe {
	return &pb.OpenPipe{Id: o.Pipe, Kind: o.Kind, Job: int64(o.ID.Job), Index: int32(o.ID.Index), Attempt: int32(o.Attempt), Follow: o.Follow, Tail: o.Tail, Replay: o.Replay, Rows: uint32(o.Rows), Cols: uint32(o.Cols),
		Exec: FromExecOrder(o.Exec), Copy: FromCopyOrder(o.Copy), Dial: FromDialOrder(o.Dial), App: fromAppOrder(o.App), Snapshot: fromSnapshotOrder(o.Snapshot)}
}

// ToPipeOrder is the inverse of FromPipeOrder.
func ToPipeOrder(p *pb.OpenPipe) queue.PipeOrder {
	return queue.PipeOrder{Pipe: p.GetId(), Kind: p.GetKind(), ID: elementID(p.GetJob(), p.GetIndex()), Attempt: int(p.GetAttempt()), Follow: p.GetFollow(), Tail: p.GetTail(), Replay: p.GetReplay(), Rows: uint16(p.GetRows()), Cols: uint16(p.GetCols()),
		Exec: ToExecOrder(p.GetExec()), Copy: ToCopyOrder(p.GetCopy()), Dial: ToDialOrder(p.GetDial()), App: toAppOrder(p.GetApp()), Snapshot: toSnapshotOrder(p.GetSnapshot())}
}

// FromPipeFrame makes the message. Rows and Cols of 0 are no size.
func FromPipeFrame(f queue.PipeFrame) *pb.PipeDown {
	switch {
	case f.EOF:
		return &pb.PipeDown{Kind: &pb.PipeDown_Eof{Eof: true}}
	case f.Signal != "":
		return &pb.PipeDown{Kind: &pb.PipeDown_Signal{Signal: f.Signal}}
	case f.Rows != 0 || f.Cols != 0:
		return &pb.PipeDown{Kind: &pb.PipeDown_Size{Size: uint64(f.Rows)<<16 | uint64(f.Cols)}}
	}
	return &pb.PipeDown{Kind: &pb.PipeDown_Data{Data: f.Data}}
}

// ToPipeFrame is the inverse of FromPipeFrame.
func ToPipeFrame(p *pb.PipeDown) queue.PipeFrame {
	switch k := p.GetKind().(type) {
	case *pb.PipeDown_Eof:
		return queue.PipeFrame{EOF: k.Eof}
	case *pb.PipeDown_Signal:
		return queue.PipeFrame{Signal: k.Signal}
	case *pb.PipeDown_Size:
		return queue.PipeFrame{Rows: uint16(k.Size >> 16), Cols: uint16(k.Size)}
	case *pb.PipeDown_Data:
		return queue.PipeFrame{Data: k.Data}
	}
	return queue.PipeFrame{}
}
