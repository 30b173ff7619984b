package show

import (
	"strconv"
	"strings"
	"time"

	"fairslice/api/pb"
)

// QueueFields are the columns of bqueues -o.
var QueueFields = []Field[*pb.Queue]{
	{Name: "queue_name", Width: 15, Aliases: []string{"qname"}, Value: qstr(func(q *pb.Queue) string { return q.Name })},
	{Name: "description", Width: 50, Aliases: []string{"desc"}, Value: qstr(func(q *pb.Queue) string { return q.Description })},
	{Name: "priority", Width: 10, Aliases: []string{"prio"}, Value: qnum(func(q *pb.Queue) int32 { return q.Priority })},
	{Name: "status", Width: 12, Aliases: []string{"stat"}, Value: qstr(queueStatus)},
	{Name: "max", Width: 10, Value: qlimit(func(q *pb.Queue) int32 { return q.MaxSlots })},
	{Name: "jl_u", Width: 10, Aliases: []string{"jlu"}, Value: qlimit(func(q *pb.Queue) int32 { return q.UserSlots })},
	{Name: "jl_p", Width: 10, Aliases: []string{"jlp"}, Value: qlimit(func(*pb.Queue) int32 { return 0 })},
	{Name: "jl_h", Width: 10, Aliases: []string{"jlh"}, Value: qlimit(func(*pb.Queue) int32 { return 0 })},
	{Name: "njobs", Width: 10, Value: qnum(func(q *pb.Queue) int32 { return q.Njobs })},
	{Name: "pend", Width: 10, Value: qnum(func(q *pb.Queue) int32 { return q.Pend })},
	{Name: "run", Width: 10, Value: qnum(func(q *pb.Queue) int32 { return q.Run })},
	{Name: "susp", Width: 10, Value: qnum(func(q *pb.Queue) int32 { return q.Ssusp + q.Ususp })},
	{Name: "ssusp", Width: 10, Value: qnum(func(q *pb.Queue) int32 { return q.Ssusp })},
	{Name: "ususp", Width: 10, Value: qnum(func(q *pb.Queue) int32 { return q.Ususp })},
	{Name: "rsv", Width: 10, Value: qnum(func(*pb.Queue) int32 { return 0 })},
	{Name: "hosts", Width: 50, Value: qstr(func(q *pb.Queue) string { return everyone(q.Hosts) })},
	{Name: "users", Width: 50, Value: qstr(func(q *pb.Queue) string { return everyone(q.Users) })},
	{Name: "image", Width: 20, Value: qstr(func(q *pb.Queue) string { return q.Image })},
	{Name: "container", Width: 10, Value: qstr(func(q *pb.Queue) string { return q.Container })},
	{Name: "overlay_size", Width: 12, Size: true, Value: func(b []byte, q *pb.Queue, _ *Style, unit byte) []byte {
		if q.OverlaySize <= 0 {
			return b
		}
		return Bytes(b, q.OverlaySize, unit)
	}},
	{Name: "idle_after", Width: 10, Value: qseconds(func(q *pb.Queue) int64 { return q.IdleAfter })},
	{Name: "idle_warn", Width: 10, Value: qseconds(func(q *pb.Queue) int64 { return q.IdleWarn })},
	{Name: "idle_gpu_below", Width: 14, Value: qlimit(func(q *pb.Queue) int32 { return q.IdleGpuBelow })},
	{Name: "idle_cpu_below", Width: 14, Value: qlimit(func(q *pb.Queue) int32 { return q.IdleCpuBelow })},
	{Name: "reason", Width: 50, Value: qstr(func(q *pb.Queue) string { return q.Reason })},
}

// DefaultQueueFormat is what bqueues -json prints without -o.
const DefaultQueueFormat = "queue_name priority status max jl_u jl_p jl_h njobs pend run susp"

func qstr(get func(*pb.Queue) string) func([]byte, *pb.Queue, *Style, byte) []byte {
	return func(b []byte, q *pb.Queue, _ *Style, _ byte) []byte { return append(b, get(q)...) }
}

func qnum(get func(*pb.Queue) int32) func([]byte, *pb.Queue, *Style, byte) []byte {
	return func(b []byte, q *pb.Queue, _ *Style, _ byte) []byte { return strconv.AppendInt(b, int64(get(q)), 10) }
}

// qlimit is qnum with 0 as "no limit".
func qlimit(get func(*pb.Queue) int32) func([]byte, *pb.Queue, *Style, byte) []byte {
	return func(b []byte, q *pb.Queue, _ *Style, _ byte) []byte {
		if v := get(q); v > 0 {
			return strconv.AppendInt(b, int64(v), 10)
		}
		return b
	}
}

// qseconds is a time in ns, in seconds, with 0 as none.
func qseconds(get func(*pb.Queue) int64) func([]byte, *pb.Queue, *Style, byte) []byte {
	return func(b []byte, q *pb.Queue, _ *Style, _ byte) []byte {
		if v := get(q); v > 0 {
			return strconv.AppendInt(b, v/int64(time.Second), 10)
		}
		return b
	}
}

func queueStatus(q *pb.Queue) string {
	s := "Open:"
	if q.Closed {
		s = "Closed:"
	}
	if q.Inactive {
		return s + "Inact"
	}
	return s + "Active"
}

func everyone(names []string) string {
	if len(names) == 0 {
		return "all"
	}
	return strings.Join(names, " ")
}

// QueuesHeader is the title line of bqueues; wide that of bqueues -w.
func QueuesHeader(b []byte, wide bool) []byte {
	b = append(b, "QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP"...)
	if wide {
		b = append(b, "  RSV PJOBS"...)
	}
	return append(b, '\n')
}

