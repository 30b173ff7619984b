package show

import (
	"sort"
	"strconv"
	"strings"

	"fairslice/api/pb"
)

// HostFields are the columns of bhosts -o.
var HostFields = []Field[*pb.Host]{
	{Name: "host_name", Width: 20, Aliases: []string{"hname"}, Value: hstr(func(h *pb.Host) string { return h.GetNode().GetId() })},
	{Name: "status", Width: 15, Aliases: []string{"stat"}, Value: hstr(HostStatus)},
	{Name: "jl_u", Width: 8, Aliases: []string{"jlu"}, Value: hstr(func(*pb.Host) string { return "" })},
	{Name: "max", Width: 8, Value: hnum(func(h *pb.Host) int64 { return int64(h.GetNode().GetSlots()) })},
	{Name: "njobs", Width: 8, Value: hnum(func(h *pb.Host) int64 { return int64(h.Njobs) })},
	{Name: "run", Width: 8, Value: hnum(func(h *pb.Host) int64 { return int64(h.Run) })},
	{Name: "ssusp", Width: 8, Value: hnum(func(h *pb.Host) int64 { return int64(h.Ssusp) })},
	{Name: "ususp", Width: 8, Value: hnum(func(h *pb.Host) int64 { return int64(h.Ususp) })},
	{Name: "rsv", Width: 8, Value: hnum(func(*pb.Host) int64 { return 0 })},
	{Name: "comments", Width: 50, Aliases: []string{"admin_comment"}, Value: hstr(func(h *pb.Host) string { return h.GetNode().GetReason() })},
	{Name: "model", Width: 15, Value: hstr(func(h *pb.Host) string { return h.GetNode().GetModel() })},
	{Name: "type", Width: 10, Value: hstr(func(h *pb.Host) string { return h.GetNode().GetType() })},
	{Name: "mem", Width: 10, Size: true, Value: hsize(func(h *pb.Host) int64 { return h.MemoryAvailable })},
	{Name: "max_mem", Width: 10, Size: true, Value: hsize(func(h *pb.Host) int64 { return h.GetNode().GetMemory() })},
	{Name: "r1m", Width: 6, Value: func(b []byte, h *pb.Host, _ *Style, _ byte) []byte { return one(b, h.Load1) }},
	{Name: "ngpus", Width: 6, Value: hnum(func(h *pb.Host) int64 { return int64(len(h.GetNode().GetGpus())) })},
	{Name: "ngpus_alloc", Width: 12, Aliases: []string{"ngpualloc"}, Value: hnum(func(h *pb.Host) int64 { return busyGPUs(h) })},
	{Name: "fgpu_total", Width: 10, Value: func(b []byte, h *pb.Host, _ *Style, _ byte) []byte {
		total, _ := hostFGPU(h)
		return FGPU(b, total)
	}},
	{Name: "fgpu_used", Width: 10, Value: func(b []byte, h *pb.Host, _ *Style, _ byte) []byte {
		_, used := hostFGPU(h)
		return FGPU(b, used)
	}},
	{Name: "consumables", Width: 30, Value: hstr(func(h *pb.Host) string { return h.GetNode().GetConsumables() })},
	{Name: "version", Width: 12, Value: hstr(func(h *pb.Host) string { return h.Version })},
	{Name: "unenforced", Width: 60, Value: hstr(func(h *pb.Host) string { return strings.Join(h.GetNode().GetUnenforced(), "; ") })},
}

// DefaultHostFormat is what bhosts -json prints without -o.
const DefaultHostFormat = "host_name status jl_u max njobs run ssusp ususp rsv"

func hstr(get func(*pb.Host) string) func([]byte, *pb.Host, *Style, byte) []byte {
	return func(b []byte, h *pb.Host, _ *Style, _ byte) []byte { return append(b, get(h)...) }
}

func hnum(get func(*pb.Host) int64) func([]byte, *pb.Host, *Style, byte) []byte {
	return func(b []byte, h *pb.Host, _ *Style, _ byte) []byte { return strconv.AppendInt(b, get(h), 10) }
}

func hsize(get func(*pb.Host) int64) func([]byte, *pb.Host, *Style, byte) []byte {
	return func(b []byte, h *pb.Host, _ *Style, unit byte) []byte {
		if v := get(h); v > 0 {
			return Bytes(b, v, unit)
		}
		return b
	}
}

// HostStatus is the state of a host with its cause, as bhosts -w and -l print it.
func HostStatus(h *pb.Host) string {
	n := h.GetNode()
	switch {
	case !n.GetAlive():
		return "unreach"
	case n.Closed:
		return "closed_Adm"
	case n.Taken:
		return "closed_Excl"
	case n.Slots > 0 && n.UsedSlots >= n.Slots:
		return "closed_Full"
	}
	return "ok"
}

func hostFGPU(h *pb.Host) (total, used int64) {
	for _, g := range h.GetNode().GetGpus() {
		total += g.Capacity
		used += g.Used
	}
	return total, used
}

func busyGPUs(h *pb.Host) int64 {
	n := int64(0)
	for _, g := range h.GetNode().GetGpus() {
		if g.Used > 0 {
			n++
		}
	}
	return n
}

// HostsHeader is the title line of bhosts.
const HostsHeader = "HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV \n"

// HostRow is a line of bhosts; wide tells why a host is closed and cuts nothing.
func HostRow(b []byte, h *pb.Host, wide bool) []byte {
	status := HostStatus(h)
	if wide {
		b = append(LeftLong(b, h.GetNode().GetId(), 18), ' ')
		b = append(LeftLong(b, status, 15), ' ')
	} else {
		if len(status) > 6 && status[:6] == "closed" {
			status = "closed"
		}
		b = append(Left(b, h.GetNode().GetId(), 18), ' ')
		b = append(Left(b, status, 15), ' ')
	}
	return hostNumbers(b, h)
}

