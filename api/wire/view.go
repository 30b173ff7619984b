package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"fairslice/api/pb"
	"fairslice/queue"
)

// FromElement makes the row of one element as listings show it. spec is FromSpec(j.Spec), made once
// for all rows of a job that travel in one message. Reasons and ExpectedStart are left to the caller.
func FromElement(j *queue.Job, e *queue.Element, spec *pb.Spec, queuePriority int) *pb.Job {
	p := FromJob(j, spec, queuePriority)
	p.Index, p.State, p.Since, p.Attempts = int32(e.Index), string(e.State), Nanos(e.Since), int32(e.Attempts)
	p.Note, p.KillAs = e.Note, string(e.KillAs)
	if a := e.Attempt; a != nil {
		p.Alloc, p.Dispatched, p.Began = each(a.Alloc, FromAllocation), Nanos(a.Dispatched), Nanos(a.Began)
		p.Pid, p.Stopped, p.Usage = int32(a.Pid), int64(a.Stopped), FromUsage(a.Usage)
		p.Stdout, p.Stderr, p.Cwd, p.Home, p.Image = a.Stdout, a.Stderr, a.CWD, a.Home, a.Image
		if a.RunLimit > 0 {
			p.RunLimit = int64(a.RunLimit)
		}
		slots := 0
		for _, alloc := range a.Alloc {
			slots += alloc.Slots
		}
		if slots > 0 {
			p.Slots = int32(slots)
		}
	}
	p.Status = queue.NoStatus
	if r := e.Result; r != nil {
		p.HasResult, p.Status, p.Ended = true, int32(r.Status), Nanos(r.At)
		if e.State != queue.Done { // bkill -d: it is DONE however it ended
			p.ExitCode = int32(r.ExitCode())
		}
		p.Verdict, p.VerdictText, p.Detail = string(r.Verdict), r.Verdict.Text(), r.Detail
	}
	return p
}

// FromJob makes what all rows of a job have in common.
func FromJob(j *queue.Job, spec *pb.Spec, queuePriority int) *pb.Job {
	return &pb.Job{
		Id: int64(j.ID), Owner: FromIdentity(j.Owner), Queue: j.Queue, Spec: spec, Submitted: Nanos(j.Submitted),
		RunLimit: int64(j.Plan.RunLimit), Priority: int32(queuePriority), EffectiveResreq: effective(j), MemoryLimit: j.Plan.MemoryMax,
		Slots: int32(j.Plan.Slots), MaxSlots: int32(j.Plan.MaxSlots), Fgpu: int64(j.Plan.Host.GPU.Amount), Gpus: int32(j.Plan.Host.GPU.Whole), Status: queue.NoStatus,
	}
}

// FromArray makes the one row of a whole job, with counts.
func FromArray(j *queue.Job, spec *pb.Spec, queuePriority int) *pb.Job {
	p := FromJob(j, spec, queuePriority)
	c := &pb.Counts{Total: int32(len(j.Elements))}
	for i := range j.Elements {
		switch j.Elements[i].State {
		case queue.Pend:
			c.Pend++
		case queue.Done:
			c.Done++
		case queue.Run:
			c.Run++
		case queue.Exit:
			c.Exit++
		case queue.SSusp:
			c.Ssusp++
		case queue.USusp:
			c.Ususp++
		case queue.PSusp:
			c.Psusp++
		case queue.Unkwn, queue.Zombi:
			c.Unkwn++
		}
	}
	p.Counts = c
	return p
}

// effective is LSF's "Effective" resource requirement: what the planner asks of each host, in -R's words.
func effective(j *queue.Job) string {
	sel := j.Plan.Select
	if sel == "" {
		sel = "type == local"
	}
	var usage []string
	h := j.Plan.Host
	if h.Memory > 0 {
		usage = append(usage, fmt.Sprintf("mem=%.2f", float64(h.Memory)/(1<<20)))
	}
	switch {
	case h.GPU.Amount > 0:
		usage = append(usage, "fgpu="+h.GPU.Amount.String())
	case h.GPU.Whole > 0:
		usage = append(usage, fmt.Sprintf("ngpus_physical=%d.00", h.GPU.Whole))
	case h.GPU.Memory > 0:
		usage = append(usage, fmt.Sprintf("ngpus_physical=%d.00:gmem=%d", max(h.GPU.Count, 1), h.GPU.Memory>>20))
	}
	held := h.Consumables.Map()
	names := make([]string, 0, len(held))
	for name := range held {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		usage = append(usage, fmt.Sprintf("%s=%d.00", name, held[name]))
	}
	s := "select[" + sel + "] order[r15s:pg]"
	if len(usage) > 0 {
		s += " rusage[" + strings.Join(usage, ",") + "]"
	}
	switch {
	case j.Plan.OneHost:
		s += " span[hosts=1]"
	case j.Plan.PerHost > 0:
		s += fmt.Sprintf(" span[ptile=%d]", j.Plan.PerHost)
	}
	return s
}

// FromEvent makes the message of one line of history.
func FromEvent(ev queue.Event) (*pb.Event, error) {
	body, err := json.Marshal(ev.Body)
	if err != nil {
		return nil, fmt.Errorf("event %d of job %d: %w", ev.Seq, ev.Job, err)
	}
	return &pb.Event{Seq: ev.Seq, At: Nanos(ev.At), Job: int64(ev.Job), Index: int32(ev.Index), By: ev.By, Kind: string(ev.Body.Kind()), Body: body}, nil
}

// ToEvent is the inverse of FromEvent. An event kind of a newer version is an error.
func ToEvent(p *pb.Event) (queue.Event, error) {
	body, err := queue.DecodeBody(queue.Kind(p.GetKind()), p.GetBody())
	return queue.Event{Seq: p.GetSeq(), At: Time(p.GetAt()), Job: queue.JobID(p.GetJob()), Index: int(p.GetIndex()), By: p.GetBy(), Body: body}, err
}
