package option

import (
	"fmt"
	"strings"
)

// helpWidth is where help texts wrap: a terminal of 80 columns.
const helpWidth = 79

// Help is the page that -h prints.
func (c *Command) Help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s %s\n", c.Name, c.Summary, c.Name, c.Usage)
	if c.Example != "" {
		b.WriteString("\nExamples:\n")
		for _, line := range strings.Split(strings.TrimSpace(c.Example), "\n") {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	const indent = 22
	titled := false
	for i := range c.Options {
		o := &c.Options[i]
		if o.Hidden {
			continue
		}
		if o.Group != "" {
			fmt.Fprintf(&b, "\n%s:\n", o.Group)
			titled = true
		} else if !titled {
			b.WriteString("\nOptions:\n")
			titled = true
		}
		left := "  -" + o.Name
		if o.Value == Required {
			arg := o.Arg
			if arg == "" {
				arg = "VALUE"
			}
			left += " " + arg
		}
		writeRow(&b, left, o.Help, indent)
	}
	if titled {
		b.WriteByte('\n')
	} else {
		b.WriteString("\nOptions:\n")
	}
	writeRow(&b, "  -h, --help", "this page", indent)
	writeRow(&b, "  -V", "the version", indent)
	return b.String()
}

// writeRow prints left, and text in the column at indent, wrapped between words.
func writeRow(b *strings.Builder, left, text string, indent int) {
	b.WriteString(left)
	col := len(left)
	if col >= indent {
		b.WriteByte('\n')
		col = 0
	}
	b.WriteString(strings.Repeat(" ", indent-col))
	col = indent
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && col+1+len([]rune(word)) > helpWidth:
			b.WriteByte('\n')
			b.WriteString(strings.Repeat(" ", indent))
			col = indent
		case i > 0:
			b.WriteByte(' ')
			col++
		}
		b.WriteString(word)
		col += len([]rune(word))
	}
	b.WriteByte('\n')
}
