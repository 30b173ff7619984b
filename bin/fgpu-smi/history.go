package main

import (
	"fmt"
	"strings"

	"fairslice/nodes/fgpu"
)

const (
	plotWidth  = 78
	plotHeight = 6
)

// writeHistory is --history: a plot for each GPU. blocks says that the terminal shows block characters.
func (st *state) writeHistory(b *strings.Builder, blocks bool) {
	for i, g := range st.GPUs {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "GPU %d: %s (UUID: %s), job %s", g.Index, clean(g.Model), clean(g.UUID), clean(st.Job))
		if g.Lost {
			b.WriteString(", LOST")
		}
		b.WriteByte('\n')
		b.WriteString(fgpu.Render(g.samples, fgpu.Plot{Width: plotWidth, Height: plotHeight, ASCII: !blocks, Limit: g.MemoryLimit, Share: g.share}))
	}
	st.writeNotes(b)
}

func (st *state) writeNotes(b *strings.Builder) {
	for _, n := range st.Notes {
		b.WriteString("Note: " + clean(n) + "\n")
	}
}
