package show

import (
	"strconv"
	"time"

	"fairslice/api/pb"
)

// JobTable is one of bjobs' tables: a header, and the lines of each job.
type JobTable struct {
	Header func(b []byte, st *Style) []byte
	Row    func(b []byte, j *pb.Job, st *Style) []byte
}

// The tables of bjobs without -o.
var (
	Jobs        = JobTable{jobsHeader, jobsRow}
	JobsWide    = JobTable{jobsHeader, jobsWideRow}
	JobsFull    = JobTable{jobsFullHeader, jobsFullRow}
	JobsPending = JobTable{jobsPendingHeader, jobsPendingRow}
	JobArrays   = JobTable{arraysHeader, arraysRow}
	ArraysWide  = JobTable{arraysHeader, arraysWideRow}
)

func jobsHeader(b []byte, st *Style) []byte {
	b = Left(b, "JOBID", st.idWidth())
	return append(b, " USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME\n"...)
}

func (st *Style) idColumn(b []byte, j *pb.Job, width int) []byte {
	at := len(b)
	b = st.id(b, j)
	b = Spaces(b, width-(len(b)-at))
	return append(b, ' ')
}

func jobsRow(b []byte, j *pb.Job, st *Style) []byte {
	b = st.idColumn(b, j, st.idWidth())
	b = append(Left(b, j.GetOwner().GetUser(), 7), ' ')
	b = append(Left(b, j.State, 5), ' ')
	b = append(Left(b, j.Queue, 10), ' ')
	b = append(Left(b, j.GetSpec().GetSubHost(), 11), ' ')
	more := hosts{alloc: j.Alloc, short: st.ShortHosts}
	b = append(Left(b, more.next(), 11), ' ')
	b = append(LeftTail(b, Name(j), 10), ' ')
	b = append(st.time(b, j.Submitted), '\n')
	for host := more.next(); host != ""; host = more.next() {
		b = Spaces(b, 38+st.idWidth())
		b = append(b, head(Clean(host), 11)...)
		b = append(b, '\n')
	}
	return b
}

// hosts walks over the names of a host list.
type hosts struct {
	alloc []*pb.Allocation
	slot  int
	short bool
}

func (h *hosts) next() string {
	if len(h.alloc) == 0 {
		return ""
	}
	a := h.alloc[0]
	n := max(int(a.Slots), 1)
	if h.short {
		h.alloc = h.alloc[1:]
		if n > 1 {
			return strconv.Itoa(n) + "*" + a.Node
		}
		return a.Node
	}
	if h.slot++; h.slot >= n {
		h.alloc, h.slot = h.alloc[1:], 0
	}
	return a.Node
}

// wide appends the columns up to the name, uncut.
func wide(b []byte, j *pb.Job, st *Style) []byte {
	b = st.idColumn(b, j, st.idWidth())
	b = append(LeftLong(b, j.GetOwner().GetUser(), 7), ' ')
	b = append(LeftLong(b, j.State, 5), ' ')
	b = append(LeftLong(b, j.Queue, 10), ' ')
	b = append(LeftLong(b, j.GetSpec().GetSubHost(), 11), ' ')
	if len(j.Alloc) == 0 {
		// A word stands here too, so that a split at blanks finds the name in its place.
		b = append(b, "   -        "...)
	} else {
		at := len(b)
		b = st.Hosts(b, j.Alloc, ':')
		b = fit(b, at, 0, false, false)
		b = append(Spaces(b, 11-(len(b)-at)), ' ')
	}
	return append(LeftLong(b, Name(j), 10), ' ')
}

func jobsWideRow(b []byte, j *pb.Job, st *Style) []byte {
	return append(st.time(wide(b, j, st), j.Submitted), '\n')
}

func jobsFullHeader(b []byte, st *Style) []byte {
	b = jobsHeader(b, st)
	return append(b[:len(b)-1], "  PROJ_NAME CPU_USED MEM SWAP PIDS START_TIME FINISH_TIME\n"...)
}

func jobsFullRow(b []byte, j *pb.Job, st *Style) []byte {
	moment := func(ns int64) {
		b = append(b, ' ')
		if ns == 0 {
			b = append(b, '-')
			return
		}
		b = st.at(ns).AppendFormat(b, wideTime)
	}
	b = wide(b, j, st)
	b = b[:len(b)-1]
	moment(j.Submitted)
	b = append(b, ' ', ' ')
	b = append(LeftLong(b, dash(j.GetSpec().GetProject()), 9), ' ')
	b = cpuClock(b, time.Duration(j.GetUsage().GetCpu()))
	b = append(b, ' ')
	b = LeftInt(b, j.GetUsage().GetMemory()>>10, 6)
	b = append(b, " 0      "...) // swap is not counted apart
	at := len(b)
	b = pids(b, j.GetUsage().GetPids())
	if len(b) == at {
		b = append(b, '-')
	}
	moment(began(j))
	moment(j.Ended)
	return append(b, '\n')
}

// cpuClock is CPU time in bjobs -W: "000:00:00.12".
func cpuClock(b []byte, d time.Duration) []byte {
	h := int64(d / time.Hour)
	if h < 100 {
		b = append(b, '0')
	}
	b = append(two(b, h), ':')
	b = append(two(b, int64(d/time.Minute)%60), ':')
	b = append(two(b, int64(d/time.Second)%60), '.')
	return two(b, int64(d/(10*time.Millisecond))%100)
}

