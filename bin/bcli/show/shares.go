package show

import (
	"math"
	"strconv"
	"strings"
	"time"

	"fairslice/api/pb"
)

// ShareHead says what bshare's numbers mean.
func ShareHead(b []byte, s *pb.SharesResponse, st *Style) []byte {
	b = append(b, "Usage at "+st.CTime(s.At)+"; half of it is forgotten every "+Span(time.Duration(s.HalfLife))+"; 1 fGPU counts as "+figure(s.GpuWeight)+" slots"...)
	if s.MemoryWeight != 0 {
		b = append(b, ", 1 GiB of memory as "+figure(s.MemoryWeight)...)
	}
	b = append(b, '\n')
	if s.Flat {
		b = append(b, "There are no accounts: all users have equal shares (badmin account adds some)\n"...)
	}
	if !s.Used {
		b = append(b, "The scheduler's order does not ask for fair share: nobody goes first for it (order, in the configuration)\n"...)
	}
	return append(b, "ACCOUNT/USER             SHARES  SHARE%  USAGE%  USED(SLOT-H)        LF   RANK  FACTOR\n"...)
}

// shareName is how wide the tree is at least.
const shareName = 22

// ShareRow is one line of bshare.
func ShareRow(b []byte, s *pb.Share, wide bool) []byte {
	name := s.Account
	if s.User != "" {
		name = s.User
	}
	name = strings.Repeat(" ", int(min(max(s.Depth, 0), shareName-2))) + name
	if wide {
		b = LeftLong(b, name, shareName)
	} else {
		b = Left(b, name, shareName)
	}
	cell := func(text string, width int) { b = Right(append(b, ' '), text, width) }
	cell(strconv.FormatInt(s.Shares, 10), 8)
	cell(hundredths(s.Share), 7)
	cell(hundredths(s.Usage), 7)
	cell(figure(s.Used/3600), 13)
	if math.IsInf(s.LevelFairShare, 1) {
		cell("inf", 9)
	} else {
		cell(figure(s.LevelFairShare), 9)
	}
	if s.User == "" {
		cell("-", 6)
		cell("-", 7)
	} else {
		cell(strconv.Itoa(int(s.Rank)), 6)
		cell(figure(s.Factor), 7)
	}
	return append(b, '\n')
}

// ShareRecord adds a line to bshare's document. A level fair share without bound is null. USED_SLOT_SECONDS is
// SLOT_SECONDS + FGPU_SECONDS * FGPU_WEIGHT + GIB_SECONDS * GIB_WEIGHT.
func ShareRecord(d *JSON, all *pb.SharesResponse, s *pb.Share) {
	d.Open()
	d.String("ACCOUNT", s.Account)
	d.String("USER", s.User)
	d.Int("DEPTH", int64(s.Depth))
	d.Int("SHARES", s.Shares)
	d.Raw("SHARE", exact(s.Share))
	d.Raw("USAGE", exact(s.Usage))
	d.Raw("USED_SLOT_SECONDS", exact(s.Used))
	d.Raw("SLOT_SECONDS", exact(s.SlotSeconds))
	d.Raw("FGPU_SECONDS", exact(s.FgpuSeconds))
	d.Raw("GIB_SECONDS", exact(s.GibSeconds))
	d.Raw("FGPU_WEIGHT", exact(all.GpuWeight))
	d.Raw("GIB_WEIGHT", exact(all.MemoryWeight))
	d.Raw("LEVEL_FAIR_SHARE", exact(s.LevelFairShare))
	d.Int("RANK", int64(s.Rank))
	d.Raw("FACTOR", exact(s.Factor))
	d.Close()
}

// exact is a number of JSON, null for what is none.
func exact(x float64) []byte {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return []byte("null")
	}
	return strconv.AppendFloat(nil, x, 'g', -1, 64)
}

// figure is a number of at most four digits that matter, more only before the point.
func figure(x float64) string {
	switch {
	case math.Abs(x) >= 1000:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x != 0 && math.Abs(x) < 1e-4:
		return strconv.FormatFloat(x, 'e', 1, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

func hundredths(x float64) string { return strconv.FormatFloat(100*x, 'f', 2, 64) }

// PriorityText says when the turn of what waits is, and what that is made of: "queue 30, then 0.75 = fair share 0.5
// (1 x 0.5) + age 0.25 (0.5 x 0.5)". Empty where it is not known.
func PriorityText(p *pb.Priority) string {
	if p == nil {
		return ""
	}
	s := "queue " + strconv.Itoa(int(p.Queue))
	if p.User != 0 {
		s += ", its own (-sp) " + strconv.Itoa(int(p.User))
	}
	if p.OverBudget {
		s += ", and its account has spent its budget: it comes after all that have some left"
	}
	switch {
	case p.Late:
		return s + "; it has waited so long that it goes before all that have not"
	case len(p.Parts) == 0:
		return s + "; of equal ones the order is not one of points"
	}
	s += ", then " + figure(p.Total) + " = "
	for i, x := range p.Parts {
		if i > 0 {
			s += " + "
		}
		s += x.Name + " " + figure(x.Points) + " (" + figure(x.Weight) + " x " + figure(x.Factor) + ")"
	}
	return s
}

// priorityRecord adds the parts to a record.
func priorityRecord(d *JSON, p *pb.Priority) {
	if p == nil {
		return
	}
	d.Int("QUEUE_PRIORITY", int64(p.Queue))
	d.Int("USER_PRIORITY", int64(p.User))
	d.Int("OVER_BUDGET", bit(p.OverBudget))
	d.Raw("POINTS", exact(p.Total))
	d.Each("POINTS_OF", len(p.Parts), func(i int) {
		x := p.Parts[i]
		d.String("NAME", x.Name)
		d.Raw("WEIGHT", exact(x.Weight))
		d.Raw("FACTOR", exact(x.Factor))
		d.Raw("POINTS", exact(x.Points))
	})
}
