package agent

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"fairslice/queue"
)

// ctime is the form of times in the report.
const ctime = "Mon Jan _2 15:04:05 2006"

// maxScriptLines of a job's script are shown in its report.
const maxScriptLines = 50

// jobReport is LSF's report of a job as it stands below the output in the -o file. Its shape is read
// by scripts (Snakemake profiles read the line two above "Resource usage summary:").
func jobReport(as queue.Assignment, r record, rep queue.Report, at time.Time) []byte {
	var b bytes.Buffer
	rule := strings.Repeat("-", 60)
	result := queue.Result{Status: rep.Status, Verdict: rep.Verdict}
	word := "Exited"
	if rep.Status == 0 && rep.Verdict == queue.TermNone {
		word = "Done"
	}
	user, cluster := as.Owner.User, as.Cluster
	fmt.Fprintf(&b, "\n%s\nSender: LSF System <%s@%s>\n", rule, "fairslice", as.Alloc[0].Node)
	fmt.Fprintf(&b, "Subject: Job %s: <%s> in cluster <%s> %s\n\n", as.ID, as.DisplayName, cluster, word)
	fmt.Fprintf(&b, "Job <%s> was submitted from host <%s> by user <%s> in cluster <%s> at %s\n",
		as.DisplayName, as.Spec.SubHost, user, cluster, as.Submitted.Local().Format(ctime))
	for i, a := range as.Alloc {
		host := string(a.Node)
		if a.Slots > 1 || len(as.Alloc) > 1 {
			host = fmt.Sprintf("%d*%s", a.Slots, a.Node)
		}
		if i == 0 {
			fmt.Fprintf(&b, "Job was executed on host(s) <%s>, in queue <%s>, as user <%s> in cluster <%s> at %s\n",
				host, as.Queue, user, cluster, r.Began.Local().Format(ctime))
		} else {
			fmt.Fprintf(&b, "                            <%s>\n", host)
		}
	}
	fmt.Fprintf(&b, "<%s> was used as the home directory.\n<%s> was used as the working directory.\n", as.Owner.Home, r.CWD)
	fmt.Fprintf(&b, "Started at %s\nTerminated at %s\nResults reported at %s\n\n",
		r.Began.Local().Format(ctime), at.Local().Format(ctime), at.Local().Format(ctime))
	fmt.Fprintf(&b, "Your job looked like:\n\n%s\n# LSBATCH: User input\n%s%s\n\n", rule, scriptText(as.Script), rule)
	if rep.Verdict != queue.TermNone {
		fmt.Fprintf(&b, "%s: %s.\n", rep.Verdict, rep.Verdict.Text())
	}
	fmt.Fprintf(&b, "%s\n\nResource usage summary:\n\n", verdictLine(result))
	usageLines(&b, as, rep, r, at)
	b.WriteString("\nThe output (if any) is above this job summary.\n\n")
	if r.Stderr != "" && r.Stderr != r.Stdout {
		fmt.Fprintf(&b, "PS:\n\nRead file <%s> for stderr output of this job.\n\n", r.Stderr)
	}
	return b.Bytes()
}

// verdictLine is exactly one of LSF's four.
func verdictLine(res queue.Result) string {
	switch {
	case res.Status == queue.NoStatus:
		return "Exited"
	case res.Status == 0 && res.Verdict == queue.TermNone:
		return "Successfully completed."
	case res.Signal() != 0 && (res.Verdict == queue.TermNone || res.Verdict == queue.TermExternalSignal):
		core := ""
		if res.Status&0x80 != 0 {
			core = ", and core dumped"
		}
		return "Exited with signal termination: " + queue.SignalText(res.Signal()) + core + "."
	}
	return fmt.Sprintf("Exited with exit code %d.", res.ExitCode())
}

func usageLines(b *bytes.Buffer, as queue.Assignment, rep queue.Report, r record, at time.Time) {
	const mb = 1 << 20
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "    %-45s%s\n", name+" :", fmt.Sprintf(format, args...))
	}
	u := rep.Usage
	line("CPU time", "%.2f sec.", u.CPU.Seconds())
	line("Max Memory", "%d MB", (u.MaxMemory+mb-1)/mb)
	line("Average Memory", "%.2f MB", float64(u.AvgMemory)/mb)
	if asked := as.Alloc[0].Memory; asked > 0 {
		line("Total Requested Memory", "%.2f MB", float64(asked)/mb)
		line("Delta Memory", "%.2f MB", float64(asked-u.MaxMemory)/mb)
	} else {
		line("Total Requested Memory", "-")
		line("Delta Memory", "-")
	}
	line("Max Swap", "-")
	line("Max Processes", "%d", u.MaxProcs)
	line("Max Threads", "%d", u.MaxThrds)
	line("Run time", "%d sec.", int(at.Sub(r.Began).Seconds()))
	line("Turnaround time", "%d sec.", int(at.Sub(as.Submitted).Seconds()))
	if len(u.GPUs) == 0 {
		return
	}
	for _, text := range queue.SliceTexts(as.Alloc, u) { // ours, below all of LSF's
		fmt.Fprintf(b, "    %s\n", text)
	}
}

// scriptText is the job's script, cut after maxScriptLines, ending in a line break.
func scriptText(script []byte) string {
	lines := strings.SplitAfter(string(script), "\n")
	cut := ""
	if len(lines) > maxScriptLines {
		lines, cut = lines[:maxScriptLines], "(... more ...)\n"
	}
	text := strings.Join(lines, "")
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + cut
}
