package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The table is in the manner of nvidia-smi's: the same look for the same question.

const (
	leftWidth, midWidth, rightWidth = 47, 22, 24 // a UUID fits
	tableWidth                      = leftWidth + midWidth + rightWidth + 2
)

func (st *state) writeTable(b *strings.Builder) {
	rule := func(c string) {
		fmt.Fprintf(b, "+%s+%s+%s+\n", strings.Repeat(c, leftWidth), strings.Repeat(c, midWidth), strings.Repeat(c, rightWidth))
	}
	row := func(left, mid, right string) {
		fmt.Fprintf(b, "|%s|%s|%s|\n", pad(left, leftWidth), padLeft(mid+" ", midWidth), padLeft(right+" ", rightWidth))
	}
	flat := "+" + strings.Repeat("-", tableWidth) + "+\n"
	wide := func(text string) { fmt.Fprintf(b, "|%s|\n", pad(" "+text, tableWidth)) }

	b.WriteString(flat)
	title := "FGPU-SMI " + version + "    Job " + st.Job + "    Share policy: " + st.Policy
	if st.Simulated {
		title += "    SIMULATED GPU"
	}
	wide(title)
	wide(st.At.Format("Mon Jan _2 15:04:05 2006"))
	rule("-")
	row(" GPU  Name", "Memory used / limit", "SM used / share of GPU")
	row("      UUID", "of the whole GPU", "used of the share")
	row("      Mode, fGPU", "Refused", "Launches, throttled")
	rule("=")
	for _, g := range st.GPUs {
		mark := ""
		if g.Lost {
			mark = "  LOST: the driver no longer answers for it"
		}
		row(fmt.Sprintf(" %3d  %s", g.Index, g.Model), fmt.Sprintf("%d / %d MiB", mib(g.MemoryUsed), g.MemoryLimit>>20),
			fmt.Sprintf("%.1f %% / %.1f %%", g.SM, g.SMLimit))
		row("      "+g.UUID, fmt.Sprintf("%d MiB", g.Memory>>20), ofShare(g))
		row(fmt.Sprintf("      %s, %s fGPU", g.Mode, strconv.FormatFloat(g.FGPU, 'f', -1, 64)), strconv.FormatUint(g.Denied, 10),
			fmt.Sprintf("%d, %.1f s", g.Launches, g.Throttled))
		if mark != "" {
			rule("-")
			wide(mark)
		}
		rule("-")
	}
	wide("Processes:" + padLeft("GPU memory", tableWidth-13))
	for _, p := range st.Processes {
		name := p.Name
		if name == "" {
			name = "-"
		}
		wide(pad(fmt.Sprintf("%4d  %8d  %s", p.GPU, p.PID, name), tableWidth-15) + padLeft(fmt.Sprintf("%d MiB", mib(p.Memory)), 12))
	}
	if len(st.Processes) == 0 {
		wide("  No process of this job holds memory of a GPU")
	}
	b.WriteString(flat)
	st.writeNotes(b)
}

// ofShare is what of its share a job uses.
func ofShare(g gpu) string {
	if g.SMLimit <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*g.SM/g.SMLimit)
}

// writeList is -L, in the form of nvidia-smi's.
func (st *state) writeList(b *strings.Builder) {
	for _, g := range st.GPUs {
		fmt.Fprintf(b, "GPU %d: %s (UUID: %s)\n", g.Index, clean(g.Model), clean(g.UUID))
	}
}

// mib rounds up: what is used is never shown as nothing.
func mib(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// pad makes s exactly n characters wide.
func pad(s string, n int) string {
	s = cut(clean(s), n)
	return s + strings.Repeat(" ", n-utf8.RuneCountInString(s))
}

// padLeft is pad with the blanks before.
func padLeft(s string, n int) string {
	s = cut(clean(s), n)
	return strings.Repeat(" ", n-utf8.RuneCountInString(s)) + s
}

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

// clean keeps a name, which any process chooses itself, from moving the terminal's cursor.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
