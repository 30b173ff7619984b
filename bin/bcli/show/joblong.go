package show

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"fairslice/api/pb"
)

// Rule is what stands between the jobs of a long listing.
const Rule = "------------------------------------------------------------------------------\n"

// JobLong appends the long listing of a job. Folded is -l, not folded -UF.
func JobLong(b []byte, j *pb.Job, st *Style, folded bool) []byte {
	b = append(b, '\n')
	b = Paragraph(b, jobLine(j, st), folded)
	b = Paragraph(b, st.Stamp(j.Submitted)+": "+SubmittedText(j)+";", folded)
	if j.Dispatched != 0 && len(j.Alloc) > 0 {
		b = Paragraph(b, st.Stamp(j.Dispatched)+": "+StartedText(j)+";", folded)
	}
	if j.State == "USUSP" || j.State == "SSUSP" || j.State == "UNKWN" {
		b = Paragraph(b, st.Stamp(j.Since)+": "+stateText(j.State), folded)
	}
	if !finished(j) {
		b = usageBlock(b, j, st, folded)
	}
	for _, line := range EndTexts(j) {
		b = Paragraph(b, st.Stamp(j.Ended)+": "+line, folded)
	}
	if d := or(j.Detail, j.Note); d != "" {
		b = Paragraph(b, " NOTE: "+d, folded)
	}
	if text := FetchText(j); text != "" {
		b = Paragraph(b, " "+text+";", folded)
	}
	if pending(j) {
		b = append(b, " PENDING REASONS:\n"...)
		for _, r := range Reasons(j) {
			b = Paragraph(b, " "+r, folded)
		}
		if turn := PriorityText(j.Turn); turn != "" {
			b = Paragraph(b, " Priority: "+turn+";", folded)
		}
		if j.ExpectedStart != 0 {
			b = Paragraph(b, " Expected start: "+st.Stamp(j.ExpectedStart)+";", folded)
		}
	}
	b = jobLimits(b, j)
	if u := j.GetUsage(); u.GetMaxMemory() > 0 {
		b = append(b, "\n MEMORY USAGE:\n MAX MEM: "...)
		b = append(Bytes(b, u.MaxMemory, 0), ";  AVG MEM: "...)
		b = append(Bytes(b, u.AvgMemory, 0), '\n')
	}
	b = append(b, "\n SCHEDULING PARAMETERS:\n"...)
	b = append(b, thresholds...)
	if r := resReq(j); r != "" {
		b = append(b, "\n RESOURCE REQUIREMENT DETAILS:\n"...)
		// As LSF has it: the first is never folded, and the second ends in a blank.
		b = Paragraph(b, " Combined: "+r, false)
		b = Paragraph(b, " Effective: "+r+" ", folded)
	}
	return sliceBlock(gpuBlock(b, j, folded), j)
}

// thresholds is LSF's table of load thresholds; we have none.
const thresholds = `           r15s   r1m  r15m   ut      pg    io   ls    it    tmp    swp    mem
 loadSched   -     -     -     -       -     -    -     -     -      -      -  
 loadStop    -     -     -     -       -     -    -     -     -      -      -  
`

func stateText(state string) string {
	switch state {
	case "UNKWN":
		return "The execution host does not answer."
	case "SSUSP":
		return "The job was suspended by the system."
	}
	return "The job was suspended by the user."
}

// parts joins ", Title <value>" for what has a value.
type parts struct{ strings.Builder }

func (p *parts) add(title, value string) {
	if value == "" {
		return
	}
	if p.Len() > 0 {
		p.WriteString(", ")
	}
	p.WriteString(title)
	p.WriteString(" <")
	p.WriteString(value)
	p.WriteByte('>')
}

func (p *parts) flag(title string, on bool) {
	if !on {
		return
	}
	if p.Len() > 0 {
		p.WriteString(", ")
	}
	p.WriteString(title)
}

var modes = map[string]string{
	"I":  "Interactive mode",
	"Ip": "Interactive pseudo-terminal mode",
	"Is": "Interactive pseudo-terminal shell mode",
}

// jobLine is the first line of a job's long listing.
func jobLine(j *pb.Job, st *Style) string {
	sp := j.GetSpec()
	var p parts
	p.add("Job", string(st.id(nil, j)))
	p.add("Job Name", givenName(j))
	p.add("User", j.GetOwner().GetUser())
	p.add("User Group", sp.GetAccount())
	p.add("Project", sp.GetProject())
	p.add("Application", sp.GetApp())
	p.add("Status", j.State)
	p.add("Queue", j.Queue)
	p.add("Reservation", sp.GetReservation())
	p.flag(modes[sp.GetInteractive()], modes[sp.GetInteractive()] != "")
	if sp.GetPriority() > 0 {
		p.add("Job Priority", strconv.Itoa(int(sp.GetPriority())))
	}
	p.add("Command", sp.GetCommand())
	p.add("Share group charged", share(j))
	p.add("Job Description", sp.GetDescription())
	return p.String()
}

