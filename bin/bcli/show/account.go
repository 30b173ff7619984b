package show

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"fairslice/api/pb"
	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/reports"
)

// What bacct prints of one job. CEEMS and others read the -UF form by a regular expression: the lines of submission, dispatch and
// completion follow each other, hosts are named once for each slot, times have a year, and after "Accounting information about this
// job" no line but LSF's own has seven words, or two.

// AccountLine is the first line of a job in bacct -l.
func AccountLine(j *pb.Job) string {
	sp := j.GetSpec()
	var p parts
	p.add("Job", ID(j))
	p.add("Job Name", givenName(j))
	p.add("User", j.GetOwner().GetUser())
	p.add("User Group", sp.GetAccount())
	p.add("Project", or(sp.GetProject(), "default"))
	p.add("Application", sp.GetApp())
	p.add("Status", j.State)
	p.add("Queue", j.Queue)
	p.add("Reservation", sp.GetReservation())
	p.flag(modes[sp.GetInteractive()], modes[sp.GetInteractive()] != "")
	p.add("Command", sp.GetCommand())
	p.add("Share group charged", share(j))
	p.add("Job Description", sp.GetDescription())
	return p.String()
}

// Account is a job that is over.
type Account struct {
	Job   *pb.Job // with state, verdict and queue of the end
	Over  reports.Finished
	Alloc []nodes.Allocation // of the last attempt
	Usage queue.Usage
}

// Long appends a job as bacct -l prints it. Folded is -l, not folded -UF; gpus is -gpu.
func (a *Account) Long(b []byte, st *Style, folded, gpus bool) []byte {
	line := func(at time.Time, text string) {
		stamp := st.CTime(at.UnixNano())
		if folded {
			stamp = st.Stamp(at.UnixNano())
		}
		b = Paragraph(b, stamp+": "+text, folded)
	}
	b = append(b, '\n')
	b = Paragraph(b, AccountLine(a.Job), folded)
	line(a.Over.Submitted, SubmittedText(a.Job)+";")
	if !a.Over.Dispatched.IsZero() {
		line(a.Over.Dispatched, a.dispatched()+";")
	}
	line(a.Over.Ended, a.completed())
	if gpus {
		b = a.gpus(b)
	}
	b = append(b, "\nAccounting information about this job:\n     Share group charged <"...)
	b = append(append(b, Clean(share(a.Job))...), ">\n     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP\n"...)
	b = Right(b, fixed(a.Over.CPU.Seconds(), 2), 10)
	b = RightInt(b, whole(a.Over.Wait()), 9)
	b = RightInt(b, whole(a.Over.Turnaround()), 15)
	b = Right(b, status(a.Over.Done), 9)
	b = Right(b, fixed(a.Over.Hog(), 4), 15)
	b = Right(b, hostSize(a.Over.MaxMemory), 7)
	b = append(b, "      0M\n     CPU_AVERAGE_EFFICIENCY      MEM_EFFICIENCY\n"...)
	cpu, memory := a.efficiency()
	b = Right(b, fixed(cpu, 2)+"%", 27)
	b = append(Right(b, fixed(memory, 2)+"%", 20), '\n')
	for _, u := range a.used() {
		b = append(append(append(b, "     USED: "...), u.text...), '\n')
	}
	for _, text := range a.slices() {
		b = append(append(append(b, "     SLICE: "...), Clean(text)...), '\n')
	}
	return b
}

// used is what was used of what was asked for, of one sort, as seff asks.
type used struct {
	text                 string
	name                 string // in documents
	asked, used, percent []byte
}

