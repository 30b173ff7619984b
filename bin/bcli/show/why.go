package show

import (
	"strconv"
	"strings"
	"time"

	"fairslice/api/pb"
)

// Why appends what bwhy tells of one job: what blocks it, first blocker first, what is before it, and
// when it is expected to start.
func Why(b []byte, w *pb.WhyJob, st *Style) []byte {
	j := w.GetJob()
	line := func(s string) { b = append(append(b, s...), '\n') }
	line("Job <" + ID(j) + ">, " + Clean(or(Name(j), "no name")) + ", " + request(j) + ", queue " + Clean(j.Queue))
	if !pending(j) {
		line("  " + notWaiting(j, st))
		return b
	}
	line("  Waits since " + string(st.time(nil, j.Submitted)) + " (" + Span(st.Now.Sub(st.at(j.Submitted))) + ").")
	if len(j.Reasons) == 0 {
		line("  No plan has looked at it yet.")
	} else {
		line("  Why it does not start:")
	}
	for i, r := range j.Reasons {
		text := "   " + strconv.Itoa(i+1) + ". " + Clean(strings.TrimSuffix(ReasonText(r), ";"))
		if len(r.Nodes) > 0 {
			names := make([]string, len(r.Nodes))
			for k, n := range r.Nodes {
				names[k] = Clean(n)
			}
			text += " (" + strings.Join(names, ", ")
			if more := int(r.Hosts) - len(r.Nodes); more > 0 {
				text += ", and " + strconv.Itoa(more) + " more"
			}
			text += ")"
		}
		line(text)
	}
	switch w.Ahead {
	case 0:
		line("  Nothing that waits is before it.")
	case 1:
		line("  1 waiting job is before it.")
	default:
		line("  " + strconv.Itoa(int(w.Ahead)) + " waiting jobs are before it.")
	}
	if turn := PriorityText(j.Turn); turn != "" {
		line("  Priority: " + turn + ".")
	}
	switch {
	case j.ExpectedStart != 0 && j.ExpectedStart > st.Now.UnixNano():
		line("  Expected start: " + st.CTime(j.ExpectedStart) + ", in " + Span(time.Duration(j.ExpectedStart-st.Now.UnixNano())) + ".")
	case j.ExpectedStart != 0:
		line("  Expected start: now.")
	default:
		line("  When it will start cannot be told yet.")
	}
	if w.PlannedAt != 0 {
		line("  (as of the plan made " + Span(st.Now.Sub(st.at(w.PlannedAt))) + " ago)")
	}
	return b
}

// request is what a job asks for: "2 slots, 0.5 fGPU, 4 Gbytes".
func request(j *pb.Job) string {
	n := wantSlots(j)
	s := strconv.Itoa(int(n)) + " slot"
	if n != 1 {
		s += "s"
	}
	if j.Fgpu > 0 {
		s += ", " + string(FGPU(nil, j.Fgpu)) + " fGPU"
	}
	if j.Gpus > 0 {
		s += ", " + strconv.Itoa(int(j.Gpus)) + " whole GPU"
		if j.Gpus != 1 {
			s += "s"
		}
	}
	if m := j.GetSpec().GetResources().GetMemory(); m > 0 {
		s += ", " + string(Bytes(nil, m, 0))
	}
	return s
}

func notWaiting(j *pb.Job, st *Style) string {
	switch {
	case len(j.Reasons) > 0:
		return "Is started on " + Clean(string(hostList(nil, j.Alloc, ' ', true))) + ", and waits there: " + Clean(strings.TrimSuffix(ReasonText(j.Reasons[0]), ";")) + "."
	case j.State == "RUN":
		return "Does not wait: it runs since " + string(st.time(nil, began(j))) + " on " + Clean(string(hostList(nil, j.Alloc, ' ', true))) + "."
	case finished(j):
		return "Does not wait: it has ended (" + j.State + ")."
	}
	return "Does not wait: it is in state " + j.State + "."
}

// WhyRecord adds a job to bwhy's document.
func WhyRecord(d *JSON, w *pb.WhyJob, st *Style) {
	j := w.GetJob()
	d.Open()
	d.String("JOBID", ID(j))
	d.String("JOB_NAME", Name(j))
	d.String("STAT", j.State)
	d.String("QUEUE", j.Queue)
	d.String("SUBMIT_TIME", st.RFC3339(j.Submitted))
	d.Each("REASONS", len(j.Reasons), func(i int) {
		r := j.Reasons[i]
		d.String("KIND", r.Kind)
		d.String("TEXT", r.Text)
		d.Int("HOSTS", int64(r.Hosts))
		d.List("SOME_HOSTS", r.Nodes)
	})
	d.Int("AHEAD", int64(w.Ahead))
	priorityRecord(d, j.Turn)
	d.String("EXPECTED_START", st.RFC3339(j.ExpectedStart))
	d.String("PLANNED_AT", st.RFC3339(w.PlannedAt))
	d.Close()
}