func hostNumbers(b []byte, h *pb.Host) []byte {
	b = append(b, "-      "...)
	if s := h.GetNode().GetSlots(); s > 0 {
		b = LeftInt(b, int64(s), 6)
	} else {
		b = append(b, "-     "...)
	}
	for _, n := range [...]int32{h.Njobs, h.Run, h.Ssusp, h.Ususp} {
		b = LeftInt(append(b, ' '), int64(n), 6)
	}
	return append(b, " 0\n"...)
}

// HostLong is a block of bhosts -l.
func HostLong(b []byte, h *pb.Host) []byte {
	n := h.GetNode()
	b = append(append(append(b, "HOST  "...), Clean(n.GetId())...), '\n')
	b = append(b, "STATUS           CPUF  JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV DISPATCH_WINDOW\n"...)
	b = append(LeftLong(b, HostStatus(h), 16), " 1.00  "...)
	b = hostNumbers(b, h)
	b = append(b[:len(b)-1], "      -\n"...)
	b = append(b, "\n CURRENT LOAD USED FOR SCHEDULING:\n                r15s   r1m  r15m    ut    pg    io   ls    it   tmp   swp   mem  slots\n"...)
	b = append(b, " Total             -"...)
	b = Right(b, string(one(nil, h.Load1)), 6)
	b = append(b, "     -     -     -     -    -     -     -     -"...)
	b = Right(b, hostSize(h.MemoryAvailable), 6)
	b = RightInt(b, int64(max(n.GetSlots()-n.GetUsedSlots(), 0)), 7)
	b = append(b, "\n Reserved          -     -     -     -     -     -    -     -     -     -"...)
	b = Right(b, hostSize(n.GetUsedMemory()), 6)
	b = append(b, "      -\n\n LOAD THRESHOLD USED FOR SCHEDULING:\n"...)
	b = append(b, thresholds...)
	if n.GetReason() != "" {
		b = append(append(b, "\n ADMIN ACTION COMMENTS: \""...), Clean(n.Reason)...)
		b = append(b, '"')
		if n.ClosedBy != "" {
			b = append(append(b, " by "...), Clean(n.ClosedBy)...)
		}
		b = append(b, '\n')
	}
	for i, what := range n.GetUnenforced() {
		if i == 0 {
			b = append(b, "\n NOT ENFORCED:\n"...)
		}
		b = append(append(append(b, "  "...), Clean(what)...), '\n')
	}
	if len(n.GetGpus()) > 0 {
		b = append(append(b, "\n GPUS:\n"...), GPUHeader...)
		b = GPURows(b, h)
	}
	if n.GetConsumables() != "" {
		b = append(append(b, "\n CONSUMABLES:  total "...), Clean(n.Consumables)...)
		b = append(append(b, "; in use "...), Clean(or(n.UsedConsumables, "none"))...)
		b = append(b, '\n')
	}
	return b
}

// GPUHeader is the title line of bhosts -gpu: LSF's columns, and behind them our own.
const GPUHeader = "HOST_NAME           ID           MODEL     MUSED      MRSV  NJOBS    RUN   SUSP    RSV  MODE\n"

// GPURows are the lines of a host in bhosts -gpu. MRSV is the memory of the slices held, MUSED what their jobs really use
// of it, by the driver.
func GPURows(b []byte, h *pb.Host) []byte {
	for i, g := range h.GetNode().GetGpus() {
		name := ""
		if i == 0 {
			name = h.Node.Id
		}
		used, held, jobs := int64(0), int64(0), int64(0)
		for _, s := range h.Slices {
			if s.GetSlice().GetUuid() == g.Uuid {
				held += s.Slice.Memory
				used += s.Used
				jobs++
			}
		}
		b = append(LeftLong(b, name, 18), ' ')
		b = RightInt(b, int64(g.Index), 3)
		b = Right(append(b, ' '), g.Model, 15)
		b = Right(append(b, ' '), hostSize(used), 9)
		b = Right(append(b, ' '), hostSize(held), 9)
		b = RightInt(append(b, ' '), jobs, 6)
		b = RightInt(append(b, ' '), jobs, 6)
		b = append(b, "      0      0  "...)
		b = append(gpuMarks(append(b, Clean(dash(g.Mode))...), g), '\n')
	}
	return b
}

// gpuMarks tells what is out of the ordinary with a GPU: each mark stands behind two blanks.
func gpuMarks(b []byte, g *pb.GPU) []byte {
	if g.Parent != "" {
		b = append(append(b, "  instance of "...), Clean(g.Parent)...)
	}
	if g.Simulated {
		b = append(b, "  simulated"...)
	}
	if g.Lost {
		b = append(b, "  lost"...)
	}
	if g.Unfenced != "" {
		b = append(append(b, "  unfenced: "...), Clean(g.Unfenced)...)
	}
	return b
}

// SortHosts orders hosts by name, numbers within names by value: gpu2 before gpu10.
func SortHosts(hosts []*pb.Host) {
	sort.SliceStable(hosts, func(i, k int) bool { return before(hosts[i].GetNode().GetId(), hosts[k].GetNode().GetId()) })
}

func before(a, b string) bool {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, errX := strconv.ParseUint(a[:na], 10, 64)
			y, errY := strconv.ParseUint(b[:nb], 10, 64)
			if errX == nil && errY == nil && x != y {
				return x < y
			}
		}
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		a, b = a[1:], b[1:]
	}
	return len(a) < len(b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