// givenName is the name when the user gave one: long listings show the command anyway.
func givenName(j *pb.Job) string {
	if j.GetSpec().GetName() == "" {
		return ""
	}
	return Name(j)
}

// HistoryLine is the first line of bhist -l: a job without state and queue, which change.
func HistoryLine(j *pb.Job) string {
	sp := j.GetSpec()
	var p parts
	p.add("Job", ID(j))
	p.add("Job Name", givenName(j))
	p.add("User", j.GetOwner().GetUser())
	p.add("User Group", sp.GetAccount())
	p.add("Project", sp.GetProject())
	p.add("Application", sp.GetApp())
	p.add("Reservation", sp.GetReservation())
	p.flag(modes[sp.GetInteractive()], modes[sp.GetInteractive()] != "")
	p.add("Command", sp.GetCommand())
	p.add("Job Description", sp.GetDescription())
	return p.String()
}

func share(j *pb.Job) string {
	if a := j.GetSpec().GetAccount(); a != "" {
		return "/" + a + "/" + j.GetOwner().GetUser()
	}
	return "/" + j.GetOwner().GetUser()
}

// SubmittedText is the line of the submission, without its end.
func SubmittedText(j *pb.Job) string {
	var p parts
	p.add("Submitted from host", dash(j.GetSpec().GetSubHost()))
	submitted(&p, j)
	return p.String()
}

// SubmittedTo is SubmittedText as bhist has it, with the queue.
func SubmittedTo(j *pb.Job, queue string) string {
	var p parts
	p.add("Submitted from host", dash(j.GetSpec().GetSubHost()))
	p.add("to Queue", queue)
	submitted(&p, j)
	return p.String()
}

func submitted(p *parts, j *pb.Job) {
	sp := j.GetSpec()
	p.flag("with hold", sp.GetHold())
	p.add("CWD", underHome(sp.GetSubCwd(), j.GetOwner().GetHome()))
	p.add("Specified CWD", sp.GetCwd())
	p.add("Input File", sp.GetStdin())
	if sp.GetOverwrite() {
		p.add("Output File (overwrite)", sp.GetStdout())
	} else {
		p.add("Output File", sp.GetStdout())
	}
	if sp.GetOverwriteErr() {
		p.add("Error File (overwrite)", sp.GetStderr())
	} else {
		p.add("Error File", sp.GetStderr())
	}
	p.flag("Re-runnable", sp.GetRerunnable())
	p.flag("Exclusive Execution", sp.GetExclusive())
	p.flag("Writable Image", sp.GetWritable())
	p.flag("Notify when job begins", sp.GetNotifyBegin())
	p.flag("Notify when job ends", sp.GetNotifyEnd())
	p.add("Mail", sp.GetMailUser())
	p.add("Image", sp.GetImage())
	if n := sp.GetMinSlots(); sp.GetMaxSlots() > n {
		p.flag(strconv.Itoa(int(n))+"-"+strconv.Itoa(int(sp.GetMaxSlots()))+" Task(s)", true)
	} else {
		p.flag(strconv.Itoa(int(n))+" Task(s)", n > 1)
	}
	p.add("Requested Resources", sp.GetResReq())
	p.flag("Requested GPU", sp.GetGpu() == "-" || sp.GetGpu() == "" && sp.GetGpuRequest() != nil)
	if sp.GetGpu() != "-" {
		p.add("Requested GPU", sp.GetGpu())
	}
	p.add("Dependency Condition", sp.GetDepend())
	p.add("Pre-execution Command", sp.GetPreExec())
	p.add("Post-execution Command", sp.GetPostExec())
	p.add("Specified Hosts", askHosts(j))
}

// underHome writes $HOME for the home directory, as LSF does.
func underHome(dir, home string) string {
	if rest, ok := strings.CutPrefix(dir, home); ok && home != "" && home != "/" && (rest == "" || rest[0] == '/') {
		return "$HOME" + rest
	}
	return dir
}

// StartedText is the line of the dispatch, without its end.
func StartedText(j *pb.Job) string {
	var p parts
	n := strconv.Itoa(int(allocSlots(j)))
	p.WriteString("Started " + n + " Task(s) on Host(s) " + angled(j.Alloc) + ", Allocated " + n + " Slot(s) on Host(s) " + angled(j.Alloc))
	p.add("Execution Home", j.Home)
	p.add("Execution CWD", j.Cwd)
	return p.String()
}

