package history

import (
	"strconv"
	"time"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
)

// Header is what bhist prints before its rows.
const Header = "Summary of time in seconds spent in various states:\n" +
	"JOBID   USER    JOB_NAME  PEND    PSUSP   RUN     USUSP   SSUSP   UNKWN   TOTAL\n"

func (t *Times) columns() [6]time.Duration {
	return [6]time.Duration{t.Pend, t.PSusp, t.Run, t.USusp, t.SSusp, t.Unkwn}
}

func seconds(d time.Duration) int64 { return int64(d.Round(time.Second) / time.Second) }

// Row appends a job's line; wide cuts nothing.
func Row(b []byte, h *pb.HistoryJob, st *show.Style, wide bool) []byte {
	j, t := h.GetJob(), Fold(h, st.Now)
	b = append(show.LeftLong(b, show.ID(j), 7), ' ')
	if wide {
		b = append(show.LeftLong(b, j.GetOwner().GetUser(), 7), ' ')
		b = append(show.LeftLong(b, show.Name(j), 9), ' ')
	} else {
		b = append(show.Left(b, j.GetOwner().GetUser(), 7), ' ')
		b = append(show.LeftTail(b, show.Name(j), 9), ' ')
	}
	for _, d := range t.columns() {
		at := len(b)
		b = show.LeftInt(b, seconds(d), 8)
		if b[len(b)-1] != ' ' && len(b)-at >= 8 {
			b = append(b, ' ') // a job of three years still has columns
		}
	}
	return append(show.LeftInt(b, seconds(t.Total()), 10), '\n')
}

// Long appends the story of a job. Folded is -l, not folded -UF.
func Long(b []byte, h *pb.HistoryJob, st *show.Style, folded bool) []byte {
	b = append(b, '\n')
	b = show.Paragraph(b, show.HistoryLine(h.GetJob()), folded)
	for _, l := range Lines(h) {
		b = show.Paragraph(b, st.Stamp(l.At.UnixNano())+": "+l.Text, folded)
	}
	t := Fold(h, st.Now)
	b = append(b, "\nSummary of time in seconds spent in various states by  "...)
	b = append(append(b, st.Stamp(t.Until.UnixNano())...), '\n')
	b = append(b, "  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL\n  "...)
	for _, d := range t.columns() {
		b = show.LeftInt(b, seconds(d), 9)
	}
	return append(show.LeftInt(b, seconds(t.Total()), 12), '\n')
}

// Record adds a job to a document, with its events when long.
func Record(d *show.JSON, h *pb.HistoryJob, st *show.Style, long bool) {
	j, t := h.GetJob(), Fold(h, st.Now)
	d.Open()
	d.String("JOBID", show.ID(j))
	d.String("USER", j.GetOwner().GetUser())
	d.String("JOB_NAME", show.Name(j))
	d.String("STAT", j.State)
	names := [...]string{"PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "UNKWN"}
	for i, v := range t.columns() {
		d.String(names[i], strconv.FormatInt(seconds(v), 10))
	}
	d.String("TOTAL", strconv.FormatInt(seconds(t.Total()), 10))
	if long {
		lines := Lines(h)
		d.Each("EVENTS", len(lines), func(i int) {
			d.String("TIME", st.RFC3339(lines[i].At.UnixNano()))
			d.String("KIND", lines[i].Kind)
			d.String("BY", lines[i].By)
			d.String("TEXT", lines[i].Text)
		})
		if alloc, u := lastUsage(h); len(u.GPUs) > 0 {
			show.SliceUsage(d, alloc, u)
		}
	}
	d.Close()
}
