package show

import (
	"strconv"
	"time"

	"fairslice/api/pb"
)

// The values of bjobs -o that are more than a field of the job.

func memoryLimit(j *pb.Job) int64 {
	if j.MemoryLimit > 0 {
		return j.MemoryLimit
	}
	return j.GetSpec().GetMemory()
}

func runLimit(b []byte, j *pb.Job, st *Style, _ byte) []byte {
	switch {
	case j.RunLimit <= 0:
		return b
	case st.HMS:
		return hms(b, time.Duration(j.RunLimit))
	}
	return one(b, time.Duration(j.RunLimit).Minutes())
}

// timeLeft is what the run limit leaves a running job: "0:12 L", hours and minutes.
func timeLeft(b []byte, j *pb.Job, st *Style, _ byte) []byte {
	end := deadline(j)
	if end == 0 || finished(j) || pending(j) {
		return b
	}
	left := max(time.Duration(end-st.Now.UnixNano()), 0)
	if st.HMS {
		b = hms(b, left)
	} else {
		b = strconv.AppendInt(b, int64(left/time.Hour), 10)
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(left/time.Minute)%60, 10)
	}
	return append(b, " L"...)
}

// finishTime is when a job ended, or with " L" when its run limit will end it.
func finishTime(b []byte, j *pb.Job, st *Style, _ byte) []byte {
	if finished(j) {
		if j.Ended == 0 {
			return b
		}
		return st.time(b, j.Ended)
	}
	if end := deadline(j); end != 0 && !pending(j) {
		return append(st.time(b, end), " L"...)
	}
	return b
}

// complete is the part of the run limit that is used: " 15.00% L".
func complete(b []byte, j *pb.Job, st *Style, _ byte) []byte {
	if j.RunLimit <= 0 || began(j) == 0 || pending(j) {
		return b
	}
	share := 100 * float64(ran(j, st.Now)) / float64(j.RunLimit)
	at := len(b)
	b = strconv.AppendFloat(b, share, 'f', 2, 64)
	if n := 6 - (len(b) - at); n > 0 {
		digits := string(b[at:])
		b = append(Spaces(b[:at], n), digits...)
	}
	return append(b, "% L"...)
}

// pendTime is the number of seconds that a job has waited or did wait.
func pendTime(b []byte, j *pb.Job, st *Style, _ byte) []byte {
	until := j.Dispatched
	if until == 0 {
		until = j.Ended
	}
	if until == 0 {
		until = st.Now.UnixNano()
	}
	return strconv.AppendInt(b, max(until-j.Submitted, 0)/int64(time.Second), 10)
}

func idleFactor(b []byte, j *pb.Job, st *Style, _ byte) []byte {
	run := ran(j, st.Now)
	if run <= 0 {
		return b
	}
	return strconv.AppendFloat(b, float64(j.GetUsage().GetCpu())/float64(run), 'f', 2, 64)
}

func memEfficiency(b []byte, j *pb.Job, _ *Style, _ byte) []byte {
	asked := j.GetSpec().GetResources().GetMemory()
	if asked == 0 {
		asked = memoryLimit(j)
	}
	if asked <= 0 {
		return append(b, "0.00%"...)
	}
	b = strconv.AppendFloat(b, 100*float64(j.GetUsage().GetMaxMemory())/float64(asked), 'f', 2, 64)
	return append(b, '%')
}

func cpuEfficiency(b []byte, j *pb.Job, st *Style, _ byte) []byte {
	run, n := ran(j, st.Now), allocSlots(j)
	if run <= 0 || n == 0 {
		return b
	}
	b = strconv.AppendFloat(b, 100*float64(j.GetUsage().GetCpu())/float64(run)/float64(n), 'f', 2, 64)
	return append(b, '%')
}

// gpuNum is how many GPUs a job has, or asks for on each host: a slice counts as one.
func gpuNum(j *pb.Job) int64 {
	n := 0
	for _, a := range j.Alloc {
		n += len(a.Slices)
	}
	switch {
	case n > 0:
		return int64(n)
	case j.Gpus > 0:
		return int64(j.Gpus)
	case j.Fgpu > 0:
		return 1
	}
	return int64(j.GetSpec().GetGpuRequest().GetNum())
}

func gpuMode(j *pb.Job) string {
	switch {
	case gpuNum(j) == 0:
		return ""
	case j.GetSpec().GetGpuRequest().GetExclusive():
		return "exclusive_process"
	}
	return "shared"
}

// gpuAlloc is "gpu01{0,1};gpu02{0}".
func gpuAlloc(b []byte, j *pb.Job, _ *Style, _ byte) []byte {
	first := true
	for _, a := range j.Alloc {
		if len(a.Slices) == 0 {
			continue
		}
		if !first {
			b = append(b, ';')
		}
		first = false
		b = append(append(b, a.Node...), '{')
		for i, s := range a.Slices {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(s.Index), 10)
		}
		b = append(b, '}')
	}
	return b
}
