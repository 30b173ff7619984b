package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Real archives unpack to some 10 to 60 times their size. One that unpacks to more than this was made to fill a machine.
const (
	maxRatio = 1000
	maxExtra = 16 << 20
)

// Damage is what is wrong with a file, and where.
type Damage struct {
	From, To int64 // lines, from 1; To 0: all that follows From
	Err      error
}

func (d *Damage) Error() string {
	switch {
	case d.From == d.To:
		return fmt.Sprintf("line %d: %v", d.From, d.Err)
	case d.To == 0:
		return fmt.Sprintf("after line %d: %v", d.From, d.Err)
	}
	return fmt.Sprintf("between line %d and line %d: %v", d.From, d.To, d.Err)
}

func (d *Damage) Unwrap() error { return d.Err }

// Reader reads an archive, a row at a time. What it has given is sound only when Next has returned io.EOF; until then the caller
// must be able to undo what it did with the rows.
type Reader struct {
	zip    *zstd.Decoder
	packed *counter
	buf    *bufio.Reader
	long   []byte // a line that is longer than the buffer
	header Header
	have   Counts
	table  int // index into Tables
	rows   int64
	checks int64 // lines with a sum, seen so far
	lines  int64 // read so far
	sound  int64 // the last line that a check vouched for
	bytes  int64 // unpacked
	sum    hash.Hash
	sha    string
	done   error // what Next returns from now on
}

// NewReader reads the first line. Close must be called. Errors of the file's content are *Damage.
func NewReader(r io.Reader) (*Reader, error) {
	out := &Reader{packed: &counter{r: r}, sum: sha256.New()}
	var err error
	// One decoder that works as it is read: no goroutine reads ahead of the bound.
	out.zip, err = zstd.NewReader(out.packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8*window))
	if err != nil {
		return nil, fmt.Errorf("read an archive: %w", err)
	}
	out.buf = bufio.NewReaderSize(out.zip, 1<<16)
	if err := out.readHeader(); err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

// Close gives memory back; it does not close what is below.
func (r *Reader) Close() { r.zip.Close() }

// Header is the first line.
func (r *Reader) Header() Header { return r.header }

// Sum is the file's SHA-256, once Next has returned io.EOF; "" before.
func (r *Reader) Sum() string { return r.sha }

func (r *Reader) readHeader() error {
	line, err := r.line()
	if err != nil {
		if r.packed.err != nil {
			return err
		}
		return &Damage{1, 1, fmt.Errorf("this is no archive of Fairslice: %w", errors.Unwrap(err))}
	}
	if err := decode(line, &r.header); err != nil {
		return &Damage{1, 1, fmt.Errorf("this is no archive of Fairslice: %w", err)}
	}
	if err := r.header.check(); err != nil {
		return &Damage{1, 1, err}
	}
	r.add(line)
	return nil
}

// Next returns the next row; io.EOF when the file was read to its end and all of it is sound.
func (r *Reader) Next() (Row, error) {
	if r.done != nil {
		return Row{}, r.done
	}
	row, err := r.next()
	r.done = err
	return row, err
}

func (r *Reader) next() (Row, error) {
	line, err := r.line()
	if err != nil {
		return Row{}, err
	}
	if r.rows/checkEvery > r.checks {
		if !bytes.Equal(line, checkLine(r.sum)) {
			return Row{}, &Damage{r.sound + 1, r.lines, errors.New("the lines are not those that were written: their sum is another")}
		}
		r.add(line)
		r.checks++
		r.sound = r.lines
		if line, err = r.line(); err != nil {
			return Row{}, err
		}
	}
	if text, ok := inside(line, "end"); ok {
		return Row{}, r.end(text)
	}
	table, text, err := r.tableOf(line)
	if _, check := inside(line, "check"); err != nil && check {
		return Row{}, &Damage{r.sound + 1, r.lines, errors.New("a check comes where none belongs: lines are missing, or too many")}
	} else if err != nil {
		return Row{}, r.here(err)
	}
	row, err := ParseRow(table, text)
	if err != nil {
		return Row{}, r.here(err)
	}
	n := r.have.Of(table)
	if *n++; *n > *r.header.Of(table) {
		return Row{}, r.here(fmt.Errorf("more rows of %s than the %d of the first line", table, *r.header.Of(table)))
	}
	r.add(line)
	r.rows++
	return row, nil
}

