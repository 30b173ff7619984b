package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// progress is a bar on a terminal; on anything else, and on short runs, it is silent.
type progress struct {
	to    io.Writer
	what  string
	now   func() time.Time
	begun time.Time
	drawn time.Time // zero: nothing is drawn yet
}

const (
	progressAfter = time.Second // what is over by then needs no bar
	progressEvery = 100 * time.Millisecond
	progressWidth = 30
)

func newProgress(to io.Writer, what string) *progress {
	f, isFile := to.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		to = nil
	}
	return &progress{to: to, what: what, now: time.Now, begun: time.Now()}
}

// show draws how far it is.
func (p *progress) show(done, all int) {
	if p.to == nil || all <= 0 {
		return
	}
	now := p.now()
	if used := now.Sub(p.begun); used < progressAfter || now.Sub(p.drawn) < progressEvery {
		return
	}
	p.drawn = now
	full := min(max(done*progressWidth/all, 0), progressWidth)
	left := ""
	if done > 0 {
		left = ", " + (now.Sub(p.begun) * time.Duration(all-done) / time.Duration(done)).Round(time.Second).String() + " left"
	}
	fmt.Fprintf(p.to, "\r%s [%s%s] %d of %d%s\x1b[K", p.what, strings.Repeat("#", full), strings.Repeat(" ", progressWidth-full), done, all, left)
}

// end takes the bar away.
func (p *progress) end() {
	if p.to != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
