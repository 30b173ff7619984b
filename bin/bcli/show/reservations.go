package show

import (
	"strconv"
	"strings"

	"fairslice/api/pb"
	"fairslice/queue"
)

// ReservationsHeader is the title line of brsvs.
const ReservationsHeader = "RSVID        TYPE      USER       NCPUS          RSV_HOSTS     TIME_WINDOW\n"

// Reservation appends the lines of a reservation in brsvs: one, and one for each further host. With wide
// the times of one that happens once have a year.
func Reservation(b []byte, l *pb.ListedReservation, st *Style, wide bool) []byte {
	r := l.GetReservation()
	b = append(LeftLong(b, r.GetId(), 12), ' ')
	b = append(LeftLong(b, reservationType(r), 8), ' ')
	b = append(LeftLong(b, reservationUsers(r), 11), ' ')
	b = append(LeftLong(b, reservationSlots(l), 10), ' ')
	for i, host := range reservationHosts(l) {
		if i > 0 {
			b = append(Spaces(b, 45), Clean(host)...)
			b = append(b, '\n')
			continue
		}
		b = append(LeftLong(b, host, 17), ' ')
		b = append(append(b, timeWindow(r, st, wide)...), '\n')
	}
	return b
}

// ReservationLong is a block of brsvs -l. zone is the site's time zone, which recurring windows are in.
func ReservationLong(b []byte, l *pb.ListedReservation, zone string, st *Style) []byte {
	r := l.GetReservation()
	b = Reservation(append(b, ReservationsHeader...), l, st, false)
	b = append(append(append(b, "Reservation Status:  "...), reservationStatus(l)...), '\n')
	if r.GetRecurring() != nil {
		b = append(append(append(b, "Time Zone:  "...), Clean(dash(zone))...), '\n')
	}
	title := "Next Active Period:\n  "
	if l.Open {
		title = "Active Period:\n  "
	}
	b = append(append(b, title...), st.CTime(l.Begin)+" - "+st.CTime(l.End)+"\n"...)
	if r.GetDescription() != "" {
		b = append(append(append(b, "Description:  "...), Clean(r.Description)...), '\n')
	}
	b = append(append(append(b, "Creator:  "...), Clean(dash(r.GetCreator()))...), '\n')
	b = append(append(append(b, "Resource Unit:  "...), reservationUnit(r)...), '\n')
	for _, a := range r.GetShares() {
		for _, s := range a.Slices {
			b = append(append(b, "Reserved GPU:  "...), Clean(a.Node)...)
			b = append(strconv.AppendInt(append(b, " GPU "...), int64(s.Index), 10), ", "...)
			b = append(FGPU(b, s.Amount), " fGPU\n"...)
		}
	}
	for _, list := range []struct {
		title string
		ids   []int64
	}{{"PEND Jobs:  ", l.Pending}, {"RUN Jobs:  ", l.Running}, {"SUSP Jobs:  ", l.Suspended}} {
		if len(list.ids) > 0 {
			b = append(append(append(b, list.title...), jobNumbers(list.ids)...), '\n')
		}
	}
	return b
}

// ReservationRecord adds a reservation to a document.
func ReservationRecord(doc *JSON, l *pb.ListedReservation, zone string, st *Style) {
	r := l.GetReservation()
	doc.Open()
	doc.String("RSVID", r.GetId())
	doc.String("TYPE", reservationType(r))
	doc.List("USERS", r.GetUsers())
	groups := make([]string, len(r.GetGroups()))
	for i, g := range r.GetGroups() {
		groups[i] = g.Name
	}
	doc.List("GROUPS", groups)
	doc.String("NCPUS", reservationSlots(l))
	doc.String("TIME_WINDOW", timeWindow(r, st, true))
	doc.String("TIME_ZONE", zone)
	doc.String("STATUS", reservationStatus(l))
	doc.String("BEGIN", st.RFC3339(l.Begin))
	doc.String("END", st.RFC3339(l.End))
	doc.String("CREATOR", r.GetCreator())
	doc.String("DESCRIPTION", r.GetDescription())
	doc.String("UNIT", reservationUnit(r))
	doc.Each("RSV_HOSTS", len(r.GetShares()), func(i int) {
		a := r.Shares[i]
		doc.String("HOST_NAME", a.Node)
		doc.Int("SLOTS", int64(a.Slots))
		doc.Int("USED_SLOTS", int64(usedSlots(l, i)))
		doc.Int("MEMORY_BYTES", a.Memory)
		doc.Each("GPUS", len(a.Slices), func(k int) {
			doc.Int("GPU_ID", int64(a.Slices[k].Index))
			doc.String("GPU_UUID", a.Slices[k].Uuid)
			doc.Raw("FGPU", FGPU(nil, a.Slices[k].Amount))
		})
	})
	doc.String("PEND_JOBS", jobNumbers(l.Pending))
	doc.String("RUN_JOBS", jobNumbers(l.Running))
	doc.String("SUSP_JOBS", jobNumbers(l.Suspended))
	doc.Close()
}

func reservationType(r *pb.Reservation) string {
	switch {
	case len(r.GetUsers()) > 0:
		return "user"
	case len(r.GetGroups()) > 0:
		return "group"
	}
	return "sys"
}

func reservationUsers(r *pb.Reservation) string {
	names := append([]string(nil), r.GetUsers()...)
	for _, g := range r.GetGroups() {
		names = append(names, g.Name)
	}
	if len(names) == 0 {
		return "system"
	}
	return strings.Join(names, ",")
}

// reservationSlots is used/total; one for the system is used by nobody.
func reservationSlots(l *pb.ListedReservation) string {
	used, total := 0, 0
	for i, a := range l.GetReservation().GetShares() {
		used += usedSlots(l, i)
		total += int(a.Slots)
	}
	if reservationType(l.GetReservation()) == "sys" {
		return strconv.Itoa(total)
	}
	return strconv.Itoa(used) + "/" + strconv.Itoa(total)
}

func usedSlots(l *pb.ListedReservation, share int) int {
	if share < len(l.UsedSlots) {
		return int(l.UsedSlots[share])
	}
	return 0
}

// reservationHosts are the hosts with used/total; a reservation has one at least.
func reservationHosts(l *pb.ListedReservation) []string {
	var out []string
	for i, a := range l.GetReservation().GetShares() {
		out = append(out, a.Node+":"+strconv.Itoa(usedSlots(l, i))+"/"+strconv.Itoa(int(a.Slots)))
	}
	if len(out) == 0 {
		out = []string{"-"}
	}
	return out
}

// timeWindow is month/day/hour/minute twice, or a recurring window and a star.
func timeWindow(r *pb.Reservation, st *Style, year bool) string {
	if w := r.GetRecurring(); w != nil {
		return queue.TimeWindow{Daily: w.Daily, Begin: int(w.Begin), End: int(w.End)}.String() + " *"
	}
	day := "1/2"
	if year {
		day = "2006/1/2"
	}
	moment := func(ns int64) string {
		t := st.at(ns)
		return t.Format(day) + "/" + strconv.Itoa(t.Hour()) + "/" + strconv.Itoa(t.Minute())
	}
	return moment(r.GetBegin()) + "-" + moment(r.GetEnd())
}

func reservationStatus(l *pb.ListedReservation) string {
	if l.Open {
		return "Active"
	}
	return "Inactive"
}

func reservationUnit(r *pb.Reservation) string {
	for _, a := range r.GetShares() {
		if !a.Exclusive {
			return "Slot"
		}
	}
	return "Host"
}

func jobNumbers(ids []int64) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(words, " ")
}