// tableOf finds which table's row a line is. Tables may be missed out, and never come back.
func (r *Reader) tableOf(line []byte) (Table, []byte, error) {
	for i, t := range Tables {
		text, ok := inside(line, string(t))
		switch {
		case !ok:
			continue
		case i < r.table:
			return "", nil, fmt.Errorf("a row of %s comes after those of %s", t, Tables[r.table])
		}
		r.table = i
		return t, text, nil
	}
	return "", nil, fmt.Errorf("want a row of history, events, charges or cancelled; got %.60q", line)
}

// inside is what stands in {"name":…}.
func inside(line []byte, name string) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"`+name+`":`))
	if !ok {
		return nil, false
	}
	return bytes.CutSuffix(rest, []byte("}"))
}

func (r *Reader) end(text []byte) error {
	var t trailer
	if err := decode(text, &t); err != nil {
		return r.here(fmt.Errorf("the end: %w", err))
	}
	switch {
	case t.Counts != r.have || r.header.Counts != r.have:
		return r.here(fmt.Errorf("there are %s; the first line says %s, the last %s", r.have, r.header.Counts, t.Counts))
	case t.SHA256 != hexSum(r.sum):
		return &Damage{r.sound + 1, r.lines, errors.New("the lines are not those that were written: their sum is another")}
	}
	last := r.lines
	if line, err := r.line(); err == nil {
		return r.here(fmt.Errorf("more follows the end: %.60q", line))
	} else if !errors.Is(err, errCutOff) {
		return err
	}
	if r.lines != last || len(r.long) > 0 {
		return r.here(errors.New("more follows the end"))
	}
	r.sha = t.SHA256
	return io.EOF
}

func (r *Reader) here(err error) error { return &Damage{r.lines, r.lines, err} }

// add counts a line into the sum.
func (r *Reader) add(line []byte) {
	r.sum.Write(line) // never fails
	r.sum.Write([]byte{'\n'})
}

var errCutOff = errors.New("the file is cut off, or damaged, here")

// line returns the next line without its end; it is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	r.long = r.long[:0]
	for {
		part, err := r.buf.ReadSlice('\n')
		r.bytes += int64(len(part))
		switch {
		case err == nil:
		case errors.Is(err, bufio.ErrBufferFull):
			r.long = append(r.long, part...)
		case err == io.EOF && len(part)+len(r.long) == 0:
			return nil, &Damage{From: r.lines, Err: errCutOff}
		default:
			if r.packed.err != nil { // not the file's fault
				return nil, fmt.Errorf("read an archive: %w", r.packed.err)
			}
			if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
				r.long = append(r.long, part...)
				err = errCutOff
			}
			return nil, &Damage{From: r.lines, Err: err}
		}
		switch {
		case r.bytes > maxExtra+maxRatio*r.packed.n:
			return nil, &Damage{From: r.lines, Err: fmt.Errorf("the file unpacks to more than %d times its size, as no archive does", maxRatio)}
		case len(r.long)+len(part) > MaxRow+100:
			return nil, &Damage{From: r.lines, Err: fmt.Errorf("a line has more than %d bytes", MaxRow)}
		case err != nil:
			continue
		}
		r.lines++
		if len(r.long) > 0 {
			r.long = append(r.long, part...)
			part = r.long
		}
		return part[:len(part)-1], nil
	}
}

// counter counts what was read, and keeps an error of reading apart from those of the content.
type counter struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
