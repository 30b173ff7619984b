package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Version is the format that is written. Others are not read.
const Version = 1

// MaxRow is the most bytes that a row may have, as JSON. The greatest rows are submissions, which the API bounds below that.
const MaxRow = 64 << 20

// checkEvery is how many rows stand between two checks: so closely is the place of a damage known.
const checkEvery = 1000

// Table is one of the tables whose rows are archived.
type Table string

// The tables, as the database names them.
const (
	History   Table = "history"
	Events    Table = "events"
	Charges   Table = "charges"
	Cancelled Table = "cancelled"
)

// Tables are all of them, in the order in which they stand in a file.
var Tables = []Table{History, Events, Charges, Cancelled}

// Counts are rows by table. A row of History is a job.
type Counts struct {
	History   int64 `json:"history"`
	Events    int64 `json:"events"`
	Charges   int64 `json:"charges"`
	Cancelled int64 `json:"cancelled"`
}

// Of is the count of one table.
func (c *Counts) Of(t Table) *int64 {
	switch t {
	case History:
		return &c.History
	case Events:
		return &c.Events
	case Charges:
		return &c.Charges
	case Cancelled:
		return &c.Cancelled
	}
	panic("internal error: impossible table " + string(t))
}

func (c Counts) String() string {
	return fmt.Sprintf("%d jobs, %d events, %d charges, %d cancelled", c.History, c.Events, c.Charges, c.Cancelled)
}

// Header is the first line.
type Header struct {
	Version int       `json:"fairslice_archive"`
	Cluster string    `json:"cluster"` // the database's own name for itself
	Before  time.Time `json:"before"`  // all jobs in it finished before this
	First   time.Time `json:"first"`   // when the first of them did, and the last
	Last    time.Time `json:"last"`
	Counts
}

// trailer is what the last line has under "end".
type trailer struct {
	Counts
	SHA256 string `json:"sha256"`
}

// check says what a header may not be. Every file that is written or read has passed it.
func (h *Header) check() error {
	switch {
	case h.Version > Version:
		return fmt.Errorf("it has format %d, and this version reads format %d: use a newer one", h.Version, Version)
	case h.Version != Version:
		return fmt.Errorf("it has format %d; want %d", h.Version, Version)
	case h.Cluster == "" || h.Before.IsZero():
		return fmt.Errorf("its first line names no cluster or no date")
	case h.History <= 0 || h.Events < 0 || h.Charges < 0 || h.Cancelled < 0:
		return fmt.Errorf("its first line counts %s", h.Counts)
	}
	return nil
}

// decode reads all of a text as one JSON value without unknown or repeated parts.
func decode(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more follows the value")
	}
	// As it would have been written: no key twice, none in other letters.
	again, err := json.Marshal(v)
	if err == nil && !bytes.Equal(again, line) {
		err = fmt.Errorf("it is written as no archive is")
	}
	return err
}
