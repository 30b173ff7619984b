package history

import (
	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/reports"
)

// Account is a job that is over, as bacct -l tells it: h is what History says of the job, over what the ledger says of the
// element. h's job is changed to be the element.
func Account(h *pb.HistoryJob, over reports.Finished) *show.Account {
	j := h.GetJob()
	if j == nil { // the history was not found
		j = &pb.Job{Id: over.Job, Owner: &pb.Identity{User: over.User}, Spec: &pb.Spec{Name: over.Name, Project: over.Project}}
		h = &pb.HistoryJob{Job: j}
	}
	j.Index, j.Queue, j.State, j.Verdict, j.VerdictText = int32(over.Index), over.Queue, string(queue.Exit), "", ""
	if over.Done {
		j.State = string(queue.Done)
	}
	for _, e := range entries(h) {
		if end, ok := e.body.(*queue.Ended); ok && end.Result.Verdict != "" {
			j.Verdict, j.VerdictText = string(end.Result.Verdict), end.Result.Verdict.Text()
		}
	}
	a := &show.Account{Job: j, Over: over}
	if !over.Dispatched.IsZero() {
		a.Alloc, a.Usage = lastUsage(h)
	}
	return a
}
