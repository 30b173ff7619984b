package command

import (
	"fmt"
	"io"
	"time"

	"fairslice/bin/bcli/session"
	"fairslice/bin/bcli/show"
)

// meter says how far the making of an image is: by one line that changes on a terminal, by a line for each stage elsewhere.
type meter struct {
	c        *call
	terminal bool
	stage    string
	began    time.Time
	from     int64 // what was done when the stage began
	drawn    time.Time
	shown    bool
}

func (c *call) meter() *meter { return &meter{c: c, terminal: session.TerminalOf(c.stderr) != nil} }

// at tells the state: bytes, of which total are expected; 0 where that is not known.
func (m *meter) at(stage string, done, total int64) {
	if stage == "" {
		return
	}
	now := m.c.env.Now()
	if stage != m.stage {
		m.stage, m.began, m.from, m.drawn = stage, now, done, time.Time{}
		if !m.terminal {
			m.c.say(stage)
		}
	}
	if !m.terminal || now.Sub(m.drawn) < progressEvery {
		return
	}
	m.drawn, m.shown = now, true
	text := stage + "  " + show.Size(done)
	if total > 0 {
		text = fmt.Sprintf("%s %3d %%  %s of %s", stage, 100*min(done, total)/total, show.Size(done), show.Size(total))
	}
	if s := now.Sub(m.began).Seconds(); s >= 1 && done > m.from {
		text += fmt.Sprintf("  %.1f MB/s", float64(done-m.from)/s/1e6)
	}
	_, _ = io.WriteString(m.c.stderr, "\r\033[K"+text)
}

// clear takes the line away.
func (m *meter) clear() {
	if m.shown {
		m.shown = false
		_, _ = io.WriteString(m.c.stderr, "\r\033[K")
	}
}

// stageWords are what package images/sif calls a stage, for people.
func stageWords(stage string) string {
	switch stage {
	case "fetch":
		return "fetching"
	case "open", "unpack":
		return "unpacking"
	case "squash":
		return "packing"
	case "check":
		return "checking"
	case "copy":
		return "copying"
	}
	return show.Clean(stage)
}

// meterReader counts what is sent.
type meterReader struct {
	r           io.Reader
	m           *meter
	done, total int64
}

func (r *meterReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.done += int64(n)
	r.m.at("sending", r.done, r.total)
	return n, err
}
