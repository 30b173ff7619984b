package command

import (
	"fmt"
	"strings"
	"time"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/option"
)

func bextendCommand() *command {
	return &command{run: bextend, Command: option.Command{
		Name: "bextend", Usage: "[-json] job +[hour:]minute|[hour:]minute",
		Summary: "lets a running job run longer, if nobody who waits is promised its place",
		Example: "bextend 1234 +2:00        two hours more\nbextend '1235[3]' 8:00    until it has run for eight hours",
		Options: []option.Option{optJSON},
	}}
}

// bextend exits with 1 when the job may not run so long.
func bextend(c *call, p *option.Parsed) int {
	if len(p.Operands) != 2 {
		return c.fail("bextend: want a job and a time, as in: bextend 1234 +2:00")
	}
	if !c.legal(p.Operands[:1]) {
		return failed
	}
	add, limit, err := parseExtension(p.Operands[1])
	if err != nil {
		return c.fail("bextend: " + show.CleanText(err.Error()))
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	x, err := u.Extend(c.ctx, p.Operands[0], add, limit)
	if err != nil {
		return c.failErr(err)
	}
	code := 0
	if !x.Granted {
		code = 1
	}
	if p.Has("json") {
		if failed := c.document("EXTENSIONS", nil, 1, func(doc *show.JSON, _ int) { extensionRecord(doc, x, &c.style) }); failed != 0 {
			return failed
		}
		return code
	}
	if !x.Granted {
		c.say(fmt.Sprintf("Job <%s> is not extended: %s. Its run limit is %s, until %s; the longest possible now is %s",
			show.Clean(x.Id), show.CleanText(x.Why), hoursMinutes(x.RunLimit), c.style.Stamp(x.Ends), hoursMinutes(x.Longest)))
		return code
	}
	c.write(fmt.Appendf(nil, "Job <%s> may run for %s, until %s\n", show.Clean(x.Id), hoursMinutes(x.RunLimit), c.style.Stamp(x.Ends)))
	return code
}

// parseExtension reads "+2:00", by how much, or "2:00", the whole run limit: hours and minutes, or minutes.
func parseExtension(s string) (add, limit time.Duration, err error) {
	text, more := strings.CutPrefix(s, "+")
	d, err := queue.ParseRunLimit(text)
	switch {
	case err != nil:
		return 0, 0, err
	case strings.Contains(text, "/"):
		return 0, 0, fmt.Errorf("%q: want [hour:]minute, without a host", s)
	case more:
		return d, 0, nil
	}
	return 0, d, nil
}

func extensionRecord(d *show.JSON, x *pb.ExtendResponse, st *show.Style) {
	d.Open()
	d.String("JOBID", x.Id)
	d.Raw("GRANTED", fmt.Append(nil, x.Granted))
	d.Int("RUN_LIMIT", x.RunLimit/int64(time.Second))
	d.String("ENDS", st.RFC3339(x.Ends))
	d.Int("LONGEST", x.Longest/int64(time.Second))
	d.String("WHY", x.Why)
	d.Close()
}

// hoursMinutes prints a time in ns as -W reads it.
func hoursMinutes(ns int64) string {
	minutes := ns / int64(time.Minute)
	return fmt.Sprintf("%d:%02d", minutes/60, minutes%60)
}
