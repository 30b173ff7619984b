package command

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/archive"
	"fairslice/bin/bcli/show"
	"fairslice/queue/option"
)

// archiveHelp is the part of badmin's help about jobs of long ago.
const archiveHelp = "archive -before DATE FILE          move jobs that finished before a day into a file\n" +
	"archive -keep -before DATE FILE    copy them only\n" +
	"restore FILE                       bring them back\n"

// archive runs badmin archive. Whatever it is killed by and when, the same command again ends the same: the file has its name only when
// all of it is on disk and was read back, and the jobs are deleted by its sum.
func (c *call) archive(p *option.Parsed, words []string) int {
	before, keep := p.Last("before"), p.Has("keep")
	if len(words) != 1 || before == "" {
		return c.fail("badmin: archive needs a date and the name of one file: badmin archive -before 2026-01-01 FILE")
	}
	file := c.path(words[0])
	h, sum, err := archive.Verify(file)
	there := err == nil
	switch {
	case there && keep:
		return c.fail("badmin: " + show.Clean(words[0]) + ": is there already, whole, with " + c.contents(h) + "; nothing was written")
	case !there && !errors.Is(err, fs.ErrNotExist):
		return c.fail("badmin: " + show.CleanText(err.Error()) + "\nA file that is there is not written over: move it away, or give another name")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	if there {
		c.say("badmin: " + show.Clean(words[0]) + " is there already and whole, with " + c.contents(h) + "; they are deleted now if they are not yet")
	} else {
		h, sum, err = archive.Create(file, func(w io.Writer) error { return u.Export(c.ctx, before, keep, w) })
		if err != nil {
			return c.fail("badmin: " + show.CleanText(reason(err)))
		}
	}
	if keep {
		c.print("Copied " + c.contents(h) + ". They stay in the database.\n")
		return 0
	}
	out, err := u.Purge(c.ctx, before, sum)
	if err != nil {
		return c.fail(show.CleanText(err.Error()) + "\nbadmin: " + show.Clean(words[0]) + " is whole; the same command again deletes what it has from the database, unless that has changed")
	}
	if out.Again {
		c.print("Already archived on " + c.style.CTime(out.Since) + ": " + c.contents(h) + ".\n")
		return 0
	}
	c.print("Archived " + c.contents(h) + ". badmin restore " + show.Clean(words[0]) + " brings them back.\n")
	return 0
}

// restore runs badmin restore. The file is read as a whole first, so that a damaged one is not sent.
func (c *call) restore(words []string) int {
	if len(words) != 1 {
		return c.fail("badmin: restore needs the name of one file that badmin archive has written")
	}
	file := c.path(words[0])
	h, sum, err := archive.Verify(file)
	if err != nil {
		return c.fail("badmin: " + show.CleanText(err.Error()) + ": nothing was restored")
	}
	f, err := os.Open(file)
	if err != nil {
		return c.fail("badmin: " + show.CleanText(err.Error()))
	}
	defer f.Close()
	u, ok := c.connect()
	if !ok {
		return failed
	}
	out, err := u.Restore(c.ctx, sum, f)
	switch {
	case err != nil:
		return c.failErr(err)
	case out.Again:
		c.print("Already restored on " + c.style.CTime(out.Since) + ": " + c.contents(h) + ".\n")
	default:
		c.print("Restored " + c.contents(h) + ".\n")
	}
	return 0
}

// contents says what an archive has.
func (c *call) contents(h archive.Header) string {
	n := strconv.FormatInt(h.History, 10) + " jobs"
	if h.History == 1 {
		n = "1 job"
	}
	return n + " that finished before " + c.day(h.Before) + " (" + strconv.FormatInt(h.Charges, 10) + " charges, " + strconv.FormatInt(h.Events, 10) + " events)"
}

func (c *call) day(t time.Time) string { return t.In(c.style.Zone()).Format("2006-01-02") }

func (c *call) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.env.Dir, name)
}

// reason is what batchd said, where it did: how the file was being made then is of no interest.
func reason(err error) string {
	if said, ok := errors.AsType[*wire.Error](err); ok {
		return said.Msg
	}
	return err.Error()
}

// archivedNote is said where older jobs were asked for than the database has.
func (c *call) archivedNote(until int64) {
	if until != 0 {
		c.say("note: jobs that finished before " + c.day(time.Unix(0, until)) + " are archived; badmin restore FILE brings them back")
	}
}

// archivedIn passes pages on and keeps what they say of archives.
func archivedIn(to *int64, page func(*pb.FinishedResponse) error) func(*pb.FinishedResponse) error {
	return func(p *pb.FinishedResponse) error {
		*to = max(*to, p.Archived)
		return page(p)
	}
}
