package store

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"fairslice/queue"
)

// encoder makes the texts of one batch. The first error stays, so that callers look once.
type encoder struct {
	buf bytes.Buffer
	enc *json.Encoder
	err error
}

func newEncoder() *encoder {
	e := &encoder{}
	e.enc = json.NewEncoder(&e.buf)
	e.enc.SetEscapeHTML(false) // nobody puts these texts into a page; "<" stays one byte
	return e
}

func (e *encoder) json(v any) string {
	e.buf.Reset()
	if err := e.enc.Encode(v); err != nil && e.err == nil {
		e.err = err
	}
	return strings.TrimSuffix(e.buf.String(), "\n")
}

// text makes a string fit a text column: PostgreSQL takes neither NUL nor broken UTF-8 there, and one
// stray byte in a user's job name must not keep everybody's batch out. json replaces the same bytes by itself.
func text(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// more is the part of an element that is rarely set, and has no column of its own.
type more struct {
	KillAs  queue.Verdict `json:"kill_as,omitempty"`
	KillAt  time.Time     `json:"kill_at,omitzero"`
	Requeue bool          `json:"requeue,omitempty"`
	Hold    bool          `json:"hold,omitempty"`
	AsDone  bool          `json:"as_done,omitempty"`
	Note    string        `json:"note,omitempty"`
	Retry   time.Time     `json:"retry,omitzero"`
	Failed  int           `json:"failed,omitempty"`
	Waited  time.Duration `json:"waited,omitempty"`
}

func moreOf(e *queue.Element) more {
	return more{e.KillAs, e.KillAt, e.Requeue, e.Hold, e.AsDone, e.Note, e.Retry, e.Failed, e.Waited}
}

func (m *more) give(e *queue.Element) {
	e.KillAs, e.KillAt, e.Requeue, e.Hold, e.AsDone = m.KillAs, m.KillAt, m.Requeue, m.Hold, m.AsDone
	e.Note, e.Retry, e.Failed, e.Waited = m.Note, m.Retry, m.Failed, m.Waited
}
