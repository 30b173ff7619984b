package command

import (
	"fmt"
	"io"
	"sync"
	"time"

	"fairslice/bin/bcli/show"
)

// progress is the line on a terminal that says how far a copy is. All methods work on nil: nobody looks.
type progress struct {
	w   io.Writer
	now func() time.Time

	mu    sync.Mutex
	name  string
	bytes int64
	files int
	began time.Time
	drawn time.Time
	shown bool // the line is there
}

// progressEvery is how often the line is drawn.
const progressEvery = 200 * time.Millisecond

func (p *progress) each(name string) {
	if p != nil {
		p.mu.Lock()
		p.name = name
		p.files++
		p.mu.Unlock()
	}
}

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += int64(n)
	now := p.now()
	if p.began.IsZero() {
		p.began, p.drawn = now, now
	}
	if now.Sub(p.drawn) >= progressEvery {
		p.drawn = now
		p.draw(now)
	}
}

func (p *progress) draw(now time.Time) {
	rate := 0.0
	if s := now.Sub(p.began).Seconds(); s > 0 {
		rate = float64(p.bytes) / s / 1e6
	}
	name := show.Clean(p.name)
	if len(name) > 40 {
		name = "…" + name[len(name)-39:]
	}
	p.shown = true
	_, _ = fmt.Fprintf(p.w, "\r\033[K%d files  %.1f MB  %.1f MB/s  %s", p.files, float64(p.bytes)/1e6, rate, name)
}

// clear takes the line away, for another text.
func (p *progress) clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		p.shown = false
		_, _ = io.WriteString(p.w, "\r\033[K")
	}
}

// done leaves the last state there.
func (p *progress) done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files > 0 {
		p.name = ""
		p.draw(p.now())
		_, _ = io.WriteString(p.w, "\n")
	}
}

// count is w, counted.
func (p *progress) count(w io.Writer) io.Writer {
	if p == nil {
		return w
	}
	return counted{p: p, w: w}
}

// reader is r, counted.
func (p *progress) reader(r io.Reader) io.Reader {
	if p == nil {
		return r
	}
	return counted{p: p, r: r}
}

type counted struct {
	p *progress
	r io.Reader
	w io.Writer
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.p.add(n)
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.p.add(n)
	return n, err
}
