package reports

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Column is one column of a report.
type Column struct {
	Name string // for programs: lower case, with the unit: "fgpu_hours"
	Text bool   // else its cells are numbers, or "" where there is none
}

// Table is a report. A cell is text, or a decimal number with a point.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]string
	Notes   []string // what a reader must know, such as that rows were left out
}

// Total is the first cell of a row that is the sum of the others.
const Total = "TOTAL"

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// WriteCSV writes a line of titles and the rows (RFC 4180). A text that a spreadsheet could take for a formula, because it begins
// with = + - @, a tab or a carriage return, gets an apostrophe before it. Numbers are left as they are.
func (t *Table) WriteCSV(to io.Writer) error {
	w := csv.NewWriter(to)
	cells := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		cells[i] = c.Name
	}
	if err := w.Write(cells); err != nil {
		return err
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			if t.Columns[i].Text {
				cell = Harmless(cell)
			}
			cells[i] = cell
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// Harmless is a text that no spreadsheet takes for a formula.
func Harmless(s string) string {
	if s != "" && strings.IndexByte("=+-@\t\r", s[0]) >= 0 {
		return "'" + s
	}
	return s
}

// AppendText appends the report for people: title, columns aligned, numbers to the right. clean makes a text fit for a terminal.
func (t *Table) AppendText(b []byte, clean func(string) string, header bool) []byte {
	widths := make([]int, len(t.Columns))
	if header {
		for i, c := range t.Columns {
			widths[i] = len(c.Name)
		}
	}
	rows := make([][]string, len(t.Rows))
	for r, row := range t.Rows {
		rows[r] = make([]string, len(row))
		for i, cell := range row {
			if cell = clean(cell); cell == "" {
				cell = "-"
			}
			rows[r][i] = cell
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(cells []string) {
		for i, cell := range cells {
			if i > 0 {
				b = append(b, "  "...)
			}
			pad := widths[i] - utf8.RuneCountInString(cell)
			if !t.Columns[i].Text {
				b = append(b, strings.Repeat(" ", pad)...)
				b = append(b, cell...)
				continue
			}
			b = append(b, cell...)
			if i < len(cells)-1 {
				b = append(b, strings.Repeat(" ", pad)...)
			}
		}
		b = append(b, '\n')
	}
	if header {
		titles := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			titles[i] = strings.ToUpper(c.Name)
		}
		b = append(append(b, clean(t.Title)...), '\n')
		line(titles)
	}
	for _, row := range rows {
		line(row)
	}
	return b
}

// Number is v with some decimals, as cells have it.
func Number(v float64, decimals int) string { return strconv.FormatFloat(v, 'f', decimals, 64) }

// Whole is a whole number, as cells have it.
func Whole(v int64) string { return strconv.FormatInt(v, 10) }

// Percent is part/whole × 100 with one decimal; "" where there is no whole.
func Percent(part, whole float64) string {
	if whole <= 0 {
		return ""
	}
	return Number(100*part/whole, 1)
}
