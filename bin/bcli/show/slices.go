package show

import (
	"strconv"
	"time"

	"fairslice/api/pb"
)

// bslice: the slices of each GPU. One line for each GPU, and with long one for each slice it gave away.

// SlicesHeader is the title line of bslice.
const SlicesHeader = "HOST_NAME           GPU MODEL                    MEMORY  FGPU  USED  FREE  MODE   JOBS\n"

// Slices appends the lines of a host's GPUs, and with long those of the slices held.
func Slices(b []byte, h *pb.Host, st *Style, long bool) []byte {
	for _, g := range h.GetNode().GetGpus() {
		var held []*pb.HeldSlice
		for _, s := range h.Slices {
			if s.GetSlice().GetUuid() == g.Uuid {
				held = append(held, s)
			}
		}
		b = append(LeftLong(b, h.Node.Id, 19), ' ')
		b = RightInt(b, int64(g.Index), 3)
		b = append(b, ' ')
		b = LeftLong(b, g.Model, 20)
		b = Right(append(b, ' '), MiB(g.Memory), 10)
		for _, v := range [...]int64{g.Capacity, g.Used, freeFGPU(g)} {
			b = Right(append(b, ' '), string(FGPU(nil, v)), 5)
		}
		b = append(b, ' ', ' ')
		b = LeftLong(b, dash(g.Mode), 5)
		b = RightInt(b, int64(len(held)), 5)
		b = gpuMarks(b, g)
		if !h.Node.Alive {
			b = append(b, "  host does not answer"...)
		}
		b = append(b, '\n')
		if !long {
			continue
		}
		for _, s := range held {
			b = slice(b, s, st)
		}
	}
	return b
}

// freeFGPU is what can still be given of a GPU: nothing of one that is lost or whose fence is not proven.
func freeFGPU(g *pb.GPU) int64 {
	if g.Lost || g.Unfenced != "" {
		return 0
	}
	return max(g.Capacity-g.Used, 0)
}

// slice is the line of one held slice: whose it is, how much, and since when.
func slice(b []byte, s *pb.HeldSlice, st *Style) []byte {
	b = append(b, "    job "...)
	b = LeftLong(b, string(appendID(nil, s.Job, s.Index)), 10)
	b = append(LeftLong(append(b, ' '), s.User, 10), ' ')
	b = Right(b, string(FGPU(nil, s.Slice.Amount)), 5)
	b = append(b, " fGPU "...)
	b = Right(b, MiB(s.Slice.Memory), 10)
	b = append(b, "  "...)
	b = Right(b, string(percent(nil, int64(s.Slice.SmShare))), 5)
	b = append(b, " % of the SMs  "...)
	b = append(LeftLong(b, dash(s.Slice.Mode), 5), "  since "...)
	b = st.time(b, s.Since)
	if s.Since > 0 {
		b = append(append(b, " ("...), Span(st.Now.Sub(time.Unix(0, s.Since)))...)
		b = append(b, ')')
	}
	if s.Used > 0 || s.Util > 0 {
		b = append(append(b, ", uses "...), MiB(s.Used)...)
		b = append(append(append(b, " and "...), percent(nil, int64(s.Util))...), " % of the GPU's time"...)
	}
	return append(b, '\n')
}

// SlicesRecord adds a host's GPUs to a document, with all their slices.
func SlicesRecord(j *JSON, h *pb.Host, st *Style) {
	for _, g := range h.GetNode().GetGpus() {
		j.Open()
		j.String("HOST_NAME", h.Node.Id)
		j.String("HOST_STATUS", HostStatus(h))
		j.Int("GPU", int64(g.Index))
		j.String("UUID", g.Uuid)
		j.String("MODEL", g.Model)
		j.Int("MEMORY_BYTES", g.Memory)
		j.Raw("FGPU_TOTAL", FGPU(nil, g.Capacity))
		j.Raw("FGPU_USED", FGPU(nil, g.Used))
		j.Raw("FGPU_FREE", FGPU(nil, freeFGPU(g)))
		j.String("MODE", g.Mode)
		j.Raw("SIMULATED", strconv.AppendBool(nil, g.Simulated))
		j.Raw("LOST", strconv.AppendBool(nil, g.Lost))
		j.String("UNFENCED", g.Unfenced)
		j.String("PARENT", g.Parent)
		j.Raw("PARENT_PERCENT", percent(nil, int64(g.Fraction)))
		j.String("HOLDER", g.Holder)
		var held []*pb.HeldSlice
		for _, s := range h.Slices {
			if s.GetSlice().GetUuid() == g.Uuid {
				held = append(held, s)
			}
		}
		j.Each("SLICES", len(held), func(i int) {
			s := held[i]
			j.String("JOBID", string(appendID(nil, s.Job, s.Index)))
			j.String("USER", s.User)
			j.String("QUEUE", s.Queue)
			j.Raw("FGPU", FGPU(nil, s.Slice.Amount))
			j.Int("MEMORY_BYTES", s.Slice.Memory)
			j.Raw("SM_PERCENT", percent(nil, int64(s.Slice.SmShare)))
			j.String("MODE", s.Slice.Mode)
			j.String("SINCE", st.RFC3339(s.Since))
			j.Int("MEMORY_USED_BYTES", s.Used)
			j.Raw("UTILIZATION_PERCENT", percent(nil, int64(s.Util)))
		})
		j.Close()
	}
}

// RFC3339 is a time in our own documents, "" for none.
func (st *Style) RFC3339(ns int64) string {
	if ns == 0 {
		return ""
	}
	return st.at(ns).Format(time.RFC3339)
}