// used is of what ran: CPU time of slots × run time, the peak of memory of what was reserved, and where they were measured
// the peaks of the slices' memory and the time of their multiprocessors. Nothing is said where nothing was asked for.
func (a *Account) used() (out []used) {
	add := func(name string, used_, asked float64, words string, digits int) {
		if asked <= 0 {
			return
		}
		u, of, part := fixed(used_, digits), fixed(asked, digits), fixed(100*used_/asked, 2)
		out = append(out, used{strings.NewReplacer("USED", u, "ASKED", of).Replace(words) + " (" + part + " %)", name, []byte(of), []byte(u), []byte(part)})
	}
	slots, bytes := a.asked()
	add("CPU_SECONDS", a.Over.CPU.Seconds(), a.Over.Run().Seconds()*float64(slots), "CPU time USED of ASKED slot-seconds", 2)
	add("MEMORY_MIB", float64(a.Over.MaxMemory)/(1<<20), float64(bytes)/(1<<20), "memory USED of ASKED MiB at most", 0)
	var peak, memory, sm, share float64
	if len(a.Alloc) > 0 { // the first node is the one that measures
		for _, s := range a.Alloc[0].Slices {
			if g := a.Usage.GPU(s.UUID); g != nil {
				peak, memory = peak+float64(g.MaxMemory)/(1<<20), memory+float64(s.Memory)/(1<<20)
				sm, share = sm+g.SMTime.Seconds(), share+g.Measured.Seconds()*float64(s.SMShare)/10_000
			}
		}
	}
	add("GPU_MEMORY_MIB", peak, memory, "GPU memory USED of ASKED MiB at most", 0)
	add("SM_SECONDS", sm, share, "SM time USED of ASKED GPU-seconds", 2)
	return out
}

// asked are the slots and the memory that the last attempt held.
func (a *Account) asked() (slots int, bytes int64) {
	for _, x := range a.Alloc {
		slots += max(x.Slots, 1)
		bytes += x.Memory
	}
	return slots, bytes
}

// efficiency is what was used of what was given, in percent: CPU time of slots × run time, and the peak of memory.
func (a *Account) efficiency() (cpu, memory float64) {
	slots, bytes := a.asked()
	if run := a.Over.Run().Seconds() * float64(slots); run > 0 {
		cpu = 100 * a.Over.CPU.Seconds() / run
	}
	if bytes > 0 {
		memory = 100 * float64(a.Over.MaxMemory) / float64(bytes)
	}
	return cpu, memory
}

func (a *Account) slices() []string {
	if len(a.Usage.GPUs) == 0 {
		return nil
	}
	return queue.SliceTexts(a.Alloc, a.Usage)
}

func (a *Account) dispatched() string {
	var hosts []string
	for _, x := range a.Alloc {
		for range max(x.Slots, 1) {
			hosts = append(hosts, "<"+string(x.Node)+">")
		}
	}
	n, list := strconv.Itoa(len(hosts)), strings.Join(hosts, " ")
	return "Dispatched " + n + " Task(s) on Host(s) " + list + ", Allocated " + n + " Slot(s) on Host(s) " + list +
		", Effective RES_REQ <" + or(resReq(a.Job), "select[type == local] order[r15s:pg] ") + ">"
}

func (a *Account) completed() string {
	if a.Over.Done {
		return "Completed <done>."
	}
	if r := exitReason(a.Job); r != "" {
		return "Completed <exit>; " + r + "."
	}
	return "Completed <exit>."
}

func (a *Account) gpus(b []byte) []byte {
	titled := false
	for _, x := range a.Alloc {
		for i, s := range x.Slices {
			if !titled {
				titled = true
				b = append(b, "\nGPU_ALLOCATION:\n HOST             TASK GPU_ID  GI_PLACEMENT/SIZE    CI_PLACEMENT/SIZE    MODEL        MTOTAL  FACTOR MRSV    SOCKET NVLINK/XGMI\n"...)
			}
			host := ""
			if i == 0 {
				host = string(x.Node)
			}
			b = append(LeftLong(append(b, ' '), host, 16), " 0    "...)
			b = LeftInt(b, int64(s.Index), 8)
			b = append(b, "-                    -                    -            -       0.0    "...)
			b = append(LeftLong(b, hostSize(s.Memory), 7), " 0      -\n"...)
		}
	}
	return b
}