func pids(b []byte, list []int32) []byte {
	for i, p := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(p), 10)
	}
	return b
}

func jobsPendingHeader(b []byte, st *Style) []byte {
	b = Left(b, "JOBID", st.idWidth())
	return append(b, " USER    STAT  QUEUE       FROM_HOST      JOB_NAME           SUBMIT_TIME\n"...)
}

func jobsPendingRow(b []byte, j *pb.Job, st *Style) []byte {
	b = st.idColumn(b, j, st.idWidth())
	b = append(Left(b, j.GetOwner().GetUser(), 7), ' ')
	b = append(Left(b, j.State, 5), ' ')
	b = append(Left(b, j.Queue, 11), ' ')
	b = append(Left(b, j.GetSpec().GetSubHost(), 14), ' ')
	b = append(LeftTail(b, Name(j), 18), ' ')
	b = append(st.time(b, j.Submitted), '\n')
	for _, r := range Reasons(j) {
		b = append(b, ' ')
		b = append(b, Clean(r)...)
		b = append(b, '\n')
	}
	return b
}

func arraysHeader(b []byte, _ *Style) []byte {
	return append(b, "JOBID    ARRAY_SPEC  OWNER   NJOBS PEND DONE  RUN EXIT SSUSP USUSP PSUSP\n"...)
}

func arraysRow(b []byte, j *pb.Job, _ *Style) []byte {
	b = append(LeftInt(b, j.Id, 8), ' ')
	b = append(Left(b, Name(j)+ArraySpec(j.GetSpec().GetArray()), 8), "   "...)
	return arrayCounts(Left(b, j.GetOwner().GetUser(), 8), j)
}

func arraysWideRow(b []byte, j *pb.Job, _ *Style) []byte {
	b = append(LeftInt(b, j.Id, 8), ' ')
	b = append(LeftLong(b, Name(j)+ArraySpec(j.GetSpec().GetArray()), 8), "   "...)
	return arrayCounts(LeftLong(b, j.GetOwner().GetUser(), 8), j)
}

func arrayCounts(b []byte, j *pb.Job) []byte {
	c := j.GetCounts()
	for i, n := range [...]int32{c.GetTotal(), c.GetPend(), c.GetDone(), c.GetRun(), c.GetExit(), c.GetSsusp(), c.GetUsusp(), c.GetPsusp()} {
		w := 4
		if i == 0 || i > 4 {
			w = 5
		}
		b = RightInt(append(b, ' '), int64(n), w)
	}
	return append(b, '\n')
}

// Sum counts jobs for bjobs -sum.
type Sum struct{ Run, SSusp, USusp, Unknown, Pend, PSusp int64 }

// Add counts one job, in slots as LSF does.
func (s *Sum) Add(j *pb.Job) {
	n := int64(max(allocSlots(j), 1))
	if pending(j) {
		n = int64(wantSlots(j))
	}
	switch j.State {
	case "RUN":
		s.Run += n
	case "SSUSP":
		s.SSusp += n
	case "USUSP":
		s.USusp += n
	case "UNKWN", "ZOMBI":
		s.Unknown += n
	case "PEND":
		s.Pend += n
	case "PSUSP":
		s.PSusp += n
	}
}

// SumHeader is the title line of bjobs -sum.
const SumHeader = "RUN        SSUSP       USUSP      UNKNOWN    PEND       FWD_PEND  PSUSP\n"

// Row appends the line of numbers.
func (s *Sum) Row(b []byte) []byte {
	b = LeftInt(b, s.Run, 11)
	b = LeftInt(b, s.SSusp, 12)
	b = LeftInt(b, s.USusp, 11)
	b = LeftInt(b, s.Unknown, 11)
	b = LeftInt(b, s.Pend, 11)
	b = LeftInt(b, 0, 10) // nothing is forwarded to other clusters
	b = strconv.AppendInt(b, s.PSusp, 10)
	return append(b, '\n')
}

// Record adds the numbers to a document.
func (s *Sum) Record(d *JSON) {
	d.Open()
	for _, f := range []struct {
		name string
		n    int64
	}{{"RUN", s.Run}, {"SSUSP", s.SSusp}, {"USUSP", s.USusp}, {"UNKNOWN", s.Unknown}, {"PEND", s.Pend}, {"FWD_PEND", 0}, {"PSUSP", s.PSusp}} {
		d.String(f.name, strconv.FormatInt(f.n, 10))
	}
	d.Close()
}

// ArrayRecord adds an array with its counts to a document.
func ArrayRecord(d *JSON, j *pb.Job, _ *Style) {
	d.Open()
	d.String("JOBID", strconv.FormatInt(j.Id, 10))
	d.String("ARRAY_SPEC", Name(j)+ArraySpec(j.GetSpec().GetArray()))
	d.String("OWNER", j.GetOwner().GetUser())
	c := j.GetCounts()
	for _, f := range []struct {
		name string
		n    int32
	}{{"NJOBS", c.GetTotal()}, {"PEND", c.GetPend()}, {"DONE", c.GetDone()}, {"RUN", c.GetRun()}, {"EXIT", c.GetExit()},
		{"SSUSP", c.GetSsusp()}, {"USUSP", c.GetUsusp()}, {"PSUSP", c.GetPsusp()}} {
		d.String(f.name, strconv.Itoa(int(f.n)))
	}
	d.Close()
}
