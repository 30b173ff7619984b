package api_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"fairslice/api"
	"fairslice/api/wire"
	"fairslice/archive"
)

// fakeArchive is what the fake was asked for, and what it says is archived. Its archives are any bytes.
type fakeArchive struct {
	purged, restored string
	archived         time.Time
}

func (e *engine) Export(_ context.Context, before string, keep bool, w io.Writer) error {
	if before == "" {
		return wire.Errorf(wire.Invalid, "no date")
	}
	for range 3 { // of more than a message each
		if _, err := io.WriteString(w, strings.Repeat(fmt.Sprint(before, keep, ";"), 50_000)); err != nil {
			return err
		}
	}
	if before == "broken" {
		return wire.Errorf(wire.Unavailable, "the database is away")
	}
	return nil
}

func (e *engine) Purge(_ context.Context, before, sum, by string) (api.ArchiveOutcome, error) {
	e.purged = before + " " + sum + " " + by
	return api.ArchiveOutcome{Counts: archive.Counts{History: 1, Events: 2, Charges: 3, Cancelled: 4}, Again: true, Since: time.Unix(5, 0)}, nil
}

func (e *engine) Restore(_ context.Context, sum string, from io.Reader) (api.ArchiveOutcome, error) {
	if sum == "unknown" { // answers before it has read anything
		return api.ArchiveOutcome{}, wire.Errorf(wire.Conflict, "nothing was archived into this file")
	}
	data, err := io.ReadAll(from)
	if err != nil {
		return api.ArchiveOutcome{}, err
	}
	e.restored = string(data)
	return api.ArchiveOutcome{Counts: archive.Counts{History: int64(len(data))}}, nil
}

func (e *engine) ArchivedUntil(context.Context) (time.Time, error) { return e.archived, nil }
