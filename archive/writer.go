package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// window is how far back the compression looks, and so about what a reader needs of memory.
const window = 1 << 20

// Writer writes an archive: rows by Add, then Close.
type Writer struct {
	zip    *zstd.Encoder // nil: only the sum is wanted
	sum    hash.Hash
	want   Counts
	have   Counts
	table  int // index into Tables
	rows   int64
	buf    []byte
	failed error // every later call fails, too
}

// NewWriter begins an archive; h.Version is filled in. It must have the counts of what will be added. w nil makes only the sum.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Version = Version
	h.Before, h.First, h.Last = h.Before.UTC(), h.First.UTC(), h.Last.UTC()
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("begin an archive: %w", err)
	}
	out := &Writer{sum: sha256.New(), want: h.Counts}
	if w != nil {
		var err error
		if out.zip, err = zstd.NewWriter(w, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true)); err != nil {
			return nil, fmt.Errorf("begin an archive: %w", err)
		}
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("begin an archive: %w", err)
	}
	return out, out.line(line)
}

// Add appends a row, which is JSON in one line. All rows of a table come together, in the order of Tables.
func (w *Writer) Add(t Table, row []byte) error {
	if w.failed != nil {
		return w.failed
	}
	for Tables[w.table] != t {
		if w.table++; w.table == len(Tables) {
			return w.fail(fmt.Errorf("a row of %s comes too late", t))
		}
	}
	switch n := w.have.Of(t); {
	case len(row) > MaxRow:
		return w.fail(fmt.Errorf("a row of %s has %d bytes, more than the %d that an archive holds", t, len(row), MaxRow))
	case bytes.IndexByte(row, '\n') >= 0:
		return w.fail(fmt.Errorf("a row of %s has a line end", t))
	case *n == *w.want.Of(t):
		return w.fail(fmt.Errorf("more rows of %s than the %d that were counted", t, *n))
	default:
		*n++
	}
	w.buf = append(append(append(append(append(w.buf[:0], `{"`...), t...), `":`...), row...), '}')
	if err := w.line(w.buf); err != nil {
		return err
	}
	if w.rows++; w.rows%checkEvery == 0 {
		return w.line(checkLine(w.sum))
	}
	return nil
}

// Close writes the end and returns the sum, in hexadecimal. It does not close what is below.
func (w *Writer) Close() (sha string, err error) {
	if w.failed != nil {
		return "", w.failed
	}
	if w.have != w.want {
		return "", w.fail(fmt.Errorf("there are %s, but %s were counted", w.have, w.want))
	}
	end := trailer{w.have, hexSum(w.sum)}
	text, err := json.Marshal(end)
	if err != nil {
		return "", w.fail(err)
	}
	if err := w.line(slicesJoin(`{"end":`, text, `}`)); err != nil {
		return "", err
	}
	if w.zip != nil {
		if err := w.zip.Close(); err != nil {
			return "", w.fail(err)
		}
	}
	w.failed = fmt.Errorf("the archive is closed")
	return end.SHA256, nil
}

// line writes a line and adds it to the sum.
func (w *Writer) line(text []byte) error {
	if w.failed != nil {
		return w.failed
	}
	for _, part := range [][]byte{text, {'\n'}} {
		w.sum.Write(part) // never fails
		if w.zip == nil {
			continue
		}
		if _, err := w.zip.Write(part); err != nil {
			return w.fail(err)
		}
	}
	return nil
}

func (w *Writer) fail(err error) error {
	w.failed = fmt.Errorf("write an archive: %w", err)
	if w.zip != nil {
		w.zip.Reset(nil) // gives what it holds back
	}
	return w.failed
}

func checkLine(sum hash.Hash) []byte { return []byte(`{"check":"` + hexSum(sum) + `"}`) }

func hexSum(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)) }

func slicesJoin(before string, text []byte, after string) []byte {
	return append(append([]byte(before), text...), after...)
}