// QueueRow is a line of bqueues.
func QueueRow(b []byte, q *pb.Queue, wide bool) []byte {
	if wide {
		b = LeftLong(b, q.Name, 15)
	} else {
		b = Left(b, q.Name, 15)
	}
	b = queueLimits(append(b, ' '), q, queueStatus(q))
	for _, n := range [...]int32{q.Njobs, q.Pend, q.Run, q.Ssusp + q.Ususp} {
		b = RightInt(append(b, ' '), int64(n), 5)
	}
	if wide {
		b = RightInt(b, 0, 5)
		b = RightInt(append(b, ' '), int64(q.Pend), 5)
	}
	return append(b, '\n')
}

// queueLimits is priority, status and the four limits.
func queueLimits(b []byte, q *pb.Queue, status string) []byte {
	at := len(b)
	b = RightInt(b, int64(q.Priority), 3)
	b = Spaces(b, 4-(len(b)-at))
	b = append(b, ' ')
	b = append(LeftLong(b, status, 14), ' ')
	for i, n := range [...]int32{q.MaxSlots, q.UserSlots, 0, 0} {
		if i > 0 {
			b = append(b, ' ')
		}
		if n <= 0 {
			b = append(b, "   -"...)
		} else {
			b = RightInt(b, int64(n), 4)
		}
	}
	return b
}

// QueueRule is what stands before every queue but the first in bqueues -l.
const QueueRule = "-------------------------------------------------------------------------------\n"

// QueueLong is a block of bqueues -l.
func QueueLong(b []byte, q *pb.Queue) []byte {
	b = append(b, "\nQUEUE: "...)
	b = append(append(b, Clean(q.Name)...), "\n  -- "...)
	text := q.Description
	if q.IsDefault && !strings.Contains(text, "default queue") {
		text = strings.TrimSpace(strings.TrimSuffix(text, ".") + ".  This is the default queue.")
		text = strings.TrimPrefix(text, ".  ")
	}
	b = append(append(b, Clean(or(text, "No description provided."))...), '\n')

	b = append(b, "\nPARAMETERS/STATISTICS\nPRIO NICE STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN SSUSP USUSP  RSV\n"...)
	b = RightInt(b, int64(q.Priority), 3)
	b = append(b, "    0  "...)
	row := queueLimits(nil, q, queueLongStatus(q))
	b = append(b, row[5:]...)
	for i, n := range [...]int32{q.Njobs, q.Pend, q.Run, q.Ssusp, q.Ususp, 0} {
		w := 5
		if i == 5 {
			w = 4
		}
		b = RightInt(append(b, ' '), int64(n), w)
	}
	b = append(b, "\nInterval for a host to accept two jobs is 0 seconds\n"...)
	if q.Reason != "" {
		b = append(append(append(b, "REASON:  "...), Clean(q.Reason)...), '\n')
	}
	b = runLimits(b, "\nDEFAULT LIMITS:\n", q.DefaultRunLimit)
	if q.MaxRunLimit > 0 || q.MaxMemory > 0 {
		b = append(b, "\nMAXIMUM LIMITS:\n"...)
		b = runLimits(b, "", q.MaxRunLimit)
		if q.MaxMemory > 0 {
			if q.MaxRunLimit > 0 {
				b = append(b, '\n')
			}
			b = append(b, " MEMLIMIT\n"...)
			b = append(Right(b, limitSize(q.MaxMemory), 9), " \n"...)
		}
	}
	b = append(b, "\nSCHEDULING PARAMETERS\n"...)
	b = append(b, thresholds...)
	b = append(b, "\nSCHEDULING POLICIES:  FAIRSHARE  BACKFILL"...)
	if q.Exclusive {
		b = append(b, "  EXCLUSIVE"...)
	}
	b = append(b, "\n\nUSERS: "...)
	b = append(append(b, Clean(everyone(q.Users))...), "\nHOSTS:  "...)
	b = append(append(b, Clean(everyone(q.Hosts))...), '\n')
	if q.Rerunnable {
		b = append(b, "RERUNNABLE :  yes\n"...)
	}
	if q.Container != "" {
		b = append(append(append(b, "CONTAINER:  "...), Clean(q.Container)...), '\n')
	}
	if q.Image != "" {
		b = append(append(append(b, "IMAGE:  "...), Clean(q.Image)...), '\n')
	}
	return queueSessions(b, q)
}

// queueSessions is what a queue's jobs may change of their images, and when its sessions count as idle.
func queueSessions(b []byte, q *pb.Queue) []byte {
	if q.OverlaySize > 0 {
		b = append(append(append(b, "WRITABLE:  up to "...), limitSize(q.OverlaySize)...), '\n')
	}
	if q.IdleAfter > 0 {
		b = append(b, "IDLE:  a session is warned after "+Span(time.Duration(q.IdleAfter))+" without use, and ended "+Span(time.Duration(q.IdleWarn))+" later\n"...)
		b = append(b, "       (use is a key, a program beside it, an app, or "...)
		b = strconv.AppendInt(b, int64(q.IdleGpuBelow), 10)
		b = strconv.AppendInt(append(b, " % of its share of the GPU; without one, "...), int64(q.IdleCpuBelow), 10)
		b = append(b, " % of its slots)\n"...)
	}
	return b
}

// queueLongStatus tells an inactive queue's cause: only administrators make one inactive.
func queueLongStatus(q *pb.Queue) string {
	s := queueStatus(q)
	if q.Inactive {
		s += "_Adm"
	}
	return s
}

func runLimits(b []byte, title string, limit int64) []byte {
	if limit <= 0 {
		return b
	}
	b = append(append(b, title...), " RUNLIMIT                \n "...)
	return append(one(b, time.Duration(limit).Minutes()), " min\n"...)
}