// BriefHeader is the title of bacct -b.
const BriefHeader = "JOBID   U/UID    QUEUE      SUBMIT_TIME       CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR JOB_NAME\n"

// Brief appends a job's line of bacct -b; wide cuts nothing.
func Brief(b []byte, f *reports.Finished, st *Style, wide bool) []byte {
	b = append(LeftLong(b, string(appendID(nil, f.Job, int32(f.Index))), 7), ' ')
	if wide {
		b = append(LeftLong(append(LeftLong(b, f.User, 8), ' '), f.Queue, 10), ' ')
	} else {
		b = append(Left(append(Left(b, f.User, 8), ' '), f.Queue, 10), ' ')
	}
	at := len(b)
	b = st.time(b, f.Submitted.UnixNano())
	b = Spaces(b, 13-(len(b)-at))
	b = Right(b, fixed(f.CPU.Seconds(), 2), 10)
	b = RightInt(b, whole(f.Wait()), 9)
	b = RightInt(b, whole(f.Turnaround()), 15)
	b = Right(b, status(f.Done), 9)
	b = append(Right(b, fixed(f.Hog(), 4), 15), ' ')
	if wide {
		b = LeftLong(b, f.Name, 0)
	} else {
		b = LeftTail(b, f.Name, 10)
	}
	return append(bytes.TrimRight(b, " "), '\n')
}

// Record adds a job to a document: times in RFC 3339, durations in seconds, sizes in bytes. Without long the job was not looked up.
func (a *Account) Record(d *JSON, st *Style, long bool) {
	f := &a.Over
	d.Open()
	d.String("JOBID", string(appendID(nil, f.Job, int32(f.Index))))
	d.String("USER", f.User)
	d.String("ACCOUNT", f.Account)
	d.String("QUEUE", f.Queue)
	d.String("PROJ_NAME", f.Project)
	d.String("JOB_NAME", f.Name)
	d.String("STATUS", status(f.Done))
	d.List("EXEC_HOST", f.Hosts)
	d.String("SUBMIT_TIME", st.RFC3339(f.Submitted.UnixNano()))
	if !f.Dispatched.IsZero() {
		d.String("START_TIME", st.RFC3339(f.Dispatched.UnixNano()))
	}
	d.String("FINISH_TIME", st.RFC3339(f.Ended.UnixNano()))
	d.Raw("CPU_SECONDS", millis(f.CPU))
	d.Raw("WAIT_SECONDS", millis(f.Wait()))
	d.Raw("TURNAROUND_SECONDS", millis(f.Turnaround()))
	d.Raw("RUN_SECONDS", millis(f.Run()))
	d.Raw("HOG_FACTOR", []byte(fixed(f.Hog(), 4)))
	d.Int("MAX_MEMORY_BYTES", f.MaxMemory)
	if long {
		cpu, memory := a.efficiency()
		d.Raw("CPU_EFFICIENCY_PERCENT", []byte(fixed(cpu, 2)))
		d.Raw("MEMORY_EFFICIENCY_PERCENT", []byte(fixed(memory, 2)))
		list := a.used()
		d.Each("USED", len(list), func(i int) {
			d.String("NAME", list[i].name)
			d.Raw("USED", list[i].used)
			d.Raw("ASKED", list[i].asked)
			d.Raw("PERCENT", list[i].percent)
		})
		d.String("EXIT_REASON", exitReason(a.Job))
		d.List("SLICES", a.slices())
		if len(a.Usage.GPUs) > 0 {
			SliceUsage(d, a.Alloc, a.Usage)
		}
	}
	d.Close()
}