func usageBlock(b []byte, j *pb.Job, st *Style, folded bool) []byte {
	u := j.GetUsage()
	if u.GetCpu() == 0 && u.GetMemory() == 0 && len(u.GetPids()) == 0 {
		return b
	}
	more := func(s string) {
		if folded {
			b = Spaces(b, wrapIndent)
			b = append(append(b, s...), '\n')
			return
		}
		b = append(append(b[:len(b)-1], ' '), s...)
		b = append(b, '\n')
	}
	b = append(b, st.Stamp(st.Now.UnixNano())...)
	b = append(b, ": Resource usage collected.\n"...)
	more("The CPU time used is " + strconv.FormatInt(u.Cpu/int64(time.Second), 10) + " seconds.")
	// Swap is not counted apart from memory.
	more("MEM: " + string(Bytes(nil, u.Memory, 0)) + ";  SWAP: 0 Mbytes;  NTHREAD: " + strconv.Itoa(int(u.Threads)))
	line := "PGID: " + strconv.Itoa(int(u.Pgid)) + ";  PIDs: "
	for _, p := range u.Pids {
		line += strconv.Itoa(int(p)) + " "
	}
	more(line)
	for _, g := range u.Gpus {
		more("GPU " + strconv.Itoa(int(g.Index)) + ": MEM: " + MiB(g.Memory) + ";  SM: " + percent1(int64(g.Util)) + " %")
	}
	return b
}

// EndTexts are the lines that tell how a finished job ended.
func EndTexts(j *pb.Job) []string {
	if !finished(j) {
		return nil
	}
	cpu := " The CPU time used is " + string(one(nil, time.Duration(j.GetUsage().GetCpu()).Seconds())) + " seconds."
	if j.State == "DONE" {
		return []string{"Done successfully." + cpu}
	}
	first := "Exited." + cpu
	code, ok := exitCode(j)
	switch sig := signal(j); {
	// A signal that we did not send is told as one; ours end in LSF's exit code.
	case sig != 0 && (j.Verdict == "" || j.Verdict == "TERM_EXTERNAL_SIGNAL"):
		first = "Exited by signal " + strconv.Itoa(int(sig)) + "." + cpu
	case ok:
		first = "Exited with exit code " + strconv.Itoa(int(code)) + "." + cpu
	}
	if j.Verdict == "" {
		return []string{first}
	}
	return []string{first, "Completed <exit>; " + exitReason(j) + "."}
}

func jobLimits(b []byte, j *pb.Job) []byte {
	if j.RunLimit > 0 {
		b = append(b, "\n RUNLIMIT                \n "...)
		b = append(one(b, time.Duration(j.RunLimit).Minutes()), " min\n"...)
	}
	type row struct{ title, value string }
	var rows []row
	if m := memoryLimit(j); m > 0 {
		rows = append(rows, row{" MEMLIMIT", limitSize(m)})
	}
	names := map[string]string{"C": " CORELIMIT", "S": " STACKLIMIT", "F": " FILELIMIT", "D": " DATALIMIT", "v": " SWAPLIMIT", "p": " PROCLIMIT", "T": " THREADLIMIT"}
	var letters []string
	for l := range j.GetSpec().GetLimits() {
		letters = append(letters, l)
	}
	sort.Strings(letters)
	for _, l := range letters {
		v := j.Spec.Limits[l]
		switch {
		case l == "p" || l == "T":
			rows = append(rows, row{names[l], strconv.FormatInt(v, 10) + "  "})
		case names[l] != "":
			rows = append(rows, row{names[l], limitSize(v)})
		}
	}
	if len(rows) == 0 {
		return b
	}
	b = append(b, '\n')
	for _, r := range rows {
		b = append(b, r.title...)
	}
	b = append(b, '\n')
	for _, r := range rows {
		b = Right(b, r.value, 9)
		b = append(b, ' ')
	}
	return append(b, '\n')
}

func gpuBlock(b []byte, j *pb.Job, folded bool) []byte {
	n := gpuNum(j)
	if n == 0 {
		return b
	}
	req := "num=" + strconv.FormatInt(n, 10) + ":mode=" + gpuMode(j) + ":mps=no:j_exclusive="
	if j.GetSpec().GetGpuRequest().GetExclusive() {
		req += "yes"
	} else {
		req += "no"
	}
	if j.Fgpu > 0 {
		req += ":fgpu=" + string(FGPU(nil, j.Fgpu))
	}
	b = append(b, "\n GPU REQUIREMENT DETAILS:\n"...)
	b = Paragraph(b, " Combined: "+req, folded)
	b = Paragraph(b, " Effective: "+req, folded)
	titled := false
	for _, a := range j.Alloc {
		for i, s := range a.Slices {
			if !titled {
				titled = true
				b = append(b, "\n GPU_ALLOCATION:\n HOST             TASK ID  MODEL        MTOTAL  FACTOR MRSV    SOCKET NVLINK/XGMI\n"...)
			}
			host := ""
			if i == 0 {
				host = a.Node
			}
			b = append(b, ' ')
			b = LeftLong(b, host, 17)
			b = append(b, "0    "...)
			b = LeftInt(b, int64(s.Index), 4)
			b = append(b, "-            -       -      "...)
			b = LeftLong(b, hostSize(s.Memory), 8)
			b = append(b, "0      -\n"...)
		}
	}
	return b
}
