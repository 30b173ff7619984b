package wire

import (
	"time"

	"fairslice/api/pb"
	"fairslice/reports"
)

// FromSummary carries what bacct says of many jobs.
func FromSummary(m *reports.Summary) *pb.FinishedSummary {
	return &pb.FinishedSummary{
		Done: m.Done, Failed: m.Failed, Started: m.Started,
		CpuTotal: m.CPU.Sum, CpuMax: m.CPU.Max, CpuMin: m.CPU.Min,
		WaitTotal: m.Wait.Sum, WaitMax: m.Wait.Max, WaitMin: m.Wait.Min,
		TurnaroundTotal: m.Turnaround.Sum, TurnaroundMax: m.Turnaround.Max, TurnaroundMin: m.Turnaround.Min,
		HogTotal: m.Hog.Sum, HogMax: m.Hog.Max, HogMin: m.Hog.Min,
		ExpansionTotal: m.Expansion, RunTotal: m.Run, FirstEnd: Nanos(m.First), LastEnd: Nanos(m.Last),
	}
}

// ToSummary is the inverse of FromSummary.
func ToSummary(p *pb.FinishedSummary) reports.Summary {
	return reports.Summary{
		Done: p.GetDone(), Failed: p.GetFailed(), Started: p.GetStarted(),
		CPU:        reports.Spread{Sum: p.GetCpuTotal(), Max: p.GetCpuMax(), Min: p.GetCpuMin()},
		Wait:       reports.Spread{Sum: p.GetWaitTotal(), Max: p.GetWaitMax(), Min: p.GetWaitMin()},
		Turnaround: reports.Spread{Sum: p.GetTurnaroundTotal(), Max: p.GetTurnaroundMax(), Min: p.GetTurnaroundMin()},
		Hog:        reports.Spread{Sum: p.GetHogTotal(), Max: p.GetHogMax(), Min: p.GetHogMin()},
		Expansion:  p.GetExpansionTotal(), Run: p.GetRunTotal(), First: Time(p.GetFirstEnd()), Last: Time(p.GetLastEnd()),
	}
}

// FromFinished carries a job that is over.
func FromFinished(f *reports.Finished) *pb.FinishedJob {
	return &pb.FinishedJob{
		Job: f.Job, Index: int32(f.Index), User: f.User, Account: f.Account, Queue: f.Queue, Project: f.Project, Name: f.Name,
		Submitted: Nanos(f.Submitted), Dispatched: Nanos(f.Dispatched), Ended: Nanos(f.Ended), Cpu: int64(f.CPU), MaxMemory: f.MaxMemory,
		Done: f.Done, Hosts: f.Hosts,
	}
}

// ToFinished is the inverse of FromFinished.
func ToFinished(p *pb.FinishedJob) reports.Finished {
	return reports.Finished{
		Job: p.GetJob(), Index: int(p.GetIndex()), User: p.GetUser(), Account: p.GetAccount(), Queue: p.GetQueue(), Project: p.GetProject(), Name: p.GetName(),
		Submitted: Time(p.GetSubmitted()), Dispatched: Time(p.GetDispatched()), Ended: Time(p.GetEnded()), CPU: time.Duration(p.GetCpu()), MaxMemory: p.GetMaxMemory(),
		Done: p.GetDone(), Hosts: p.GetHosts(),
	}
}
