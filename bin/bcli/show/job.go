package show

import (
	"strconv"
	"strings"
	"time"

	"fairslice/api/pb"
)

// noStatus is pb.Job.Status when there is no wait status.
const noStatus = -1

// finished says that a job is in a final state.
func finished(j *pb.Job) bool { return j.State == "DONE" || j.State == "EXIT" }

// pending says that a job waits.
func pending(j *pb.Job) bool { return j.State == "PEND" || j.State == "PSUSP" }

// ID is the name of an element: "12" or "12[3]".
func ID(j *pb.Job) string { return string(appendID(nil, j.Id, j.Index)) }

func appendID(b []byte, id int64, index int32) []byte {
	b = strconv.AppendInt(b, id, 10)
	if index > 0 {
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(index), 10)
		b = append(b, ']')
	}
	return b
}

func (st *Style) id(b []byte, j *pb.Job) []byte {
	if st.BareID {
		return strconv.AppendInt(b, j.Id, 10)
	}
	return appendID(b, j.Id, j.Index)
}

func (st *Style) idWidth() int { return min(max(st.IDWidth, 7), 10) }

// Name is the name that listings show: the command where none was given, with the index of an element.
func Name(j *pb.Job) string {
	name := j.GetSpec().GetName()
	if name == "" {
		name = j.GetSpec().GetCommand()
	}
	if j.Index > 0 {
		var b [16]byte
		name += string(appendID(b[:0], 0, j.Index)[1:])
	}
	return name
}

// ArraySpec is the index list as it was given: "[1-10,20]%3".
func ArraySpec(a *pb.Array) string {
	if a == nil {
		return ""
	}
	b := []byte{'['}
	for i, r := range a.Ranges {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(r.First), 10)
		if r.Last > r.First {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(r.Last), 10)
			if r.Step > 1 {
				b = append(b, ':')
				b = strconv.AppendInt(b, int64(r.Step), 10)
			}
		}
	}
	b = append(b, ']')
	if a.Limit > 0 {
		b = append(b, '%')
		b = strconv.AppendInt(b, int64(a.Limit), 10)
	}
	return string(b)
}

// Hosts appends the execution hosts, one name for each slot or "2*host", joined by sep.
func (st *Style) Hosts(b []byte, alloc []*pb.Allocation, sep byte) []byte {
	return hostList(b, alloc, sep, st.ShortHosts)
}

func hostList(b []byte, alloc []*pb.Allocation, sep byte, short bool) []byte {
	first := true
	for _, a := range alloc {
		n := max(int(a.Slots), 1)
		repeat := n
		if short {
			repeat = 1
		}
		for range repeat {
			if !first {
				b = append(b, sep)
			}
			first = false
			if short && n > 1 {
				b = strconv.AppendInt(b, int64(n), 10)
				b = append(b, '*')
			}
			b = append(b, a.Node...)
		}
	}
	return b
}

// angled is the host list of long listings: "<2*gpu01> <gpu02>".
func angled(alloc []*pb.Allocation) string {
	var b []byte
	for i := range alloc {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, '<')
		b = hostList(b, alloc[i:i+1], ' ', true)
		b = append(b, '>')
	}
	return string(b)
}

func allocSlots(j *pb.Job) int32 {
	n := int32(0)
	for _, a := range j.Alloc {
		n += max(a.Slots, 1)
	}
	return n
}

// wantSlots is the least number of slots that the job asked for.
func wantSlots(j *pb.Job) int32 {
	if n := j.GetSpec().GetMinSlots(); n > 0 {
		return n
	}
	return max(j.Slots, 1)
}

// began is when the attempt's time starts: when the command began, or before that its dispatch.
func began(j *pb.Job) int64 {
	if j.Began != 0 {
		return j.Began
	}
	return j.Dispatched
}

// ran is how long a job has run, without the time it was stopped.
func ran(j *pb.Job, now time.Time) time.Duration {
	from := began(j)
	if from == 0 || pending(j) {
		return 0
	}
	to := now.UnixNano()
	if j.Ended != 0 {
		to = j.Ended
	}
	return max(time.Duration(to-from-j.Stopped), 0)
}

// deadline is when the run limit ends a job, 0 when nothing does.
func deadline(j *pb.Job) int64 {
	if from := began(j); from != 0 && j.RunLimit > 0 {
		return from + j.RunLimit + j.Stopped
	}
	return 0
}

// exitCode is LSF's, with ok false for a job that has none.
func exitCode(j *pb.Job) (code int32, ok bool) {
	if !finished(j) || !j.HasResult || j.Status == noStatus {
		return 0, false
	}
	return j.ExitCode, true
}

// signal is what ended the program, 0 when it ended by itself.
func signal(j *pb.Job) int32 {
	if !j.HasResult || j.Status == noStatus {
		return 0
	}
	return j.Status & 0x7f
}

// exitReason is LSF's word and text: "TERM_OWNER: job killed by owner"; "" for a plain exit code.
func exitReason(j *pb.Job) string {
	if j.Verdict == "" {
		return ""
	}
	if j.VerdictText == "" {
		return j.Verdict
	}
	return j.Verdict + ": " + j.VerdictText
}

// ReasonText is the line of a pending reason, with the number of hosts and a semicolon at its end.
func ReasonText(r *pb.Reason) string {
	s := strings.TrimRight(r.Text, ";")
	if r.Hosts > 0 && !strings.Contains(s, " host") {
		s += ": " + strconv.Itoa(int(r.Hosts)) + " host"
		if r.Hosts > 1 {
			s += "s"
		}
	}
	return s + ";"
}

// NewReason is what a job waits for before any plan has looked at it.
const NewReason = "New job is waiting for scheduling;"

// Reasons are the lines of a job that waits, never none.
func Reasons(j *pb.Job) []string {
	if len(j.Reasons) == 0 {
		return []string{NewReason}
	}
	lines := make([]string, len(j.Reasons))
	for i, r := range j.Reasons {
		lines[i] = ReasonText(r)
	}
	return lines
}

// FGPU appends an amount of GPU, given in 1/100, without trailing zeros: "0.5".
func FGPU(b []byte, v int64) []byte {
	b = strconv.AppendInt(b, v/100, 10)
	if f := v % 100; f != 0 {
		b = append(b, '.', byte('0'+f/10))
		if f%10 != 0 {
			b = append(b, byte('0'+f%10))
		}
	}
	return b
}

// percent appends 1/100 percents: "25", "12.5".
func percent(b []byte, v int64) []byte { return FGPU(b, v) }
