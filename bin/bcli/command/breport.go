package command

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
	"fairslice/reports"
)

func breportCommand() *command {
	value := func(name, arg, help string) option.Option {
		return option.Option{Name: name, Value: option.Required, Arg: arg, Help: help}
	}
	return &command{run: breport, Command: option.Command{
		Name: "breport", Usage: "usage|wait|efficiency|wasters|nodes|gpus|utilisation [options]",
		Summary: "reports what was used, by whom, and how well (administrators; others see their own jobs)",
		Example: "breport usage                                   who used how much in the last 30 days\n" +
			"breport usage -by day -C 2026/03 -plot march.svg\nbreport wait -by queue -C .-7d,.\n" +
			"breport efficiency -by job -u alice             used against given, as seff asks\nbreport wasters\n" +
			"breport nodes -C 2026/03/01,2026/03/31 -csv\n" +
			"\nusage        what was given: hours of slots, fGPU, whole GPUs, memory\n" +
			"wait         how long jobs waited\nefficiency   what was used of what was given\n" +
			"wasters      who left most unused\nnodes gpus   how much of each was given\n" +
			"utilisation  how much GPU was given, free, and lost to fragmentation, by day",
		Options: []option.Option{
			value("by", "GROUP", "rows: user account queue project image node gpu job day week month"),
			value("C", "BEGIN,END", "the period (of ends): yyyy/mm/dd, yyyy/mm, .-7d,. (default .-30d,.)"),
			value("u", "USER", "of this user only"), value("G", "ACCOUNT", "charged to this account only"), value("q", "QUEUE", "of this queue only"),
			value("P", "PROJECT", "of this project only"), value("m", "HOST", "on this host only"),
			{Name: "n", Value: option.Required, Number: true, Arg: "NUMBER", Help: "rows at most"},
			{Name: "csv", Group: "How it is shown", Help: "for spreadsheets"}, optJSON, optNoHead,
			value("plot", "FILE", "draw it into a file, too (SVG)"),
		},
	}}
}

func breport(c *call, p *option.Parsed) int {
	if len(p.Operands) != 1 {
		return c.fail("breport: which report? One of usage, wait, efficiency, wasters, nodes, gpus and utilisation (breport -h tells more)")
	}
	if p.Has("csv") && p.Has("json") {
		return c.fail("breport: -csv or -json, not both")
	}
	file := p.Last("plot")
	if file != "" && !strings.EqualFold(filepath.Ext(file), ".svg") {
		return c.fail("breport: " + show.Clean(file) + ": drawings are SVG; give the file a name that ends in .svg")
	}
	limit := 0
	if p.Has("n") {
		if limit = number(p.Last("n")); limit < 1 || limit > reports.MaxLimit {
			return c.fail("breport: -n " + show.Clean(p.Last("n")) + ": a report has 1 to " + strconv.Itoa(reports.MaxLimit) + " rows")
		}
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	resp, err := u.Report(c.ctx, &pb.ReportRequest{Kind: p.Operands[0], By: p.Last("by"), Period: p.Last("C"), User: everybody(p.Last("u")), Account: p.Last("G"),
		Queue: p.Last("q"), Project: p.Last("P"), Host: p.Last("m"), Limit: int32(limit), Plot: file != ""})
	if err != nil {
		return c.failErr(err)
	}
	t := reported(resp)
	switch {
	case p.Has("csv"):
		if err := t.WriteCSV(c.out); err != nil {
			return c.fail("breport: write the output: " + err.Error())
		}
	case p.Has("json"):
		c.write(reportDocument(t))
	default:
		c.write(t.AppendText(nil, show.Clean, !p.Has("noheader")))
	}
	for _, n := range t.Notes {
		c.say("note: " + show.Clean(n))
	}
	if file != "" {
		if !filepath.IsAbs(file) {
			file = filepath.Join(c.env.Dir, file)
		}
		if err := os.WriteFile(file, resp.Svg, 0o666); err != nil {
			return c.fail("breport: write the drawing: " + show.Clean(err.Error()))
		}
	}
	return 0
}

// everybody is "" for "all", which restricts nothing.
func everybody(user string) string {
	if user == "all" {
		return ""
	}
	return user
}

func reported(resp *pb.ReportResponse) *reports.Table {
	t := &reports.Table{Title: resp.Title, Notes: resp.Notes}
	for _, col := range resp.Columns {
		t.Columns = append(t.Columns, reports.Column{Name: col.Name, Text: col.Text})
	}
	for _, row := range resp.Rows {
		cells := make([]string, len(t.Columns)) // of a daemon of another version, too
		copy(cells, row.Cells)
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// reportDocument has a record for each row; what has no value has no field.
func reportDocument(t *reports.Table) []byte {
	doc := show.NewJSON("breport", "ROWS")
	for _, row := range t.Rows {
		doc.Open()
		for i, cell := range row {
			name := strings.ToUpper(t.Columns[i].Name)
			if _, err := strconv.ParseFloat(cell, 64); err == nil && !t.Columns[i].Text {
				doc.Raw(name, []byte(cell))
			} else if t.Columns[i].Text {
				doc.String(name, cell)
			}
		}
		doc.Close()
	}
	return doc.End(nil)
}