// Summary appends what bacct says of all jobs.
func Summary(b []byte, m *reports.Summary, st *Style) []byte {
	n, ran := float64(max(m.Jobs(), 1)), float64(max(m.Started, 1))
	value := func(label string, v float64, decimals, width int) {
		b = Right(append(b, label...), fixed(v, decimals), width)
	}
	b = append(b, "\nSUMMARY:      ( time unit: second ) \n"...)
	value(" Total number of done jobs:", float64(m.Done), 0, 8)
	value("      Total number of exited jobs:", float64(m.Failed), 0, 6)
	value("\n Total CPU time consumed:", m.CPU.Sum, 1, 9)
	value("      Average CPU time consumed:", m.CPU.Sum/n, 1, 8)
	value("\n Maximum CPU time of a job:", m.CPU.Max, 1, 7)
	value("      Minimum CPU time of a job:", m.CPU.Min, 1, 8)
	value("\n Total wait time in queues:", m.Wait.Sum, 1, 8)
	value("\n Average wait time in queue:", m.Wait.Sum/n, 1, 7)
	value("\n Maximum wait time in queue:", m.Wait.Max, 1, 7)
	value("      Minimum wait time in queue:", m.Wait.Min, 1, 7)
	value("\n Average turnaround time:", m.Turnaround.Sum/n, 0, 10)
	value(" (seconds/job)\n Maximum turnaround time:", m.Turnaround.Max, 0, 10)
	value("      Minimum turnaround time:", m.Turnaround.Min, 0, 10)
	value("\n Average hog factor of a job:", m.Hog.Sum/n, 2, 6)
	value(" ( cpu time / turnaround time )\n Maximum hog factor of a job:", m.Hog.Max, 2, 6)
	value("      Minimum hog factor of a job:", m.Hog.Min, 2, 6)
	value("\n Average expansion factor of a job:", m.Expansion/ran, 2, 6)
	value(" ( turnaround time / run time )\n Total Run time consumed:", m.Run, 0, 9)
	value("       Average Run time consumed:", m.Run/ran, 0, 7)
	span := m.Last.Sub(m.First).Hours()
	rate := 0.0
	if span > 0 {
		rate = float64(m.Jobs()) / span
	}
	value("\n Total throughput:", rate, 2, 17)
	value(" (jobs/hour)  during", span, 2, 8)
	b = append(b, " hours\n Beginning time:       "...)
	b = st.moment(b, m.First)
	b = append(b, "      Ending time:          "...)
	return append(st.moment(b, m.Last), '\n')
}

// moment is a time of a table, or a dash where there is none.
func (st *Style) moment(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "-           "...)
	}
	return st.time(b, t.UnixNano())
}

// SummaryRecord adds the summary to a document.
func SummaryRecord(d *JSON, m *reports.Summary, st *Style) {
	d.Open()
	d.Int("DONE", m.Done)
	d.Int("EXITED", m.Failed)
	d.Int("STARTED", m.Started)
	for _, x := range []struct {
		name string
		v    reports.Spread
	}{{"CPU_SECONDS", m.CPU}, {"WAIT_SECONDS", m.Wait}, {"TURNAROUND_SECONDS", m.Turnaround}, {"HOG_FACTOR", m.Hog}} {
		d.Raw("TOTAL_"+x.name, []byte(fixed(x.v.Sum, 3)))
		d.Raw("MAX_"+x.name, []byte(fixed(x.v.Max, 3)))
		d.Raw("MIN_"+x.name, []byte(fixed(x.v.Min, 3)))
	}
	d.Raw("TOTAL_RUN_SECONDS", []byte(fixed(m.Run, 3)))
	d.Raw("TOTAL_EXPANSION_FACTOR", []byte(fixed(m.Expansion, 3)))
	if m.Jobs() > 0 {
		d.String("FIRST_END", st.RFC3339(m.First.UnixNano()))
		d.String("LAST_END", st.RFC3339(m.Last.UnixNano()))
	}
	d.Close()
}

func status(done bool) string {
	if done {
		return "done"
	}
	return "exit"
}

func whole(d time.Duration) int64 { return int64(d.Round(time.Second) / time.Second) }

func fixed(v float64, decimals int) string { return strconv.FormatFloat(v, 'f', decimals, 64) }
