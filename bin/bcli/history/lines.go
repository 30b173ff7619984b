package history

import (
	"strconv"
	"strings"
	"time"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/nodes"
	"fairslice/queue"
)

// Line is one thing that happened, as bhist -l words it.
type Line struct {
	At   time.Time
	By   string
	Kind string
	Text string
}

// Lines are the history of a job in words.
func Lines(h *pb.HistoryJob) []Line {
	var out []Line
	state := queue.State("")
	var alloc []nodes.Allocation // of the attempt at that time
	for _, e := range entries(h) {
		texts := words(h.GetJob(), state, e)
		switch b := e.body.(type) {
		case *queue.Started:
			alloc = b.Alloc
		case *queue.Ended:
			texts = append(texts, used(alloc, b.Usage)...)
		case *queue.Requeued:
			texts = append(texts, used(alloc, b.Usage)...)
		}
		for _, text := range texts {
			out = append(out, Line{e.at, e.By, e.Kind, text})
		}
		state = after(state, e.body)
	}
	return out
}

// lastUsage is what the last attempt that has ended held and used.
func lastUsage(h *pb.HistoryJob) (alloc []nodes.Allocation, u queue.Usage) {
	var now []nodes.Allocation
	for _, e := range entries(h) {
		switch b := e.body.(type) {
		case *queue.Started:
			now = b.Alloc
		case *queue.Ended:
			if b.Attempt != 0 {
				alloc, u = now, b.Usage
			}
		case *queue.Requeued:
			alloc, u = now, b.Usage
		}
	}
	return alloc, u
}

// used tells what an attempt used of its slices.
func used(alloc []nodes.Allocation, u queue.Usage) []string {
	if len(u.GPUs) == 0 {
		return nil
	}
	var lines []string
	for _, text := range queue.SliceTexts(alloc, u) {
		lines = append(lines, text+";")
	}
	return lines
}

func words(j *pb.Job, state queue.State, e entry) []string {
	by := ""
	if e.By != "" {
		by = " by user or administrator <" + e.By + ">"
	}
	switch b := e.body.(type) {
	case *queue.Submitted:
		return []string{show.SubmittedTo(j, b.Queue) + ";"}
	case *queue.Started:
		text := dispatched(b.Alloc)
		if j.GetEffectiveResreq() != "" {
			text += ", Effective RES_REQ <" + j.EffectiveResreq + ">"
		}
		return []string{text + ";"}
	case *queue.Began:
		pid := strconv.Itoa(b.Pid)
		lines := []string{
			"Starting (Pid " + pid + ");",
			"Running with execution home <" + b.Home + ">, Execution CWD <" + b.CWD + ">, Execution Pid <" + pid + ">;",
		}
		if b.Note != "" {
			lines = append(lines, "Note: "+b.Note+";")
		}
		return lines
	case *queue.Ended:
		return ended(b)
	case *queue.Requeued:
		return requeued(b, by)
	case *queue.KillRequested:
		return []string{killed(b, by)}
	case *queue.Signalled:
		return []string{"Signal <" + strings.TrimPrefix(b.Signal, "SIG") + "> requested" + by + ";"}
	case *queue.Noted:
		return []string{"Note: " + b.Text + ";"}
	case *queue.Extended:
		return []string{"Run limit is extended" + by + " to " + strconv.FormatFloat(b.RunLimit.Minutes(), 'f', -1, 64) + " min;"}
	case *queue.Suspended:
		if b.System {
			return []string{"Suspended by the system;"}
		}
		return []string{"Suspended" + or(by, " by the user or administrator") + ";"}
	case *queue.Resumed:
		if state.Pending() {
			return []string{"Waiting for scheduling after resumed" + or(by, " by user") + ";"}
		}
		return []string{"Running after continued" + or(by, " by user") + ";"}
	case *queue.Lost:
		return []string{"Unknown; the execution host does not answer;"}
	case *queue.Found:
		return []string{"The execution host answers again; the job is in state " + string(b.State) + ";"}
	case *queue.Modified:
		return []string{"Parameters of Job are changed" + by + ": " + b.Words + ";"}
	case *queue.Switched:
		return []string{"Switch to queue <" + b.Queue + ">" + by + ";"}
	case *queue.Moved:
		end := "top"
		if b.Bottom {
			end = "bottom"
		}
		return []string{"Job moved to position " + strconv.Itoa(max(b.Rank, 1)) + " relative to <" + end + ">" + by + ";"}
	case *queue.ArrayLimited:
		return []string{"Job array slot limit changed to " + strconv.Itoa(b.Limit) + by + ";"}
	case *queue.Forgotten:
		return nil // the removal from the live list is no part of the job's story
	}
	return []string{"Event <" + e.Kind + ">;"}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func dispatched(alloc []nodes.Allocation) string {
	total, hosts := 0, make([]string, 0, len(alloc))
	for _, a := range alloc {
		n := max(a.Slots, 1)
		total += n
		name := string(a.Node)
		if n > 1 {
			name = strconv.Itoa(n) + "*" + name
		}
		hosts = append(hosts, "<"+name+">")
	}
	list, n := strings.Join(hosts, " "), strconv.Itoa(total)
	return "Dispatched " + n + " Task(s) on Host(s) " + list + ", Allocated " + n + " Slot(s) on Host(s) " + list
}

func ended(b *queue.Ended) []string {
	cpu := " The CPU time used is " + strconv.FormatFloat(b.Usage.CPU.Seconds(), 'f', 1, 64) + " seconds;"
	var lines []string
	switch sig := b.Result.Signal(); {
	case b.Done:
		return []string{"Done successfully." + cpu}
	case b.Attempt == 0:
		lines = []string{"Exited; job has been forced to exit with exit code 0."}
	case b.Result.Status == queue.NoStatus:
		lines = []string{"Exited." + cpu}
	case sig != 0 && (b.Result.Verdict == "" || b.Result.Verdict == queue.TermExternalSignal):
		lines = []string{"Exited by signal " + strconv.Itoa(sig) + "." + cpu}
	default:
		lines = []string{"Exited with exit code " + strconv.Itoa(b.Result.ExitCode()) + "." + cpu}
	}
	if v := b.Result.Verdict; v != "" {
		lines = append(lines, "Completed <exit>; "+string(v)+": "+v.Text()+";")
	}
	if b.Result.Detail != "" {
		lines = append(lines, "Note: "+b.Result.Detail+";")
	}
	return lines
}

func requeued(b *queue.Requeued, by string) []string {
	text := "Pending: Job has been requeued" + by
	if b.Failed {
		text = "Pending: the job could not be started"
	}
	if b.Why != "" {
		text += ": " + b.Why
	}
	return []string{text + ";"}
}

func killed(b *queue.KillRequested, by string) string {
	text := "Signal <KILL> requested" + by
	if b.Requeue {
		text = "Signal <REQUEUE_PEND> requested" + by
	}
	switch b.Verdict {
	case queue.TermOwner, queue.TermAdmin, queue.TermForceOwner, queue.TermForceAdmin, queue.TermRequeueOwner, queue.TermRequeueAdmin:
	default: // nobody asked: a limit did
		text += ", " + string(b.Verdict)
	}
	if b.Note != "" {
		text += ", with the comment <" + b.Note + ">"
	}
	return text + ";"
}
